"""Open sizes as Python text: how a guard checks them, how residual code computes one, how a file has them.

Input: a sympy expression or relation over symbols of sizes, and the text that reads each symbol. `read_size` reads the
text that sympy prints.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
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


def read_size(text: str, symbols: Mapping[str, Any]) -> Any:
    """Read back `str(expr)`, of an expression or a relation; `symbols` by name. Raises ValueError."""
    import sympy

    names = ("floor", "ceiling", "Max", "Min", "Mod", "Eq", "Ne", "And", "Or", "Not")
    calls = {name: getattr(sympy, name) for name in names}

    def read(tree: ast.expr) -> Any:
        match tree:
            case ast.Constant(value=bool(value)):
                return sympy.true if value else sympy.false
            case ast.Constant(value=int(value)):
                return sympy.Integer(value)
            case ast.Constant(value=float(value)):
                return sympy.Float(value)
            case ast.Name(id=name) if name in symbols:
                return symbols[name]
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -read(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _OPERATORS:
                return _OPERATORS[type(op)](read(left), read(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in _RELATIONS:
                return getattr(sympy, _RELATIONS[type(op)])(read(left), read(right))
            case ast.Call(func=ast.Name(id=name), args=args) if name in calls:
                return calls[name](*map(read, args))
        raise ValueError(f"not a size: {text!r}")

    try:
        return read(ast.parse(text, mode="eval").body)
    except SyntaxError as error:
        raise ValueError(f"not a size: {text!r}") from error


_OPERATORS: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}  # fmt: skip
_RELATIONS: dict[type, str] = {ast.Lt: "Lt", ast.LtE: "Le", ast.Gt: "Gt", ast.GtE: "Ge"}
