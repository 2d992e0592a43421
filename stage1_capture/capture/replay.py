"""The residual lines that replay side effects: each changed object is brought to the state the program left it in.

Input: what side_effects.py recorded. Lists and dicts are changed as little as their contents were, so that who
walks over them or holds their items sees what eager shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stage0_eager.nn import Module
from stage1_capture.capture.rebuild import Rebuilder
from stage1_capture.capture.side_effects import DELETED, Before, SideEffects
from stage1_capture.capture.tensor_attributes import class_lookup
from stage1_capture.capture.variables import (
    CellVariable,
    ConstDictVariable,
    ListVariable,
    SetVariable,
    TensorVariable,
    UserDefinedObjectVariable,
)

if TYPE_CHECKING:
    from stage1_capture.capture.codegen import PyCodegen


def replay(codegen: PyCodegen, r: Rebuilder, effects: SideEffects) -> list[str]:
    """The lines. Values are made first (in `r.lines`), so that no line here reads what another changed."""
    lines: list[str] = []
    for before in effects.changed.values():
        target = r.expression(before.variable)
        lines += _REPLAY[_family(before.variable)](r, before, target)
    for module, name in effects.globals:
        _, value = effects.globals[module, name]
        where = f"{codegen.named(effects.globals[module, name][0])}[{name!r}]"
        lines.append(f"del {where}" if value is DELETED else f"{where} = {r.expression(value)}")
    for schedule, args, kwargs in effects.calls:
        words = [*map(r.expression, args), *(f"{k}={r.expression(v)}" for k, v in kwargs.items())]
        lines.append(f"{r.expression(schedule)}.step({', '.join(words)})")
    return lines


def _family(variable: Any) -> type:
    return next(kind for kind in _REPLAY if isinstance(variable, kind))


def _list(r: Rebuilder, before: Before, target: str) -> list[str]:
    old, new = before.items, before.variable.items
    same = next((i for i, (a, b) in enumerate(zip(old, new)) if a is not b), min(len(old), len(new)))
    if same == len(old):
        return [f"{target}.extend([{r.all(new[same:])}])"] if len(new) > same else []
    if len(old) == len(new):
        return [f"{target}[{i}] = {r.expression(b)}" for i, (a, b) in enumerate(zip(old, new)) if a is not b]
    return [f"{target}[{same}:] = [{r.all(new[same:])}]"]


def _dict(r: Rebuilder, before: Before, target: str) -> list[str]:
    old, new = before.items, before.variable.items
    kept = [key for key in old if key in new]
    lines = [f"del {target}[{r.constant(key)}]" for key in old if key not in new]
    if kept != list(new)[: len(kept)]:  # a key went and came back: it is last now
        lines = [f"{target}.clear()"]
        old = {}
    for key, value in new.items():
        if old.get(key) is not value:
            lines.append(f"{target}[{r.constant(key)}] = {r.expression(value)}")
    return lines


def _set(r: Rebuilder, before: Before, target: str) -> list[str]:
    old, new = before.items, before.variable.items
    gone = [f"{target}.discard({r.constant(element)})" for element in old - new]
    return gone + [f"{target}.add({r.constant(element)})" for element in new - old]


def _object(r: Rebuilder, before: Before, target: str) -> list[str]:
    lines = []
    for name, value in before.variable.attrs.items():
        if value is None:
            lines.append(f"{r.named(delattr)}({target}, {name!r})")
        elif not _plain(before.variable.real):
            lines.append(f"{r.named(object.__setattr__)}({target}, {name!r}, {r.expression(value)})")
        elif name.isidentifier():
            lines.append(f"{target}.{name} = {r.expression(value)}")
        else:
            lines.append(f"{r.named(setattr)}({target}, {name!r}, {r.expression(value)})")
    return lines


def _tensor(r: Rebuilder, before: Before, target: str) -> list[str]:
    return [f"{target}.{name} = {r.expression(value)}" for name, value in before.variable.attrs.items()]


_PLAIN: tuple[Any, ...] = (object.__setattr__, Module.__setattr__)


def _plain(real: Any) -> bool:
    """Whether an assignment does nothing but store (on a module: and bumps the epoch)."""
    return class_lookup(type(real), "__setattr__") in _PLAIN or isinstance(real, BaseException)


def _cell(r: Rebuilder, before: Before, target: str) -> list[str]:
    value = before.variable.contents
    return [
        f"del {target}.cell_contents" if value is None else f"{target}.cell_contents = {r.expression(value)}"
    ]


_REPLAY: dict[type, Any] = {
    ListVariable: _list,
    ConstDictVariable: _dict,
    SetVariable: _set,
    UserDefinedObjectVariable: _object,
    TensorVariable: _tensor,
    CellVariable: _cell,
}
