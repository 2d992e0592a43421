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

Run = Callable[..., tuple]


def returned_once(partition: Partition, functional: FunctionalGraph) -> tuple[Graph, Callable[[Run], Run]]:
    """The forward graph without the saved values that are outputs, and what makes of its callable one that returns them
    again."""
    outputs = partition.forward.outputs
    homes = {
        n: i
        for i, n in enumerate(outputs[: functional.num_outputs])
        if isinstance(n, Node) and n.op == "call_function" and base(n) is n
    }
    places: list[int] = []  # of each output, in the shorter tuple
    kept: list[Any] = []
    for position, node in enumerate(outputs):
        again = position >= partition.num_outputs and isinstance(node, Node) and node in homes
        places.append(places[homes[node]] if again else len(kept))
        kept += [] if again else [node]
    if len(kept) == len(outputs):
        return partition.forward, lambda run: run
    graph = partition.forward.copy()
    by_name = {n.name: n for n in graph.nodes}
    graph.set_args(graph.output_node, (tuple(by_name[n.name] if isinstance(n, Node) else n for n in kept),))
    return graph, lambda run: lambda *arrays: _spread(run(*arrays), places)


def _spread(made: tuple, places: list[int]) -> tuple:
    return tuple([made[k] for k in places])
