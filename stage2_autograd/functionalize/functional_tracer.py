"""The tracer of functionalize: a write makes a new value, which every view of the written memory then shows.

Input: operators and their arguments, as retrace.py calls them. storages.py knows which tensors share memory.
"""

from __future__ import annotations

import operator as python
from itertools import accumulate
from typing import Any

from stage0_eager.functions.autograd_grad import autograd_grad
from stage0_eager.functions.inplace import assign_data, overwrite
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import TracedArray, Tracer, map_tensors
from stage2_autograd.aliasing import shares_storage
from stage2_autograd.functionalize.storages import (
    Chain,
    Silently,
    Storage,
    StoredArray,
    current,
    laid_out_as,
    on_behalf_of,
    overlaps,
    replaced,
)
from stage2_autograd.subgraphs import written_back
from stage_contracts.breaks import Unsupported
from stage_contracts.core_metas import infer_shape
from stage_contracts.core_ops import COPY_
from stage_contracts.graph import Graph, Node
from stage_contracts.layouts import turns_contiguous, view_strides
from stage_contracts.tensor_meta import TensorMeta


class FunctionalTracer(Tracer):
    """A Tracer that knows which tensors share storage, and records a write as a new value of all of them."""

    def __init__(self, graph: Graph) -> None:
        super().__init__(graph, keep=lambda op: op.whole or op is autograd_grad)
        self.on_tape: set[Node] = set()  # the nodes through which a gradient may flow
        self.gradient_metas: list[
            tuple
        ] = []  # the results of the calls of autograd.grad, the last call first

    def placeholder(self, name: str, meta: TensorMeta, **marks: Any) -> Tensor:
        assert self.graph is not None
        index = len(self.graph.placeholders)
        tensor = Storage(("input", index)).owns(super().placeholder(name, meta, **marks))
        if meta.requires_grad:
            self.on_tape.add(tensor._data.node)
        return tensor

    def node_of(self, tensor: Tensor) -> Node:
        return super().node_of(current(self, tensor))

    def process(self, op: Operator, args: tuple) -> Any:
        if op.core is COPY_:
            return self.write(*args)
        if op.backward_graph is not None:
            return self._results_of_the_users_own(op, args)
        if op.opaque and op.mutates:
            return written_back(self, op, args)
        if op is autograd_grad:
            return self.differentiated(*args)
        if op.name in ("reshape", "contiguous") and self._copies_what_has_gaps(op, args):
            args = (c.clone(args[0]), *args[1:])
        metas = map_tensors(args, lambda t: t.meta)
        if op.name == "reshape":  # with open sizes, this may depend on them, and a write needs the answer
            view_strides(metas[0], infer_shape(args[1], metas[0].numel), holds=bool)
        out = super().process(op, args)
        if out is None:
            return None
        if isinstance(out, tuple):
            for each in out:
                self._note(each._data.node)
                Storage().owns(each)
            return out
        self._note(out._data.node)
        if op.core is None or not shares_storage(op, metas):
            return self._made(op, args, metas).owns(out)
        return self._viewed(op, args, out)

    def _made(self, op: Operator, args: tuple, metas: tuple) -> Storage:
        """The storage of a result that shares none."""
        made = Storage(call=self.marks)
        if op.name == "contiguous":
            made.copies.append(metas[0])
            self._stored(args[0]).storage.copies.append(metas[0])
        return made

    def _viewed(self, op: Operator, args: tuple, out: Tensor) -> Tensor:
        """A result that is a view of its first argument: in that one's storage, by one view more."""
        source = self._stored(args[0])
        silent = (
            made_silently(source.chain, self.marks)
            and (op.name != "detach" or self.marks.get("stands_for_no_grad"))
            and source.storage.call
            is not self.marks  # a composite's own memory: for the user it is not a view
        )
        chain = (*source.chain, (Silently(op) if silent else op, args[1:]))
        out._data = StoredArray(out._data.meta, out._data.node, source.storage, chain, source.generation)
        return out

    def _copies_what_has_gaps(self, op: Operator, args: tuple) -> bool:
        """Whether the operator copies the user's memory, which has gaps, but would not copy the written value, which
        has none."""
        if self._stored(args[0]).storage.gaps is None:
            return False
        return not shares_storage(op, map_tensors(args, lambda t: t.meta))

    def _results_of_the_users_own(self, op: Operator, args: tuple) -> Any:
        """The results of an autograd.Function or a hook: they may be operands with a new history on the tape.

        If they are views, two storages have the same memory, so they must not be written or returned.
        """
        out = super().process(op, args)
        operands = [self._stored(t) for t in args[1]]
        homes = [place.storage for place in operands]
        for made, place in zip(out if isinstance(out, tuple) else (out,), operands, strict=True):
            self._note(made._data.node)
            views = [view for view, _ in place.chain if view.name != "detach"]
            alone = place.storage.origin[0] == "made" and not views and homes.count(place.storage) == 1
            Storage(("made", -1) if alone else ("twin", -1)).owns(made)
            place.storage.twin |= not alone
        return out

    def _note(self, node: Node) -> None:
        """Record whether eager would put this result on the tape."""
        differentiable = getattr(node.target, "derivatives", True) and node.val.dtype.is_differentiable
        if not differentiable or node.meta.get("no_grad"):
            return
        sources = node.all_input_nodes
        if node.target is python.getitem:  # one of several results: the values that they were computed from
            sources = sources[0].all_input_nodes
        if not self.on_tape.isdisjoint(sources):
            self.on_tape.add(node)

    def _stored(self, tensor: Tensor) -> StoredArray:
        """The stored array of a tensor. A tensor that is neither an input nor a result is a constant of the graph."""
        if not isinstance(tensor._data, StoredArray):
            node = self.node_of(tensor)
            traced = tensor if isinstance(tensor._data, TracedArray) else Tensor(TracedArray(node.val, node))
            return Storage(("constant", node.target)).owns(traced)._data
        return tensor._data

    def differentiated(
        self, outputs: Any, inputs: Any, seeds: Any, *options: Any
    ) -> tuple[Tensor | None, ...]:
        """A call of autograd.grad as a node. An input means its place on the tape, before any write."""
        assert self.graph is not None
        wanted = []
        for tensor in inputs:
            place = self._stored(tensor)
            whole, written = not place.chain, place.storage.generation
            if whole and place.storage.origin[0] == "input":
                wanted.append(self.graph.placeholders[place.storage.origin[1]])
            elif written:
                self.refuse("a gradient for a tensor that was written to")
            else:
                wanted.append(self.node_of(tensor))
        words = map_tensors([outputs, wanted, seeds, *options], self.node_of)
        metas = self.gradient_metas.pop()
        creates = autograd_grad.bind(*words)[autograd_grad.params.index("create_graph")]
        mark = {"val": metas, "origins": self.origins, **self.marks}
        node = self.graph.call_function(autograd_grad, tuple(words), {}, **mark)
        found: list[Tensor | None] = []
        for i, meta in enumerate(metas):
            if meta is None:
                found.append(None)
                continue
            mark["val"] = meta.with_(requires_grad=False, strides=meta.strides, shape=meta.shape)
            item = self.graph.call_function(python.getitem, (node, i), {}, **mark)
            if creates:
                self._note(item)
            found.append(Storage().owns(Tensor(TracedArray(mark["val"], item))))
        return tuple(found)

    def write(self, target: Tensor, src: Tensor) -> Tensor:
        """`core.copy_`: `target` stays the same tensor, and all tensors that share its memory show the written
        value."""
        if overlaps(target.meta):
            self.refuse(f"a write to {target.meta}, where several elements are one place in memory")
        place = self._stored(target)
        storage, whole = place.storage, place.storage.base
        assert whole is not None
        seen = accumulate(place.chain, lambda meta, step: step[0].meta(meta, *step[1]), initial=whole.meta)
        # a view whose elements overlap cannot be written back, even if the written part does not overlap
        for between in seen:
            if overlaps(between):
                self.refuse(f"a write through {between}, where several elements are one place in memory")
        if storage.twin or storage.origin[0] == "twin":
            self.refuse("a write to what an autograd.Function or a hook shows of another tensor")
        if storage.origin[0] == "constant":
            self.refuse("a write to a constant of the graph, a tensor that is not one of its inputs")
        # this is checked only here: without a write, a copy is as good
        if any(map(turns_contiguous, storage.copies)):
            self.refuse(
                "a write to contiguous(), or to what it was made of, where only other sizes are copied"
            )
        value = src if src.dtype is target.dtype else c.cast(src, target.dtype)
        value = value if value.shape == target.shape else c.expand(value, target.shape)
        value = self._with_history(place, whole, value)
        hidden = bool(self.marks.get("no_grad")) or any(_hides(op) for op, _ in place.chain)
        storage.replace(laid_out_as(whole.meta, value), recorded=not hidden)
        return target

    def _with_history(self, place: StoredArray, whole: Tensor, value: Tensor) -> Tensor:
        """`whole` after the write, with the same place on the tape as in eager."""
        written = self.node_of(value) in self.on_tape
        if written and any(op.name == "detach" for op, _ in place.chain):
            self.refuse("a write of what requires grad through detach()")
        value = replaced(whole, place.chain, value)
        was, now = self.node_of(whole) in self.on_tape, self.node_of(value) in self.on_tape
        if self.marks.get("no_grad"):  # only the data changes; for autograd the tensor is the same
            if not was:
                return c.detach(value) if now else value
            with on_behalf_of(self, self.node_of(value)):
                return assign_data(whole, value)
        return overwrite(whole, value) if was and not now else value

    def refuse(self, construct: str) -> None:
        raise Unsupported(
            construct,
            self.origins[0] if self.origins else None,
            code="GB0008",
        )


def made_silently(chain: Chain, marks: dict[str, Any]) -> bool:
    """Whether a view of what `chain` shows counts as made under no_grad. A detach() of the program ends that."""
    last = next((op for op, _ in reversed(chain) if _hides(op)), None)
    return bool(marks.get("no_grad")) or isinstance(last, Silently)


def _hides(op: Any) -> bool:
    """Whether a write through this view is hidden from autograd."""
    return isinstance(op, Silently) or op.name == "detach"


def storage_of(tracer: FunctionalTracer, tensor: Tensor) -> Storage:
    return tracer._stored(tensor).storage
