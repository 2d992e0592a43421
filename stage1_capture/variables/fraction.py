"""fractions.Fraction: a number that is known, like a float; what is computed of it is computed now, by Python.

Input: a Fraction that reaches the frame, which is guarded to be equal, or a call of the class with constants.
"""

from __future__ import annotations

import types
from fractions import Fraction

from stage1_capture.state.machine import FOLDED, Tx
from stage1_capture.variables.base import FROM_CONSTANT, Variable
from stage1_capture.variables.builder import BUILDERS
from stage1_capture.variables.constant import ConstantVariable, wrap_constant
from stage1_capture.variables.method import UserMethodVariable
from stage_contracts.class_lookup import class_lookup


class FractionVariable(ConstantVariable):
    """Its methods are Python's, and only compute: they are not followed but called."""

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        method = isinstance(class_lookup(Fraction, name), types.FunctionType)
        return UserMethodVariable(name, self) if method else super().var_getattr(tx, name)


BUILDERS[Fraction] = wrap_constant("EQUALS", FractionVariable)
FROM_CONSTANT[Fraction] = FractionVariable
FOLDED.add(Fraction)
