"""An optimizer's state, made before the capture that will find it, so that a step is captured and compiled once.

Input: an update, followed, of a parameter that has no state. Eager's first step begins by making it: moments of zeros,
a count of 0. Made on the optimizer itself now, the graph of the first step is that of every step.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.optim import SGD, Optimizer, adaptive, further
from stage0_eager.state import no_grad
from stage1_capture.state.graph_builder import OutputGraph, Restart
from stage1_capture.state.machine import builtin
from stage1_capture.variables.base import Variable, realize
from stage1_capture.variables.function import UserFunctionVariable
from stage1_capture.variables.tensor import TensorVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable

CLASSES = [SGD, *vars(adaptive).values(), *vars(further).values()]
STARTS = {
    cls.__dict__["init_state"]
    for cls in CLASSES
    if isinstance(cls, type) and cls is not Optimizer and "init_state" in cls.__dict__
}


def _start(function: Any) -> Any:
    """What capture does at a call of this `init_state`."""

    def init_state(tx: Any, optimizer: Variable, p: Variable, *rest: Variable) -> Variable:
        optimizer, p = realize(optimizer), realize(p)
        match optimizer, p:
            case UserDefinedObjectVariable(fresh=False), TensorVariable() if p.real is not None:
                _remember(tx.output, optimizer.real, p)
        followed = UserFunctionVariable(
            function.__code__, function.__globals__, function.__name__, [], {}, []
        )
        return tx.call(followed, [optimizer, p, *rest], {})

    return init_state


def _remember(output: OutputGraph, optimizer: Optimizer, p: TensorVariable) -> None:
    output.without_state.append((optimizer, p.real))
    stored = p.attrs.get("grad")
    if stored is None or stored.source is not None:  # gradients from outside: their parameters are known
        params = [q for group in optimizer.param_groups for q in group["params"]]
        output.without_state += [(optimizer, q) for q in params if q.grad is not None]
        with_state(output)


for _function in STARTS:
    builtin(_function)(_start(_function))


def with_state(output: OutputGraph) -> None:
    """Give the parameters that were met without state theirs, and capture again. Nothing if there were none."""
    made = False
    for optimizer, p in output.without_state:
        group = next((g for g in optimizer.param_groups if any(q is p for q in g["params"])), None)
        if group is not None and not optimizer.state.get(p):
            made = made or p not in optimizer.state
            with no_grad():
                optimizer.init_state(p, optimizer.state.setdefault(p, {}), group)
            made = made or bool(optimizer.state[p])
    output.without_state.clear()
    if made:
        raise Restart(output.options)
