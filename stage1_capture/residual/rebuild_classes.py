"""Classes that the program defined, made again: by `type`, of the names that their bodies stored.

Input: what variables/local_classes.py made of class statements. A class and what lies in it may hold each other, so
lists, cells and objects are filled when the class is there.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from stage1_capture.variables.class_ import FieldVariable, LocalClassVariable, WrapperVariable

if TYPE_CHECKING:
    from stage1_capture.residual.rebuild import Rebuilder


def local_class(r: Rebuilder, value: LocalClassVariable) -> str:
    """The class, of the names its body stored. What they hold is filled when it is there: it may be the class."""
    if value in r.making:
        return r.unsupported(value)
    r.making.append(value)
    names = dict(value.names)
    if value.cell is not None:
        names["__classcell__"] = value.cell
    words = [f"{k!r}: {r.expression(v)}" for k, v in names.items()]
    bases = f"({r.all(value.bases)}{',' * (len(value.bases) == 1)})"
    name = r.name(value, f"{r.named(type)}({value.name!r}, {bases}, {{{', '.join(words)}}})")
    r.making.pop()
    r.waiting += [lambda: _decorate(r, value, name), lambda: _set_on_class(r, value, name)]
    if not r.making:
        waiting, r.waiting = r.waiting, []
        for fill in waiting:
            fill()
    return name


def _decorate(r: Rebuilder, value: LocalClassVariable, name: str) -> None:
    if value.options is not None:
        words = [name, *(f"{option}={r.constant(v)}" for option, v in value.options.items())]
        r.lines.append(f"{r.named(dataclasses.dataclass)}({', '.join(words)})")


def data_field(r: Rebuilder, value: FieldVariable) -> str:
    words = [f"{name}={r.expression(option)}" for name, option in value.options.items()]
    return r.name(value, f"{r.named(dataclasses.field)}({', '.join(words)})")


def _set_on_class(r: Rebuilder, value: LocalClassVariable, name: str) -> None:
    for key, attribute in value.attrs.items():
        if attribute is not None:
            r.lines.append(f"{name}.{key} = {r.expression(attribute)}")


def wrapper(r: Rebuilder, value: WrapperVariable) -> str:
    return r.name(value, f"{r.named(type(value.real))}({r.all(value.functions)})")
