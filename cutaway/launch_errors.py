"""A fault when compiled code runs: the captured graph, or a backward's core graph, takes over, and the fault is told.

Input: what a compiled half raised at a call, with its operands; stage 2's wrapper asks (runtime_wrapper.py). Eager
takes over only where nothing was written yet. An error that eager raises too is the program's own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from cutaway.as_captured import as_captured
from cutaway.internal_errors import Fault, reaches_the_user, same_error
from stage0_eager.core_interpreter import interpreter
from stage0_eager.random.generator import default_generator
from stage2_autograd.runtime.input_checks import LeafWritten
from stage_contracts import config
from stage_contracts.errors import OutOfRange
from stage_contracts.graph import Graph

if TYPE_CHECKING:
    from cutaway.artifacts import Artifacts, HalfArtifacts
    from stage_contracts.joint import FunctionalGraph

Recover = Callable[[Exception, Sequence[Any]], tuple]


def recover_forward(captured: Graph, functional: FunctionalGraph, artifacts: Artifacts) -> Recover:
    """(what the forward raised, the call's tensors) -> the results, by the captured graph, operator by operator."""
    passes, tell = _passes_as_it_is(artifacts, captured), _told_once()

    def recover(error: Exception, tensors: Sequence[Any]) -> tuple:
        if passes(error):
            raise error
        fault = Fault(artifacts.function_name, "launch", error)
        if _may_have_written(artifacts.forward):
            tell(fault)
            raise error
        if functional.rng_calls:  # eager draws them again
            default_generator().advance(-functional.rng_calls)
        return _instead(as_captured(captured), tensors, fault, tell)

    return recover


def recover_backward(core: Graph, artifacts: Artifacts) -> Recover:
    """(what the backward raised, its arrays) -> the gradients' arrays, by the core graph."""
    passes, tell = _passes_as_it_is(artifacts, core), _told_once()

    def recover(error: Exception, arrays: Sequence[Any]) -> tuple:
        if passes(error):
            raise error
        fault = Fault(artifacts.function_name, "launch", error, "running the backward of")
        return _instead(interpreter(core), arrays, fault, tell)

    return recover


def _instead(
    run: Callable[..., tuple], operands: Sequence[Any], fault: Fault, tell: Callable[[Fault], None]
) -> tuple:
    try:
        results = run(*operands)
    except Exception as raised:
        error = raised
    else:
        tell(fault)
        return results
    if not same_error(error, fault.error):
        tell(fault)
    raise error from None


def _passes_as_it_is(artifacts: Artifacts, graph: Graph) -> Callable[[Exception], bool]:
    """Whether an error is the user's to see: it says so, the user asked for it, or it may be their own operator's."""
    # the settings in force at compile time travel with the compiled code
    strict = artifacts.fullgraph or config.current().capture.suppress_errors is False
    opaque = any(getattr(n.target, "opaque", False) for n in graph.calls)

    def passes(error: Exception) -> bool:
        if strict or opaque or isinstance(error, OutOfRange | LeafWritten):
            return True
        assert artifacts.pipeline is not None
        return reaches_the_user(error, "launch", False, artifacts.pipeline)

    return passes


def _told_once() -> Callable[[Fault], None]:
    """A fault that comes at every call is told at the first."""
    told: list[Fault] = []

    def tell(fault: Fault) -> None:
        if not told:
            told.append(fault)
            fault.tell()

    return tell


def _may_have_written(half: HalfArtifacts | None) -> bool:
    """Whether the program itself writes to the caller's memory (an optimizer's step, in place)."""
    program = None if half is None else half.emitted.get(half.target.name)
    return program is not None and bool(program.written_inputs)
