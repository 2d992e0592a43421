"""The result of capture: one frame's graph, the sources of the graph's inputs, the guards, and the residual code.

Input: `capture(function, args, kwargs)` makes a CapturedFrame. The residual code, run with the compiled graph bound to
`graph_name` in its globals, does what the user's function does up to its first graph break.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stage_contracts.breaks import GraphBreak
from stage_contracts.device import Device
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
        None: run the user's own code, because capture cannot split the frame at the break.
        Before a break it ends with a Continuation: `run_to_end` runs the rest.
    residual_globals: further names that the residual code needs (constants, classes, break functions).
    resumes: the rest of the frame after a break, one function for each place where it may go on. The compiler sets
        their `run`.
    graph_grad_mode: whether gradients are recorded where the residual code calls the graph.
    arrays_on: the GPU that computes NumPy's arrays, which are the graph's inputs on the CPU; the compiler sets it.
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
    # returns the guards on open sizes that later stages added; call it after them. None: no size is open
    late_guards: Callable[[], tuple[Guard, ...]] | None = None
    # numbers that Python's random draws before the graph runs: their names in sources, and an example value of each
    drawn: dict[str, Any] = field(default_factory=dict)
    closed: tuple[str, ...] = ()  # sizes marked dynamic that the program specializes, each in one line
    resumes: tuple[ResumeFunction, ...] = ()
    graph_grad_mode: bool = True
    arrays_on: Device | None = None
    nested_name: str = "__compiled_call"


class ResumeFunction:
    """The rest of a frame after a break: a function of the frame's locals and stack. A call of it does not run the
    rest, but returns a Continuation.

    run: the function that runs the rest; the compiled one as soon as it exists.
    """

    __slots__ = ("function", "run")

    def __init__(self, function: types.FunctionType) -> None:
        self.function = function
        self.run: Callable[..., Any] = function

    def __call__(self, *state: Any) -> Continuation:
        return Continuation(self, state)


class Continuation:
    """What a frame with a break returns: what to call next. Without it, a loop with a break inside would nest calls."""

    __slots__ = ("resume", "state")

    def __init__(self, resume: ResumeFunction, state: tuple) -> None:
        self.resume, self.state = resume, state


def run_to_end(result: Any) -> Any:
    """Run continuations until the frame returns, and return its result."""
    while type(result) is Continuation:
        result = result.resume.run(*result.state)
    return result
