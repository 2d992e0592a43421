"""What capture passes on: one frame's graph, the sources of its inputs, its guards and the residual code.

Input: `capture(function, args, kwargs)` makes a CapturedFrame. The residual code, run with the compiled graph bound to
`graph_name` in its globals, does what the user's function does up to the first break.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stage_contracts.breaks import GraphBreak
from stage_contracts.graph import Graph
from stage_contracts.guards import Guard
from stage_contracts.source import Source


@dataclass(frozen=True)
class CapturedFrame:
    """One code object, captured for one kind of call.

    graph: None when the frame holds no tensor computation, or could not be captured at all.
    inputs: one Source per placeholder of the graph, in order.
    residual: a code object with the user's parameters and free variables. It gathers the inputs, calls the
        global `graph_name(*inputs) -> tuple`, rebuilds the user's return value and replays side effects.
        None: run the user's own code (after a break that capture cannot split the frame at).
        After a break it ends in a Continuation: `run_to_end` runs what is left.
    residual_globals: further names the residual code needs (constants, classes, break functions).
    resumes: the rest of the frame after a break, one function per way on. Who compiles sets their `run`.
    graph_grad_mode: whether gradients are recorded where the residual code calls the graph.
    nested_name: the global under which residual code finds `compiled(function) -> callable`, for calls that
        are compiled on their own.
    """

    function_name: str
    code: types.CodeType
    graph: Graph | None
    inputs: tuple[Source, ...]
    guards: tuple[Guard, ...]
    residual: types.CodeType | None
    graph_name: str = "__compiled_graph_0"
    residual_globals: dict[str, Any] = field(default_factory=dict)
    residual_source: str = ""  # what the residual code does, as readable Python
    breaks: tuple[GraphBreak, ...] = ()
    # guards for what later stages assumed of open sizes, once they have run; None: no size is open
    late_guards: Callable[[], tuple[Guard, ...]] | None = None
    # numbers that random draws before the graph runs: the name that sources know each by, and a value it could have
    drawn: dict[str, Any] = field(default_factory=dict)
    closed: tuple[str, ...] = ()  # sizes marked dynamic that the program fixes, each in one line
    resumes: tuple[ResumeFunction, ...] = ()
    graph_grad_mode: bool = True
    nested_name: str = "__compiled_call"


class ResumeFunction:
    """The rest of a frame after a break: a function of the frame's locals and stack. Calling it puts it off.

    run: what runs in its place, once somebody compiled it.
    """

    __slots__ = ("function", "run")

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self.run: Callable[..., Any] = function

    def __call__(self, *state: Any) -> Continuation:
        return Continuation(self, state)


class Continuation:
    """What a frame that broke returns: what to call next. A loop with a break inside must not nest calls."""

    __slots__ = ("resume", "state")

    def __init__(self, resume: ResumeFunction, state: tuple) -> None:
        self.resume, self.state = resume, state


def run_to_end(result: Any) -> Any:
    """What the frame returns after all its breaks."""
    while type(result) is Continuation:
        result = result.resume.run(*result.state)
    return result
