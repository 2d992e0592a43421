"""A graph whose tensors lie on several devices: a program for each stretch on one device, and the moves between them.

Input: a core graph. `to_device`, and a call whose operands lie on different devices, runs as its eager kernel.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

from cutaway.artifacts import HalfArtifacts
from cutaway.targets import device_of_graph, target_for
from stage0_eager.arrays import ARRIVING, arrived
from stage4_runtime.runtime.numpy_fallback import launch_on_numpy
from stage_contracts.device import CPU, Device
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_parts import Part, one_after_another, parts_of
from stage_contracts.pipeline import Pipeline
from stage_contracts.tensor_meta import TensorMeta


def devices_of(nodes: Iterable[Node]) -> set[Device]:
    """Where the values of these nodes lie."""
    found = [n.val if isinstance(n.val, (tuple, list)) else (n.val,) for n in nodes]
    return {v.device for values in found for v in values if isinstance(v, TensorMeta)}


def lies_apart(graph: Graph) -> bool:
    """Whether the graph's tensors lie on several devices."""
    return len(devices_of(graph.nodes)) > 1


def lower_apart(
    core: Graph, pipeline: Pipeline, lower: Callable[[Graph, Device], Callable[[], HalfArtifacts]]
) -> Callable[[], HalfArtifacts]:
    """As inductor.lower_and_build, for a graph that lies apart: `lower` compiles each part. All are built at once."""
    parts = parts_of(core, numbered(core))
    devices = [_place(*part.graph.calls) for part in parts]
    builds = [lower(p.graph, d) if d else None for p, d in zip(parts, devices, strict=True)]

    def finish() -> HalfArtifacts:
        half = HalfArtifacts(core, pipeline, target_for(device_of_graph(core)))
        runs: list[tuple[Callable[..., Any], Part]] = []
        for part, device, built in zip(parts, devices, builds, strict=True):
            if built is None:
                runs.append((launch_on_numpy(part.graph), part))
                continue
            made = half.subgraphs[part.graph.name] = built()
            assert made.run is not None
            runs.append((_on_what_has_come(made.run) if device == CPU else made.run, part))
        half.run = one_after_another(core, runs)
        half.run.source_text = "\n".join(_described(part.graph) for part in parts)  # type: ignore[attr-defined]
        return half

    return finish


def _on_what_has_come(run: Callable[..., tuple]) -> Callable[..., tuple]:
    """`run` on the CPU, of arrays that may be on their way there."""
    return lambda *values: run(*map(arrived, values)) if ARRIVING else run(*values)


def _described(part: Graph) -> str:
    device = _place(*part.calls)
    return f"# {part.name}: {len(part.calls)} calls {f'on {device}' if device else 'that move tensors'}"


def _place(*calls: Node) -> Device | None:
    """The one device that calls are about; None where they move something."""
    found = devices_of([*calls, *(given for node in calls for given in node.all_input_nodes)])
    return next(iter(found)) if len(found) == 1 else None


def numbered(core: Graph) -> dict[Node, int]:
    """The part of each call. Each time, all calls run that can at one place: so the parts are few.

    Moves of inputs are part 0: a copy that the host does not wait for is under way while other parts compute.
    """
    places = {n: _place_of(n) for n in core.calls}
    waiting, part_of, here = list(core.calls), dict[Node, int](), MOVES
    number = 0
    while waiting:
        ready = _ready(waiting, places, here, part_of)
        if not ready:
            first = next(
                n for n in waiting if not any(i in places and i not in part_of for i in n.all_input_nodes)
            )
            here, number = places[first], number + 1
            continue
        part_of |= dict.fromkeys(ready, number)
        waiting = [n for n in waiting if n not in part_of]
    return part_of


def _ready(waiting: list[Node], places: dict[Node, Any], here: Any, done: dict[Node, int]) -> list[Node]:
    """The calls of one place that need nothing that waits elsewhere."""
    found: dict[Node, None] = {}
    for node in waiting:
        needed = [i for i in node.all_input_nodes if i in places and i not in done and i not in found]
        if places[node] == here and not needed:
            found[node] = None
    return list(found)


MOVES = str(None)  # in place of a device


def _place_of(node: Node) -> Any:
    """What a part has in common: a device, or that it moves; one of several results is where they are made."""
    made = node.args[0] if node.target is operator.getitem else node
    return str(_place(made) if isinstance(made, Node) else None)
