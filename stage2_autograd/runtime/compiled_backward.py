"""The tape node of a compiled forward and backward: the values that it saves, and how it runs the backward.

Input: the partition says which values are saved; runtime_wrapper.py makes one CompiledBackward per call. Saved inputs
and outputs are visible to the user, so their version counters are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stage0_eager import arrays as array_library
from stage0_eager.autograd.tape import Edge, SavedTensor, TapeNode, version_of
from stage0_eager.state import STATE
from stage0_eager.tensor import UNTRACKED, Tensor
from stage2_autograd.aliasing import base
from stage_contracts.graph import Node, meta_of
from stage_contracts.joint import FunctionalGraph, JointGraph, Partition, tangent_meta
from stage_contracts.layouts import is_dense
from stage_contracts.symbol_bindings import (
    expression,
    open_sizes_in,
    size_reader,
    symbol_bindings,
    with_sizes,
)
from stage_contracts.tensor_meta import TensorMeta

DOUBLE_BACKWARD = (
    "cutaway.compile with aot_autograd does not currently support double backward: a gradient that a "
    "compiled backward made cannot be differentiated. Run this function without cutaway.compile."
)


Layout = tuple[
    tuple[int, ...], tuple[int, ...]
]  # byte strides, and the dimensions in memory order, outermost first


# ---- the tape node -----------------------------------------------------------------------------------------


class CompiledBackward(TapeNode):
    """One tape node for the whole graph. Like any node, it is freed after use, and its saved values are checked for
    writes."""

    __slots__ = ("backward", "layouts", "recover")

    def __init__(
        self,
        backward: Callable[..., tuple],
        layouts: list[Layout],
        edges: list[Edge],
        out_metas: tuple[TensorMeta, ...],
        recover: Callable[[Exception, Sequence[Any]], tuple],
    ) -> None:
        """If the backward raises, `recover` computes the arrays of the gradients, from the error and the operands."""
        super().__init__("compiled_function", out_metas, edges)
        self.backward, self.layouts, self.recover = backward, layouts, recover

    def expect_versions_of_now(self) -> None:
        """Call this after the compiled function's own writes: a later write to a saved value is an error."""
        for value in (self.saved or {}).values():
            if isinstance(value, SavedTensor) and value.tensor is not None:
                value.version = value.tensor.version

    def apply(self, gradients: list) -> list:
        saved = [v._data if isinstance(v, Tensor) else v for v in self.unpack().values()]
        tangents = [g._data for g in gradients]  # an output without a gradient has zeros here
        try:
            laid_out = [_laid_out(t, layout) for t, layout in zip(tangents, self.layouts, strict=True)]
            made = self.backward(*saved, *laid_out)
        except Exception as error:
            made = self.recover(error, (*saved, *tangents))
        results = [None if made[e.position] is None else Tensor(made[e.position]) for e in self.edges]
        if STATE.grad_enabled:  # create_graph=True: you can use the gradients, but not differentiate them
            behind = [*self.edges, *(Edge(g) for g in gradients if g.requires_grad)]
            metas = tuple(r.meta for r in results if r is not None)
            again = DoubleBackward("compiled_function_backward", metas, behind)
            for index, result in enumerate(r for r in results if r is not None):
                result._requires_grad, result._grad_fn, result._output_index = True, again, index
        return results


class DoubleBackward(TapeNode):
    """A tape node that raises torch's error for double backward."""

    __slots__ = ()

    def apply(self, gradients: list) -> list:
        raise RuntimeError(DOUBLE_BACKWARD)


# ---- what it keeps -----------------------------------------------------------------------------------------


@dataclass
class SavingPlan:
    """How each saved value is kept, and which version counter shows whether the user wrote to it in the meantime.

    first: how many results of the forward come before the saved values.
    saved: for each saved value its name, where its version counter is, and whether the write-back overwrites it.
    metas, layouts: of the outputs that get gradients; empty with open sizes, which are known only at a call.
    open: what such a call reads them from.
    """

    first: int
    saved: list[tuple[str, tuple[str, int], bool]]
    tangent_outputs: tuple[int, ...]
    metas: tuple[TensorMeta, ...]
    layouts: list[Layout]
    open: OpenLayouts | None = None

    def out_metas(self, outputs: Sequence[Tensor]) -> tuple[TensorMeta, ...]:
        """The metas of the outputs that get gradients."""
        return tuple(outputs[i].meta for i in self.tangent_outputs) if self.open is not None else self.metas

    def layouts_of(self, tensors: Sequence[Tensor], outputs: Sequence[Tensor]) -> list[Layout]:
        """For these inputs and outputs: the layout of each incoming gradient that the backward was compiled for."""
        if self.open is None:
            return self.layouts
        if self.open.by_data:
            return [_layout(tangent_meta(outputs[i].meta)) for i in self.tangent_outputs]
        sizes = self.open.read_sizes(tensors)
        return [_layout(with_sizes(meta, sizes)) for meta in self.open.tangents]

    def save(self, tensors: Sequence[Tensor], outputs: list[Tensor], made: tuple) -> dict[str, Any]:
        """The values for the tape node to keep, by their names."""
        kept: dict[str, Any] = {}
        for (name, (kind, i), old), array in zip(self.saved, made[self.first :], strict=True):
            if old:
                kept[name] = _copied(array)  # the write-back will overwrite it
                continue
            if kind == "nothing":
                kept[name] = array
                continue
            alias, version = Tensor(array), version_of(tensors[i] if kind == "input" else outputs[i])
            alias._version = version
            # eager may save what is computed from a tensor of inference mode, and the partition that tensor itself
            kept[name] = array if version is UNTRACKED else SavedTensor(alias, False)
        return kept


@dataclass
class OpenLayouts:
    """What the layouts of incoming gradients are made from at a call, where sizes are open."""

    tangents: list[TensorMeta]
    read_sizes: Callable[[Sequence[Tensor]], Any]
    by_data: bool  # only the data decides a size: the layout is that of the output


def saving_plan(partition: Partition, joint: JointGraph, functional: FunctionalGraph) -> SavingPlan:
    """The plan for these graphs. The call reads the plan alone."""
    graph, outputs = partition.forward, partition.forward.outputs[: partition.num_outputs]
    inputs = {node: i for i, node in enumerate(graph.placeholders)}
    homes = {base(n): i for i, n in enumerate(outputs[: functional.num_outputs]) if isinstance(n, Node)}
    first = partition.num_outputs
    saved = [
        (s.name, _watched(base(node), inputs, homes), _is_old_value(node, inputs, functional.writes))
        for s, node in zip(partition.saved, graph.outputs[first:], strict=True)
    ]
    tangents = [meta_of(n) for n in partition.backward.placeholders if n.meta.get("role") == "tangent"]
    metas = tuple(meta_of(outputs[i]) for i in joint.tangent_outputs)
    if next(open_sizes_in([*metas, *tangents]), None) is None:
        layouts = [_layout(meta) for meta in tangents]
        return SavingPlan(first, saved, joint.tangent_outputs, metas, layouts)
    # from the inputs, because the shapes of results do not show every size
    shown = symbol_bindings([n.val for n in functional.graph.placeholders])
    used = {s for size in open_sizes_in(tangents) for s in expression(size).free_symbols}
    sizes = OpenLayouts(tangents, size_reader(shown), by_data=not used <= {s.symbol for s in shown})
    return SavingPlan(first, saved, joint.tangent_outputs, (), [], sizes)


def _watched(root: Node, inputs: dict[Node, int], homes: dict[Node, int]) -> tuple[str, int]:
    if root in inputs and root.meta.get("role") != "rng":
        return "input", inputs[root]
    return ("output", homes[root]) if root in homes else ("nothing", 0)


def _copied(array: Any) -> Any:
    """A copy with the same strides, including gaps, because the backward was compiled for the layout of the input."""
    if array.flags.c_contiguous or min(array.strides) < 0:
        return array.copy()
    xp, reach = array_library.namespace_of(array), zip(array.strides, array.shape, strict=True)
    row = xp.empty(sum(step * (size - 1) for step, size in reach) // array.itemsize + 1, array.dtype)
    seen = xp.lib.stride_tricks.as_strided(row, array.shape, array.strides)
    seen[...] = array
    return seen


def _is_old_value(node: Any, inputs: dict[Node, int], writes: tuple[int, ...]) -> bool:
    return isinstance(node, Node) and inputs.get(base(node)) in writes


def _layout(meta: TensorMeta) -> Layout:
    """The byte strides that a tangent must have, and the order of its dimensions in memory, outermost first."""
    order = sorted(range(meta.ndim), key=lambda i: (-int(meta.strides[i]), i))
    assert is_dense(meta.shape, meta.strides) or meta.numel == 0, f"tangent {meta} is not dense"
    return tuple(int(s) * meta.dtype.itemsize for s in meta.strides), tuple(order)


def _laid_out(array: Any, layout: Layout) -> Any:
    """The array with the strides that the backward was compiled for; the array itself if it has them."""
    strides, order = layout
    if array.strides == strides or all(
        have == want or size == 1
        for have, want, size in zip(array.strides, strides, array.shape, strict=True)
    ):
        return array
    xp = array_library.namespace_of(array)
    inverse = sorted(range(len(order)), key=order.__getitem__)
    return xp.ascontiguousarray(array.transpose(order)).transpose(inverse)
