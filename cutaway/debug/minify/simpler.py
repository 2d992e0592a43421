"""What can be simpler in a graph of few calls: no dead call, no call that only changes numbers, sizes of two, zeros.

Input: a graph and its inputs. Each function yields graphs with their inputs, the boldest first. A size is made smaller
wherever it stands, as an argument too; whether that still makes sense, the run says.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from stage0_eager.arrays import CPU, move
from stage0_eager.tensor import Tensor
from stage_contracts.graph import Graph, Node
from stage_contracts.tensor_meta import TensorMeta

State = tuple[Graph, Sequence[Any]]
SMALL = 2  # a size of 1 would broadcast


def without_dead_calls(state: State) -> Iterator[State]:
    """Only the calls that a result needs: fewer results may have left others."""
    graph = state[0].copy()
    graph.eliminate_dead_code()
    if len(graph.calls) < len(state[0].calls):
        yield graph, state[1]


def passed_over(state: State) -> Iterator[State]:
    """One call gone, whose readers read what it read, of the same type: x for x * 2."""
    for place, node in enumerate(state[0].calls):
        alike = [at for at, used in enumerate(node.all_input_nodes) if _same_type(used, node)]
        for at in alike if len(state[0].calls) > 1 else ():
            graph = state[0].copy()
            gone = graph.calls[place]
            graph.replace_all_uses_with(gone, gone.all_input_nodes[at])
            graph.erase_node(gone)
            yield graph, state[1]


def smaller_sizes(state: State) -> Iterator[State]:
    """All sizes 2; one of them 2; one of them half of what it is."""
    sizes = sorted({n for t in _tensors(state) for n in t.shape if n > SMALL}, reverse=True)
    if len(sizes) > 1:
        yield _resized(state, dict.fromkeys(sizes, SMALL))
    for size in sizes:
        for less in dict.fromkeys((SMALL, size // 2)):
            yield _resized(state, {size: less})


def zero_numbers(state: State) -> Iterator[State]:
    """One number of a call, a float, is zero."""
    for place, node in enumerate(state[0].calls):
        for at, value in enumerate(node.args):
            if isinstance(value, float) and value:
                yield _with_args(state, functools.partial(_zero_at, (place, at)))


def zero_inputs(state: State) -> Iterator[State]:
    """All inputs zeros; one of them."""
    graph, inputs = state
    floats = [i for i, one in enumerate(inputs) if isinstance(one, Tensor) and _has_numbers(one)]
    for chosen in ([floats] if len(floats) > 1 else []) + [[i] for i in floats]:
        yield graph, [_zeros(one) if i in chosen else one for i, one in enumerate(inputs)]


SIMPLER: tuple[Callable[[State], Iterator[State]], ...] = (
    without_dead_calls,
    passed_over,
    smaller_sizes,
    zero_numbers,
    zero_inputs,
)


def _same_type(one: Node, other: Node) -> bool:
    return isinstance(one.val, TensorMeta) and isinstance(other.val, TensorMeta) and one.val == other.val


def _has_numbers(value: Tensor) -> bool:
    return value.dtype.is_floating_point and bool(move(value._data, CPU).any())


def _zeros(value: Tensor) -> Tensor:
    return value.detach().clone().zero_().requires_grad_(value.requires_grad)  # 0 * inf would be no zero


def _tensors(state: State) -> list[Tensor]:
    graph, inputs = state
    return [t for t in (*inputs, *graph.attributes.values()) if isinstance(t, Tensor)]


def _resized(state: State, sizes: dict[int, int]) -> State:
    def number(_: int, __: int, value: Any) -> Any:
        if isinstance(value, (tuple, list)):
            return type(value)(number(0, 0, one) for one in value)
        return sizes.get(value, value) if type(value) is int else value

    graph, inputs = _with_args(state, number)
    for name, value in graph.attributes.items():
        graph.attributes[name] = _shrunk(value, sizes)
    return graph, [_shrunk(one, sizes) for one in inputs]


def _shrunk(value: Any, sizes: dict[int, int]) -> Any:
    if not isinstance(value, Tensor) or not any(n in sizes for n in value.shape):
        return value
    less = value.detach()[tuple(slice(sizes.get(n, n)) for n in value.shape)]
    less = less.contiguous() if value.is_contiguous() else less
    return less.requires_grad_(value.requires_grad)


def _zero_at(where: tuple[int, int], place: int, at: int, value: Any) -> Any:
    return 0.0 if (place, at) == where else value


def _with_args(state: State, change: Callable[[int, int, Any], Any]) -> State:
    """The graph with other arguments: change(number of the call, of the argument, it)."""
    graph = state[0].copy()
    for place, node in enumerate(graph.calls):
        args = [x if isinstance(x, Node) else change(place, at, x) for at, x in enumerate(node.args)]
        if args != list(node.args):
            graph.set_args(node, args)
    return graph, state[1]
