"""Control flow as operators of a graph: cond, while_loop, scan and map, each with the subgraphs it runs.

Input: a node's arguments: subgraphs (GraphModules, or a stage's compiled form of them) and one flat list of tensors.
The loops are written once. As bodies they run on tensors, and the tape records their operators; as kernels they run on
arrays. Results are row-major and share no memory. Derivatives are in gradients.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stage0_eager.arrays import owner
from stage0_eager.functions import shape
from stage0_eager.table.core import core as c
from stage0_eager.table.opaque import OpaqueOperator
from stage0_eager.tensor import Tensor
from stage_contracts.graph import meta_of
from stage_contracts.layouts import is_dense
from stage_contracts.tensor_meta import TensorMeta

Step = Callable[..., Sequence[Any]]


# ---- the loops, on tensors or on arrays ------------------------------------------------------------------------------


def choose(pred: Any, true_graph: Step, false_graph: Step, operands: Sequence[Any]) -> list[Any]:
    return list((true_graph if bool(pred) else false_graph)(*operands))


def loop(cond_graph: Step, body_graph: Step, operands: Sequence[Any], carried: int) -> list[Any]:
    state, around = list(operands[:carried]), operands[carried:]
    while bool(cond_graph(*state, *around)[0]):
        state = list(body_graph(*state, *around))
    return state


def loop_backward(
    cond_graph: Step, body_graph: Step, step_graph: Step, operands: Sequence[Any], carried: int, around: int
) -> list[Any]:
    """Once more forward, keeping what was carried into each turn; then the turns' derivatives, last turn first."""
    state, fixed = list(operands[:carried]), operands[carried : carried + around]
    history = []
    while bool(cond_graph(*state, *fixed)[0]):
        history.append(state)
        state = list(body_graph(*state, *fixed))
    gradients = list(operands[carried + around :])
    for state in reversed(history):
        gradients = list(step_graph(*gradients, *state, *fixed))
    return gradients


def scan_loop(
    combine_graph: Step,
    operands: Sequence[Any],
    carried: int,
    scanned: int,
    reverse: bool,
    stack: Callable[[list], Any],
) -> list[Any]:
    state, rows = list(operands[:carried]), operands[carried : carried + scanned]
    around = operands[carried + scanned :]
    turns: list[list[Any]] = []
    length = rows[0].shape[0]
    for t in reversed(range(length)) if reverse else range(length):
        made = list(combine_graph(*state, *(x[t, ...] for x in rows), *around))
        state = made[:carried]
        turns.append(made[carried:])
    ordered = turns[::-1] if reverse else turns
    return [*state, *(stack(list(column)) for column in zip(*ordered, strict=True))]


# ---- bodies: on tensors ----------------------------------------------------------------------------------------------


def _cond(pred, true_graph, false_graph, operands):
    """`true_graph(*operands)` where pred, a tensor of one element, is true, else `false_graph(*operands)`."""
    return _settled(choose(pred, true_graph, false_graph, operands), operands)


def _while_loop(cond_graph, body_graph, operands, carried):
    """The first `carried` operands through `body_graph` again and again while `cond_graph` gives true."""
    return _settled(loop(cond_graph, body_graph, operands, carried), operands)


def _while_loop_backward(cond_graph, body_graph, step_graph, operands, carried, around):
    """The gradients of a while_loop, carried through `step_graph` from the last turn to the first."""
    return _settled(loop_backward(cond_graph, body_graph, step_graph, operands, carried, around), operands)


def _scan(combine_graph, operands, carried, scanned, reverse=False):
    """`combine_graph` over the rows of the scanned operands: the last state, then what each turn gives, stacked."""
    return _settled(scan_loop(combine_graph, operands, carried, scanned, reverse, shape.stack), operands)


def _map(graph, operands, scanned):
    """`graph` on every row of the first `scanned` operands; results stacked."""
    return _settled(scan_loop(graph, operands, 0, scanned, False, shape.stack), operands)


def _invoke_subgraph(graph, operands):
    """`graph(*operands)`: a region that is compiled once and called often."""
    return _settled(list(graph(*operands)), operands)


def _settled(results: list[Any], operands: Sequence[Any]) -> tuple:
    return tuple(map(c.contiguous, apart(results, operands)))


def apart(results: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
    """The results, each in memory of its own: copied where it is an operand's, or another result's."""
    taken = {id(owner(t._data)) for t in operands if isinstance(t, Tensor)}
    made = []
    for result in results:
        if isinstance(result, Tensor) and id(owner(result._data)) in taken:
            result = c.clone(result)
        if isinstance(result, Tensor):
            taken.add(id(owner(result._data)))
        made.append(result)
    return made


# ---- kernels: on arrays, subgraphs being functions of arrays ---------------------------------------------------------


def _on_arrays(function: Callable[..., list[Any]], **words: Any) -> Callable[..., tuple]:
    """The loop as a kernel: operands row-major, as the subgraphs expect them; no result is an operand's own memory."""

    def kernel(xp: Any, *args: Any) -> tuple:
        args = tuple([_row_major(a) for a in arg] if type(arg) in (tuple, list) else arg for arg in args)
        given = {id(a) for arg in args if type(arg) is list for a in arg}
        stacked = {name: lambda rows: xp.stack(rows) for name in words}
        made = function(*args, **stacked)
        return tuple([a.copy() if id(a) in given else a for a in made])

    return kernel


def _invoke_kernel(xp: Any, graph: Step, operands: Sequence[Any]) -> tuple:
    """The graph takes operands in any layout, and no result is an operand's own memory."""
    given = set(map(id, operands))
    return tuple([a.copy() if id(a) in given else a for a in graph(*operands)])


def _row_major(array: Any) -> Any:
    return array if array.flags.c_contiguous else array.copy(order="C")


# ---- meta rules ------------------------------------------------------------------------------------------------------


def _plain(meta: TensorMeta) -> TensorMeta:
    return meta.with_(strides=None, requires_grad=False)


def _results(graph: Any) -> list[TensorMeta]:
    return [_plain(meta_of(n)) for n in graph.graph.outputs]


def _cond_meta(pred: Any, true_graph: Any, false_graph: Any, operands: Any) -> tuple:
    return tuple(_results(true_graph))


def _while_loop_meta(cond_graph: Any, body_graph: Any, operands: Any, carried: int) -> tuple:
    return tuple(map(_plain, operands[:carried]))


def _while_loop_backward_meta(
    cond_graph: Any, body_graph: Any, step_graph: Any, operands: Any, carried: int, around: int
) -> tuple:
    return tuple(map(_plain, operands[carried + around :]))


def _scan_meta(graph: Any, operands: Any, carried: int, scanned: int, reverse: bool = False) -> tuple:
    length = operands[carried].shape[0]
    made = _results(graph)
    rows = [m.with_(shape=(length, *m.shape)) for m in made[carried:]]
    return (*made[:carried], *rows)


def _map_meta(graph: Any, operands: Any, scanned: int) -> tuple:
    return _scan_meta(graph, operands, 0, scanned)


def _invoke_meta(graph: Any, operands: Any) -> tuple:
    """The results are laid out as the graph's own outputs are."""
    metas = [meta_of(node) for node in graph.graph.outputs]
    dense = [is_dense(m.shape, m.strides) for m in metas]
    return tuple(
        m.with_(requires_grad=False, strides=m.strides if kept else None)
        for m, kept in zip(metas, dense, strict=True)
    )


# ---- the rows --------------------------------------------------------------------------------------------------------


def _row(name: str, body: Callable, meta: Callable, kernel: Callable) -> OpaqueOperator:
    body.__name__ = name
    return OpaqueOperator("higher_order", name, body, meta, kernel)


COND = _row("cond", _cond, _cond_meta, _on_arrays(choose))
WHILE_LOOP = _row("while_loop", _while_loop, _while_loop_meta, _on_arrays(loop))
WHILE_LOOP_BACKWARD = _row(
    "while_loop_backward", _while_loop_backward, _while_loop_backward_meta, _on_arrays(loop_backward)
)
SCAN = _row("scan", _scan, _scan_meta, _on_arrays(scan_loop, stack=True))
MAP = _row(
    "map", _map, _map_meta,
    _on_arrays(lambda graph, operands, rows, stack: scan_loop(graph, operands, 0, rows, False, stack), stack=True),
)  # fmt: skip
INVOKE_SUBGRAPH = _row("invoke_subgraph", _invoke_subgraph, _invoke_meta, _invoke_kernel)
