"""The run-time wrapper: compiled forward and backward, functions on arrays, as one step on the user's tape.

Input: callables on arrays (NumPy or CuPy) for the two halves, and the graphs they were made from. Residual
code calls the result with tensors. What can be known before the first call is worked out here once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from stage0_eager import arrays as array_library
from stage0_eager.autograd.tape import Edge
from stage0_eager.autograd.views import MADE_SILENTLY
from stage0_eager.functions.inplace import INFERENCE_WRITTEN
from stage0_eager.random.generator import default_generator
from stage0_eager.state import STATE
from stage0_eager.tensor import Tensor, root, up_to_date
from stage2_autograd.runtime.compiled_backward import CompiledBackward, SavingPlan
from stage2_autograd.runtime.write_back import as_they_are, finisher
from stage_contracts.breaks import Unsupported
from stage_contracts.device import CPU
from stage_contracts.graph import meta_of
from stage_contracts.joint import FunctionalGraph, JointGraph, Partition

LEAF_WRITTEN = "a leaf Variable that requires grad is being used in an in-place operation."
VIEW_OF_LEAF_WRITTEN = f"a view of {LEAF_WRITTEN}"


Recover = Callable[[Exception, Sequence[Any]], tuple]  # (what was raised, the operands) -> the results


def raise_it(error: Exception, operands: Sequence[Any]) -> tuple:
    raise error


class LeafWritten(RuntimeError):
    """Eager's error, raised before anything ran; eager has by then done what comes before the write."""


def make_runtime_wrapper(
    functional: FunctionalGraph,
    forward: Callable[..., tuple],
    backward: Callable[..., tuple] | None = None,
    joint: JointGraph | None = None,
    partition: Partition | None = None,
    recover: tuple[Recover, Recover] = (raise_it, raise_it),
) -> Callable[..., tuple]:
    """A callable: the graph's input tensors to the tuple of the user's result tensors.

    forward: arrays of the inputs (then the random state, int64[2], if the graph has one) to arrays: outputs,
        written inputs, saved values.
    backward: arrays of the saved values and the tangents to one array (or None) per input. None, with
        `joint` and `partition`, for inference.
    recover: what to do when the forward or its write-back raises, of which then nothing is left, and when the
        backward does.
    Raises RuntimeError, with eager's messages, for what eager rejects.
    """
    count = functional.num_outputs + len(functional.writes)
    results = functional.results or tuple(("output", i) for i in range(functional.num_outputs))
    finish = finisher(functional, results)
    random = functional.rng_calls
    draw = _random_state(functional)
    checks = _input_checks(functional)
    recover_forward, recover_backward = recover

    # most inference: nothing to do but the call
    if backward is None and not random and finish is as_they_are:

        def call(*tensors: Tensor) -> tuple[Tensor, ...]:
            try:
                return tuple([Tensor(a) for a in forward(*[t._data for t in tensors])])
            except Exception as error:
                return recover_forward(error, tensors)

        return call

    def run(*tensors: Tensor) -> tuple[Tensor, ...]:
        try:
            checks(tensors)
            arrays = [t._data for t in tensors]
            if random:
                arrays.append(draw())
            made = forward(*arrays)
            return finish(tensors, [Tensor(a) for a in made[:count]])
        except Exception as error:
            return recover_forward(error, tensors)

    if backward is None or joint is None or partition is None or not joint.tangent_outputs:
        return run

    plan = SavingPlan(partition, joint, functional)
    counts = any(functional.versions) or bool(functional.writes)
    wanted = tuple(i for i, g in enumerate(partition.backward.outputs) if g is not None)

    def run_on_tape(*tensors: Tensor) -> tuple[Tensor, ...]:
        if not STATE.grad_enabled or not any(tensors[i].requires_grad for i in wanted):
            return run(*tensors)
        try:
            checks(tensors)
            for t in tensors:
                if t._view is not None:  # its base may have been written through another view, on the tape
                    up_to_date(t)
            arrays = [t._data for t in tensors]
            if random:
                arrays.append(draw())
            made = forward(*arrays)
            outputs = [Tensor(a) for a in made[:count]]
            edges = [Edge(tensors[i], position=i) for i in wanted if tensors[i].requires_grad]
            layouts = plan.layouts_of(tensors)
            node = CompiledBackward(backward, layouts, edges, plan.out_metas(outputs), recover_backward)
            node.saved = plan.save(tensors, outputs, made)
            for index, i in enumerate(joint.tangent_outputs):
                out = outputs[i]
                out.requires_grad, out._grad_fn, out._output_index = True, node, index
            made_of_them = finish(tensors, outputs)
            if counts:  # what was written on the way is what the backward expects
                node.expect_versions_of_now()
            return made_of_them
        except Exception as error:
            return recover_forward(error, tensors)

    return run_on_tape


# ---- before and after the forward --------------------------------------------------------------------------


def _input_checks(functional: FunctionalGraph) -> Callable[[Sequence[Tensor]], None]:
    """What only the call's own tensors can tell: written leaves, and inputs that share memory with one."""
    writes = functional.writes
    on_tape = tuple(i for i in writes if i not in functional.silent)
    if not writes:
        return lambda tensors: None

    def check(tensors: Sequence[Tensor]) -> None:
        if not STATE.inference and any(tensors[i].is_inference() for i in writes):
            raise LeafWritten(INFERENCE_WRITTEN)
        if STATE.grad_enabled:
            for i in on_tape:
                if tensors[i]._made_silently and any(t.requires_grad for t in (root(tensors[i]), *tensors)):
                    raise LeafWritten(MADE_SILENTLY)
                if tensors[i].requires_grad and tensors[i].is_leaf:
                    raise LeafWritten(LEAF_WRITTEN)
                if (whole := root(tensors[i])) is not tensors[i] and whole.requires_grad and whole.is_leaf:
                    raise LeafWritten(VIEW_OF_LEAF_WRITTEN)
        for i, j in _suspects(tensors, writes):
            if _may_share(tensors[i]._data, tensors[j]._data):
                raise Unsupported(
                    f"inputs {i} and {j} of the compiled function share memory, and it writes to one: "
                    "pass a clone of one",
                    code="GB0008",
                )

    return check


def _suspects(tensors: Sequence[Tensor], writes: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Pairs of a written input and another that might share memory: most arrays have an owner of their own."""
    owners = [array_library.owner(t._data) for t in tensors]
    if len({*map(id, owners)}) == len(owners) and {*map(type, owners)} <= OWN_MEMORY:
        return
    for i in writes:
        for j, other in enumerate(owners):
            foreign = type(other) not in OWN_MEMORY or type(owners[i]) not in OWN_MEMORY
            if i != j and (foreign or other is owners[i]):
                yield i, j


# An array without a base holds its memory itself. Any other owner (a buffer, a capsule) may hold somebody else's.
OWN_MEMORY = {np.ndarray}


def _may_share(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(array_library.namespace_of(a).may_share_memory(a, b))


def _random_state(functional: FunctionalGraph) -> Callable[[], Any]:
    """A function: (seed, counter) for one call of the graph, whose draws the generator has then done."""
    calls, generator = functional.rng_calls, default_generator()
    device = meta_of(functional.graph.placeholders[-1]).device if calls else CPU

    def draw() -> Any:
        return array_library.move(np.array(generator.advance(calls), np.int64), device)

    return draw
