"""What happens at a bug in the compiler: the frame runs eagerly, with one warning and an event that says what to
report.

Input: the error raised while an entry was made (compiled_function.py, compile_frame.py); launch_errors.py handles
errors of a compiled graph. An error in your own backend or swapped seam is not a bug in the compiler: it is raised as
it is. So is every error with fullgraph=True or suppress_errors=False.
"""

from __future__ import annotations

import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cutaway.pipelines import default_pipeline
from cutaway.user_frame import level_of_the_user
from stage0_eager import is_grad_enabled
from stage0_eager.arrays import is_array
from stage0_eager.tensor import Tensor
from stage0_eager.utils.pytree import leaves_of
from stage_contracts import config, events
from stage_contracts.breaks import Unsupported
from stage_contracts.errors import (
    BackendFailed,
    ComptimeError,
    ForbiddenInGraph,
    RecompileError,
    SeamError,
    VerifyError,
)
from stage_contracts.messages import say
from stage_contracts.pipeline import DEFAULT_SEAMS, Pipeline
from stage_contracts.sizes import ConstraintViolationError

if TYPE_CHECKING:
    from cutaway.compiled_function import CompiledFunction

# Errors about the user's program or settings: raised as they are.
FOR_THE_USER = (
    BackendFailed,
    ComptimeError,
    ConstraintViolationError,
    ForbiddenInGraph,
    RecompileError,
    SeamError,
    Unsupported,
    VerifyError,
)
ADVICE = (
    "please report it with this text, your function, and the shapes and dtypes of its arguments; "
    "with config suppress_errors=False the error is raised instead"
)


@dataclass(frozen=True)
class Fault:
    """One failure that is not reported yet. If the eager run raises the same error, it is the program's own error."""

    name: str
    stage: str  # the pass that failed, or "the check after" the last one that ended
    error: Exception
    doing: str = "compiling"

    def tell(self) -> None:
        """Report it: one event, which logs and explain() show, and one warning."""
        what = f"{type(self.error).__name__}: {self.error}"
        lines = "".join(traceback.format_exception(self.error)).rstrip()
        report = f"internal error in {self.stage}, {self.doing} {self.name}: {what}\n{lines}\n{ADVICE}"
        events.record(
            "internal_error", self.name, stage=self.stage, error=what, traceback=lines, report=report
        )
        first = what.splitlines()[0]
        message = say("internal_error", name=self.name, stage=self.stage, error=first)
        warnings.warn(message, stacklevel=level_of_the_user())


def run_eagerly(fault: Fault, compiled: CompiledFunction, args: tuple, kwargs: dict[str, Any]) -> Any:
    """Run the user's call eagerly. Report the fault, unless the eager run raises the same error: then it is the
    program's own error."""
    own = False
    try:
        return compiled._fn(*args, **kwargs)
    except Exception as raised:
        own = same_error(raised, fault.error)
        raise
    finally:
        if not own:
            remember(fault, compiled, args, kwargs)
            fault.tell()


# ---- when to try again --------------------------------------------------------------------------------------------

ATTEMPTS = 4  # for different calls, with one cause; after these, a call that no entry fits runs eagerly


@dataclass
class Failures:
    """The calls of one compiled function that a bug kept from being compiled, and the number of failures by cause."""

    calls: set[Any] = field(default_factory=set)
    causes: Counter[tuple[str, str]] = field(default_factory=Counter)


def remember(fault: Fault, compiled: CompiledFunction, args: tuple, kwargs: dict[str, Any]) -> None:
    compiled.failures.calls.add(kind_of_call(args, kwargs))
    compiled.failures.causes[fault.stage, type(fault.error).__name__] += 1


def worth_trying(failures: Failures, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether to compile a call that no entry fits: no similar call failed, and no cause has failed ATTEMPTS times."""
    if not failures.causes:
        return True
    return max(failures.causes.values()) < ATTEMPTS and kind_of_call(args, kwargs) not in failures.calls


def kind_of_call(args: tuple, kwargs: dict[str, Any]) -> Any:
    """A key for similar calls, which get one attempt together: the metas of tensors, the values of numbers and strings,
    and the types of all other arguments."""
    return is_grad_enabled(), tuple(map(_kind_of_leaf, leaves_of((args, kwargs))))


def _kind_of_leaf(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return leaf.meta
    if is_array(leaf):
        return leaf.shape, str(leaf.dtype)
    return type(leaf), leaf if type(leaf) in (bool, int, float, str) else None


def same_error(one: Exception, other: Exception) -> bool:
    return type(one) is type(other) and not isinstance(one, AssertionError | NotImplementedError)


def stage_of(mark: int) -> str:
    """The pass that failed since `mark`. If none did: the check after the last pass that ended."""
    passes = events.EVENT_LOG.since(mark, "pass")
    failed = next((e.name for k, e in enumerate(passes) if _failed(e, passes[k + 1 :])), None)
    return failed or (f"the check after {passes[-1].name}" if passes else "capture")


def _failed(event: events.Event, later: Sequence[events.Event]) -> bool:
    """Whether a pass ended with an error that also left its step. (A graph break ends capture's pass `interpret` with
    an error, but not the step.)"""
    step = event.name.partition(".")[0]
    return "error" in event.details and not any(e.name == step and "error" not in e.details for e in later)


def reaches_the_user(error: Exception, stage: str, name: str, fullgraph: bool, pipeline: Pipeline) -> bool:
    """Whether to raise the error as it is. If the user's settings raise bugs of the compiler, a note says that it is
    one."""
    if isinstance(error, FOR_THE_USER) or _of_a_swapped_seam(stage, pipeline):
        return True
    asked = fullgraph or raises_faults()
    if asked:
        note = say("internal_error_raised", stage=stage, name=name)
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    return asked


def raises_faults() -> bool:
    """Whether the settings say to raise a bug in the compiler."""
    settings = config.current().capture
    return settings.suppress_errors is False or settings.repro_after is not None


def _of_a_swapped_seam(stage: str, pipeline: Pipeline) -> bool:
    """Whether the seam that failed is one that the user swapped, or comes after one."""
    default = default_pipeline()
    swapped = [
        i for i, seam in enumerate(DEFAULT_SEAMS) if getattr(pipeline, seam) is not getattr(default, seam)
    ]
    at = next(
        (i for i, seam in enumerate(DEFAULT_SEAMS) if stage.partition(".")[0].endswith(seam)),
        len(DEFAULT_SEAMS),
    )
    return any(i <= at for i in swapped)
