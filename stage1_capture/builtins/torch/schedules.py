"""A learning-rate schedule's step() in a captured function: put off until the graph has run, then called in Python.

Input: a schedule of the library's as an abstract value. It counts, computes a number and writes it into the optimizer's
groups: nothing for a graph, and following it would fix the count. Until the call nothing may read what it will write.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.optim import lr_scheduler
from stage1_capture.state.machine import Tx, builtin
from stage1_capture.variables.base import LazyVariable, Variable, describe, load_attribute, realize
from stage1_capture.variables.constant import NONE
from stage1_capture.variables.sequence import ListVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable

STEPS = {
    cls.__dict__["step"]
    for cls in vars(lr_scheduler).values()
    if isinstance(cls, type) and issubclass(cls, lr_scheduler.LRScheduler) and "step" in cls.__dict__
}


@builtin(*STEPS)
def step(tx: Tx, schedule: Variable, *args: Variable, **kwargs: Variable) -> Variable:
    if not isinstance(schedule, UserDefinedObjectVariable) or schedule.source is None:
        tx.unsupported("GB0074", f"the step of {describe(schedule)}")
    if id(schedule) in tx.output.effects.changed:
        tx.unsupported(
            "GB0094", f"the step of {describe(schedule)}, which was changed before in this function"
        )
    _make_stale(tx, schedule)
    tx.output.effects.calls.append(
        (schedule, [*map(realize, args)], {k: realize(v) for k, v in kwargs.items()})
    )
    tx.output.effects.in_the_end |= _is_users(schedule.real)
    return NONE


def _make_stale(tx: Tx, schedule: UserDefinedObjectVariable) -> None:
    """Reading the schedule's state, or the optimizer's numbers, is a break from here on: by then it has been called."""
    what = describe(schedule)
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
    return not ours or any(map(callable, _flat(list(vars(schedule).values()))))


def _flat(values: list) -> list:
    return [v for value in values for v in (value if isinstance(value, list) else [value])]
