"""A user function that runs in the backward, an autograd.Function's backward or a hook, as a graph.

Input: what it is given a gradient of. It is followed where the program hands it over, on gradients that require grad,
so that the graph can be differentiated again. Python runs it later: so it may change nothing, and what it reads must
still be the same when the frame ends.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace

from stage0_eager.autograd.custom_gradient import BackwardGraph
from stage1_capture.state.graph_builder import OutputGraph, SkipFrame
from stage1_capture.state.machine import Raised, Tx
from stage1_capture.variables.base import BIRTHS, Variable, describe, realize
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts.breaks import Unsupported
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import GraphModule
from stage_contracts.symbolic import same_shape
from stage_contracts.tensor_meta import TensorMeta

Run = Callable[[list[TensorVariable]], list[Variable]]  # gradients of the results to gradients of the targets


def follow_backward(
    tx: Tx, what: str, results: Sequence[TensorVariable], targets: Sequence[TensorMeta], run: Run
) -> tuple[BackwardGraph, list[TensorVariable]]:
    """The backward that `run` is, and the tensors from around it that it reads and that have to be saved.

    A side effect, or a gradient that is not like its target, is a break that names `what`.
    """
    graph, taken, gives = _followed(tx, what, results, targets, run)
    writes = len(tx.output.written)

    def unchanged() -> bool:
        if not taken.keys().isdisjoint(tx.output.written[writes:]):
            return False
        again, others, _ = _followed(tx, what, results, targets, run)
        return _text(again) == _text(graph) and list(others) == list(taken)

    tx.output.followed.append((what, unchanged))
    place = {id(result): ("result", k) for k, result in enumerate(results)}
    saved = [t for t in taken if id(t) not in place]
    place |= {id(t): ("saved", k) for k, t in enumerate(saved)}
    reads = [("gradient", k) for k in range(len(results))] + [place[id(t)] for t in taken]
    return BackwardGraph(GraphModule(graph), tuple(reads), gives), saved


def check_followed(output: OutputGraph) -> None:
    """At the end of the frame: Python would run these functions only now, so they must still read the same."""
    for what, unchanged in output.followed:
        if not unchanged():
            reason = f"what {what} reads is changed after the call"
            raise SkipFrame(reason, output.origin(), code="GB0095")


def _text(graph: Graph) -> list[str]:
    """The graph without the places it came from: for what has none of its own, that is where the frame is now."""
    return [line for line in str(graph).splitlines() if not line.startswith("    #")]


def _followed(
    tx: Tx, what: str, results: Sequence[TensorVariable], targets: Sequence[TensorMeta], run: Run
) -> tuple[Graph, dict, tuple[int | None, ...]]:
    """The graph, what it takes from around it, and which of its outputs is the gradient of which target."""
    graph, taken = Graph("backward"), dict[TensorVariable, Node]()
    try:
        with _graph_of_its_own(tx.output, graph, taken):
            given = []
            for k, result in enumerate(results):
                meta = result.meta.with_(requires_grad=True, strides=result.meta.strides)
                given.append(TensorVariable(meta, graph.placeholder(f"g{k}", meta)))
            found = [_checked(tx, realize(v), target) for v, target in zip(run(given), targets, strict=True)]
            made = [t for t in found if t is not None]
            graph.output([tx.output.node_of(t) for t in made])
    except SkipFrame:
        raise
    except Raised as raised:
        tx.unsupported("GB0024", f"{what} raises {type(raised.value.real).__name__}")
    except Unsupported as stop:
        broken = stop.graph_break
        tx.unsupported(broken.code, f"{what}: {broken.reason}")
    return graph, taken, tuple(None if t is None else made.index(t) for t in found)


def _graph_of_its_own(output: OutputGraph, graph: Graph, taken: dict) -> AbstractContextManager[None]:
    """Nodes go to a new graph that records gradients; what is older than this block must not be changed in it."""
    options = replace(output.options, graph_mode=True)
    modes = {"grad_enabled": True, "graph_mode": True, "options": options}
    return output.having(graph=graph, taken=taken, mutated={}, follows_since=next(BIRTHS), **modes)


def _checked(tx: Tx, gradient: Variable, target: TensorMeta) -> TensorVariable | None:
    if gradient.is_none():
        return None
    if not gradient.is_tensor():
        tx.unsupported("GB0024", f"a gradient that is {describe(gradient)}")
    meta = gradient.meta
    if not same_shape(meta.shape, target.shape) or meta.dtype is not target.dtype:
        tx.unsupported("GB0024", f"a gradient {meta} for a tensor {target}")
    return gradient  # type: ignore[return-value]
