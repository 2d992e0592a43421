"""The frame of a generator, and what a call of a generator function gives.

Input: the function and its bound arguments. variables/generator.py is the value, which runs the frame from yield to
yield.
"""

from __future__ import annotations

import inspect

from stage1_capture.frame.translator import InstructionTranslator
from stage1_capture.state.machine import FRAMES
from stage1_capture.variables.base import Variable
from stage1_capture.variables.function import UserFunctionVariable
from stage1_capture.variables.generator import GeneratorVariable


class GeneratorTranslator(InstructionTranslator):
    """A generator's frame. `yielded` is set by YIELD_VALUE."""

    is_generator = True
    yielded: Variable | None = None


def begin(tx: InstructionTranslator, function: UserFunctionVariable, bound: dict[str, Variable]) -> Variable:
    """The generator, before its first instruction has run."""
    if function.code in tx.output.options.dropped:
        tx.unsupported("GB0032", f"{function.name} is dropped inside its try or with block")
    made = GeneratorVariable(frame=GeneratorTranslator(tx.output, tx.table, function, bound))
    tx.output.generators.append(made)
    return made


FRAMES[inspect.CO_GENERATOR] = begin
