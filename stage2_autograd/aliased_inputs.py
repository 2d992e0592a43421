"""Inputs that share memory, one of them written: the same graph on the memory itself, of which they become views.

Input: a captured graph and the tensors of a call that the run-time wrapper refused. torch calls the memory a synthetic
base. The place of each input in it is known only at the call, so each pattern of places is a graph of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from stage0_eager import arrays
from stage0_eager.core import core as c
from stage0_eager.tape import version_of
from stage0_eager.tensor import Tensor
from stage_contracts.graph import Graph
from stage_contracts.joint import FunctionalGraph
from stage_contracts.tensor_meta import TensorMeta


@dataclass(frozen=True)
class Pattern:
    """Which inputs (`places`: input -> shape, strides, offset, in elements) lie in one stretch of `length` elements."""

    places: tuple[tuple[int, tuple[tuple, tuple, int]], ...]
    length: int

    @property
    def members(self) -> list[int]:
        return [i for i, _ in self.places]


def pattern_of(tensors: Sequence[Tensor], writes: Sequence[int]) -> Pattern | None:
    """The pattern of a call, or None where only eager will do: gradients, two dtypes, gaps or two groups."""
    spans = {i: _span(t._data) for i, t in enumerate(tensors) if t.numel()}
    written = [i for i in writes if i in spans and any(_meet(spans[i], spans[j]) for j in spans if j != i)]
    if not written:
        return None
    members = {written[0]}
    while grown := {i for i in spans if i not in members and any(_meet(spans[i], spans[j]) for j in members)}:
        members |= grown
    group = [tensors[i] for i in sorted(members)]
    home = arrays.owner(group[0]._data)
    same = all(t.dtype is group[0].dtype and arrays.owner(t._data) is home for t in group)
    if not same or any(t.requires_grad for t in group) or not members.issuperset(written):
        return None
    if getattr(home, "dtype", None) != group[0]._data.dtype or not home.flags.c_contiguous:
        return None
    low, high = min(spans[i][0] for i in members), max(spans[i][1] for i in members)
    size = group[0].dtype.itemsize
    places = tuple(
        (i, (tensors[i].shape, tensors[i].stride(), (spans[i][0] - low) // size)) for i in sorted(members)
    )
    return Pattern(places, (high - low) // size)


def _span(array: Any) -> tuple[int, int]:
    """The addresses an array reaches from and to; strides are not negative, as no operator makes such."""
    start = arrays.address(array)
    reach = sum(s * (n - 1) for s, n in zip(array.strides, array.shape, strict=True))
    return start, start + reach + array.itemsize


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def on_their_memory(graph: Graph, pattern: Pattern) -> Graph:
    """The graph with one input, the memory, in place of the inputs that lie in it; it comes last."""
    graph = graph.copy()
    inputs = graph.placeholders
    first = inputs[pattern.members[0]].val
    meta = TensorMeta((pattern.length,), first.dtype, device=first.device)
    memory = graph.placeholder("memory", meta)
    body = next(n for n in graph.nodes if n.op != "placeholder")
    for i, (shape, strides, offset) in pattern.places:
        with graph.inserting_before(body):
            view = graph.call_function(
                c.as_strided, (memory, shape, strides, offset), val=inputs[i].val, name=inputs[i].name
            )
        graph.replace_all_uses_with(inputs[i], view)
        graph.erase_node(inputs[i])
    return graph


def run_on_their_memory(
    pattern: Pattern, apart: FunctionalGraph, run: Callable[..., tuple]
) -> Callable[..., tuple]:
    """A callable on the user's tensors, from one on the graph that `on_their_memory` made.

    apart: the graph on inputs that share nothing. It knows how often each is written, and whose view a result is.
    A result that is an input, or a view of one, is that tensor or a view of that tensor.
    """
    members = set(pattern.members)
    # not by their places in the memory, which two of them may have in common
    views = [
        (which, steps) if kind == "input" and which in members else None
        for kind, which, *steps in apart.results or (("output", i) for i in range(apart.num_outputs))
    ]
    counts = apart.versions[apart.num_outputs :] or (1,) * len(apart.writes)
    writes = {i: seen for i, seen in zip(apart.writes, counts, strict=True) if i in members}

    def call(*tensors: Tensor) -> tuple:
        lowest = next(tensors[i] for i, (_, _, offset) in pattern.places if offset == 0)
        memory = Tensor(_stretch(lowest._data, pattern.length))
        results = run(*(t for i, t in enumerate(tensors) if i not in members), memory)
        for (
            i,
            seen,
        ) in writes.items():  # views of one tensor have one counter, other names of its memory their own
            version_of(tensors[i])[0] += seen
        made = []
        for result, view in zip(results, views, strict=True):
            if view is not None:
                result = tensors[view[0]]
                for op, rest in view[1]:
                    result = op(result, *rest)
            made.append(result)
        return tuple(made)

    return call


def _stretch(array: Any, length: int) -> Any:
    """The memory from where `array` starts, as one row of `length` elements."""
    home = arrays.owner(array)
    start = (arrays.address(array) - arrays.address(home)) // array.itemsize
    return home.reshape(-1)[start : start + length]
