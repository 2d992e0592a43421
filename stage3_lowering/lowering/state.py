"""What lowering writes to: the buffers, nests and calls so far, and names that never clash.

Input: lower.py's rules. Each result gets a buffer (`buf0`, `buf1`, ...). A value keeps the name of its graph node, so
you can find a line of a generated kernel again in the printed graph.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

import sympy

from stage3_lowering.lowering.sizes import Sizes
from stage3_lowering.lowering.values import (
    VIEWS,
    Body,
    Index,
    Lazy,
    broadcast,
    dot,
    is_half,
    loop_sizes,
    strided,
)
from stage_contracts.core_ops import CoreOp
from stage_contracts.device import CPU
from stage_contracts.events import record
from stage_contracts.graph import Graph, Node, map_args, meta_of, metas_of
from stage_contracts.graph_module import GraphModule
from stage_contracts.index_expr import symbol
from stage_contracts.layouts import elementwise_strides, is_dense
from stage_contracts.loop_ir import BufferRef, ExternCall, LoopNest, LoweredGraph, SubgraphRef, Value
from stage_contracts.origin import Origin
from stage_contracts.symbolic import hinted, same_size
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides
from stage_contracts.unbacked import symbol_made

# Names that the loop IR, C++ or Triton use themselves.
_WORDS = """
ops cutaway std tl triton libdevice xindex rindex roffset xmask rmask mask XBLOCK RBLOCK NAN INFINITY range
main and auto bool break case char class const continue default delete do double else enum extern false
float for friend goto if inline int long namespace new not operator or private protected public register
return short signed sizeof static struct switch template this throw true try typedef typename union unsigned
using virtual void volatile while xor i0 i1 i2 i3 i4 i5 i6 i7 i8 i9 r0 r1 r2 r3 r4 r5 r6 r7 r8 r9
"""
RESERVED = frozenset(_WORDS.split())

# Kernels that look at how their input lies in memory: a contiguous before them is no matter of order alone.
AS_LAID_OUT = frozenset(("view_as_complex",))


class State:
    """One lowering in progress."""

    def __init__(self, graph: Graph) -> None:
        self.name = graph.name
        self.values: dict[Node, Any] = {}  # a Lazy per node; a tuple of them for several results
        self.buffers: dict[str, TensorMeta] = {}
        self.inputs: dict[str, Any] = {}
        self.constants: dict[str, Any] = {}
        self.nodes: list[LoopNest | ExternCall] = []
        self.copies: dict[tuple, tuple[BufferRef, Lazy]] = {}  # (what, strides) -> a copy that is laid out so
        self.placed_in: set[str] = set()  # buffers of which a nest wrote some elements, at places
        self.halved: dict[Lazy, Lazy] = {}  # a float64 operand -> the same in float16
        self._returned: set[str] = set()  # no two outputs share memory
        self._taken = set(RESERVED)
        self._suffix: dict[str, int] = {}
        self.sizes = Sizes(graph, self.fresh)

    # ---- names and metas -----------------------------------------------------------------------------

    def fresh(self, base: str) -> str:
        """`base`, or `base_1`, `base_2`, ... where that is taken."""
        name = base
        while name in self._taken:
            self._suffix[base] = self._suffix.get(base, 0) + 1
            name = f"{base}_{self._suffix[base]}"
        self._taken.add(name)
        return name

    def new_buffer(self, meta: TensorMeta, name: str = "") -> str:
        count = len(self.buffers) - len(self.inputs) - len(self.constants)
        name = self.fresh(name or f"buf{count}")
        self.buffers[name] = meta
        return name

    def meta(self, node: Node) -> TensorMeta:
        """The node's meta; its open sizes as expressions."""
        return self.sizes.meta(meta_of(node))

    def one_device(self, node: Node) -> bool:
        """Whether one loop nest can compute `node`: every operand on its device."""
        metas = [meta_of(node), *metas_of(n for n in node.all_input_nodes)]
        return not any(m.device != metas[0].device for m in metas)

    def bind(self, row: CoreOp, node: Node) -> dict[str, Any]:
        """The node's arguments by parameter name, a Lazy in place of each node."""
        args, kwargs = map_args((node.args, node.kwargs), self.values.__getitem__)
        bound = _signature(row.params).bind(
            *self.sizes.tree(args), **{k: self.sizes.tree(v) for k, v in kwargs.items()}
        )
        bound.apply_defaults()
        return dict(bound.arguments)

    def bind_nodes(self, row: CoreOp, node: Node) -> dict[str, Any]:
        """The node's arguments by parameter name, as they stand in the graph."""
        bound = _signature(row.params).bind(*node.args, **node.kwargs)
        bound.apply_defaults()
        return dict(bound.arguments)

    # ---- what has storage ----------------------------------------------------------------------------

    def given(self, node: Node, table: dict[str, Any]) -> Any:
        """Enter an input or a constant: its buffer has the name of the node."""
        if isinstance(node.graph.attributes.get(node.target), GraphModule):
            return SubgraphRef(node.target)
        if not isinstance(node.val, TensorMeta):
            return node.graph.attributes.get(node.target, node.val)
        name = self.fresh(node.name)
        if node.op == "placeholder":
            self.sizes.inputs.append(name)
        meta = self.buffers[name] = self.meta(node)
        value = node.graph.attributes.get(node.target)
        table[name] = getattr(value, "_data", value)  # the array under a constant tensor
        return strided(name, meta, meta.strides)

    def nest(
        self,
        node: Node,
        meta: TensorMeta,
        body: Body,
        ranges: tuple,
        reduction_ranges: tuple,
        index: Index,
        value: Value,
    ) -> Lazy:
        """End `body` by storing `value` at `index` of a new buffer, and give that buffer."""
        return self.nest_of(node, meta, body, ranges, reduction_ranges, [(index, value)])

    def nest_of(
        self,
        node: Node,
        meta: TensorMeta,
        body: Body,
        ranges: tuple,
        reduction_ranges: tuple,
        stored: Sequence[tuple[Index, Value]],
    ) -> Lazy:
        """The same of several values, each at an index of its own."""
        return self._store(node.origins, dense(meta), body, ranges, reduction_ranges, stored)

    def _store(
        self,
        origins: tuple[Origin, ...],
        meta: TensorMeta,
        body: Body,
        ranges: tuple,
        reduction_ranges: tuple,
        stored: Sequence[tuple[Index, Value]],
        strides: tuple[Any, ...] | None = None,
    ) -> Lazy:
        name = self.new_buffer(meta)
        for index, value in stored:
            kept = body.narrowed(value, meta.dtype) if is_half(meta.dtype) else value
            body.store(name, dot(meta.strides if strides is None else strides, index), kept)
        return self._ended(name, origins, meta, body, ranges, reduction_ranges)

    def placed(
        self, op: str, node: Node, start: Lazy, body: Body, ranges: tuple, index: Index, value: Value
    ) -> Lazy:
        """End `body` by `op`, one of loop_ir.AT_PLACES, of `value` at `index` of a new buffer, which begins as `start`:
        a buffer of this nest's own, laid out alike. What another such nest made, and nobody else reads, is one."""
        meta = dense(self.meta(node))
        left = self._left_to(node, start, meta)
        begun, name = left or self.copy(start, meta, node.origins).name, self.new_buffer(meta)
        self.placed_in.add(name)
        kept = body.narrowed(value, meta.dtype) if is_half(meta.dtype) else value
        body.at_place(op, name, dot(meta.strides, index), kept, begun)
        return self._ended(name, node.origins, meta, body, ranges, ())

    def _left_to(self, node: Node, start: Lazy, meta: TensorMeta) -> str:
        """The buffer that is `start`, if such a nest made it for nobody but `node`."""
        made = node.args[0]
        while isinstance(made, Node) and len(made.users) == 1 and getattr(made.target, "name", "") in VIEWS:
            made = made.args[0]
        ref = start.ref
        if not isinstance(made, Node) or len(made.users) > 1 or ref is None or ref.name not in self.placed_in:
            return ""
        if any(other is node.args[0] for other in node.args[1:]):
            return ""  # its values are what is put there, too
        whole = same_size(self.buffers[ref.name].numel, meta.numel)
        return ref.name if whole and ref == BufferRef(ref.name, meta.shape, meta.strides) else ""

    def _ended(
        self,
        name: str,
        origins: tuple[Origin, ...],
        meta: TensorMeta,
        body: Body,
        ranges: tuple,
        reduction_ranges: tuple,
    ) -> Lazy:
        """The nest of a finished body, and its buffer."""
        own, origins = origins, tuple(dict.fromkeys((*body.all_origins, *origins)))
        alone = origins == own  # else each instruction says which of them it came from
        instructions = tuple(i.with_origins(() if alone else i.origins or own) for i in body.instructions)
        self.nodes.append(LoopNest(name, ranges, reduction_ranges, instructions, origins))
        return strided(name, meta, meta.strides)

    def realize(self, node: Node, value: Lazy, why: str) -> Lazy:
        """The value as a buffer, which later readers read; `why` is the code of the rule that asks for it."""
        meta = dense(value.meta)
        ranges, index = storage_order(meta)
        body = Body(self.fresh, loop_sizes(ranges))
        element = value.fetch(body, index)
        record("realize", node.name, rule=why)
        return self._store(node.origins, meta, body, ranges, (), [(index, element)])

    def copy(self, value: Lazy, meta: TensorMeta, origins: tuple[Origin, ...]) -> BufferRef:
        """A buffer laid out as `meta` that holds `value`."""
        meta = dense(meta)
        if meta.dtype.is_complex:  # no loops: see lower.py
            name = self.new_buffer(meta)
            assert value.ref is not None
            self.nodes.append(
                ExternCall((name,), "expand", (self.shorten(value.ref), meta.shape), {}, origins)
            )
            return BufferRef(name)
        whole, loops = before_reshape(value, meta), meta
        if whole is not None:  # at each of its own points, so that no index has divisions
            value, loops = (
                whole,
                meta.with_(shape=whole.meta.shape, strides=contiguous_strides(whole.meta.shape)),
            )
        ranges, index = storage_order(loops)
        body = Body(self.fresh, loop_sizes(ranges))
        element = value.fetch(body, broadcast(value, loops.shape, index))
        made = self._store(origins, meta, body, ranges, (), [(index, element)], loops.strides)
        assert made.ref is not None
        return BufferRef(made.ref.name)

    def extern(self, node: Node) -> Any:
        """A call of the operator's eager kernel. Views of buffers go to it as views, without a copy."""
        strict = getattr(node.target, "name", "") in AS_LAID_OUT

        def argument(used: Node) -> Any:
            value = self.values[used]
            if not isinstance(value, Lazy):
                return value
            meta = self.meta(used) if strict else value.meta
            if value.ref is None or (strict and self._strides(value.ref) != meta.strides):
                return self.copy(value, meta, used.origins)
            return self.shorten(value.ref)

        args, kwargs = map_args((node.args, node.kwargs), argument)
        args, kwargs = self.sizes.tree(tuple(args)), {k: self.sizes.tree(v) for k, v in kwargs.items()}
        several = isinstance(node.val, (tuple, list))
        metas = [self.sizes.meta(m) for m in node.val] if several else [self.meta(node)]
        names = tuple(self.new_buffer(dense(m)) for m in metas)
        if made := symbol_made(node):
            self.sizes.made_in[made[0]] = names[0], made[1]
        qualified = getattr(node.target, "qualname", str(node.target))
        target = node.target.name if getattr(node.target, "namespace", "") == "core" else qualified
        self.nodes.append(ExternCall(names, target, args, kwargs, node.origins))
        results = tuple(strided(n, self.buffers[n], self.buffers[n].strides) for n in names)
        return results if several else results[0]

    def _strides(self, ref: BufferRef) -> Any:
        return self.buffers[ref.name].strides if ref.shape is None else ref.strides

    def shorten(self, ref: BufferRef) -> BufferRef:
        """A reference to the whole buffer, as the name alone."""
        meta = self.buffers[ref.name]
        whole = (ref.shape, ref.strides, ref.offset) == (meta.shape, meta.strides, 0)
        return BufferRef(ref.name) if whole else ref

    def finish(self, graph: Graph) -> LoweredGraph:
        """Give every output a buffer of its own, laid out as its meta says; an input that is returned stays itself.

        (Only saved values are inputs: functionalize clones what the user would see, and such a clone is a copy.)
        """
        outputs: list[Any] = []
        for output in graph.outputs:
            value = self.values[output] if isinstance(output, Node) else output
            lazy = isinstance(value, Lazy)
            if lazy:  # as the graph says, however it was laid out here
                value = replace(value, meta=self.meta(output))
            outputs.append(self._output(output, value) if lazy else self.sizes.tree(value))
            if lazy:
                self._returned.add(outputs[-1].name)
        lowered = LoweredGraph(
            self.name,
            self.buffers,
            tuple(self.inputs),
            self.constants,
            tuple(self.nodes),
            tuple(outputs),
            self.sizes.listed(),
        )
        return lowered.verify()

    def _output(self, node: Node, value: Lazy) -> BufferRef:
        """The buffer that a value is in, if that is whole, laid out as it should be, and its own; else a copy."""
        ref = self.shorten(value.ref) if value.ref else None
        if ref is not None and ref.name not in self._returned and self._is_whole(ref, value.meta):
            return ref
        if ref is None or ref.shape is not None or ref.name in self._returned:
            return self.copy(value, value.meta, node.origins)
        given = ref.name in self.inputs or ref.name in self.constants
        itself = given and node.op in ("placeholder", "get_attr")  # with the gaps it may have
        wanted = value.meta if itself else dense(value.meta)
        fits = self.buffers[ref.name].strides == wanted.strides and given == itself
        return ref if fits else self.copy(value, value.meta, node.origins)

    def _is_whole(self, ref: BufferRef, meta: TensorMeta) -> bool:
        """Whether it is all of a dense buffer of ours, laid out as it should be: under another shape, as a product
        made it, or with its dimensions in another order."""
        buffer, ours = self.buffers[ref.name], ref.name not in (*self.inputs, *self.constants)
        if not ours or ref.shape is None or ref.offset != 0 or not is_dense(buffer.shape, buffer.strides):
            return False
        strides, wanted = ref.strides or (), dense(meta).strides
        same = all(n == 1 or s == w for n, s, w in zip(ref.shape, strides, wanted, strict=True))
        return buffer.numel == meta.numel and same and is_dense(ref.shape, strides)


# ---- layouts -----------------------------------------------------------------------------------------

SHORTEST_ROW = 16  # elements of a loop that is worth more than the divisions it saves


def before_reshape(value: Lazy, meta: TensorMeta) -> Lazy | None:
    """What a copy of a reshaped value on a CPU may read instead, point by point: of known sizes, its rows long."""
    whole = value.flat_of if meta.device == CPU else None
    if whole is None or value.meta.shape != meta.shape or not dense(meta).is_contiguous:
        return None
    sizes = whole.meta.shape
    known = all(isinstance(n, int) for n in (*sizes, *meta.shape))
    return whole if known and sizes and sizes[-1] >= SHORTEST_ROW else None


def dense(meta: TensorMeta) -> TensorMeta:
    """The layout of a buffer that holds `meta`: its strides where they are dense, else row-major."""
    if is_dense(meta.shape, meta.strides) or meta.numel == 0:
        return meta
    return meta.with_(strides=elementwise_strides(meta.shape, [meta]), shape=meta.shape)


def storage_order(meta: TensorMeta) -> tuple[tuple[Any, ...], Index]:
    """Loop sizes in the order the elements of `meta` lie in memory, and the index of a point of those
    loops."""
    laid_out = dense(meta)
    order = sorted(range(meta.ndim), key=lambda d: -hinted(laid_out.strides[d]))
    variables = {d: symbol(f"i{k}") for k, d in enumerate(order)}
    ranges = tuple(meta.shape[d] for d in order)
    return ranges, tuple(variables[d] if meta.shape[d] != 1 else sympy.Integer(0) for d in range(meta.ndim))


@lru_cache(maxsize=256)
def _signature(params: str) -> inspect.Signature:
    return inspect.signature(eval(f"lambda {params}: None"))
