"""Each step of the map checked, where `config.autograd.verify_passes` asks for it: interpret before and after, compare.

Input: a step's name, what it was given, what it made. A stage checks the passes inside its own steps; here the steps
themselves are, whoever wrote the seam, and stage 4's passes, which have no interpreter but stage 3's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from stage_contracts import config
from stage_contracts.passes import verifying

Check = Callable[[str, Any, Any], None]


def _checks() -> dict[str, Check]:
    """By step. Imported when asked for: an ordinary compile needs none of it."""
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
    """Raise GraphError naming the step when it changed what is computed."""
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
