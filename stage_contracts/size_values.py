"""The value of a size for given numbers, in Python's arithmetic: sympy's `subs` takes a hundred times as long.

Input: a sympy expression or relation over symbols of sizes, and a number for each. Capture needs hints very often.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any


def value_at(expr: Any, numbers: Mapping[Any, Any]) -> Any:
    """The value of a size, or of a relation of sizes, exactly, in Python's numbers.

    Raises NotImplementedError for what it does not know, floats among it, whose rounding is sympy's.
    """
    if expr.is_Symbol:
        number = numbers[expr]
        if type(number) is not int:
            raise NotImplementedError
        return number
    if expr.is_Integer:
        return int(expr)
    if expr.is_Rational:
        return Fraction(int(expr.p), int(expr.q))
    rule = _VALUES.get(type(expr).__name__)
    if rule is None:
        raise NotImplementedError
    return rule(*(value_at(a, numbers) for a in expr.args))


def _power(base: Any, exponent: Any) -> Any:
    if base == 0 and exponent < 0 or not isinstance(exponent, int):
        raise NotImplementedError
    return Fraction(base) ** exponent


def _rest(a: Any, b: Any) -> Any:
    if b == 0:
        raise NotImplementedError
    return a % b


# sympy's name of an operation -> the function that computes it
_VALUES: dict[str, Callable[..., Any]] = {
    "Add": lambda *parts: sum(parts),
    "Mul": lambda *parts: math.prod(parts),
    "Pow": _power,
    "Mod": _rest,
    "floor": math.floor,
    "ceiling": math.ceil,
    "Max": max,
    "Min": min,
    "Equality": operator.eq,
    "Unequality": operator.ne,
    "StrictLessThan": operator.lt,
    "LessThan": operator.le,
    "StrictGreaterThan": operator.gt,
    "GreaterThan": operator.ge,
}
