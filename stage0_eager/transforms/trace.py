"""Tracing: records operators into a Graph instead of computing them; also computes metas of composites from their
bodies.

Input: tensors whose data is a TracedArray. `Tracer.keeps(op)` decides which composites become one node and
which run their bodies; `stage2_autograd` uses this for its joint graph and its decompositions.
"""

from __future__ import annotations

import inspect
import operator as python
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from stage0_eager.meta_arrays import WithoutData
from stage0_eager.state import STATE, interpreting
from stage0_eager.table.registry import TABLE
from stage0_eager.tensor import Tensor, is_traced
from stage_contracts import dtype as dt
from stage_contracts.device import Device
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import GraphModule
from stage_contracts.origin import Origin
from stage_contracts.tensor_meta import TensorMeta

if TYPE_CHECKING:
    from stage0_eager.table.operator import Operator


class TracedArray(WithoutData):
    """The data of a tensor while it is traced: a meta, and the node of its value (None under run_on_metas)."""

    __slots__ = ("node",)

    def __init__(self, meta: TensorMeta, node: Node | None = None) -> None:
        self.meta, self.node = meta, node


class Tracer:
    """Records core operators, and the composites that `keep` accepts, into `graph` (None: it records nothing)."""

    def __init__(self, graph: Graph | None, keep: Callable[[Operator], bool] = lambda op: False) -> None:
        self.graph = graph
        self.keep = keep
        self.origins: tuple[Origin, ...] = ()  # every new node gets these
        self.marks: dict[str, Any] = {}  # every new node gets these, too, for example {"region": "forward"}
        self.rng: Tensor | None = None
        self.rng_calls = 0

    def keeps(self, op: Operator) -> bool:
        return op.core is not None or self.keep(op)

    def concerns(self, op: Operator, args: tuple) -> bool:
        """Whether a call is for this interpreter, and not for the one around it. A Tracer records all calls."""
        return True

    def placeholder(self, name: str, meta: TensorMeta, **marks: Any) -> Tensor:
        """A traced tensor that is an input of the graph."""
        assert self.graph is not None
        node = self.graph.placeholder(name, meta, **marks)
        return Tensor(
            TracedArray(meta.with_(requires_grad=False, strides=meta.strides), node), meta.requires_grad
        )

    def process(self, op: Operator, args: tuple) -> Any:
        """Record one call and return traced tensors for its results."""
        words, named = spell(op, args)
        result = _without_grad(op.meta(*map_tensors(words, _meta), **map_tensors(named, _meta)))
        if self.graph is None:
            return wrap_metas(result)
        words, named = map_tensors((words, named), self.node_of)
        if op.opaque:
            words = tuple(self.graph.subgraph(w) if isinstance(w, GraphModule) else w for w in words)
        node = self.graph.call_function(op, words, named, val=result, origins=self.origins, **self.marks)
        if result is None:  # setitem
            return None
        if isinstance(result, TensorMeta):
            return Tensor(TracedArray(result, node))
        items = [
            self.graph.call_function(python.getitem, (node, i), val=m, origins=self.origins, **self.marks)
            for i, m in enumerate(result)
        ]
        return like(result, [Tensor(TracedArray(m, n)) for m, n in zip(result, items, strict=True)])

    def node_of(self, tensor: Tensor) -> Node:
        """The node of a tensor. A tensor with real data becomes a constant of the graph."""
        if is_traced(tensor):
            return tensor._data.node
        assert self.graph is not None
        for name, value in self.graph.attributes.items():
            if value is tensor:
                return next(n for n in self.graph.nodes if n.op == "get_attr" and n.target == name)
        return self.graph.get_attr("constant", tensor, tensor.meta)

    def next_random(self, device: Device) -> tuple[Tensor, int]:
        """The random state, which is an input of the graph made once, and the offset of the next call from its counter.

        The state is on the device of the first draw; draws on other devices use a copy.
        """
        if self.rng is None:
            meta = TensorMeta((2,), dt.int64, device=device)
            if self.graph is None:
                self.rng = Tensor(TracedArray(meta))
            else:
                self.rng = self.placeholder("rng", meta, role="rng")
        self.rng_calls += 1
        here = self.rng if self.rng.device == device else TABLE["core.to_device"](self.rng, device)
        return here, self.rng_calls - 1


def map_tensors(tree: Any, function: Callable[[Tensor], Any]) -> Any:
    """A copy of nested tuples, lists and dicts with `function` applied to every Tensor."""
    if type(tree) in (tuple, list):  # first what is most frequent: this runs for every call that is traced
        return type(tree)([map_tensors(t, function) if isinstance(t, _TREES) else t for t in tree])
    if isinstance(tree, Tensor):
        return function(tree)
    if type(tree) is dict:
        return {key: map_tensors(t, function) for key, t in tree.items()} if tree else {}
    if isinstance(tree, tuple) and hasattr(tree, "_make"):  # a named tuple, such as the result of sort
        return tree._make(map_tensors(t, function) for t in tree)
    return tree


_TREES = (Tensor, dict, tuple, list)


def _meta(tensor: Tensor) -> TensorMeta:
    return tensor.meta


def wrap_metas(result: Any) -> Any:
    if result is None:
        return None
    if isinstance(result, TensorMeta):
        return Tensor(TracedArray(result))
    return like(result, map(wrap_metas, result))


def _without_grad(result: Any) -> Any:
    if result is None:
        return None
    if isinstance(result, TensorMeta):
        return result.with_(requires_grad=False, strides=result.strides) if result.requires_grad else result
    return like(result, map(_without_grad, result))


def like(result: Any, items: Iterable[Any]) -> Any:
    """`items` as a tuple, of the same named tuple as `result` if it is one."""
    return result._make(items) if hasattr(result, "_make") else tuple(items)


@cache
def _parameters(op: Operator) -> tuple[tuple[str, Any, bool], ...]:
    """(name, default, keyword only) of each parameter."""
    bind, count = op.bind, op.bind.__code__.co_argcount  # inspect.signature takes ten times as long
    last = dict(zip(reversed(op.params[:count]), reversed(bind.__defaults__ or ()), strict=False))
    defaults = last | (bind.__kwdefaults__ or {})
    named = enumerate(op.params)
    return tuple((name, defaults.get(name, inspect.Parameter.empty), at >= count) for at, name in named)


def spell(op: Operator, args: tuple) -> tuple[tuple, dict[str, Any]]:
    """Bound arguments as in a hand-written call: no defaults at the end, keyword-only arguments by name."""
    words: list[Any] = []
    named: dict[str, Any] = {}
    end = 0
    for (name, default, keyword_only), value in zip(_parameters(op), args, strict=True):
        given = value is not default
        if keyword_only:
            named |= {name: value} if given else {}
        else:
            words.append(value)
            end = len(words) if given or default is inspect.Parameter.empty else end
    return tuple(words[:end]), named


def run_on_metas(function: Callable, args: Sequence[Any]) -> Any:
    """The metas of `function`'s results, from running it on tensors that have only metas."""

    def wrap(tree: Any) -> Any:
        if isinstance(tree, TensorMeta):
            bare = tree.with_(requires_grad=False, strides=tree.strides)
            return Tensor(TracedArray(bare))
        return type(tree)(map(wrap, tree)) if type(tree) in (tuple, list) else tree

    previous, STATE.grad_enabled = STATE.grad_enabled, False
    try:
        with interpreting(Tracer(None)):
            return map_tensors(function(*map(wrap, args)), lambda t: t.meta)
    finally:
        STATE.grad_enabled = previous


def as_numpy_scalar(value: Any) -> Any:
    """A NumPy scalar as a Python number; any other value unchanged."""
    return value.item() if isinstance(value, np.generic) else value
