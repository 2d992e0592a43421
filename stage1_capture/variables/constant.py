"""Constants: immutable Python values the graph is specialised on.

Input: variables/builder.py, folding and opcodes make them, by `from_constant`. What reads its `value` may rely on it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import FROM_CONSTANT_BY_CLASS, Variable


@dataclass(eq=False)
class ConstantVariable(Variable):
    """A number, string, None, dtype, device, range: an immutable value the graph is specialised on."""

    value: Any

    def python_type(self, tx: Tx) -> type:
        return type(self.value)

    def as_constant(self) -> Any:
        return self.value

    def describe(self) -> str:
        return repr(self.value)


NONE = ConstantVariable(None)
FROM_CONSTANT_BY_CLASS[object] = ConstantVariable

# Constants that may be folded: immutable, with operations that run no code of the user's.
CONSTANT_TYPES = (bool, int, float, str, bytes, type(None), type(...), range, frozenset, complex)
