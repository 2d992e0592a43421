"""Constants: immutable Python values the graph is specialised on.

Input: variables/builder.py, folding and opcodes make them, by `from_constant`. What reads its `value` may rely on it.
"""

from __future__ import annotations

import datetime
import re
import types
from dataclasses import dataclass
from typing import Any

from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import FROM_CONSTANT_BY_CLASS, Variable
from stage1_capture.variables.builder import BUILDERS, Builder
from stage_contracts.device import Device
from stage_contracts.dtype import DType
from stage_contracts.source import (
    Source,
)


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


# Objects of C's that never change, whose methods only compute: they are constants.
IMMUTABLE = (
    complex, re.Pattern, datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone,
    types.CodeType,
)  # fmt: skip


def wrap_constant(kind: str) -> Builder:
    def build(output: OutputGraph, real: Any, source: Source | None) -> Variable:
        output.guard(kind, source, real, source in output.epoch_sources)
        return ConstantVariable(real)

    return build


BUILDERS.update(
    {
        **dict.fromkeys(
            (bool, type(None), type(...), type(NotImplemented), DType), wrap_constant("IDENTITY")
        ),
        **dict.fromkeys((str, bytes, range, Device, *IMMUTABLE), wrap_constant("EQUALS")),
    }
)
