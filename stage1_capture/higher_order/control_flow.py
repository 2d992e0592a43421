"""cond, while_loop, scan and map inside captured functions: one node each; its subgraphs are attributes of the graph.

Input: abstract predicates, functions and operands. The functions are followed (higher_order/subgraph.py); what they
take from around them becomes further operands, the same for all subgraphs of a node.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, cast

from stage0_eager.control_flow import functions as control_flow
from stage0_eager.control_flow.operators import COND, MAP, SCAN, WHILE_LOOP
from stage0_eager.table.opaque import OpaqueOperator
from stage0_eager.table.registry import TABLE
from stage1_capture.builtins.python import EMPTY, FALSE, ZERO
from stage1_capture.higher_order.subgraph import (
    Subgraph,
    draws_random_numbers,
    follow,
    form_of,
    tensors_of,
    with_tensors,
)
from stage1_capture.state.graph_builder import OutputGraph, Restart
from stage1_capture.state.machine import Tx, builtin
from stage1_capture.variables.base import Variable, iterate, realize
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.operators import call_operator, detached_of, results_of
from stage1_capture.variables.sequence import TupleVariable
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts.graph import Graph
from stage_contracts.graph_module import GraphModule
from stage_contracts.symbolic import same_shape
from stage_contracts.tensor_meta import TensorMeta

Tensors = list[TensorVariable]
Metas = Sequence[TensorMeta]


@builtin(control_flow.cond)
def cond_(
    tx: Tx, pred: Variable, true_fn: Variable, false_fn: Variable, operands: Variable = EMPTY
) -> Variable:
    given = [realize(o) for o in iterate(tx, operands)]
    if not pred.is_tensor():
        return tx.call(true_fn if pred.truth(tx) else false_fn, given, {})
    if pred.meta.ndim and any(size != 1 for size in pred.meta.shape):
        tx.unsupported("GB0076", f"cond on a predicate of several elements, {pred.meta}")
    tensors = _operands(tx, given, "cond")
    metas = [t.meta for t in tensors]
    sides = [
        follow(tx, f, metas, "cond", _in_form(given), name)
        for f, name in ((true_fn, "true_graph"), (false_fn, "false_graph"))
    ]
    if not _agree(*(side.metas for side in sides)) or form_of(sides[0].result) != form_of(sides[1].result):
        shown = " and ".join(", ".join(map(str, side.metas)) or side.result.describe() for side in sides)
        tx.unsupported("GB0077", f"cond whose branches return {shown}")
    taken, modules = _with_all_taken(sides, len(tensors))
    results = _record(tx, COND, [pred], modules, [*tensors, *taken], ())  # type: ignore[list-item]
    return with_tensors(sides[0].result, iter(results))


@builtin(control_flow.while_loop)
def while_loop_(tx: Tx, cond_fn: Variable, body_fn: Variable, carried_inputs: Variable) -> Variable:
    given = [realize(c) for c in iterate(tx, carried_inputs)]
    tensors = _operands(tx, given, "while_loop")
    metas = [t.meta for t in tensors]
    test = follow(tx, cond_fn, metas, "while_loop", _in_form(given), "cond_graph")
    step = follow(tx, body_fn, metas, "while_loop", _in_form(given), "body_graph")
    if len(test.metas) != 1 or any(size != 1 for size in test.metas[0].shape):
        tx.unsupported("GB0078", f"while_loop whose condition returns {test.result.describe()}")
    made = realize(step.result)
    made = made if made.family() is tuple else TupleVariable([made])
    _keeps(tx, "while_loop", given, made.items if made.family() is tuple else [], step.metas, metas)
    taken, modules = _with_all_taken([test, step], len(tensors))
    results = _record(tx, WHILE_LOOP, [], modules, [*tensors, *taken], (len(tensors),))
    return with_tensors(TupleVariable(given), iter(results))


@builtin(control_flow.scan)
def scan_(
    tx: Tx,
    combine_fn: Variable,
    init: Variable,
    xs: Variable,
    *,
    dim: Variable = ZERO,
    reverse: Variable = FALSE,
) -> Variable:
    state, rows = _operands(tx, [init], "scan"), _operands(tx, [xs], "scan")
    axis, backwards = tx.constant(dim, "scan's dim"), tx.constant(reverse, "scan's reverse")
    if type(axis) is not int or type(backwards) is not bool or not state or not rows:
        tx.unsupported(
            "GB0079", "scan with nothing to scan, or another dim or reverse than an int and a bool"
        )
    lengths = {t.meta.shape[axis] for t in rows if -t.meta.ndim <= axis < t.meta.ndim}
    if len(lengths) != 1 or 0 in lengths or any(axis >= t.meta.ndim for t in rows):
        tx.unsupported("GB0079", f"scan over dimension {axis} of {', '.join(str(t.meta) for t in rows)}")
    return _scanned(tx, combine_fn, init, xs, state, rows, axis % rows[0].meta.ndim, backwards)


def _scanned(
    tx: Tx,
    combine: Variable,
    init: Variable,
    xs: Variable,
    state: list,
    rows: list,
    axis: int,
    backwards: bool,
) -> Variable:
    """The node of a scan whose arguments are known to fit."""
    along = [_moved(tx, t, axis, 0) for t in rows]
    metas = [*(t.meta for t in state), *(_row(t.meta) for t in along)]

    def arguments(flat: list[Variable]) -> list[Variable]:
        return [with_tensors(init, iter(flat[: len(state)])), with_tensors(xs, iter(flat[len(state) :]))]

    step = follow(tx, combine, metas, "scan", arguments, "combine_graph")
    made = realize(step.result)
    if made.family() is not tuple or len(made.items) != 2:
        tx.unsupported("GB0080", f"scan whose combine_fn returns {made.describe()}")
    _keeps(tx, "scan", [init], [made.items[0]], step.metas[: len(state)], metas[: len(state)])
    taken, modules = _with_all_taken([step], len(metas))
    numbers = (len(state), len(along), True) if backwards else (len(state), len(along))
    results = _record(tx, SCAN, [], modules, [*state, *along, *taken], numbers)
    ys = cast("list[TensorVariable]", results[len(state) :])
    stacks = [_moved(tx, y, 0, axis) if axis < y.meta.ndim else y for y in ys]
    return TupleVariable(
        [with_tensors(init, iter(results[: len(state)])), with_tensors(made.items[1], iter(stacks))]
    )


@builtin(control_flow.map)
def map_(tx: Tx, f: Variable, xs: Variable, *args: Variable) -> Variable:
    rows = _operands(tx, [xs], "map")
    if not rows or any(t.meta.ndim == 0 for t in rows) or len({t.meta.shape[0] for t in rows}) != 1:
        tx.unsupported("GB0079", "map over tensors of no, or of several, leading sizes")
    if rows[0].meta.shape[0] == 0:
        tx.unsupported("GB0079", "map over nothing")
    arguments = lambda flat: [with_tensors(xs, iter(flat)), *args]  # noqa: E731
    step = follow(tx, f, [_row(t.meta) for t in rows], "map", arguments, "map_graph")
    taken, modules = _with_all_taken([step], len(rows))
    results = _record(tx, MAP, [], modules, [*rows, *taken], (len(rows),))
    return with_tensors(step.result, iter(results))


def _operands(tx: Tx, values: Sequence[Variable], name: str) -> list[TensorVariable]:
    return [t for value in values for t in tensors_of(tx, value, name, "an operand that is")]


def _in_form(given: Sequence[Variable]) -> Callable[[list[Variable]], list[Variable]]:
    """Flat tensors as arguments of the form of `given`."""

    def arguments(flat: list[Variable]) -> list[Variable]:
        items = iter(flat)
        return [with_tensors(value, items) for value in given]

    return arguments


def _row(meta: TensorMeta) -> TensorMeta:
    """One slice of dimension 0."""
    return meta.with_(shape=meta.shape[1:], strides=meta.strides[1:])


def _moved(tx: Tx, tensor: TensorVariable, source: int, destination: int) -> Any:
    if source == destination:
        return tensor
    places: list[Variable] = [ConstantVariable(source), ConstantVariable(destination)]
    return call_operator(tx, TABLE["cutaway.movedim"], [tensor, *places], {})


def _agree(some: Metas, others: Metas) -> bool:
    return len(some) == len(others) and all(
        a.dtype is b.dtype and a.device == b.device and same_shape(a.shape, b.shape)
        for a, b in zip(some, others, strict=True)
    )


def _keeps(tx: Tx, name: str, given: list, made: list, metas: Metas, wanted: Metas) -> None:
    """Check that the carried values come back in the same form, with the same shapes and dtypes."""
    if [form_of(v) for v in given] != [form_of(v) for v in made] or not _agree(metas, wanted):
        carried, first = (", ".join(map(str, some)) for some in (metas, wanted))
        tx.unsupported("GB0077", f"{name} whose function carries {carried} where it was given {first}")


def _with_all_taken(sides: Sequence[Subgraph], count: int) -> tuple[list[TensorVariable], list[GraphModule]]:
    """All that the subgraphs take from around them, and each with inputs for all of it."""
    taken = list(dict.fromkeys(t for side in sides for t in side.taken))
    modules = []
    for side in sides:
        graph = Graph(side.run.graph.name)
        images: dict[Any, Any] = {}
        old = side.run.graph.placeholders
        behind = dict(zip(side.taken, old[count:], strict=True))
        for node in old[:count]:
            images[node] = graph.placeholder(node.name, **node.meta)
        for i, tensor in enumerate(taken):
            node = graph.placeholder(f"taken_{i}", tensor.meta)
            if tensor in behind:
                images[behind[tensor]] = node
        side.run.graph.copy_into(graph, images)
        modules.append(GraphModule(graph))
    return taken, modules


def _enter_grad_mode(output: OutputGraph) -> None:
    """The first node decides the grad mode of the graph."""
    if not output.graph.calls:
        output.graph_mode = output.grad_enabled or output.options.graph_mode
    if output.grad_enabled and not output.graph_mode:
        raise Restart(replace(output.options, graph_mode=True))


def _record(
    tx: Tx, op: OpaqueOperator, first: Tensors, modules: list[GraphModule], operands: Tensors, numbers: tuple
) -> list[Variable]:
    """The same as record_call, for subgraphs that must not draw random numbers."""
    if any(draws_random_numbers(module.graph) for module in modules):
        tx.unsupported("GB0013", f"random numbers inside {op.name}")
    return record_call(tx, op, first, modules, operands, numbers)


def record_call(
    tx: Tx, op: OpaqueOperator, first: Tensors, modules: list[GraphModule], operands: Tensors, numbers: tuple
) -> list[Variable]:
    """One node for `op(*first, *modules, operands, *numbers)`; gives its results."""
    output = tx.output
    _enter_grad_mode(output)
    if output.graph_mode and not output.grad_enabled:
        operands = [cast(TensorVariable, detached_of(tx, t)) for t in operands]
    wants = output.grad_enabled and any(t.meta.requires_grad for t in operands)
    metas = op.meta(*(t.meta for t in first), *modules, [t.meta for t in operands], *numbers)
    metas = tuple(
        m.with_(requires_grad=wants and m.dtype.is_differentiable, strides=m.strides) for m in metas
    )
    nodes = [[output.node_of(t) for t in group] for group in (first, operands)]
    subgraphs = [output.graph.subgraph(m) for m in modules]
    node = output.graph.call_function(
        op, (*nodes[0], *subgraphs, nodes[1], *numbers), val=metas, origins=(output.origin(),)
    )
    return list(results_of(tx, node, metas).items)
