"""The run-time wrapper: compiled forward and backward, functions on arrays, become one step on the user's tape.

Input: callables on arrays (NumPy or CuPy) for the two halves, and the graphs they were made from. The residual code
calls the result with tensors. What can be known before the first call is worked out here once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stage0_eager import arrays as array_library
from stage0_eager.random import default_generator
from stage0_eager.state import STATE
from stage0_eager.tape import Edge, SavedTensor, TapeNode, version_of
from stage0_eager.tensor import Tensor
from stage2_autograd.aliasing import base
from stage_contracts.breaks import Unsupported
from stage_contracts.core_metas import is_dense
from stage_contracts.device import CPU
from stage_contracts.graph import Node, meta_of
from stage_contracts.joint import FunctionalGraph, JointGraph, Partition
from stage_contracts.tensor_meta import TensorMeta

LEAF_WRITTEN = "a leaf Variable that requires grad is being used in an in-place operation."
DOUBLE_BACKWARD = (
    "cutaway.compile with aot_autograd does not currently support double backward: a gradient that was computed by "
    "a compiled backward cannot be differentiated again. Run this function without cutaway.compile."
)


def make_runtime_wrapper(
    functional: FunctionalGraph,
    forward: Callable[..., tuple],
    backward: Callable[..., tuple] | None = None,
    joint: JointGraph | None = None,
    partition: Partition | None = None,
) -> Callable[..., tuple]:
    """A callable: the graph's input tensors to the tuple of the user's result tensors.

    forward: arrays of the inputs (and the random state, int64[2]) to arrays: outputs, written inputs, saved values.
    backward: arrays of the saved values and the tangents to one array (or None) per input. None, with `joint` and
        `partition`, for inference.
    Raises RuntimeError, with eager's messages, for what eager rejects.
    """
    count = functional.num_outputs + len(functional.writes)
    results = functional.results or tuple(("output", i) for i in range(functional.num_outputs))
    finish = _finisher(functional, results)
    random = functional.rng_calls
    draw = _random_state(functional)
    checks = _input_checks(functional.writes)

    def infer(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
        arrays = [t._data for t in tensors]
        if random:
            arrays.append(draw())
        outputs = [Tensor(a) for a in forward(*arrays)[:count]]
        return finish(tensors, outputs)

    if backward is None or joint is None or partition is None or not joint.tangent_outputs:

        def run(*tensors: Tensor) -> tuple[Tensor, ...]:
            checks(tensors)
            return infer(tensors)

        return run

    plan = SavingPlan(partition, joint, functional)
    wanted = tuple(i for i, g in enumerate(partition.backward.outputs) if g is not None)

    def run_on_tape(*tensors: Tensor) -> tuple[Tensor, ...]:
        checks(tensors)
        if not STATE.grad_enabled or not any(tensors[i].requires_grad for i in wanted):
            return infer(tensors)
        arrays = [t._data for t in tensors]
        if random:
            arrays.append(draw())
        made = forward(*arrays)
        outputs = [Tensor(a) for a in made[:count]]
        edges = [Edge(tensors[i], position=i) for i in wanted if tensors[i].requires_grad]
        node = CompiledBackward(backward, plan, edges)
        node.saved = plan.save(tensors, outputs, made)
        for index, i in enumerate(joint.tangent_outputs):
            out = outputs[i]
            out.requires_grad, out._grad_fn, out._output_index = True, node, index
        return finish(tensors, outputs)

    return run_on_tape


# ---- before and after the forward ----------------------------------------------------------------------------


def _input_checks(writes: tuple[int, ...]) -> Callable[[Sequence[Tensor]], None]:
    """What only the call's own tensors can tell: written leaves, and inputs that share memory with a written one."""
    if not writes:
        return lambda tensors: None

    def check(tensors: Sequence[Tensor]) -> None:
        for i in writes:
            written = tensors[i]
            if STATE.grad_enabled and written.requires_grad and written._grad_fn is None:
                raise RuntimeError(LEAF_WRITTEN)
            for j, other in enumerate(tensors):
                if j != i and _may_share(written._data, other._data):
                    raise Unsupported(
                        f"inputs {i} and {j} of the compiled function share memory, and it writes to one of them",
                        code="GB0008",
                        hint="pass a clone of one, or run this function without cutaway.compile",
                    )

    return check


def _may_share(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(array_library.namespace_of(a).may_share_memory(a, b))


def _random_state(functional: FunctionalGraph) -> Callable[[], Any]:
    """A function: (seed, counter) for one call of the graph, whose draws the generator has then done."""
    calls, generator = functional.rng_calls, default_generator()
    device = meta_of(functional.graph.placeholders[-1]).device if calls else CPU

    def draw() -> Any:
        return array_library.move(np.array(generator.advance(calls), np.int64), device)

    return draw


def _finisher(
    functional: FunctionalGraph, results: tuple[tuple[str, int], ...]
) -> Callable[[Sequence[Tensor], list[Tensor]], tuple[Tensor, ...]]:
    """Write the written inputs back into their memory, and lay out the user's results."""
    writes, first = functional.writes, functional.num_outputs
    if not writes and results == tuple(("output", i) for i in range(first)):
        return lambda tensors, outputs: tuple(outputs)

    def finish(tensors: Sequence[Tensor], outputs: list[Tensor]) -> tuple[Tensor, ...]:
        for i, value in zip(writes, outputs[first:], strict=True):
            target = tensors[i]
            target._data[...] = value._data
            target._bump_version()
            if value.requires_grad:  # the input now is what the pair computed, to autograd too
                target.requires_grad, target._grad_fn = True, value._grad_fn
                target._output_index = value._output_index
        return tuple(outputs[i] if kind == "output" else tensors[i] for kind, i in results)

    return finish


# ---- between forward and backward ----------------------------------------------------------------------------


class SavingPlan:
    """How each saved value is kept: which tensor's version counter tells whether the user wrote to it meanwhile."""

    def __init__(self, partition: Partition, joint: JointGraph, functional: FunctionalGraph) -> None:
        graph, outputs = partition.forward, partition.forward.outputs[: partition.num_outputs]
        inputs = {node: i for i, node in enumerate(graph.placeholders)}
        homes = {base(n): i for i, n in enumerate(outputs[: functional.num_outputs]) if isinstance(n, Node)}
        self.first = partition.num_outputs
        self.saved = [
            (s.name, self._watched(base(node), inputs, homes), _is_old_value(node, inputs, functional.writes))
            for s, node in zip(partition.saved, graph.outputs[self.first :], strict=True)
        ]
        self.out_metas = tuple(meta_of(outputs[i]) for i in joint.tangent_outputs)
        tangents = [n for n in partition.backward.placeholders if n.meta.get("role") == "tangent"]
        self.layouts = [_layout(meta_of(n)) for n in tangents]

    @staticmethod
    def _watched(root: Node, inputs: dict[Node, int], homes: dict[Node, int]) -> tuple[str, int]:
        if root in inputs and root.meta.get("role") != "rng":
            return "input", inputs[root]
        return ("output", homes[root]) if root in homes else ("nothing", 0)

    def save(self, tensors: Sequence[Tensor], outputs: list[Tensor], made: tuple) -> dict[str, Any]:
        """What the tape node keeps, by the saved values' names."""
        kept: dict[str, Any] = {}
        for (name, (kind, i), old), array in zip(self.saved, made[self.first :], strict=True):
            if old:
                kept[name] = array.copy()  # the write-back is about to destroy it
            elif kind == "nothing":
                kept[name] = array
            else:
                alias = Tensor(array)
                alias._version = version_of(tensors[i] if kind == "input" else outputs[i])
                kept[name] = SavedTensor(alias, False)
        return kept


def _is_old_value(node: Any, inputs: dict[Node, int], writes: tuple[int, ...]) -> bool:
    return isinstance(node, Node) and inputs.get(base(node)) in writes


def _layout(meta: TensorMeta) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The byte strides a tangent must have, and the order of its dimensions in memory, outermost first."""
    order = sorted(range(meta.ndim), key=lambda i: (-int(meta.strides[i]), i))
    assert is_dense(meta.shape, meta.strides) or meta.numel == 0, f"tangent {meta} is not dense"
    return tuple(int(s) * meta.dtype.itemsize for s in meta.strides), tuple(order)


def _laid_out(array: Any, layout: tuple[tuple[int, ...], tuple[int, ...]]) -> Any:
    """The array with the strides the backward was compiled for; itself when it has them."""
    strides, order = layout
    if array.strides == strides or all(
        have == want or size == 1 for have, want, size in zip(array.strides, strides, array.shape, strict=True)
    ):
        return array
    xp = array_library.namespace_of(array)
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return xp.ascontiguousarray(array.transpose(order)).transpose(inverse)


# ---- the tape node -------------------------------------------------------------------------------------------


class CompiledBackward(TapeNode):
    """One tape node for the whole graph. As any node: freed after use, and saved values are checked for writes."""

    __slots__ = ("backward", "plan")

    def __init__(self, backward: Callable[..., tuple], plan: SavingPlan, edges: list[Edge]) -> None:
        super().__init__("compiled_function", plan.out_metas, edges)
        self.backward, self.plan = backward, plan

    def apply(self, gradients: list) -> list:
        saved = [v._data if isinstance(v, Tensor) else v for v in self.unpack().values()]
        tangents = [
            _laid_out(g._data, layout)  # the walk has put zeros where an output has no gradient
            for g, layout in zip(gradients, self.plan.layouts, strict=True)
        ]
        made = self.backward(*saved, *tangents)
        results = [None if made[e.position] is None else Tensor(made[e.position]) for e in self.edges]
        if STATE.grad_enabled:  # create_graph: the gradients are fine, differentiating them is not
            again = DoubleBackward("compiled_function_backward", tuple(r.meta for r in results if r is not None), [])
            for index, result in enumerate(r for r in results if r is not None):
                result.requires_grad, result._grad_fn, result._output_index = True, again, index
        return results


class DoubleBackward(TapeNode):
    """Where differentiating a compiled backward ends: in torch's error."""

    __slots__ = ()

    def apply(self, gradients: list) -> list:
        raise RuntimeError(DOUBLE_BACKWARD)
