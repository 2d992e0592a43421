"""Open sizes as Python text: how a guard checks them, and how residual code computes one.

Input: a sympy expression or relation over symbols of sizes, and the text that reads each symbol.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def python_text(expr: Any, name_of: Callable[[Any], Any]) -> str:
    """A sympy expression or relation over sizes as Python, with `name_of(symbol)` for each symbol.

    Raises ValueError for an expression that it does not support.
    """
    if expr.is_Symbol:
        return str(name_of(expr))
    if not expr.args:
        return _constant_text(expr)
    name = type(expr).__name__
    if name == "floor":  # the operands are integers, so floor(a / b) is exactly a // b
        import sympy

        numerator, denominator = sympy.fraction(sympy.together(expr.args[0]))
        return f"({python_text(numerator, name_of)} // {python_text(denominator, name_of)})"
    words = [python_text(a, name_of) for a in expr.args]
    if name == "Pow":
        return _power_text(expr, words)
    if name in _CALLS:
        return f"{_CALLS[name]}({', '.join(words)})"
    if name == "Not":
        return f"(not {words[0]})"
    if name not in _SIGNS:
        raise ValueError(f"the size {expr} cannot be written as Python: there is no form for {name}")
    return f"({f' {_SIGNS[name]} '.join(words)})"


def _constant_text(expr: Any) -> str:
    if expr.is_Boolean:
        return str(bool(expr))
    if expr.is_Integer:
        return str(int(expr)) if expr >= 0 else f"({int(expr)})"
    if expr.is_Rational or expr.is_Float:
        return f"({expr})"
    raise ValueError(
        f"the size {expr} cannot be written as Python: there is no form for {type(expr).__name__}"
    )


def _power_text(expr: Any, words: list[str]) -> str:
    if expr.exp.is_Integer and expr.exp > 0:
        return f"({' ** '.join(words)})"
    if expr.exp == -1:
        return f"(1 / {words[0]})"
    raise ValueError(f"the size {expr} cannot be written as Python: there is no form for this power")


_CALLS = {"Max": "max", "Min": "min"}
_SIGNS = {
    "Add": "+", "Mul": "*", "Mod": "%", "Equality": "==", "Unequality": "!=", "StrictLessThan": "<", "LessThan": "<=",
    "StrictGreaterThan": ">", "GreaterThan": ">=", "And": "and", "Or": "or",
}  # fmt: skip
