"""Checks each step of the map if `config.autograd.verify_passes` is on: interprets its input and its output, compares.

Input: a step's name, its input, its output. A stage checks the passes inside its steps. This file checks the steps
themselves, also for a swapped seam, and stage 4's passes, because only stage 3 has an interpreter for programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from cutaway.repro import compares_values as saves_what_differs
from stage_contracts import config
from stage_contracts.errors import VerifyError
from stage_contracts.graph import GraphError
from stage_contracts.messages import say
from stage_contracts.passes import verifying

Check = Callable[[str, Any, Any], None]


def _checks() -> dict[str, Check]:
    """The check of each step. Imported here, because an ordinary compile does not need it."""
    from stage2_autograd import verify as graphs
    from stage2_autograd.verify_steps import verify_functional, verify_joint
    from stage3_lowering.verify import verify_lowering, verify_pass

    return {
        "functionalize": verify_functional,
        "differentiate": verify_joint,
        "decompose": graphs.verify_pass,
        "partition": graphs.verify_partition,
        "lower": verify_lowering,
        "fuse": verify_pass,
        "schedule": verify_pass,
        "plan_memory": verify_pass,
    }


def verify_step(name: str, before: Any, after: Any) -> None:
    """Raise GraphError, with the step's name, if the step changed what is computed."""
    if config.current().autograd.verify_passes:
        _checks()[name](name, before, after)


@contextmanager
def passes_verified() -> Iterator[None]:
    """While the block runs, passes over programs of any stage are checked by stage 3's interpreter."""
    if not config.current().autograd.verify_passes:
        yield
        return
    from stage3_lowering.verify import verify_pass

    with verifying(verify_pass):
        yield


def compares_values() -> bool:
    """Whether compiled values are compared with eager's: debug.verify, or repro_level=4."""
    return config.current().debug.verify or saves_what_differs()


@contextmanager
def graphs_verified() -> Iterator[None]:
    """With debug.verify, the block's steps and passes of stage 2 are checked too: a call is compared with the core
    graph, which a wrong pass has changed already. Raises VerifyError, with the pass and the user's line."""
    if not compares_values() or config.current().autograd.verify_passes:
        yield
        return
    with config.patch({"autograd.verify_passes": True}):
        try:
            yield
        except GraphError as error:
            raise VerifyError(say("verify_pass", problem=error)) from error


def pass_that_fails(compile_again: Callable[[], Any]) -> str:
    """What is said of the first pass of stage 3 or 4 that changes a value when the graph is compiled again; "" if none
    does."""
    try:
        with config.patch({"runtime.force_disable_caches": True}):
            compile_again()
    except GraphError as error:
        return str(error)
    return ""
