"""After the forward: writes new values into inputs and makes the results. It does all of this, or nothing.

Input: the functional graph (which inputs it writes, which results are views) and, at each call, the input tensors and
the graph's outputs. Versions, views and histories become the same as after the eager function. Steps that may fail come
before memory is written; if one fails, each tensor is as before, so that eager can run instead. After memory is
written, eager must not start again: then the exception Written has a function that does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stage0_eager.autograd.tape import version_of
from stage0_eager.autograd.views import write_through
from stage0_eager.tensor import Tensor, root
from stage_contracts.joint import FunctionalGraph, ResultPlan
from stage_contracts.symbol_bindings import open_sizes_in, size_reader, symbol_bindings, with_sizes

# (input tensors, outputs, a function to call before memory is written) -> results
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
    tensors: Sequence[Tensor], outputs: list[Tensor], before: Undo = nothing
) -> tuple[Tensor, ...]:
    """The finisher if no input is written, and the results are the graph's outputs."""
    return tuple(outputs)


def finisher(functional: FunctionalGraph) -> Finish:
    """Make a function that copies new values into the memory of the written inputs, and makes the user's results."""
    writes, first = functional.writes, functional.num_outputs
    plain = tuple(("output", i) for i in range(first))
    results = functional.results or plain
    versions = functional.versions or (0,) * first + (1,) * len(writes)
    counted = [(i, seen) for i, seen in enumerate(versions[:first]) if seen]
    if not writes and not counted and results == plain:
        return as_they_are

    lay_out = _result_maker(functional, results)

    def finish(
        tensors: Sequence[Tensor], outputs: list[Tensor], before: Undo = nothing
    ) -> tuple[Tensor, ...]:
        undo: list[Undo] = []
        copies: list[
            Copy
        ] = []  # copied last: a result that is a view of a written input shows the new values, too
        try:
            for i, seen in counted:
                version_of(outputs[i])[0] = seen
            for i, value, seen in zip(writes, outputs[first:], versions[first:], strict=True):
                undo.append(_undoing(tensors[i], on_tape=value.requires_grad))
                copies += _write_back(tensors[i], value, seen)
            made = lay_out(tensors, outputs)
            for memory, _ in copies:
                refuse_read_only(memory)
            before()
        except BaseException:
            for put_back in reversed(undo):
                put_back()
            raise
        try:
            copy_all(copies)
        except Exception as error:

            def rest() -> tuple[Tensor, ...]:
                copy_all(copies)
                return made

            raise Written(error, rest) from error
        return made

    return finish


def donated(functional: FunctionalGraph, tensors: Sequence[Tensor], made: Sequence[Any]) -> bool:
    """Whether the launch wrote an input in place. Then it returned the input's own array."""
    written = zip(functional.writes, made[functional.num_outputs :], strict=False)
    return any(tensors[i]._data is array for i, array in written)


def writeable(memory: Any) -> bool:
    return bool(getattr(memory.flags, "writeable", True))  # on a GPU, all memory is writeable


def refuse_read_only(memory: Any) -> None:
    """Raise eager's error for read-only memory, before the first write."""
    if not writeable(memory):
        raise ValueError("assignment destination is read-only")


def copy_all(copies: Sequence[Copy]) -> None:
    """Write the new values. A second call changes nothing."""
    for memory, new in copies:
        memory[...] = new


def _write_back(target: Tensor, value: Tensor, seen: int) -> list[Copy]:
    """Make the input the new value, with the version counter after the writes that eager would have `seen`. Returns the
    copies of memory still to be made: (to, from)."""
    version_of(target)[0] += seen
    if value.requires_grad and target._view is not None:  # its base gets the history
        version_of(target)[0] -= 1
        write_through(target, value)
        return []
    if value.requires_grad:  # for autograd, too, the input is now a result of the compiled function
        target.requires_grad, target._grad_fn = True, value._grad_fn
        target._output_index = value._output_index
        target._written += 1  # existing views of it get the new history at their next use
    # a compiled step may have written there in place
    return [] if target._data is value._data else [(target._data, value._data)]


def _undoing(target: Tensor, on_tape: bool) -> Undo:
    """A function that undoes the write to a tensor: restores its version and, on the tape, its history and its
    base's."""
    version, count = version_of(target), version_of(target)[0]
    if not on_tape:

        def undo_version() -> None:
            version[0] = count

        return undo_version

    data = target._data
    at_once = target._view is not None and writeable(
        data
    )  # the condition under which `write_through` writes memory
    was = data.copy() if at_once else None
    kept = [(t, t._grad_fn, t._view, t.requires_grad, t.__dict__.copy()) for t in (root(target), target)]

    def undo() -> None:
        for tensor, grad_fn, view, requires_grad, attributes in kept:
            tensor._grad_fn, tensor._view, tensor.requires_grad = grad_fn, view, requires_grad
            tensor.__dict__.clear()
            tensor.__dict__.update(attributes)
        version[0] = count
        if was is not None:
            data[...] = was

    return undo


def _result_maker(functional: FunctionalGraph, results: tuple[ResultPlan, ...]) -> Finish:
    """A function that makes the user's results: outputs, inputs and constants, some of them through views."""
    constants = functional.graph.attributes
    open_results = next(open_sizes_in(results), None) is not None
    read_sizes = size_reader(symbol_bindings([n.val for n in functional.graph.placeholders]))

    def lay_out(tensors: Sequence[Tensor], outputs: list[Tensor]) -> tuple[Tensor, ...]:
        sources: dict[str, Any] = {"output": outputs, "input": tensors, "constant": constants}
        made = []
        plan = with_sizes(results, read_sizes(tensors)) if open_results else results
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
