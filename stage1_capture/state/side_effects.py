"""What the captured program changed outside itself, by what is left at the end: replayed after the graph has run.

Input: stores to attributes, containers, cells and globals as the interpreter meets them. Nobody can look between
two of them, so each object is brought to its last state once, in the order of first change.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stage1_capture.state.machine import Args, Kwargs

if TYPE_CHECKING:
    from stage1_capture.variables.base import Variable


DELETED: Any = object()  # stands for a global that the program deleted


@dataclass
class Before:
    """What a changed container held when it came in."""

    variable: Any
    items: Any


@dataclass
class SideEffects:
    """`changed` has every container, object and cell from outside that was written to, and what it held."""

    changed: dict[int, Before] = field(default_factory=dict)
    globals: dict[tuple[int, str], tuple[dict, Variable]] = field(default_factory=dict)
    hooks: list[Any] = field(default_factory=list)  # on tensors from outside
    # called last: steps of schedules, and functions that write a log: (object, ".method" or "", arguments, keywords)
    calls: list[tuple[Variable, str, Args, Kwargs]] = field(default_factory=list)
    in_the_end: bool = False  # one of them runs user code, which sees what was changed until then

    def will_change(self, variable: Variable) -> None:
        """To be called before a write. What was made inside needs no replay."""
        if variable.source is None or id(variable) in self.changed:
            return
        self.changed[id(variable)] = Before(variable, variable.snapshot())

    def store_global(self, module: dict, name: str, value: Variable) -> None:
        self.globals[id(module), name] = (module, value)

    def global_of(self, module: dict, name: str) -> Variable | None:
        found = self.globals.get((id(module), name))
        return found and found[1]

    def __bool__(self) -> bool:
        return bool(self.changed or self.globals or self.hooks or self.calls)
