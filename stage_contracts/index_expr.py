"""Index expressions: the position of an element in a buffer, as sympy expressions that print as Python and read back.

Input: lowering builds them from loop variables (`i0`, `r0`), sizes and data-dependent values (`tmp3`). They use only +,
*, //, % and integers, and every operand is non-negative, so C's and Python's division agree.
"""

from __future__ import annotations

import ast
from functools import lru_cache
from typing import Any

import sympy
from sympy.printing.str import StrPrinter


class FloorDiv(sympy.Function):
    """a // b for non-negative a and positive b (any a if Python computes it). It is simplified where possible."""

    nargs = (2,)
    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        if b == 1 or b == 0:  # b is 0 if an open size is 0 at this call; then nothing is computed
            return a
        if a.is_Integer and b.is_Integer:
            return sympy.Integer(int(a) // int(b))
        whole, rest = split_multiple(a, b)
        if rest == 0:
            return whole
        return whole + cls(rest, b, evaluate=False) if whole != 0 else None


class Mod(sympy.Function):
    """a % b for non-negative a and positive b."""

    nargs = (2,)
    precedence = 1000  # it prints its own parentheses (sympy has another Mod)
    is_integer = True
    is_nonnegative = True

    @classmethod
    def eval(cls, a: Any, b: Any) -> Any:
        if b == 1 or b == 0:
            return sympy.Integer(0)
        if a.is_Integer and b.is_Integer:
            return sympy.Integer(int(a) % int(b))
        whole, rest = split_multiple(a, b)
        if rest == 0:
            return sympy.Integer(0)
        return cls(rest, b, evaluate=False) if whole != 0 else None


def split_multiple(a: Any, b: Any) -> tuple[Any, Any]:
    """a == b * whole + rest, moving every term that is a multiple of `b` (a number, or a product) into `whole`.

    `rest` is non-negative if `a` is. For example, 2*(i0 - 2) + (i1 - 1), an element behind a pad, is 2*i0 + i1 - 5:
    divided by 2, the rest is i1 + 1, not i1 - 5.
    """
    whole, rest = sympy.Integer(0), sympy.Integer(0)
    if b.is_Integer:  # the usual case, done quickly
        for term in sympy.Add.make_args(a):
            number, factor = term.as_coeff_Mul()
            if number.is_Integer and int(number) % int(b) == 0:
                whole += (int(number) // int(b)) * factor
            else:
                rest += term
        number = rest.as_coeff_Add()[0]
        if whole.free_symbols and number.is_Integer and number < 0:
            steps = int(number) // int(b)
            whole, rest = whole + steps, rest - steps * int(b)
        return whole, rest
    for term in sympy.Add.make_args(a):
        factor = term / b
        number, symbols = factor.as_coeff_Mul()
        divided = any(f.is_Pow and f.exp.is_negative for f in sympy.Mul.make_args(symbols))
        if number.is_Integer and not divided:
            whole += factor
        else:
            rest += term
    return whole, rest


@lru_cache(maxsize=4096)
def symbol(name: str) -> sympy.Symbol:
    """The symbol of the loop variable or value with this name."""
    return sympy.Symbol(name, integer=True, nonnegative=True)


class _Printer(StrPrinter):
    def _print_FloorDiv(self, expr: Any) -> str:  # sympy finds printers by class name
        return f"({self._atom(expr.args[0])} // {self._atom(expr.args[1])})"

    def _print_Mod(self, expr: Any) -> str:
        return f"({self._atom(expr.args[0])} % {self._atom(expr.args[1])})"

    def _print_Pow(self, expr: Any, rational: bool = False) -> str:  # C++ has no operator for integer powers
        return "*".join([self._atom(expr.base)] * int(expr.exp))

    def _atom(self, expr: Any) -> str:
        bare = expr.is_Symbol or expr.is_Integer or isinstance(expr, (FloorDiv, Mod))
        return self._print(expr) if bare else f"({self._print(expr)})"


_PRINTER = _Printer()


@lru_cache(maxsize=65536)
def print_index(expr: Any) -> str:
    """The expression as Python, which is also C++ and Triton for non-negative operands (// becomes / in C++)."""
    return _PRINTER.doprint(sympy.sympify(expr))


@lru_cache(maxsize=65536)
def parse_index(text: str) -> Any:
    """Read back `print_index(expr)`. Raises ValueError."""

    def read(tree: ast.expr) -> Any:
        match tree:
            case ast.Constant(value=int(value)):
                return sympy.Integer(value)
            case ast.Name(id=name):
                return symbol(name)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -read(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in _BINARY:
                return _BINARY[type(op)](read(left), read(right))
        raise ValueError(f"not an index expression: {text!r}")

    return read(ast.parse(text, mode="eval").body)


_BINARY: dict[type, Any] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.Pow: lambda a, b: a**b,
    ast.FloorDiv: FloorDiv,
    ast.Mod: Mod,
}
