"""nested_compile_region inside a captured function: each call is one node, and calls with equal graphs share one graph.

Input: a marked function and abstract arguments. The call is followed, with all its guards, into a graph of its own,
whose operands are the tensors that it reads. A call that cannot be one is followed again as if there were no mark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NoReturn

from stage0_eager.control_flow.operators import INVOKE_SUBGRAPH
from stage1_capture.higher_order.alike import arguments_of, remember, remembered
from stage1_capture.higher_order.control_flow import record_call
from stage1_capture.higher_order.subgraph import Subgraph, draws_random_numbers, follow_call
from stage1_capture.state.graph_builder import Restart, SkipFrame
from stage1_capture.state.machine import CONTROLLED, Args, Kwargs, Tx
from stage1_capture.variables.base import BIRTHS, SEQUENCES, Variable, realize
from stage1_capture.variables.function import UserFunctionVariable
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts import events
from stage_contracts.breaks import Unsupported
from stage_contracts.controls import Rule
from stage_contracts.graph import Graph
from stage_contracts.graph_module import GraphModule
from stage_contracts.symbol_bindings import open_sizes_in

_TREES = (*SEQUENCES, dict)


def _region(tx: Tx, rule: Rule, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
    def call(_: Any = ()) -> Variable:
        if isinstance(function, UserFunctionVariable):
            return tx.inline(function, args, kwargs)
        method = function.special_method(tx, "__call__")
        if method is None:
            tx.unsupported("GB0002", f"a call of {function.describe()}, a region without a Python __call__")
        return tx.call(method, args, kwargs)

    mark, output = id(function.known_object()), tx.output
    if mark in output.options.inlined or output.options.plain:
        return call()
    name = getattr(function, "name", "region")
    given = arguments_of(function, args, kwargs)
    if (known := remembered(tx, mark, given)) is not None:
        return _called(tx, *known)
    try:
        draws = len(output.draws)
        with output.having(follows_since=next(BIRTHS), casts={}):
            region = follow_call(tx, call, [], "nested_compile_region", _identifier(name), _tensors_in)
            _check(tx, region, draws == len(output.draws))
        made = _called(tx, region, region.taken)
        remember(tx, mark, given, region)
        return made
    except SkipFrame:
        raise
    except Unsupported as stop:
        reason = stop.graph_break.reason
        events.record("fallback", "region", origin=output.origin(), reason=f"{name} is inlined: {reason}")
        inlined = output.options.inlined | {mark}
        raise Restart(replace(output.options, stop_at=None, inlined=inlined)) from None


def _identifier(name: str) -> str:
    return name if name.isidentifier() else "region"


def _called(tx: Tx, region: Subgraph, taken: list[TensorVariable]) -> Variable:
    """The results of the call, as one node of the graph under way."""
    module = _shared(tx, region.run)
    made = record_call(tx, INVOKE_SUBGRAPH, [], [module], taken, ())
    return _with_tensors(region.result, iter(made))


def _shared(tx: Tx, run: GraphModule) -> GraphModule:
    """The one graph of all regions that compute the same."""
    regions = tx.output.regions
    if run not in regions:
        key = _key(run.graph)
        if key not in regions and draws_random_numbers(run.graph):
            _refuse(tx, "it draws random numbers")
        regions[run] = regions.setdefault(key, run)
        regions[regions[key]] = regions[key]
    return regions[run]


def _key(graph: Graph) -> tuple:
    """Equal for graphs that compute the same: their text without the user's lines, and their constants."""
    text = "".join(line for line in str(graph).splitlines(True) if not line.startswith("    #"))
    targets = tuple(id(node.target) for node in graph.calls)
    return text, targets, tuple(map(id, graph.attributes.values()))


# ---- which call can be a graph of its own ----------------------------------------------------------------------------


def _check(tx: Tx, region: Subgraph, drew_nothing: bool) -> None:
    """Raise Unsupported unless a node for the region gives what its operators would give one by one."""
    graph, output = region.run.graph, tx.output
    if not graph.calls:
        _refuse(tx, "it computes nothing")
    if not drew_nothing:
        _refuse(tx, "it draws from Python's random")
    for node in graph.nodes:
        if any(open_sizes_in(node.val)):
            _refuse(tx, "it has open sizes")
        if getattr(node.target, "backward_graph", None) is not None:
            _refuse(tx, f"{node.target.name} has a derivative of your own")
    whole = [output.memory_of(node) for node in graph.outputs]
    if any(node.graph is not graph or node.op != "call_function" for node in whole):
        _refuse(tx, "a result is an argument, or a view of one")
    if len(set(whole)) < len(whole):
        _refuse(tx, "two results share memory")
    if any(meta.strides != meta.with_(strides=None).strides for meta in region.metas):
        _refuse(tx, "a result is not row-major")


def _refuse(tx: Tx, why: str) -> NoReturn:
    tx.unsupported("GB0075", why)


# ---- what it returns: tensors in nested containers, with constants between them --------------------------------------


def _tensors_in(tx: Tx, value: Variable, name: str) -> Iterator[TensorVariable]:
    value = realize(value)
    if value.is_tensor():
        yield value  # type: ignore[misc]
    elif value.family() in _TREES:
        for item in value.items.values() if value.family() is dict else value.items:
            yield from _tensors_in(tx, item, name)
    elif not value.is_python_constant():
        tx.unsupported("GB0075", f"it returns {value.describe()}")


def _with_tensors(value: Variable, tensors: Iterator[Variable]) -> Variable:
    value = realize(value)
    if value.is_tensor():
        return next(tensors)
    return value.mapped(lambda v: _with_tensors(v, tensors)) if value.family() in _TREES else value


CONTROLLED["region"] = _region
