"""After the forward: writes new values into inputs and makes the results. It does all of this, or nothing.

Input: the functional graph (which inputs it writes, which results are views) and, at each call, the input tensors and
the graph's outputs. Versions, views and histories become the same as after the eager function. Steps that may fail come
before memory is written; if one fails, each tensor is as before, so that eager can run instead. After memory is
written, eager must not start again: then the exception Written has a function that does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from stage0_eager.autograd.tape import version_of
from stage0_eager.autograd.views import write_through
from stage0_eager.kernels.copies import copy_many
from stage0_eager.tensor import Tensor, root
from stage_contracts.graph import Node
from stage_contracts.joint import FunctionalGraph, ResultPlan
from stage_contracts.symbol_bindings import open_sizes_in, size_reader, symbol_bindings, with_sizes
from stage_contracts.unbacked import symbol_made, value_made

# (input tensors, the graph's arrays, tensors made of them, a function to call before memory is written) -> results.
# There is a tensor for each output of the user; on the tape, also for each new value.
Finish = Callable[..., tuple[Tensor, ...]]
Undo = Callable[[], None]
Copy = tuple[Any, Any]  # (memory, its new values)


class Written(Exception):
    """An error after memory was written. Its cause is the error. `rest()` does the rest, and may be called again."""

    def __init__(self, cause: Exception, rest: Callable[[], tuple[Tensor, ...]]) -> None:
        super().__init__(str(cause))
        self.cause, self.rest = cause, rest


def nothing() -> None:
    """The function to call before memory is written, without a tape: there is nothing to do."""


def as_they_are(
    tensors: Sequence[Tensor], made: Sequence[Any], outputs: list[Tensor], before: Undo = nothing
) -> tuple[Tensor, ...]:
    """The finisher if no input is written, and the results are the graph's outputs."""
    return tuple(outputs)


def finisher(functional: FunctionalGraph) -> Finish:
    """Make a function that copies new values into the memory of the written inputs, and makes the user's results."""
    writes, first = functional.writes, functional.num_outputs
    count = first + len(writes)
    plain = tuple(("output", i) for i in range(first))
    results = functional.results or plain
    versions = functional.versions or (0,) * first + (1,) * len(writes)
    counted = [(i, seen) for i, seen in enumerate(versions[:first]) if seen]
    if not writes and not counted and results == plain:
        return as_they_are

    lay_out = _result_maker(functional, results)

    def finish(
        tensors: Sequence[Tensor], made: Sequence[Any], outputs: list[Tensor], before: Undo = nothing
    ) -> tuple[Tensor, ...]:
        # an optimizer's step writes hundreds of small tensors, so what each needs is done here, without a call
        written = [tensors[i] for i in writes]
        counters = [t._version or version_of(t) for t in written]
        seen_before = [counter[0] for counter in counters]
        undo: list[Undo] = []
        try:
            for i, seen in counted:
                version_of(outputs[i])[0] = seen
            for counter, seen in zip(counters, versions[first:], strict=True):
                counter[0] += seen
            copied = _put_all_on_tape(written, outputs[first:], undo)
            # copied last: a result that is a view of a written input shows the new values, too
            copies = _to_copy(written, made[first:count], copied)
            laid_out = lay_out(tensors, outputs)
            refuse_read_only(copies)
            before()
        except BaseException:
            _put_all_back(undo, counters, seen_before)
            raise
        return _copied(copies, laid_out)

    return finish


def _copied(copies: Sequence[Copy], laid_out: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Copy the new values, and return the results. After a fault here, eager must not start again."""

    def rest() -> tuple[Tensor, ...]:
        copy_many(copies)  # a second time changes nothing
        return laid_out

    try:
        return rest()
    except Exception as error:
        raise Written(error, rest) from error


def donated(functional: FunctionalGraph, tensors: Sequence[Tensor], made: Sequence[Any]) -> bool:
    """Whether the launch wrote an input in place. Then it returned the input's own array."""
    written = zip(functional.writes, made[functional.num_outputs :], strict=False)
    return any(tensors[i]._data is array for i, array in written)


def writeable(memory: Any) -> bool:
    return bool(getattr(memory.flags, "writeable", True))  # on a GPU, all memory is writeable


def refuse_read_only(copies: Sequence[Copy]) -> None:
    """Raise eager's error for read-only memory, before the first write."""
    if not all(writeable(memory) for memory, _ in copies):
        raise ValueError("assignment destination is read-only")


def _put_all_on_tape(written: Sequence[Tensor], values: Sequence[Tensor], undo: list[Undo]) -> set[int]:
    """Write what has a new value on the tape, and add to `undo` what undoes it. Returns the ids of tensors whose memory
    is written already."""
    copied: set[int] = set()
    for target, value in zip(written, values, strict=False):  # without a tape there are no values
        if value.requires_grad:
            undo.append(_undoing(target))
            if _put_on_tape(target, value):
                copied.add(id(target))
    return copied


def _put_all_back(undo: Sequence[Undo], counters: Sequence[list[int]], seen_before: Sequence[int]) -> None:
    for put_back in reversed(undo):
        put_back()
    for counter, seen in zip(counters, seen_before, strict=True):
        counter[0] = seen


def _to_copy(written: Sequence[Tensor], values: Sequence[Any], copied: Collection[int]) -> list[Copy]:
    """The copies of memory still to be made. (A compiled step may have written there in place.)"""
    return [
        (target._data, new)
        for target, new in zip(written, values, strict=True)
        if target._data is not new and id(target) not in copied
    ]


def _put_on_tape(target: Tensor, value: Tensor) -> bool:
    """For autograd, too, the input is now a result of the compiled function. Returns whether its memory is written."""
    if target._view is not None:  # its base gets the history
        version_of(target)[0] -= 1
        write_through(target, value)
        return True
    target._requires_grad, target._grad_fn = True, value._grad_fn
    target._output_index = value._output_index
    target._written += 1  # existing views of it get the new history at their next use
    return False


def _undoing(target: Tensor) -> Undo:
    """A function that undoes the write to a tensor on the tape: restores its history and its base's."""
    data = target._data
    at_once = target._view is not None and writeable(
        data
    )  # the condition under which `write_through` writes memory
    was = data.copy() if at_once else None
    kept = [(t, t._grad_fn, t._view, t.requires_grad, t.__dict__.copy()) for t in (root(target), target)]

    def undo() -> None:
        for tensor, grad_fn, view, requires_grad, attributes in kept:
            tensor._grad_fn, tensor._view, tensor._requires_grad = grad_fn, view, requires_grad
            tensor.__dict__.clear()
            tensor.__dict__.update(attributes)
        if was is not None:
            data[...] = was

    return undo


def _shown_by(node: Any) -> tuple[Any, int] | None:
    """The unbacked symbol that an output shows, if there is one; the output may be a copy."""
    if not isinstance(node, Node) or node.op != "call_function":
        return None
    return symbol_made(node) or (
        _shown_by(node.args[0]) if getattr(node.target, "name", "") == "clone" else None
    )


def _result_maker(functional: FunctionalGraph, results: tuple[ResultPlan, ...]) -> Finish:
    """A function that makes the user's results: outputs, inputs and constants, some of them through views."""
    constants = functional.graph.attributes
    open_results = next(open_sizes_in(results), None) is not None
    if open_results:
        read_sizes = size_reader(symbol_bindings([n.val for n in functional.graph.placeholders]))
        shown = [(*made, i) for i, node in enumerate(functional.graph.outputs) if (made := _shown_by(node))]

    def lay_out(tensors: Sequence[Tensor], outputs: list[Tensor]) -> tuple[Tensor, ...]:
        sources: dict[str, Any] = {"output": outputs, "input": tensors, "constant": constants}
        made = []
        plan = results
        if open_results:
            sizes = read_sizes(tensors)
            sizes |= {symbol: value_made(outputs[i]._data, dim) for symbol, dim, i in shown}
            plan = with_sizes(results, sizes)
        for kind, which, *views in plan:
            tensor = sources[kind][which]
            for (
                op,
                rest,
            ) in views:  # on the user's tape, so that memory, history and versions are shared as in eager
                tensor = op(tensor, *rest)
            made.append(tensor)
        return tuple(made)

    return lay_out
