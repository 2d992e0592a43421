"""Checks each step of the map if `config.autograd.verify_passes` is on: interprets its input and its output, compares.

Input: a step's name, its input, its output. A stage checks the passes inside its steps. This file checks the steps
themselves, also for a swapped seam, and stage 4's passes, because only stage 3 has an interpreter for programs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stage_contracts import config
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
