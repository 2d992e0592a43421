"""Where an object can be imported from, so that a file can say it by name; and whether its code is still the same.

Input: functions, classes, modules, operators, and objects that a module holds. `the_object_at(*place_of(value))` is
`value`.
"""

from __future__ import annotations

import hashlib
import importlib
import sys
import types
from collections.abc import Iterator, Mapping
from typing import Any

from stage0_eager.table.registry import OPAQUE, TABLE

OURS = ("stage0_eager", "stage_contracts")  # modules that hold state which capture reads


class NotThere(RuntimeError):
    """What a saved function needs is not here, or has changed."""


def place_of(value: Any) -> tuple[str, str] | None:
    """(module, path in it) where an import finds this very object; None if there is no such place. A module's path is
    empty. An operator is found in the operator table, whose module is called `operators`."""
    if isinstance(value, types.ModuleType):
        return (value.__name__, "") if sys.modules.get(value.__name__) is value else None
    for module, path in _candidates(value):
        try:
            if the_object_at(module, path) is value:
                return module, path
        except NotThere:
            continue
    return None


def _candidates(value: Any) -> Iterator[tuple[str, str]]:
    yield from _by_name(value)
    kind = type(value).__module__
    homes = (
        (kind,) if kind != "builtins" else (kind, *(m for m in sys.modules if m.partition(".")[0] in OURS))
    )
    for home in homes:
        for name, found in list(vars(sys.modules[home]).items()) if home in sys.modules else ():
            if found is value:
                yield home, name


def _by_name(value: Any) -> Iterator[tuple[str, str]]:
    """Where the names that an object has of itself lead."""
    name = getattr(value, "qualname", None)
    if isinstance(name, str) and (TABLE.get(name) is value or OPAQUE.get(name) is value):
        yield "operators", name
    owner = getattr(value, "__objclass__", None)  # of a slot or a method of a class in C
    module = getattr(value, "__module__", None) or getattr(owner, "__module__", None)
    for name in (getattr(value, "__qualname__", None), getattr(value, "__name__", None)):
        if isinstance(name, str) and "<" not in name:
            if isinstance(module, str) and module in sys.modules:
                yield module, name
            yield "numpy", name


def the_object_at(module: str, path: str, own: Mapping[str, Any] | None = None) -> Any:
    """The object there; the first name is looked up in `own`, if that is given. Raises NotThere."""
    if module == "operators":
        operator = TABLE.get(path) or OPAQUE.get(path)
        if operator is None:
            raise NotThere(f"the operator {path} is not registered; import the module that does it first")
        return operator
    own = own if path else None
    try:
        found: Any = None if own is not None else importlib.import_module(module)
    except ImportError as error:
        raise NotThere(f"the module {module} cannot be imported ({error})") from None
    for count, name in enumerate(path.split(".") if path else ()):
        try:
            found = own[name] if own is not None and not count else getattr(found, name)
        except (AttributeError, KeyError):
            raise NotThere(f"{module} has no {path}, which the function needs") from None
    return found


def code_digest(value: Any) -> str:
    """What changes with the code of a Python function, or of one that a descriptor holds; "" for anything else."""
    value = getattr(value, "fget", None) or getattr(value, "__func__", None) or value
    if not isinstance(value, types.FunctionType):
        return ""
    return hashlib.sha256(repr(_facts(value.__code__)).encode()).hexdigest()[:16]


def _facts(code: types.CodeType) -> tuple[Any, ...]:
    """The instructions and what they mention, without the lines they stand on."""
    constants = [_facts(c) if isinstance(c, types.CodeType) else _text(c) for c in code.co_consts]
    return code.co_code, code.co_names, code.co_varnames, code.co_freevars, constants


def _text(constant: Any) -> str:
    """A set's text depends on the process."""
    return repr(sorted(map(repr, constant)) if isinstance(constant, frozenset) else constant)
