"""The residual lines that replay side effects: each changed object is brought to the state the program left it in.

Input: what state/side_effects.py recorded. Lists and dicts are changed as little as their contents were, so that who
walks over them or holds their items sees what eager shows.
"""

from __future__ import annotations

import types
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stage0_eager.nn import Module
from stage0_eager.nn.module import bump_structure_epoch
from stage1_capture.residual.rebuild import Rebuilder
from stage1_capture.state.side_effects import DELETED, Before, SideEffects
from stage1_capture.variables.builder import REGISTRIES
from stage1_capture.variables.derived import python_base
from stage1_capture.variables.function import CellVariable, UserFunctionVariable
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.object_dict import described
from stage1_capture.variables.sequence import DequeVariable, ListVariable
from stage1_capture.variables.set import SetVariable
from stage1_capture.variables.tensor import TensorVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.class_lookup import class_lookup
from stage_contracts.source import AttrSource

if TYPE_CHECKING:
    from stage1_capture.residual.codegen import PyCodegen


def replay(codegen: PyCodegen, r: Rebuilder, effects: SideEffects) -> list[str]:
    """The lines. Values are made first (in `r.lines`), so that no line here reads what another changed."""
    lines: list[str] = []
    for before in effects.changed.values():
        target = r.expression(before.variable)
        lines += next(how for kind, how in _REPLAY.items() if isinstance(before.variable, kind))(
            r, before, target
        )
    if any(_is_registry(before.variable) or _loses(before.variable) for before in effects.changed.values()):
        lines.append(f"{codegen.named(bump_structure_epoch)}()")
    for module, name in effects.globals:
        _, value = effects.globals[module, name]
        where = codegen.named(effects.globals[module, name][0])
        gone = f"{where}.pop({name!r}, None)"  # which the program itself may have put there
        lines.append(gone if value is DELETED else f"{where}[{name!r}] = {r.expression(value)}")
    for handle in effects.hooks:
        r.expression(handle)
    for called, method, args, kwargs in effects.calls:
        words = [*map(r.expression, args), *(f"{k}={r.expression(v)}" for k, v in kwargs.items())]
        lines.append(f"{r.expression(called)}{method}({', '.join(words)})")
    return lines


def _is_registry(variable: Any) -> bool:
    """Whether it is what a module keeps its parameters, buffers, submodules or hooks in."""
    return isinstance(variable.source, AttrSource) and variable.source.name in REGISTRIES


def _loses(variable: Any) -> bool:
    """Whether it is a module that lost an attribute, past its `__delattr__`, which would tell."""
    return isinstance(getattr(variable, "real", None), Module) and None in variable.attrs.values()


def _list(r: Rebuilder, before: Before, target: str) -> list[str]:
    change = _method(r, before, target, list)
    if before.variable.is_unread():
        added = before.variable.added
        return [change("extend", f"[{r.all(added)}]")] if added else []
    old, new = before.items, before.variable.items
    same = next((i for i, (a, b) in enumerate(zip(old, new)) if a is not b), min(len(old), len(new)))
    if same == len(old):
        return [change("extend", f"[{r.all(new[same:])}]")] if len(new) > same else []
    if len(old) == len(new):
        changed = [(i, b) for i, (a, b) in enumerate(zip(old, new)) if a is not b]
        return [change("__setitem__", str(i), r.expression(b)) for i, b in changed]
    return [change("__setitem__", f"{r.named(slice)}({same}, None)", f"[{r.all(new[same:])}]")]


def _deque(r: Rebuilder, before: Before, target: str) -> list[str]:
    if before.variable.is_unread():
        return _list(r, before, target)
    new = r.all(before.variable.items)
    change = _method(r, before, target, deque)
    return [change("clear"), change("extend", f"[{new}]")]


def _dict(r: Rebuilder, before: Before, target: str) -> list[str]:
    old, new = before.items, before.variable.items
    change = _method(r, before, target, dict)
    kept = [key for key in old if key in new]
    lines = [change("__delitem__", r.key(key)) for key in old if key not in new]
    if kept != list(new)[: len(kept)]:  # a key went and came back: it is last now
        lines = [change("clear")]
        old = {}
    for key, value in new.items():
        if old.get(key) is not value:
            lines.append(change("__setitem__", r.key(key), r.expression(value)))
    return lines


def _set(r: Rebuilder, before: Before, target: str) -> list[str]:
    old, new = before.items, before.variable.items
    change = _method(r, before, target, set)
    gone = [change("discard", r.key(element)) for element in old - new]
    return gone + [change("add", r.key(element)) for element in new - old]


_SPELLED = {"__setitem__": "{t}[{0}] = {1}", "__delitem__": "del {t}[{0}]"}


def _method(r: Rebuilder, before: Before, target: str, kind: type) -> Callable[..., str]:
    """How to call a method of Python's on what changed; for a derived class, past the class's own."""
    owner = before.variable.part_of

    def change(name: str, *words: str) -> str:
        if owner is not None:
            base = python_base(type(owner.real)) or kind
            return f"{r.named(base)}.{name}({', '.join([target, *words])})"
        if name in _SPELLED:
            return _SPELLED[name].format(*words, t=target)
        return f"{target}.{name}({', '.join(words)})"

    return change


def _object(r: Rebuilder, before: Before, target: str) -> list[str]:
    lines = []
    for name, value in before.variable.attrs.items():
        real = before.variable.real
        stores = class_lookup(type(real), "__setattr__") in _PLAIN
        # An attribute that was deleted and made again is the last of the dict.
        if value is not None and name in getattr(before.variable, "again", ()):
            lines.append(f"{target}.__dict__.pop({name!r}, None)")
        if isinstance(real, (type, types.FunctionType)):
            lines.append(f"{target}.{name} = {r.expression(value)}")
        elif described(type(real), name):  # the program stored it past the class's descriptor
            what = f"{target}.__dict__[{name!r}]"
            lines.append(f"del {what}" if value is None else f"{what} = {r.expression(value)}")
        elif value is None:
            past = class_lookup(type(real), "__delattr__") is not object.__delattr__
            lines.append(f"{r.named(object.__delattr__ if past else delattr)}({target}, {name!r})")
        # an assignment may do more than store (on a module: and bump the epoch)
        elif not (stores or isinstance(real, BaseException)) or _past_module(before.variable, name):
            lines.append(f"{r.named(object.__setattr__)}({target}, {name!r}, {r.expression(value)})")
        elif name.isidentifier():
            lines.append(f"{target}.{name} = {r.expression(value)}")
        else:
            lines.append(f"{r.named(setattr)}({target}, {name!r}, {r.expression(value)})")
    return lines


_PLAIN: tuple[Any, ...] = (object.__setattr__, Module.__setattr__)


def _past_module(variable: Any, name: str) -> bool:
    """Whether a module has registered something under a name that it stores beside, or has lost a registry: its own
    methods would look there."""
    return isinstance(variable.real, Module) and any(
        variable.attrs.get(rows, rows) is None or name in vars(variable.real).get(rows, (name,))
        for rows in REGISTRIES[:3]
    )


_REPLAY: dict[type, Any] = {
    DequeVariable: _deque,
    ListVariable: _list,
    ConstDictVariable: _dict,
    SetVariable: _set,
    UserDefinedObjectVariable: _object,
    UserFunctionVariable: _object,
    TensorVariable: lambda r, before, target: [
        f"{target}.{name} = {r.expression(value)}" for name, value in before.variable.attrs.items()
    ],
    CellVariable: lambda r, before, target: [
        f"del {target}.cell_contents"
        if before.variable.contents is None
        else f"{target}.cell_contents = {r.expression(before.variable.contents)}"
    ],
}
