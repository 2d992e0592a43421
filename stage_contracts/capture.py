"""What capture hands on: one frame's graph, how to reach its inputs, its guards and the residual code.

Input: `capture(function, args, kwargs)` makes a CapturedFrame. Running the residual code with the compiled
graph bound to `graph_name` in its globals does what the user's function does.
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
        None: run the user's own code (after a break that tiny capture cannot split the frame at).
    residual_globals: further names the residual code needs (constants, classes, resume functions).
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
    closed: tuple[str, ...] = ()  # sizes marked dynamic that the program fixes, each in one line
