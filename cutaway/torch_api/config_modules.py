"""torch._dynamo.config, torch._inductor.config and torch._functorch.config, with Cutaway's fields behind them.

Input: the fields that a program sets or patches, by torch's names (debug/torch_fields.py says what each means). A field
without effect is stored, and reported once with the nearest equivalent. A value that Cutaway cannot support raises; in
torch._dynamo.config every field has its effect or raises.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import Any

from cutaway.debug.dynamo_fields import accepts
from cutaway.debug.torch_fields import (
    ALREADY,
    FIELDS,
    FILES,
    FILES_LEFT_OUT,
    FIXED,
    LOGGED,
    is_written,
    kept,
    known,
    left_out,
)
from cutaway.subjects import no_attribute
from stage_contracts import config
from stage_contracts.controls import LOGGING
from stage_contracts.report import report_once

# Fields of torch._dynamo.config that are logs: the level of dynamo, aot and inductor together; one log on or off.
DYNAMO, INDUCTOR = "torch._dynamo.config", "torch._inductor.config"
LEVEL, BREAKS = "log_level", "print_graph_breaks"
LOGS: dict[str, Any] = {LEVEL: logging.WARNING, BREAKS: False}


class TorchConfig(ModuleType):
    """One of the modules: reading, writing, `patch`, and groups such as `config.triton`."""

    def __init__(self, name: str, values: dict[str, Any] | None = None, group: str = "") -> None:
        """`values`: the stored fields without effect, shared by the groups. `group`: "triton." for config.triton."""
        super().__init__(f"{name}.{group}".rstrip("."), f"Cutaway's {name}")
        shared: dict[str, Any] = {} if values is None else values
        self.__dict__.update(_path=name, _values=shared, _group=group, _deleted=set())
        for first in {key.partition(".")[0] for key in known(name) if "." in key} if not group else ():
            self.__dict__[first] = TorchConfig(name, shared, f"{first}.")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in self._deleted:
            raise AttributeError(f"{self.__name__}.{name} was deleted; assign a value to it")
        return _read(self._path, self._values, self._group + name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name.startswith("__"):
            super().__setattr__(name, value)
        else:
            _write(self._path, self._values, self._group + name, value)
            self._deleted.discard(name)

    def __delattr__(self, name: str) -> None:
        """The field is missing until a value is assigned. unittest.mock.patch.object deletes a field, sees that it is
        missing, and assigns the value from before."""
        _read(self._path, self._values, self._group + name)  # raises for an unknown name
        self._deleted.add(name)

    def __dir__(self) -> list[str]:
        names = [key.removeprefix(self._group) for key in known(self._path) if key.startswith(self._group)]
        return sorted({*names, "patch", *(k for k in self.__dict__ if not k.startswith("_"))})

    @contextmanager
    def patch(
        self, changes: Mapping[str, Any] | str | None = None, value: Any = None, **more: Any
    ) -> Iterator[None]:
        """`patch(field=value)`, `patch({"group.field": value})` or `patch("field", value)`: for a block."""
        given = {changes: value} if isinstance(changes, str) else {**(changes or {}), **more}
        path, values = self._path, self._values
        ours: dict[str, Any] = {}
        with ExitStack() as stack:
            for name, wanted in given.items():
                before = _read(path, values, self._group + name)
                field = FIELDS[path].get(self._group + name)
                if field is not None:
                    ours[field] = _for_ours(field, wanted)
                else:
                    _write(path, values, self._group + name, wanted)
                    stack.callback(_write, path, values, self._group + name, before)
            stack.enter_context(config.patch(ours))
            yield


def _read(path: str, values: dict[str, Any], name: str) -> Any:
    if name in FIELDS[path]:
        section, _, field = FIELDS[path][name].partition(".")
        return getattr(getattr(config.current(), section), field)
    if name in FIXED[path]:
        return FIXED[path][name]
    if name in FILES and path == INDUCTOR:
        return is_written(name, config.current().debug.folder_without)
    if name in LOGGED.get(path, ()):
        return LOGGING[LOGGED[path][name]]
    if name in kept(path):
        default, nearest = kept(path)[name]
        if name not in values and type(default) in _CHANGES:  # what is added to it is a request, too
            values[name] = _Told[type(default)](default, f"{path}.{name}", nearest)
        return values.get(name, default)
    if path == DYNAMO and name in LOGS:
        return values.get(name, LOGS[name])
    raise _unknown(path, name)


def _write(path: str, values: dict[str, Any], name: str, value: Any) -> None:
    before = _read(path, values, name)  # raises for an unknown name
    if name in FIELDS[path]:
        config.change(**{FIELDS[path][name]: _for_ours(FIELDS[path][name], value)})
    elif name in FIXED[path]:
        if value != before:
            raise NotImplementedError(
                f"{path}.{name} is always {before} in Cutaway and cannot be {value!r}; remove this assignment"
            )
    elif name in FILES and path == INDUCTOR:
        without = left_out(name, bool(value), config.current().debug.folder_without)
        config.change(**{FILES_LEFT_OUT: without})
    elif name in LOGGED.get(path, ()):
        LOGGING[LOGGED[path][name]] = value if isinstance(value, set) else set(value)
    elif name in LOGS:
        values[name] = value
        _log(name, value)
    elif value != before:
        if path != DYNAMO:
            _tell(f"{path}.{name}", kept(path)[name][1])
        elif not accepts(name, value):
            raise NotImplementedError(_refusal(name, value))
        values[name] = value


def _refusal(name: str, value: Any) -> str:
    default, reason = kept(DYNAMO)[name]
    return f"{DYNAMO}.{name} = {value!r} is not supported, only {default!r}: {reason}"


def _tell(name: str, nearest: str) -> None:
    short = name.removeprefix(f"{DYNAMO}.")
    if short != name and not accepts(short, None):
        raise NotImplementedError(f"{name} cannot be added to: {nearest}")
    if name.rpartition(".")[2] not in ALREADY:
        report_once(f"cutaway: {name} is not honoured here; nearest: {nearest}")


# The kinds of containers among the fields, and the methods that add to one.
_CHANGES: dict[type, tuple[str, ...]] = {
    set: ("add", "update"),
    dict: ("__setitem__", "update"),
    list: ("append", "extend"),
}


def _telling(kind: Any) -> Any:
    """A container that says, when something is added to it, that this changes nothing here."""

    def __init__(self: Any, values: Any, name: str, nearest: str) -> None:
        kind.__init__(self, values)
        self.said = name, nearest

    def method(name: str) -> Any:
        def change(self: Any, *args: Any, **kwargs: Any) -> Any:
            _tell(*self.said)
            return getattr(kind, name)(self, *args, **kwargs)

        return change

    return type(
        f"Told{kind.__name__}", (kind,), {"__init__": __init__, **{n: method(n) for n in _CHANGES[kind]}}
    )


_Told = {kind: _telling(kind) for kind in _CHANGES}


def _for_ours(field: str, value: Any) -> Any:
    """The value in Cutaway's form: "" for torch's None, and 0.0 for 0."""
    wanted = config.field_types()[field]
    if wanted is str:
        return "" if value is None else str(value)
    return float(value) if wanted is float and type(value) is int else value


def _log(name: str, value: Any) -> None:
    from cutaway.debug.logs import logs_on, set_logs  # imported here, when a log is first used

    if name == LEVEL:
        set_logs(dynamo=value, aot=value, inductor=value)
    else:
        set_logs(**{**dict.fromkeys(logs_on(), True), "graph_breaks": bool(value)})


def _unknown(path: str, name: str) -> AttributeError:
    return AttributeError(no_attribute(f"{path}.{name}", [*known(path), *LOGS]))
