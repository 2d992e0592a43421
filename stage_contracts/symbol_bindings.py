"""Where to read each open size from a graph's inputs: which dimension of which input, and how to compute it.

Input: the metas of a graph's inputs. A compiled graph takes only arrays, so each call reads every size from their
shapes. An input of shape (8*s0, 16) gives s0 as its first dimension divided by 8.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stage_contracts.symbolic import SymFloat, SymInt
from stage_contracts.tensor_meta import TensorMeta

if TYPE_CHECKING:
    from stage_contracts.node import Node


@dataclass(frozen=True)
class SymbolBinding:
    """`symbol` is (shape[dim] - rest) // factor, for input number `input`. `rest` only uses symbols bound before it."""

    symbol: Any
    input: int
    dim: int
    factor: int = 1
    rest: Any = 0


def expression(size: Any) -> Any:
    """The expression of a size, or of a number made of sizes. One symbol represents all symbols that are equal to
    it."""
    return size.env.simplify(size.expr) if isinstance(size, (SymInt, SymFloat)) else size


def symbol_bindings(metas: Sequence[Any]) -> list[SymbolBinding]:
    """One binding for each symbol that can be read. Those that need no arithmetic come first."""
    places = [
        (expression(size), i, dim)
        for i, meta in enumerate(metas)
        if isinstance(meta, TensorMeta)
        for dim, size in enumerate(meta.shape)
        if not isinstance(size, int)
    ]
    known: dict[Any, SymbolBinding] = {}
    for expr, i, dim in places:
        if expr.is_Symbol:
            known.setdefault(expr, SymbolBinding(expr, i, dim))
    found = True
    while found:
        found = False
        for expr, i, dim in places:
            unknown = expr.free_symbols - known.keys()
            if len(unknown) != 1:
                continue
            (symbol,) = unknown
            whole = expr.expand()
            factor, rest = whole.coeff(symbol), whole.coeff(symbol, 0)
            if factor.is_Integer and factor > 0 and (whole - factor * symbol - rest).expand() == 0:
                known[symbol] = SymbolBinding(symbol, i, dim, int(factor), rest)
                found = True
    return list(known.values())


def size_reader(shown: Sequence[SymbolBinding]) -> Callable[[Sequence[Any]], dict[Any, int]]:
    """A function from arrays to the value of each size."""

    def read(arrays: Sequence[Any]) -> dict[Any, int]:
        values: dict[Any, int] = {}
        for s in shown:
            rest = s.rest if s.rest == 0 else s.rest.subs(values)
            values[s.symbol] = (arrays[s.input].shape[s.dim] - int(rest)) // s.factor
        return values

    return read


_WITHOUT = (int, float, bool, str, type(None))  # most leaves


def open_sizes_in(tree: Any) -> Iterator[SymInt | SymFloat]:
    """Every open size, and every float made of open sizes, in nested tuples, lists, dicts, slices and metas."""
    if type(tree) in _WITHOUT:
        return
    if isinstance(tree, (SymInt, SymFloat)):
        yield tree
    elif isinstance(tree, TensorMeta):
        for size in (*tree.shape, *tree.strides):
            if type(size) is not int:
                yield from open_sizes_in(size)
    elif isinstance(tree, slice):
        yield from open_sizes_in((tree.start, tree.stop, tree.step))
    elif isinstance(tree, (tuple, list, dict)):
        for item in tree.values() if isinstance(tree, dict) else tree:
            yield from open_sizes_in(item)


def with_sizes(tree: Any, values: dict[Any, int]) -> Any:
    """A copy of nested tuples, lists, dicts, slices and metas, with the value in this call for each open size."""
    if isinstance(tree, SymInt):
        return int(expression(tree).subs(values))
    if isinstance(tree, SymFloat):
        return float(expression(tree).subs(values))
    if isinstance(tree, TensorMeta):
        if next(open_sizes_in(tree), None) is None:
            return tree
        return tree.with_(shape=with_sizes(tree.shape, values), strides=with_sizes(tree.strides, values))
    if isinstance(tree, dict):
        return {key: with_sizes(item, values) for key, item in tree.items()}
    if isinstance(tree, slice):
        return slice(*with_sizes((tree.start, tree.stop, tree.step), values))
    if type(tree) in (tuple, list):
        return type(tree)(with_sizes(item, values) for item in tree)
    return tree


def makers_read(node: Node, known: Mapping[Any, Node]) -> list[Node]:
    """The nodes that make the symbols in a node's sizes and arguments. It needs them, though it reads no result."""
    from stage_contracts.symbol_bindings import (
        open_sizes_in,  # which imports this file, by way of symbolic.py
    )

    used = {s for size in open_sizes_in((node.val, node.args, node.kwargs)) for s in symbols_of(size)}
    return [known[s] for s in used if s in known and known[s] is not node]


def symbols_of(size: Any) -> set[Any]:
    """The symbols in a size, as it was written and as it is known to be."""
    return size.expr.free_symbols | size.env.simplify(size.expr).free_symbols
