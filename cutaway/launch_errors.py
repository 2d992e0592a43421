"""What happens at a bug in code that was compiled already: the captured graph (for a backward: its core graph) runs
instead, and the bug is reported.

Input: the error that a compiled half raised at a call, with its operands; stage 2's wrapper calls this
(runtime_wrapper.py). At that point no input is half-written: a program writes to its inputs only if no later step can
raise (stage 4's donate.py), and a write-back that fails is undone (stage 2's write_back.py). If eager raises the same
error, it is the program's own error.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cutaway.as_captured import as_captured
from cutaway.internal_errors import Fault, raises_faults, reaches_the_user, same_error
from stage0_eager.core_interpreter import interpreter
from stage0_eager.random.generator import default_generator
from stage2_autograd.runtime.input_checks import LeafWritten
from stage_contracts.errors import DeviceError, OutOfRange
from stage_contracts.graph import Graph

if TYPE_CHECKING:
    from cutaway.artifacts import Artifacts

Recover = Callable[..., tuple]


def recover_forward(captured: Graph, artifacts: Artifacts) -> Recover:
    """A function (error of the forward, the call's tensors, number of random draws, rest) -> the results of the
    captured graph, run operator by operator.

    If memory was written already, `rest` computes the results instead, because the captured graph would write again.
    """
    passes, tell = _passes_as_it_is(artifacts, captured), _told_once()

    def recover(error: Exception, tensors: Sequence[Any], drawn: int = 0, rest: Any = None) -> tuple:
        if is_out_of_memory(error):  # operator by operator it would need more
            _advise(error, "forward", artifacts, captured, tensors)
            raise error
        outside = isinstance(error, OutOfRange)
        if not outside and passes(error):
            raise error
        fault = Fault(artifacts.function_name, "launch", error)
        if rest is not None:
            tell(fault)
            return rest()
        if drawn:  # the captured graph draws the same numbers again
            default_generator().advance(-drawn)
        # the captured graph raises torch's error, after the writes before it; if it does not, the results are right
        if outside:
            results = as_captured(captured)(*tensors)
            tell(fault)
            return results
        return _instead(as_captured(captured), tensors, fault, tell)

    return recover


def recover_backward(core: Graph, artifacts: Artifacts) -> Recover:
    """A function (error of the backward, its arrays) -> the arrays of the gradients, computed by the core graph."""
    passes, tell = _passes_as_it_is(artifacts, core), _told_once()

    def recover(error: Exception, arrays: Sequence[Any]) -> tuple:
        if is_out_of_memory(error):
            _advise(error, "backward", artifacts, core, arrays)
        if is_out_of_memory(error) or passes(error):
            raise error
        fault = Fault(artifacts.function_name, "launch", error, "running the backward of")
        return _instead(interpreter(core), arrays, fault, tell, same_words)

    return recover


def is_out_of_memory(error: BaseException) -> bool:
    """NumPy's and Python's error is a MemoryError; CuPy's has a class of its own."""
    return isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError"


def _advise(error: Exception, half: str, artifacts: Artifacts, graph: Graph, operands: Sequence[Any]) -> None:
    from cutaway.debug.memory_advice import advise  # loaded when it is needed

    try:
        advise(error, half, artifacts, graph, operands)
    except Exception:  # without advice the error is still the program's
        return


def _instead(
    run: Callable[..., tuple],
    operands: Sequence[Any],
    fault: Fault,
    tell: Callable[[Fault], None],
    same: Callable[[Exception, Exception], bool] = same_error,
) -> tuple:
    try:
        results = run(*operands)
    except Exception as raised:
        error = raised
    else:
        tell(fault)
        return results
    if not same(error, fault.error):
        tell(fault)
    raise error from None


def same_words(one: Exception, other: Exception) -> bool:
    """The comparison for a backward: same type and same text. The core graph is compiler output, too, so with the same
    bug it may raise the same type of error."""
    return same_error(one, other) and str(one) == str(other)


def _passes_as_it_is(artifacts: Artifacts, graph: Graph) -> Callable[[Exception], bool]:
    """Whether to raise an error as it is: its type is for the user, the settings say so, or a user-defined operator may
    have raised it."""
    # the settings of the time of the compile
    strict = artifacts.fullgraph or raises_faults()

    def passes(error: Exception) -> bool:
        users = {code for n in graph.calls if (code := _code_of_the_user(n.target)) is not None}
        if (
            strict
            or isinstance(error, OutOfRange | LeafWritten | DeviceError)
            or (users and _raised_in(error, users))
        ):
            return True
        assert artifacts.pipeline is not None
        return reaches_the_user(error, "launch", artifacts.function_name, False, artifacts.pipeline)

    return passes


def _code_of_the_user(target: Any) -> Any:
    """The code object of a user-defined operator in a compiled graph. None for Cutaway's own operators and control
    flow."""
    if not getattr(target, "opaque", False) or target.namespace.endswith("higher_order"):
        return None
    return getattr(target.kernel, "__code__", None)


def _raised_in(error: Exception, codes: set[Any]) -> bool:
    """Whether the error was raised during a call of one of these functions."""
    return any(frame.f_code in codes for frame, _ in traceback.walk_tb(error.__traceback__))


def _told_once() -> Callable[[Fault], None]:
    """A function that reports a fault at the first call only, because it may come at every call."""
    told: list[Fault] = []

    def tell(fault: Fault) -> None:
        if not told:
            told.append(fault)
            fault.tell()

    return tell
