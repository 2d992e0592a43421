"""Derivatives of control flow: a subgraph is differentiated once, as a graph, and runs in control flow of its kind.

Input: the rules of operators.py's rows get a node's arguments. The gradient of cond is a cond over the branches'
derivatives; that of scan and map is a scan in the other direction. Only the operands are saved, nothing inside a
subgraph: the backward computes a branch or an iteration again (as jax.checkpoint around each body does).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from stage0_eager.autograd import backward_pass
from stage0_eager.control_flow.operators import (
    COND,
    INVOKE_SUBGRAPH,
    MAP,
    SCAN,
    WHILE_LOOP,
    WHILE_LOOP_BACKWARD,
)
from stage0_eager.state import enable_grad, interpreting, no_grad
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import Tracer
from stage_contracts.graph import Graph, Node, meta_of
from stage_contracts.graph_module import ForwardHalf, GraphModule
from stage_contracts.tensor_meta import TensorMeta

# ---- graphs made from a subgraph -------------------------------------------------------------------------------------


@contextmanager
def _writing(graph: Graph) -> Iterator[Tracer]:
    tracer = Tracer(graph, keep=lambda op: op.whole)
    with enable_grad(), interpreting(tracer):
        yield tracer


def _run(module: Any, tracer: Tracer, operands: Sequence[Tensor]) -> tuple:
    """The subgraph's results, recorded."""

    def call(node: Node, args: tuple, kwargs: dict) -> Any:
        tracer.origins = node.origins
        if not node.meta.get("no_grad"):
            return node.target(*args, **kwargs)
        with no_grad():
            return node.target(*args, **kwargs)

    return module.graph.interpret(operands, call)


def _gradients(
    results: Sequence[Any], operands: Sequence[Tensor], tangents: Sequence[Tensor]
) -> list[Tensor]:
    """For each operand the gradient of `results`, in memory of its own; zeros where none flows."""
    used = [(r, t) for r, t in zip(results, tangents, strict=True) if r.requires_grad]
    found: Sequence[Tensor | None] = [None] * len(operands)
    if used and operands:
        found = backward_pass.grad([r for r, _ in used], operands, [t for _, t in used], allow_unused=True)
    with no_grad():
        return [_owned(g) if g is not None else _zeros(o.meta) for g, o in zip(found, operands, strict=True)]


def _owned(tensor: Tensor) -> Tensor:
    return c.clone(c.contiguous(tensor))


def _zeros(meta: TensorMeta) -> Tensor:
    return c.full(meta.shape, 0.0, meta.dtype, meta.device)


def _floating(metas: Sequence[Any]) -> list[int]:
    return [i for i, m in enumerate(metas) if m.dtype.is_differentiable]


def _pick(items: Sequence[Any], places: Sequence[int]) -> list[Any]:
    return [items[i] for i in places]


def _inputs(tracer: Tracer, names: str, metas: Sequence[TensorMeta], grad: bool = False) -> list[Tensor]:
    return [
        tracer.placeholder(
            f"{names}_{i}", m.with_(strides=None, requires_grad=grad and m.dtype.is_differentiable)
        )
        for i, m in enumerate(metas)
    ]


def pullback(module: Any) -> GraphModule:
    """The graph from (tangents of the floating results, operands) to the gradients of the floating operands."""
    graph = Graph(f"{module.graph.name}_backward")
    results = [meta_of(n) for n in module.graph.outputs]
    with _writing(graph) as tracer:
        tangents = _inputs(tracer, "tangent", _pick(results, _floating(results)))
        operands = _inputs(tracer, "operand", [n.val for n in module.graph.placeholders], grad=True)
        made = _run(module, tracer, operands)
        wanted = [o for o in operands if o.requires_grad]
        gradients = _gradients(_pick(made, _floating(results)), wanted, tangents)
        graph.output(list(map(tracer.node_of, gradients)))
    return _clean(graph)


def backward_step(module: Any, carried: int, scanned: int) -> GraphModule:
    """One turn backwards. From: gradients of the state, and of the surroundings so far; the state, the rows, gradients
    of what the turn gave; the surroundings. To: gradients of the state before, of the surroundings; of the rows."""
    graph = Graph(f"{module.graph.name}_backward")
    metas = [n.val for n in module.graph.placeholders]
    results = [meta_of(n) for n in module.graph.outputs]
    states, rows, around = metas[:carried], metas[carried : carried + scanned], metas[carried + scanned :]
    given = results[carried:]
    with _writing(graph) as tracer:
        of_state = _inputs(tracer, "state_gradient", _pick(states, _floating(states)))
        so_far = _inputs(tracer, "around_gradient", _pick(around, _floating(around)))
        state = _inputs(tracer, "state", states, grad=True)
        row = _inputs(tracer, "row", rows, grad=True)
        of_given = _inputs(tracer, "given_gradient", _pick(given, _floating(given)))
        fixed = _inputs(tracer, "around", around, grad=True)
        made = _run(module, tracer, [*state, *row, *fixed])
        outputs = [*_pick(made, _floating(states)), *_pick(made[carried:], _floating(given))]
        wanted = [[t for t in group if t.requires_grad] for group in (state, fixed, row)]
        gradients = _gradients(outputs, [t for group in wanted for t in group], [*of_state, *of_given])
        first, second = len(wanted[0]), len(wanted[0]) + len(wanted[1])
        with no_grad():
            sums = [c.add(a, b) for a, b in zip(so_far, gradients[first:second], strict=True)]
        graph.output(list(map(tracer.node_of, [*gradients[:first], *sums, *gradients[second:]])))
    return _clean(graph)


def states_before(module: Any, carried: int) -> GraphModule:
    """The same turn, giving the state it was handed in place of what it gave."""
    graph = Graph(f"{module.graph.name}_states")
    with _writing(graph) as tracer:
        operands = _inputs(tracer, "operand", [n.val for n in module.graph.placeholders])
        made = _run(module, tracer, operands)[:carried]
        graph.output(list(map(tracer.node_of, [*made, *map(_owned, operands[:carried])])))
    return _clean(graph)


def _clean(graph: Graph) -> GraphModule:
    graph.eliminate_dead_code()
    return GraphModule(graph.verify())


# ---- the rules -------------------------------------------------------------------------------------------------------


def _tangents(g: Any, metas: Sequence[Any]) -> list[Tensor]:
    """The gradients of the floating results, out of what the walk hands over."""
    return _pick(g if isinstance(g, tuple) else (g,), _floating(metas))


def _spread(gradients: Sequence[Tensor], operands: Sequence[Any]) -> list[Any]:
    """One gradient for each operand: None for what has none."""
    items = iter(gradients)
    return [next(items) if o.dtype.is_differentiable else None for o in operands]


def _cond(g: Any, pred: Any, true_graph: Any, false_graph: Any, operands: list) -> list:
    tangents = _tangents(g, [n.val for n in true_graph.graph.outputs])
    found = COND(pred, pullback(true_graph), pullback(false_graph), [*tangents, *operands])
    return _spread(found, operands)


def _while_loop(g: Any, cond_graph: Any, body_graph: Any, operands: list, carried: int) -> list:
    state, around = operands[:carried], operands[carried:]
    sums = [_zeros(o.meta) for o in around if o.dtype.is_differentiable]
    given = [*operands, *_tangents(g, state), *sums]
    step = backward_step(body_graph, carried, 0)
    found = WHILE_LOOP_BACKWARD(cond_graph, body_graph, step, given, carried, len(around))
    return _spread(found, operands)


def _while_loop_twice(g: Any) -> Any:
    raise RuntimeError(
        "the gradient of while_loop cannot be differentiated again, because the number of iterations is not known"
    )


def _scan(g: Any, combine_graph: Any, operands: list, carried: int, scanned: int, reverse: bool) -> list:
    state, rows = operands[:carried], operands[carried : carried + scanned]
    around = operands[carried + scanned :]
    results = [n.val for n in combine_graph.graph.outputs]
    g = g if isinstance(g, tuple) else (g,)
    sums = [_zeros(o.meta) for o in around if o.dtype.is_differentiable]
    carries = [*_tangents(g[:carried], state), *sums]
    before: tuple = ()
    if carried:
        before = SCAN(states_before(combine_graph, carried), operands, carried, scanned, reverse)[carried:]
    columns = [*before, *rows, *_tangents(g[carried:], results[carried:])]
    step = backward_step(combine_graph, carried, scanned)
    found = list(SCAN(step, [*carries, *columns, *around], len(carries), len(columns), not reverse))
    ends = len(_floating(state)), len(carries)
    return _spread([*found[: ends[0]], *found[ends[1] :], *found[ends[0] : ends[1]]], operands)


def _map(g: Any, graph: Any, operands: list, scanned: int) -> list:
    return _scan(g, graph, operands, 0, scanned, False)


def _invoke_subgraph(g: Any, out: Any, graph: Any, operands: list) -> list:
    """By the region's own backward half if stage 2 made one, else by all of it once more."""
    g, out = (v if isinstance(v, tuple) else (v,) for v in (g, out))
    if not isinstance(graph, ForwardHalf):
        tangents = _tangents(g, [n.val for n in graph.graph.outputs])
        return _spread(INVOKE_SUBGRAPH(pullback(graph), [*tangents, *operands]), operands)
    values = {"out": out, "operand": operands}
    given = [values[kind][which] for kind, which in graph.reads]
    found = INVOKE_SUBGRAPH(graph.backward, [*given, *_pick(g, graph.tangents)])
    return [None if which is None else found[which] for which in graph.gives]


def _attach(op: Any, rule: Callable[..., Any]) -> None:
    """The rule of all operands at once. Eagerly the tape sees the operators inside: the body stays what runs."""
    op.derivative(operands=rule)
    op.run = op.eager = op.body


_attach(COND, _cond)
_attach(WHILE_LOOP, _while_loop)
_attach(WHILE_LOOP_BACKWARD, _while_loop_twice)
_attach(SCAN, _scan)
_attach(MAP, _map)
_attach(INVOKE_SUBGRAPH, _invoke_subgraph)
