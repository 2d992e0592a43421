"""Functions followed into graphs of their own: what control flow and the function transforms keep inside one node.

Input: an abstract function and its abstract arguments. Tensors it takes from around it become further inputs of its
graph. What it may not do there (side effects, writes to what it was given, random draws) is a break.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from stage0_eager.state import interpreting, no_grad
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import TracedArray, Tracer
from stage0_eager.utils.pytree import mapped
from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import SEQUENCES, Variable, describe, from_constant, realize
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.sequence import ListVariable, TupleVariable
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import GraphModule
from stage_contracts.tensor_meta import TensorMeta


@dataclass
class Subgraph:
    """A function as a graph: `run(*arguments, *taken)` gives its tensors; `result` is what it returns."""

    run: GraphModule
    taken: list[TensorVariable]  # tensors from around it, behind the arguments
    result: Variable
    metas: list[TensorMeta]


def follow(
    tx: Tx,
    function: Variable,
    metas: Sequence[TensorMeta],
    name: str,
    arguments: Callable[[list[Variable]], list[Variable]] = list,
    graph_name: str = "",
) -> Subgraph:
    """Follow `function` on tensors of these metas, which `arguments` puts into the form of its arguments."""
    output = tx.output
    before = len(output.effects.changed), len(output.effects.globals)
    written = set(output.mutated)
    graph, taken = Graph(graph_name or f"{name}_body"), dict[TensorVariable, Node]()
    with output.having(graph=graph, taken=taken, graph_mode=output.graph_mode):
        tensors: list[Variable] = [
            TensorVariable(m, graph.placeholder(f"a{i}", m)) for i, m in enumerate(metas)
        ]
        result = tx.call(function, arguments(tensors), {})
        leaves = list(tensors_of(tx, result, name))
        graph.output([output.node_of(t) for t in leaves])
    for tensor in [t for t in output.mutated if t not in written]:
        if tensor.node is None or tensor.node.graph is not graph or not _made_inside(output, tensor.node):
            tx.unsupported("GB0088", f"a write to an input of a function given to {name}")
        del output.mutated[tensor]
    if before != (len(output.effects.changed), len(output.effects.globals)):
        tx.unsupported("GB0093", f"a side effect inside a function given to {name}")
    return Subgraph(GraphModule(graph), list(taken), result, [t.meta for t in leaves])


# ---- values as trees of tensors --------------------------------------------------------------------------------------


def tensors_of(
    tx: Tx, value: Variable, name: str, what: str = "a function that returns"
) -> Iterator[TensorVariable]:
    """The tensors in nested tuples, lists and dicts, left to right. Anything else there is a break."""
    value = realize(value)
    if not value.is_tensor() and value.family() not in _TREES:
        tx.unsupported("GB0075", f"{name} of {what} {describe(value)}")
    if value.is_tensor():
        yield value  # type: ignore[misc]
    else:
        for item in value.items.values() if value.family() is dict else value.items:
            yield from tensors_of(tx, item, name, what)


def with_tensors(value: Variable, tensors: Iterator[Variable]) -> Variable:
    """The same tree with other tensors."""
    value = realize(value)
    return value.mapped(lambda v: with_tensors(v, tensors)) if value.family() in _TREES else next(tensors)


def form_of(value: Variable) -> object:
    """Equal for two trees that nest alike."""
    value = realize(value)
    keys = tuple(value.items) if value.family() is dict else ()
    items = value.items.values() if value.family() is dict else value.parts()
    return (value.kind, keys, *map(form_of, items)) if value.family() in _TREES else None


_TREES = (*SEQUENCES, dict)


@dataclass(frozen=True)
class Slot:
    """Where a tensor belongs in a tree."""

    number: int


def filled(tree: Any, values: Any) -> Any:
    """The tree with `values[i]` in the slot of number i."""
    return mapped(lambda leaf: values[leaf.number] if isinstance(leaf, Slot) else leaf, tree)


def variable_of(tree: Any) -> Variable:
    """A tree of abstract tensors and constants as an abstract value."""
    if isinstance(tree, Variable):
        return tree
    if isinstance(tree, dict):
        return ConstDictVariable({key: variable_of(item) for key, item in tree.items()})
    if isinstance(tree, tuple):
        return TupleVariable([variable_of(v) for v in tree], type(tree))
    return ListVariable([variable_of(v) for v in tree]) if isinstance(tree, list) else from_constant(tree)


# ---- what a subgraph does --------------------------------------------------------------------------------------------


def draws_random_numbers(graph: Graph) -> bool:
    """Whether running the graph would advance the random generator. It is run on metas."""
    tracer = Tracer(None)
    inputs = [_on_meta(n.val) for n in graph.placeholders]
    with no_grad(), interpreting(tracer):
        graph.interpret(inputs)
    return tracer.rng_calls > 0


def _made_inside(output: OutputGraph, node: Node) -> bool:
    """Whether a value lives in memory that its graph makes: neither an input's nor a constant's."""
    return output.memory_of(node).op == "call_function"


def _on_meta(meta: TensorMeta) -> Tensor:
    return Tensor(TracedArray(meta.with_(requires_grad=False, strides=meta.strides)))
