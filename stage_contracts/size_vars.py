"""The sizes of a program that each call decides: where to read them, and how to put numbers into an artifact.

Input: `lower` lists the SizeVars of a graph. From then on a size is an int or a sympy expression of their names; two
sizes are equal if their expressions are. `at_sizes` puts numbers in: what a program means at one call.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import sympy

from stage_contracts.index_expr import FloorDiv, Mod, symbol
from stage_contracts.loop_ir import BufferRef, Instr, SizeVar
from stage_contracts.symbolic import hinted
from stage_contracts.tensor_meta import TensorMeta


def plain(size: Any) -> Any:
    """The size as an int if its expression is a number."""
    return int(size) if isinstance(size, sympy.Integer) else size


def is_open(size: Any) -> bool:
    """Whether only a call decides this size or index."""
    return isinstance(size, sympy.Basic) and bool(size.free_symbols)


@lru_cache(maxsize=65536)
def quotient(big: Any, small: Any) -> Any | None:
    """`big / small` if it is an integer for all sizes, else None. Both are products of numbers and symbols."""
    if isinstance(big, int) and isinstance(small, int):
        return big // small if small and big % small == 0 else None
    if small == 0:
        return None
    found = sympy.sympify(big) / small
    coefficient, rest = found.as_coeff_Mul()
    whole = coefficient.is_Integer and not any(
        (f.is_Pow and f.exp.is_negative) or f.is_Add for f in sympy.Mul.make_args(rest)
    )
    return plain(found) if whole else None


def never_below(big: Any, small: Any) -> bool:
    """Whether `big >= small` is certain for all sizes: no term of the difference is negative."""
    if isinstance(big, int) and isinstance(small, int):
        return big >= small
    difference = sympy.expand(sympy.sympify(big) - small)
    return all(c >= 0 for c in difference.as_coefficients_dict().values()) and not difference.has(
        FloorDiv, Mod
    )


def likely_above(size: Any, number: int) -> bool:
    """Whether a size is above `number`; an open size counts with its nominal value. For choices that do not change a
    result."""
    return hinted(size) > number


def size_values(sizes: Sequence[SizeVar], shapes: Mapping[str, Sequence[int]]) -> dict[Any, int]:
    """The value of every size, as a substitution, from the shapes of the inputs {name: shape}."""
    values: dict[Any, int] = {}
    for var in sizes:
        found = shapes[var.buffer][var.dim] if var.buffer else int(sympy.sympify(var.expr).subs(values))
        values[symbol(var.name)] = found
    return values


def late_sizes(sizes: Sequence[SizeVar], inputs: Sequence[str]) -> dict[str, frozenset[str]]:
    """The sizes that are known only when the program runs, each with the buffers that must be there to compute it."""
    late: dict[str, frozenset[str]] = {}
    for var in sizes:
        if var.buffer:
            after = frozenset({var.buffer} - {*inputs})
        else:
            after = frozenset().union(*(late.get(s.name, ()) for s in getattr(var.expr, "free_symbols", ())))
        if after:
            late[var.name] = after
    return late


def sizes_in(tree: Any) -> set[str]:
    """The names of the open sizes in nested tuples, lists, dicts, metas and views of buffers."""
    if isinstance(tree, sympy.Basic):
        return {s.name for s in tree.free_symbols}
    if isinstance(tree, TensorMeta):
        return sizes_in((tree.shape, tree.strides))
    if isinstance(tree, BufferRef):
        return sizes_in((tree.shape, tree.strides, tree.offset))
    if isinstance(tree, slice):
        return sizes_in((tree.start, tree.stop, tree.step))
    if isinstance(tree, Mapping):
        tree = tuple(tree.values())
    return set().union(*map(sizes_in, tree)) if isinstance(tree, (tuple, list)) else set()


def at_sizes(value: Any, values: Mapping[Any, int]) -> Any:
    """The same artifact (a nest, a program, a meta, a tuple of anything) with numbers for the symbols."""
    if isinstance(value, TensorMeta):
        shape, strides = at_sizes(value.shape, values), at_sizes(value.strides, values)
        return value.with_(shape=shape, strides=strides)
    if isinstance(value, sympy.Basic):
        return plain(value.subs(values))
    if isinstance(value, Instr):  # an index must stay an expression
        args = tuple(a.subs(values) if isinstance(a, sympy.Basic) else a for a in value.args)
        return dataclasses.replace(value, args=args)
    if isinstance(value, Mapping):
        return {key: at_sizes(item, values) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*at_sizes((value.start, value.stop, value.step), values))
    if type(value) in (tuple, list):
        return type(value)(at_sizes(item, values) for item in value)
    if dataclasses.is_dataclass(value) and type(value).__module__.startswith("stage_contracts"):
        return _record_at_sizes(value, values)
    return value


def _record_at_sizes(record: Any, values: Mapping[Any, int]) -> Any:
    """The same for a dataclass of the contracts, field by field. The same object if no field changes."""
    fields = {f.name: getattr(record, f.name) for f in dataclasses.fields(record)}
    moved = {k: at_sizes(v, values) for k, v in fields.items()}
    changed = {k: v for k, v in moved.items() if v is not fields[k]}
    return dataclasses.replace(record, **changed) if changed else record
