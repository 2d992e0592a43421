"""On a GPU, what convolutions of halves made or read is saved with its channels innermost, as the forward lays it out.

Input: a partition. Stage 3 gives these values that layout while they are temporaries, and each output of a graph the
layout of its meta. So that no layout is turned between the two graphs, the forward returns such a value permuted, as a
row-major tensor of (images, height, width, channels), and the backward permutes it back.
"""

from __future__ import annotations

from dataclasses import replace

from stage0_eager.table.core import core as c
from stage2_autograd.core_calls import core_name, kind_of
from stage2_autograd.devices import on_gpu
from stage_contracts import config
from stage_contracts import dtype as dt
from stage_contracts.graph import Graph, Node, meta_of
from stage_contracts.joint import Partition
from stage_contracts.symbol_bindings import open_sizes_in
from stage_contracts.tensor_meta import TensorMeta

INNERMOST, BACK = (0, 2, 3, 1), (0, 3, 1, 2)  # of (images, channels, height, width), and the way back
HALVES = (dt.bfloat16, dt.float16)


def save_channels_innermost(partition: Partition) -> Partition:
    """The partition, in which nothing is turned between the graphs."""
    forward = partition.forward
    if not on_gpu(forward.nodes) or not config.current().lowering.layout_optimization:
        return partition
    returned = set(forward.outputs[: partition.num_outputs])
    lying = {n.name for n in lying_innermost(forward) if n not in returned}
    places = [i for i, node in enumerate(forward.outputs) if isinstance(node, Node) and node.name in lying]
    if not places:
        return partition
    forward, backward, saved = forward.copy(), partition.backward.copy(), list(partition.saved)
    outputs = list(forward.outputs)
    for place in places:
        outputs[place] = rows = _permuted(forward, outputs[place], INNERMOST, forward.output_node)
        k = place - partition.num_outputs
        saved[k] = replace(saved[k], name=rows.name, meta=rows.val)
        _read_permuted(backward, k, rows)
    forward.set_args(forward.output_node, (tuple(outputs),))
    return replace(partition, forward=forward, backward=backward, saved=tuple(saved)).verify()


def lying_innermost(graph: Graph) -> set[Node]:
    """What stage 3 lays out so: results of convolutions of halves, what is computed pointwise of these alone, pools."""
    found: set[Node] = set()
    for node in graph.calls:
        meta = node.val
        if (
            not isinstance(meta, TensorMeta)
            or meta.ndim != 4
            or next(open_sizes_in([meta]), None) is not None
        ):
            continue
        if core_name(node) == "convolution" and meta.dtype in HALVES:
            found.add(node)
        elif core_name(node) in ("slice", "constant_pad") and node.args[0] in found:
            found.add(node)  # a pool is computed of these
        elif kind_of(node) == "pointwise":
            alike = [n for n in node.all_input_nodes if meta_of(n).shape == meta.shape]
            if alike and found.issuperset(alike):
                found.add(node)
    return found


def _permuted(graph: Graph, node: Node, order: tuple[int, ...], before: Node) -> Node:
    """The node permuted, row by row."""
    marks = {key: node.meta[key] for key in ("region", "origins") if key in node.meta}
    with graph.inserting_before(before):
        turned = graph.call_function(c.permute, (node, order), val=c.permute.meta(node.val, order), **marks)
        val, name = c.contiguous.meta(turned.val), f"{node.name}_rows"
        return graph.call_function(c.contiguous, (turned,), val=val, name=name, **marks)


def _read_permuted(backward: Graph, place: int, rows: Node) -> None:
    """Make `rows` an input instead of the one at `place`, which is now computed of it and keeps its name."""
    old = backward.placeholders[place]
    given = backward.placeholder(rows.name, rows.val, at=place, role="saved", origins=old.origins)
    first = next(n for n in backward.nodes if n.op not in ("placeholder", "get_attr"))
    back = _permuted(backward, given, BACK, first)
    backward.replace_all_uses_with(old, back)
    name = old.name
    backward.erase_node(old)
    backward.rename(back, name)
