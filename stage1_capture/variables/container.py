"""What lists, tuples, deques, dicts and sets have in common: items, as many as there are, known in number.

Input: variables/sequence.py, mapping.py and set.py derive their kinds from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import Variable, from_constant


@dataclass(eq=False)
class ContainerVariable(Variable):
    """`items` are its contents, `kind` the class of the object."""

    items: Any

    def python_type(self, tx: Tx) -> type:
        return self.kind

    def operand_class(self) -> type | None:
        return self.kind

    def is_plain_data(self) -> bool:
        return True

    def truth(self, tx: Tx) -> bool:
        return bool(self.items)

    def length(self, tx: Tx) -> Variable:
        return from_constant(len(self.items))

    def snapshot(self) -> Any:
        return self.items.copy()
