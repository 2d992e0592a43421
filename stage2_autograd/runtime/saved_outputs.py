"""What is saved and also returned is computed into one memory, not two.

Input: a partition and the functional graph. The saved value is the user's own tensor: its version counter tells when
the user wrote to it, and then the backward raises, as in eager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage2_autograd.aliasing import base
from stage_contracts.graph import Graph, Node
from stage_contracts.joint import FunctionalGraph, Partition

Places = tuple[int, ...]  # of each output of the whole forward, in what the shorter one returns


def returned_once(partition: Partition, functional: FunctionalGraph) -> tuple[Graph, Places | None]:
    """The forward graph without the saved values that are outputs, and where each value is that the forward has to
    return. None: the graph is the partition's own."""
    outputs = partition.forward.outputs
    homes = {
        n: i
        for i, n in enumerate(outputs[: functional.num_outputs])
        if isinstance(n, Node) and n.op == "call_function" and base(n) is n
    }
    places: list[int] = []
    kept: list[Any] = []
    for position, node in enumerate(outputs):
        again = position >= partition.num_outputs and isinstance(node, Node) and node in homes
        places.append(places[homes[node]] if again else len(kept))
        kept += [] if again else [node]
    if len(kept) == len(outputs):
        return partition.forward, None
    graph = partition.forward.copy()
    by_name = {n.name: n for n in graph.nodes}
    graph.set_args(graph.output_node, (tuple(by_name[n.name] if isinstance(n, Node) else n for n in kept),))
    return graph, tuple(places)


def whole(run: Callable[..., tuple], places: Places | None) -> Callable[..., tuple]:
    """A callable that returns the saved values again, from that of the shorter graph."""
    if places is None:
        return run

    def spread(*arrays: Any) -> tuple:
        made = run(*arrays)
        return tuple([made[k] for k in places])

    return spread
