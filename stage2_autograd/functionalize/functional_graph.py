"""Functionalize: removes writes, shared memory that the user could see, and hidden random state.

Input: the captured graph, in public operators. It runs under a FunctionalTracer, which leaves core operators and
composites with their own derivative as they are, and records which inputs eager would have written to.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from stage0_eager.autograd.custom_gradient import with_backward
from stage0_eager.functions.autograd_grad import autograd_grad
from stage0_eager.state import interpreting, no_grad
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage2_autograd.functionalize.functional_tracer import FunctionalTracer, storage_of
from stage2_autograd.functionalize.gradient_nodes import expand_gradients, has_gradient_nodes
from stage2_autograd.functionalize.output_aliases import (
    plan_results,
    symbols_shown,
    with_own_storage,
    with_views_apart,
)
from stage2_autograd.retrace import placeholders_like, retrace
from stage2_autograd.subgraphs import functional, within
from stage_contracts.breaks import Unsupported
from stage_contracts.graph import Graph
from stage_contracts.graph_module import GraphModule
from stage_contracts.graph_verify import envs_of, promised_val, unchecked
from stage_contracts.joint import FunctionalGraph
from stage_contracts.layouts import is_dense
from stage_contracts.symbol_bindings import open_sizes_in
from stage_contracts.tensor_meta import TensorMeta


def functionalize(graph: Graph) -> FunctionalGraph:
    """`graph` without mutation. Raises Unsupported (GB0008) for a write to a constant, or one that eager refuses."""
    before = _found_equal(graph)
    functional = _functional(graph)
    # for example, that a size is 1: values traced earlier have the strides for a larger size
    if _found_equal(graph) != before:
        functional = _functional(graph)
    return functional.verify()


def _found_equal(graph: Graph) -> int:
    """The number of known facts about the graph's open sizes that decide strides: which sizes are equal."""
    return sum(
        len(env.zeros)
        for env in {id(env): env for n in graph.placeholders for env in envs_of(n.val)}.values()
    )


def _functional(graph: Graph) -> FunctionalGraph:
    graph = with_functional_backwards(graph)
    tracer = FunctionalTracer(Graph(graph.name))
    tracer.gradient_metas = [n.val for n in reversed(graph.calls) if n.target is autograd_grad]
    with no_grad():
        inputs = placeholders_like(graph, tracer, role="primal")
        outputs = retrace(graph, tracer, inputs)
        computed, results = plan_results(tracer, inputs, outputs)
        computed += symbols_shown(tracer, results)
        written = tuple(i for i, t in enumerate(inputs) if storage_of(tracer, t).generation)
        silent = tuple(i for i in written if not storage_of(tracer, inputs[i]).recorded)
        versions = tuple(storage_of(tracer, t).generation for t in (*computed, *(inputs[i] for i in written)))
        with interpreting(tracer):  # for autograd, a tensor written under no_grad is still the input
            stored = [*computed, *(c.detach(inputs[i]) if i in silent else inputs[i] for i in written)]
        values = with_own_storage(tracer, stored, len(computed))
    assert tracer.graph is not None
    tracer.graph.output(values)
    functional = tracer.graph
    if has_gradient_nodes(functional):
        again, stored = expand_gradients(functional)
        assert again.graph is not None
        functional = again.graph
        with no_grad():  # gradients that are separate in eager may be the same value here
            functional.output(with_own_storage(again, stored, len(computed)))
    results = with_views_apart(functional, results)
    if any(not is_dense(inputs[i].shape, inputs[i].stride()) for i in written):
        restate_strides(functional)
    return FunctionalGraph(
        within(functional, functional_subgraph),
        len(computed),
        written,
        tracer.rng_calls,
        results,
        silent,
        versions,
    )


def restate_strides(graph: Graph) -> None:
    """Set the strides with which each value is computed.

    During tracing, a value written to an input with gaps has the strides of the input, because in eager they decide
    whether a view copies. The value itself is computed without gaps."""
    for node in graph.calls:
        if not isinstance(node.val, TensorMeta) or unchecked(node) or any(open_sizes_in([node.val])):
            continue
        with suppress(Unsupported):  # it depends on the data
            val = promised_val(node)
            if isinstance(val, TensorMeta) and val.shape == node.val.shape:
                node.meta["val"] = replace(node.val, strides=val.strides)


def with_functional_backwards(graph: Graph) -> Graph:
    """A copy of the graph in which user-defined derivatives (of autograd.Function and hooks) are functional graphs."""
    twin = graph.copy()
    for node in twin.calls:
        if getattr(node.target, "backward_graph", None) is not None:
            run = functional_backward(node.target.backward_graph.run.graph, node.target.name)
            with twin.inserting_before(node):
                op = with_backward(node.target, GraphModule(run))
                new = twin.call_function(op, node.args, node.kwargs, **node.meta)
            twin.replace_all_uses_with(node, new)
            twin.erase_node(node)
            twin.rename(new, node.name)
    return twin


def functional_backward(graph: Graph, name: str) -> Graph:
    """The same for the backward of an autograd.Function, which may write only to tensors that it made."""
    tracer = FunctionalTracer(Graph(graph.name))
    with no_grad():
        inputs = placeholders_like(graph, tracer)
        outputs = retrace(graph, tracer, inputs)
    if any(storage_of(tracer, t).generation for t in inputs):
        tracer.refuse(f"{name}.backward writes to a gradient, or to what it saved")
    if tracer.rng_calls:
        raise Unsupported(f"{name}.backward draws random numbers", code="GB0013")
    assert tracer.graph is not None
    tracer.graph.output([tracer.node_of(t) for t in outputs])
    return tracer.graph


def functional_subgraph(graph: Graph) -> Graph:
    """A subgraph without mutation. Raises Unsupported (GB0008) if it writes to its inputs."""
    return functional(graph, FunctionalTracer(Graph(graph.name)), written)


def written(tracer: FunctionalTracer, tensor: Tensor) -> bool:
    return storage_of(tracer, tensor).generation > 0
