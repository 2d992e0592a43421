"""A captured graph cut at the boundaries of buckets: torch's way to overlap a compiled backward (`optimize_ddp`).

Input: a forward graph, and the bucket of each parameter. One graph has one backward, so its gradients all come at the
end. Cut into a graph for each bucket, the tape runs their backwards one after the other, and the hooks between them
start each bucket's all-reduce while the rest computes.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from stage0_eager.functions.creation import zeros
from stage_contracts import config
from stage_contracts.around_backend import AROUND, Compile
from stage_contracts.controls import assume_constant_result
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_parts import Part, one_after_another, parts_of
from stage_contracts.tensor_meta import TensorMeta

WAYS = ("in_graph", "ddp_optimizer", "off")


@assume_constant_result
def optimize_ddp() -> str:
    """How compiled code averages gradients. Raises ValueError for an unknown way."""
    way = config.current().distributed.optimize_ddp
    if way not in WAYS:
        raise ValueError(f"distributed.optimize_ddp is {way!r}; expected one of {', '.join(WAYS)}")
    return way


def follow(place: Mapping[int, int], owner: Any) -> None:
    """Cut the graphs that read these parameters by `place`: id of a parameter -> its bucket, 0 for the last layers.

    It holds as long as `owner` lives, which keeps the parameters.
    """
    PLACES[owner] = place
    if around not in AROUND:
        AROUND.append(around)


PLACES: WeakKeyDictionary[Any, Mapping[int, int]] = WeakKeyDictionary()


def around(compile_graph: Compile, graph: Graph, inputs: Sequence[Any]) -> Callable[..., tuple]:
    if not PLACES or optimize_ddp() != "ddp_optimizer":
        return compile_graph(graph, inputs)
    place = {key: bucket for places in list(PLACES.values()) for key, bucket in places.items()}
    given = zip(graph.placeholders, inputs, strict=True)
    return in_parts(compile_graph, graph, inputs, {n: place[id(x)] for n, x in given if id(x) in place})


def in_parts(
    compile_graph: Compile, graph: Graph, inputs: Sequence[Any], buckets: Mapping[Node, int]
) -> Callable[..., tuple]:
    """The graph compiled part by part; whole, where it reads one bucket or has open sizes."""
    if len({*buckets.values()}) < 2 or not all(isinstance(n.val, TensorMeta) for n in graph.placeholders):
        return compile_graph(graph, inputs)
    given = {n.name: x for n, x in zip(graph.placeholders, inputs, strict=True)}
    runs = []
    for part in split(graph, buckets):
        examples = [given[n.name] if n.name in given else _like(n.val) for n in part.reads]
        runs.append((compile_graph(part.graph, examples), part))
    return one_after_another(graph, runs)


def split(graph: Graph, buckets: Mapping[Node, int]) -> list[Part]:
    """A part for each bucket, first layers first."""
    first = max(buckets.values())
    part_of: dict[Node, int] = {}
    current = 0
    for node in graph.calls:
        if (
            node.target is operator.getitem and node.args[0] in part_of
        ):  # one of several results: where they are
            part_of[node] = part_of[node.args[0]]
            continue
        current = max([current, *(first - buckets[n] for n in node.all_input_nodes if n in buckets)])
        part_of[node] = current
    return parts_of(graph, part_of)


def _like(meta: TensorMeta) -> Any:
    return zeros(meta.shape, dtype=meta.dtype, device=meta.device, requires_grad=meta.requires_grad)
