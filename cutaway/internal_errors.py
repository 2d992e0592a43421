"""A bug in the compiler: the frame runs eagerly, with one warning, and an event that says what to report.

Input: the error raised while an entry was made (compiled_function.py, compile_frame.py); launch_errors.py handles
errors of a compiled graph. An error of a user's backend or swapped seam is no such bug and is raised as it is. So is
every error with fullgraph or suppress_errors=False.
"""

from __future__ import annotations

import traceback
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from cutaway.pipelines import default_pipeline
from cutaway.recompilation import RecompileError, level_of_the_user
from stage0_eager import is_grad_enabled
from stage0_eager.arrays import is_array
from stage0_eager.tensor import Tensor
from stage0_eager.utils.pytree import leaves_of
from stage_contracts import config, events
from stage_contracts.breaks import Unsupported
from stage_contracts.errors import BackendFailed, ForbiddenInGraph, SeamError, VerifyError
from stage_contracts.messages import say
from stage_contracts.pipeline import DEFAULT_SEAMS, Pipeline
from stage_contracts.sizes import ConstraintViolationError

if TYPE_CHECKING:
    from cutaway.compiled_function import CompiledFunction

# What says something about the user's program or settings: raised as it is.
FOR_THE_USER = (
    BackendFailed,
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
    """One failure, not yet told: it is the program's own if the eager run raises the same."""

    name: str
    stage: str  # the pass that failed: a seam, or what comes after the last one that ended
    error: Exception
    doing: str = "compiling"

    def tell(self) -> None:
        """One event, which logs and explain() show, and one warning."""
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
    """What the user's call gives. The fault is told, unless eager raises the same: then it is the program's own."""
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

ATTEMPTS = 4  # with one cause, for calls that differ; after these what no entry fits runs eagerly


@dataclass
class Failures:
    """The calls of one compiled function that were not compiled because of a bug in the compiler, by cause."""

    calls: set[Any] = field(default_factory=set)
    causes: Counter[tuple[str, str]] = field(default_factory=Counter)


def remember(fault: Fault, compiled: CompiledFunction, args: tuple, kwargs: dict[str, Any]) -> None:
    compiled.failures.calls.add(kind_of_call(args, kwargs))
    compiled.failures.causes[fault.stage, type(fault.error).__name__] += 1


def worth_trying(failures: Failures, args: tuple, kwargs: dict[str, Any]) -> bool:
    """Whether a call that no entry fits may be compiled: none like it failed, and no cause keeps returning."""
    if not failures.causes:
        return True
    return max(failures.causes.values()) < ATTEMPTS and kind_of_call(args, kwargs) not in failures.calls


def kind_of_call(args: tuple, kwargs: dict[str, Any]) -> Any:
    """What tells calls apart that are worth an attempt each: metas of tensors, numbers and words, types of all else."""
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
    """The pass that failed since `mark`; if none did, what follows the last one that ended."""
    passes = events.EVENT_LOG.since(mark, "pass")
    failed = next((e.name for k, e in enumerate(passes) if _failed(e, passes[k + 1 :])), None)
    return failed or (f"the check after {passes[-1].name}" if passes else "capture")


def _failed(event: events.Event, later: Sequence[events.Event]) -> bool:
    """Whether a pass ended by an error that left its step too. A break ends capture's `interpret` so, and no more."""
    step = event.name.partition(".")[0]
    return "error" in event.details and not any(e.name == step and "error" not in e.details for e in later)


def reaches_the_user(error: Exception, stage: str, name: str, fullgraph: bool, pipeline: Pipeline) -> bool:
    """Whether to raise this as it is. If the user asked to see bugs of the compiler, a note says that it is one."""
    if isinstance(error, FOR_THE_USER) or _of_a_swapped_seam(stage, pipeline):
        return True
    asked = fullgraph or raises_faults()
    if asked:
        note = say("internal_error_raised", stage=stage, name=name)
        if note not in getattr(error, "__notes__", ()):
            error.add_note(note)
    return asked


def raises_faults() -> bool:
    """Whether the settings say that a fault of the compiler is raised."""
    settings = config.current().capture
    return settings.suppress_errors is False or settings.repro_after is not None


def _of_a_swapped_seam(stage: str, pipeline: Pipeline) -> bool:
    """Whether the seam that failed is the user's, or took what one of theirs made."""
    default = default_pipeline()
    swapped = [
        i for i, seam in enumerate(DEFAULT_SEAMS) if getattr(pipeline, seam) is not getattr(default, seam)
    ]
    at = next(
        (i for i, seam in enumerate(DEFAULT_SEAMS) if stage.partition(".")[0].endswith(seam)),
        len(DEFAULT_SEAMS),
    )
    return any(i <= at for i in swapped)
