"""Seams that are wrong, three planted errors for each of the first three: the conformance tests must fail on every one.

Input: what the seam takes. The wrong partitioners are in wrong_partitioners.py.
"""

from __future__ import annotations

from dataclasses import replace

from stage0_eager.table.core import core
from stage2_autograd.decompose import decompose
from stage2_autograd.differentiate import differentiate
from stage2_autograd.functionalize import functionalize
from stage2_autograd.tests.wrong_partitioners import with_outputs
from stage_contracts.graph import Graph
from stage_contracts.joint import FunctionalGraph, JointGraph

PLANTED = {
    "functionalize": ("forgets_a_write", "hands_out_copies", "draws_the_same_bits"),
    "differentiate": ("forgets_a_contribution", "loses_a_gradient", "doubles_a_gradient"),
    "decompose": ("leaves_composites", "drops_casts", "merges_what_differs"),
}


# ---- functionalize -----------------------------------------------------------------------------------------


def forgets_a_write(graph: Graph) -> FunctionalGraph:
    """The last written input keeps its old value."""
    f = functionalize(graph)
    if not f.writes:
        return f
    shorter = with_outputs(f.graph, lambda out: out[:-1])
    silent = tuple(i for i in f.silent if i in f.writes[:-1])
    return replace(f, graph=shorter, writes=f.writes[:-1], versions=f.versions[:-1], silent=silent)


def hands_out_copies(graph: Graph) -> FunctionalGraph:
    """A result that is an input, or a view of one, becomes a tensor of its own."""
    f = functionalize(graph)
    made, results = f.graph.copy(), []
    extra: list = []
    for kind, which, *views in f.results or ():
        if kind == "input":
            node = made.placeholders[which]
            for op, rest in views:
                val = op.meta(node.val, *rest)
                with made.inserting_before(made.output_node):
                    node = made.call_function(op, (node, *rest), val=val)
            clone = core.clone
            with made.inserting_before(made.output_node):
                extra.append(made.call_function(clone, (node,), val=clone.meta(node.val)))
            kind, which, views = "output", f.num_outputs + len(extra) - 1, []
        results.append((kind, which, *views))
    at = f.num_outputs
    made = with_outputs(made, lambda out: [*out[:at], *extra, *out[at:]])
    for clone in extra:
        made.rename(next(n for n in made.nodes if n.name == clone.name), "copy")
    versions = (*f.versions[:at], *([0] * len(extra)), *f.versions[at:])
    return replace(f, graph=made, num_outputs=at + len(extra), results=tuple(results), versions=versions)


def draws_the_same_bits(graph: Graph) -> FunctionalGraph:
    """Every draw has offset 0, so that two dropouts have one mask."""
    f = functionalize(graph)
    made = f.graph.copy()
    for node in made.calls:
        if node.target.name == "random_bits":
            made.set_args(node, (node.args[0], 0, *node.args[2:]))
    return replace(f, graph=made)


# ---- differentiate -----------------------------------------------------------------------------------------


def forgets_a_contribution(functional: FunctionalGraph) -> JointGraph:
    """Where two gradients should be added, one is taken."""
    joint = differentiate(functional)
    graph = joint.graph.copy()
    for node in graph.calls:
        alike = [n for n in node.all_input_nodes if n.val.shape == node.val.shape]
        if node.meta["region"] == "backward" and node.target.name == "add" and len(alike) == 2:
            graph.replace_all_uses_with(node, alike[0])
            graph.erase_node(node)
            break
    return replace(joint, graph=graph)


def loses_a_gradient(functional: FunctionalGraph) -> JointGraph:
    """The last gradient is None."""

    def without(out):
        at = max((i for i in range(joint.num_outputs, len(out)) if out[i] is not None), default=None)
        return [None if i == at else o for i, o in enumerate(out)]

    joint = differentiate(functional)
    return replace(joint, graph=with_outputs(joint.graph, without))


def doubles_a_gradient(functional: FunctionalGraph) -> JointGraph:
    """The last gradient is twice what it should be."""
    joint = differentiate(functional)
    graph = joint.graph.copy()
    there = [i for i, g in enumerate(graph.outputs) if i >= joint.num_outputs and g is not None]
    if not there:
        return joint
    g = graph.outputs[there[-1]]
    add = core.add
    with graph.inserting_before(graph.output_node):
        twice = graph.call_function(add, (g, g), val=g.val, region="backward")
    changed = [twice if i == there[-1] else o for i, o in enumerate(graph.outputs)]
    graph.set_args(graph.output_node, (tuple(changed),))
    return replace(joint, graph=graph)


# ---- decompose ---------------------------------------------------------------------------------------------


def leaves_composites(graph: Graph) -> Graph:
    """Nothing is decomposed."""
    return graph.copy()


def drops_casts(graph: Graph) -> Graph:
    """A cast to a smaller dtype and back changes nothing, surely."""
    made = decompose(graph).copy()
    for node in made.calls:
        if getattr(node.target, "name", "") == "cast" and node.args[0].val.dtype is not node.val.dtype:
            made.replace_all_uses_with(node, node.args[0])
            made.erase_node(node)
    return made


def merges_what_differs(graph: Graph) -> Graph:
    """Equal operators on equal tensors are one, whatever their other arguments are."""
    made = decompose(graph).copy()
    first: dict = {}
    for node in made.calls:
        key = (node.target, tuple(node.all_input_nodes), str(node.val))
        earlier = first.setdefault(key, node)
        if earlier is not node and node.all_input_nodes:
            made.replace_all_uses_with(node, earlier)
            made.erase_node(node)
    return made
