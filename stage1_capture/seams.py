"""The three inner seams of capture: interpret, resume, residualize. Each can be replaced without touching the others.

Input: `capture(..., seams=replace(SEAMS, residualize=mine))` puts your part in the place of one. Its conformance tests
run on yours with `pytest stage1_capture --swap residualize=my_module:my_residualize --tier core`.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from stage1_capture.breaks import resume as resume_functions
from stage1_capture.breaks.special_methods import Row
from stage1_capture.frame.interpret import interpret
from stage1_capture.residual import codegen
from stage1_capture.state.entry import Entry
from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.variables.base import Variable
from stage_contracts.capture import ResumeFunction


class Interpret(Protocol):
    def __call__(
        self, output: OutputGraph, function: types.FunctionType, args: tuple, kwargs: dict[str, Any]
    ) -> Variable:
        """Code and arguments to a state: run the function on abstract values, and give what it returns.

        `output` is empty and is filled: its graph, the guards for all that was relied on, the side effects. What
        cannot be followed raises Unsupported (SkipFrame: and the frame is not to be cut); output.root_steps then
        counts the instructions of the outermost frame. At output.options.stop_at of them it raises Stopped, and
        output.frames[0] is the frame as it stands there: `index`, `stack`, `locals`.
        """
        ...


class Resume(Protocol):
    def __call__(
        self, function: types.FunctionType, code: types.CodeType, entry: Entry, row: Row | None = None
    ) -> tuple[types.FunctionType, tuple[ResumeFunction, ...]]:
        """A state's place to functions: what goes on from `entry`, and what that leaves to be compiled.

        The first takes all variables of the frame in the order of their slots (cells as cells), then the stack's
        values, deepest first. It runs the rest of the frame, or some of it and returns a Continuation of one of
        the others.
        row: the instruction is to be replaced by a call of what lies below its operands.
        """
        ...


class Residualize(Protocol):
    def __call__(
        self,
        output: OutputGraph,
        function: types.FunctionType,
        values: list[Variable | None],
        finish: Callable[[list[str]], str],
    ) -> tuple[str, types.CodeType, dict[str, Any]]:
        """A state to code: source, code and globals of a function that takes what the user's takes.

        It calls the graph, which it closes with the outputs it needs, makes each of `values` again (None: any object
        will do), replays the side effects, and ends in the line `finish(expressions of the values)`. What cannot be
        made again raises Unsupported.
        """
        ...


@dataclass(frozen=True)
class Seams:
    """The parts of capture, in the order a frame flows through them."""

    interpret: Interpret
    resume: Resume
    residualize: Residualize


residualize = functools.partial(codegen.residualize, resume=resume_functions)
SEAMS = Seams(interpret, resume_functions.break_function, residualize)
