"""After the forward: written inputs get their new values, and the user's results are laid out. All of it, or nothing.

Input: the plan in a FunctionalGraph, the call's tensors and the forward's outputs; runtime_wrapper.py asks. What may
fail comes before the memory is written; if it fails, each tensor is as it was, so that eager can take over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stage0_eager.autograd.tape import version_of
from stage0_eager.autograd.views import write_through
from stage0_eager.tensor import Tensor, root
from stage_contracts.joint import FunctionalGraph, ResultPlan
from stage_contracts.shown_sizes import open_sizes_in, shown_sizes, size_reader, with_sizes

Finish = Callable[[Sequence[Tensor], list[Tensor]], tuple[Tensor, ...]]


def as_they_are(tensors: Sequence[Tensor], outputs: list[Tensor]) -> tuple[Tensor, ...]:
    """No input is written, and the results are the graph's outputs."""
    return tuple(outputs)


def finisher(functional: FunctionalGraph, results: tuple[ResultPlan, ...]) -> Finish:
    """Write the written inputs back into their memory, and lay out the user's results."""
    writes, first = functional.writes, functional.num_outputs
    constants = functional.graph.attributes
    versions = functional.versions or (0,) * first + (1,) * len(writes)
    counted = [(i, seen) for i, seen in enumerate(versions[:first]) if seen]
    if not writes and not counted and results == tuple(("output", i) for i in range(first)):
        return as_they_are

    open_results = next(open_sizes_in(results), None) is not None
    read_sizes = size_reader(shown_sizes([n.val for n in functional.graph.placeholders]))

    def finish(tensors: Sequence[Tensor], outputs: list[Tensor]) -> tuple[Tensor, ...]:
        undo: list[
            Callable[[], None]
        ] = []  # of what the tape knows; numbers of versions are undone by `done`
        done = 0
        try:
            for i, seen in counted:
                version_of(outputs[i])[0] = seen
            late = []  # a result that is a view of such an input sees the write, which comes last
            for i, value, seen in zip(writes, outputs[first:], versions[first:], strict=True):
                target = tensors[i]
                if value.requires_grad:
                    undo.append(_undoing(target))
                version_of(target)[0] += seen
                done += 1
                if value.requires_grad and target._view is not None:  # what it is a view of gets the history
                    version_of(target)[0] -= 1
                    write_through(target, value)
                    continue
                if target._data is not value._data:  # a compiled step may have written there at once
                    late.append((target._data, value._data))
                if value.requires_grad:  # the input now is what the pair computed, to autograd too
                    target.requires_grad, target._grad_fn = True, value._grad_fn
                    target._output_index = value._output_index
                    target._written += 1  # views that there are of it take the new history when next used
            sources: dict[str, Any] = {"output": outputs, "input": tensors, "constant": constants}
            made = []
            plan = with_sizes(results, read_sizes(tensors)) if open_results else results
            for kind, which, *views in plan:
                tensor = sources[kind][which]
                for op, rest in views:  # on the user's own tape: memory, history and versions are as in eager
                    tensor = op(tensor, *rest)
                made.append(tensor)
            for memory, new in late:
                memory[...] = new
        except BaseException:
            for i, seen in list(zip(writes, versions[first:], strict=True))[:done]:
                version_of(tensors[i])[0] -= seen
            for step in reversed(undo):  # which know the versions of what they put back
                step()
            raise
        return tuple(made)

    return finish


def _undoing(target: Tensor) -> Callable[[], None]:
    """What puts back a tensor that is about to be written on the tape, and the tensor that it is a view of."""
    version, data = version_of(target), target._data
    was, count = data.copy() if target._view is not None else None, version[0]
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
