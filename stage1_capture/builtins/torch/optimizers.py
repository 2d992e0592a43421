"""Steps of optimizers and of learning-rate schedules: an optimizer's state is made before the capture that finds it.

Input: an update, followed, of a parameter that has no state. Eager's first step begins by making it: moments of zeros,
a count of 0. Made on the optimizer itself now, the graph of the first step is that of every step.
A schedule's step counts, computes a number and writes it into the optimizer's groups: nothing for a graph, and
following it would fix the count. It is put off until the graph has run; until then nothing may read what it will write.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.optim import SGD, Optimizer, adaptive, further, lr_scheduler
from stage0_eager.state import no_grad
from stage1_capture.state.graph_builder import OutputGraph, Restart
from stage1_capture.state.machine import Tx, builtin
from stage1_capture.variables.base import LazyVariable, Variable, load_attribute, realize
from stage1_capture.variables.constant import NONE
from stage1_capture.variables.function import UserFunctionVariable
from stage1_capture.variables.sequence import ListVariable
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


STEPS = {
    cls.__dict__["step"]
    for cls in vars(lr_scheduler).values()
    if isinstance(cls, type) and issubclass(cls, lr_scheduler.LRScheduler) and "step" in cls.__dict__
}


@builtin(*STEPS)
def step(tx: Tx, schedule: Variable, *args: Variable, **kwargs: Variable) -> Variable:
    if not isinstance(schedule, UserDefinedObjectVariable) or schedule.source is None:
        tx.unsupported("GB0074", f"the step of {schedule.describe()}")
    if id(schedule) in tx.output.effects.changed:
        tx.unsupported(
            "GB0094", f"the step of {schedule.describe()}, which was changed before in this function"
        )
    _make_stale(tx, schedule)
    tx.output.effects.calls.append(
        (schedule, ".step", [*map(realize, args)], {k: realize(v) for k, v in kwargs.items()})
    )
    tx.output.effects.in_the_end |= _is_users(schedule.real)
    return NONE


def _make_stale(tx: Tx, schedule: UserDefinedObjectVariable) -> None:
    """Reading the schedule's state, or the optimizer's numbers, is a break from here on: by then it has been called."""
    what = schedule.describe()
    if "optimizer" in schedule.attrs:  # done for a call before this one
        return

    def read() -> Variable:
        tx.output.unsupported("GB0087", f"a read of what the step of {what} changes")

    groups = load_attribute(tx, load_attribute(tx, schedule, "optimizer"), "param_groups")
    for group in map(realize, groups.items if isinstance(groups, ListVariable) else ()):
        if group.family() is not dict or id(group) in tx.output.effects.changed:
            tx.unsupported("GB0094", "a schedule's step after a change of the optimizer's groups")
        group.items.update({name: LazyVariable(read) for name in group.items if name != "params"})
    schedule.attrs.update({name: LazyVariable(read) for name in vars(schedule.real)})


def _is_users(schedule: Any) -> bool:
    """Whether its step runs a function that you wrote: a lambda, or a method of a subclass."""
    ours = type(schedule).__module__ == lr_scheduler.__name__
    rows = (value if isinstance(value, list) else [value] for value in vars(schedule).values())
    return not ours or any(callable(value) for row in rows for value in row)
