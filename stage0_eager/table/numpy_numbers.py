"""NumPy's numbers as arguments of operators: `x.sum(np.int64(0))`. They count as the Python numbers that they are.

Input: a call that failed. Operands that are NumPy numbers are known to the kernels; for a size or a dimension a body
asks `isinstance(dim, int)`, as it may: the call is made again with Python's, and a call without them costs nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stage0_eager.table import operator as operator_module
from stage0_eager.table.operator import Operator

NOT_HERE = object()


def in_python(tree: Any) -> Any:
    """The same with Python's numbers for NumPy's, in tuples, lists and dicts; the very object where there are none."""
    if isinstance(tree, np.generic):
        return tree.item()
    if type(tree) in (tuple, list):
        parts = [in_python(part) for part in tree]
        same = all(part is old for part, old in zip(parts, tree, strict=True))
        return tree if same else type(tree)(parts)
    if type(tree) is dict:
        named = {name: in_python(part) for name, part in tree.items()}
        return tree if all(named[name] is tree[name] for name in tree) else named
    return tree


def for_each(value: Any, count: int) -> tuple[Any, ...]:
    """One number for each of `count` dimensions; or the numbers that are given, as a tuple."""
    value = in_python(value)
    return (value,) * count if isinstance(value, int) else tuple(value)


def _again_in_python(function: Operator, args: tuple, kwargs: dict[str, Any]) -> Any:
    plain, named = in_python(args), in_python(kwargs)
    if plain is args and named is kwargs:
        return NOT_HERE
    return function(*plain, **named)


operator_module.ANSWERS.append(_again_in_python)
