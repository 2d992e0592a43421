"""Second names: `subtract` for `sub`, `arccos` for `acos`, and the others that torch has.

Input: the operators they stand for. Each is a row of its own, so that a graph shows the name the user wrote.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from stage0_eager.functions import pointwise
from stage0_eager.table.operator import Operator
from stage0_eager.table.registry import register

if TYPE_CHECKING:  # the rows that a loop below makes

    def __getattr__(name: str) -> Any: ...


ALIASES = {
    "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "negative": "neg",
    "absolute": "abs", "arccos": "acos", "arcsin": "asin", "arctan": "atan", "arccosh": "acosh", "arcsinh": "asinh",
    "arctanh": "atanh", "arctan2": "atan2", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le",
    "not_equal": "ne", "clip": "clamp", "fix": "trunc", "sgn": "sign", "expit": "sigmoid",
}  # fmt: skip


def _alias(name: str, original: Operator) -> Operator:
    op = register(Operator(name, "", body=original.body))
    op.__name__, op.__doc__ = name, f"As {original.name}: {original.__doc__}"
    return op


globals().update({alias: _alias(alias, getattr(pointwise, name)) for alias, name in ALIASES.items()})
