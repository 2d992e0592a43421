"""Removes a cast to a wider type that the next cast undoes. A rounding that the user wrote stays.

Input: core graphs. cast(cast(x, wide), narrow) is cast(x, narrow) if `wide` holds every value of x's dtype. The
exception is a float that is cast to integers and then to other integers: values out of range wrap only when they come
from an integer.
"""

from __future__ import annotations

from typing import Any

from stage2_autograd.core_calls import core_name
from stage2_autograd.decompose.rewriting import Call, Rewrite, rewrite
from stage_contracts.dtype import DTYPES
from stage_contracts.graph import Graph, Node

# How many bits of an integer, without the sign, a floating type holds exactly.
_EXACT_BITS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
_WIDER_FLOATS = {
    "float16": ("float32", "float64"),
    "bfloat16": ("float32", "float64"),
    "float32": ("float64",),
}
_BITS = {"bool": 1, "uint8": 8, "int8": 7, "int16": 15, "int32": 31, "int64": 63}


def casts(graph: Graph) -> None:
    """Of two casts in a row, remove the first if it only widens."""
    rewrite(graph, RULES)


def holds(wide: Any, dtype: Any) -> bool:
    """Whether `wide` can hold every value of `dtype`."""
    if wide is dtype:
        return True
    if wide.is_complex or dtype.is_complex:  # a cast to a real dtype drops a part
        return False
    if dtype.is_floating_point:
        return wide.name in _WIDER_FLOATS.get(dtype.name, ())
    if wide.is_floating_point:
        return _BITS[dtype.name] <= _EXACT_BITS[wide.name]
    return (
        wide.name != "bool"
        and _BITS[dtype.name] <= _BITS[wide.name]
        and (wide.is_signed or not dtype.is_signed)
    )


def _merged(node: Node) -> Any:
    inner, dtype = node.args
    if core_name(inner) != "cast":
        return None
    source = inner.args[0]
    if not holds(inner.val.dtype, source.val.dtype):
        return None
    if inner.val.dtype.is_floating_point and not _as_from_float(source.val.dtype, dtype):
        return None
    return source if dtype is source.val.dtype else Call(node.target, source, dtype)


def _as_from_float(source: Any, dtype: Any) -> bool:
    """Whether values of `source` give the same results in `dtype`, cast directly or through a float."""
    into_integer = not dtype.is_floating_point and dtype.name != "bool"
    return source.is_floating_point or not into_integer or holds(dtype, source)


RULES: dict[str, Rewrite] = {"cast": _merged}
_REAL = {name for name, dtype in DTYPES.items() if not dtype.is_complex}
assert set(_BITS) | set(_EXACT_BITS) == _REAL, "a dtype is missing here"
