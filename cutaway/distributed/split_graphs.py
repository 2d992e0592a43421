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
from stage_contracts.graph import Graph, Node, map_args, nodes_in
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
    names = [n.name for n in graph.placeholders]
    given = dict(zip(names, inputs, strict=True))
    runs = []
    for part, reads, gives in split(graph, buckets):
        examples = [given[n.name] if n.name in given else _like(n.val) for n in reads]
        runs.append((compile_graph(part, examples), [n.name for n in reads], [n.name for n in gives]))
    return _one_after_another(runs, names, [n.name if isinstance(n, Node) else n for n in graph.outputs])


def _one_after_another(
    runs: Sequence[tuple[Callable[..., tuple], list[str], list[str]]], names: list[str], results: list[Any]
) -> Callable[..., tuple]:
    """A callable that runs the parts on values by name. What is returned is named too, or a constant."""

    def run(*values: Any) -> tuple:
        known = dict(zip(names, values, strict=True))
        for call, reads, gives in runs:
            known.update(zip(gives, call(*[known[name] for name in reads]), strict=True))
        return tuple(known[name] if isinstance(name, str) else name for name in results)

    return run


def split(graph: Graph, buckets: Mapping[Node, int]) -> list[tuple[Graph, list[Node], list[Node]]]:
    """(part, the nodes of the whole graph that it takes, those that it gives) for each bucket, first layers first."""
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
    returned = set(nodes_in(list(graph.outputs)))
    found = []
    for number in sorted({*part_of.values()}):
        inside = [n for n in graph.calls if part_of[n] == number]
        mine = set(inside)
        read = dict.fromkeys(n for node in inside for n in node.all_input_nodes if n not in mine)
        reads = [n for n in graph.nodes if n in read and n.op != "get_attr"]
        gives = [
            n
            for n in inside
            if n in returned or any(user not in mine for user in n.users if user.op != "output")
        ]
        found.append(
            (_part(graph, number, [n for n in graph.nodes if n in read], inside, gives), reads, gives)
        )
    return found


def _part(graph: Graph, number: int, read: list[Node], inside: list[Node], gives: list[Node]) -> Graph:
    part = Graph(f"{graph.name}_{number}")
    images: dict[Node, Node] = {}
    for node in read:
        if node.op == "get_attr":
            images[node] = part.get_attr(node.target, graph.attributes[node.target], node.val)
        else:
            marks = node.meta if node.op == "placeholder" else {"val": node.val, "origins": node.origins}
            images[node] = part.placeholder(node.name, **marks)
    for node in inside:
        args, kwargs = map_args((node.args, node.kwargs), images.__getitem__)
        images[node] = part.call_function(node.target, args, kwargs, name=node.name, **node.meta)
    part.output([images[n] for n in gives])
    return part.verify()


def _like(meta: TensorMeta) -> Any:
    return zeros(meta.shape, dtype=meta.dtype, device=meta.device, requires_grad=meta.requires_grad)
