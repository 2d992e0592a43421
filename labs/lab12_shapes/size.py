"""Size: an integer that is not known yet. Arithmetic gives new Sizes; a comparison asks the environment to decide.

Input: a sympy expression of symbols, and the ShapeEnv they belong to. You need not change this file.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import sympy


class Size:
    """An expression such as s0*s1 + 1."""

    def __init__(self, expr: Any, env: Any) -> None:
        self.expr, self.env = sympy.sympify(expr), env

    def __repr__(self) -> str:
        return str(self.expr)

    def __hash__(self) -> int:
        return hash(self.expr)

    def __index__(self) -> int:
        """Python wants a number here: range(n), a list's index, a C function."""
        return self.env.specialize(self)

    __int__ = __index__

    def _make(self, other: Any, rule: Any, turned: bool = False) -> Any:
        if not isinstance(other, int | Size):
            return NotImplemented
        a, b = self.expr, expr_of(other)
        return Size(rule(b, a) if turned else rule(a, b), self.env)

    def __add__(self, other: Any) -> Any:
        return self._make(other, lambda a, b: a + b)

    def __radd__(self, other: Any) -> Any:
        return self._make(other, lambda a, b: a + b, True)

    def __sub__(self, other: Any) -> Any:
        return self._make(other, lambda a, b: a - b)

    def __rsub__(self, other: Any) -> Any:
        return self._make(other, lambda a, b: a - b, True)

    def __mul__(self, other: Any) -> Any:
        return self._make(other, lambda a, b: a * b)

    def __rmul__(self, other: Any) -> Any:
        return self._make(other, lambda a, b: a * b, True)

    def __floordiv__(self, other: Any) -> Any:
        return self._make(other, lambda a, b: sympy.floor(a / b))

    def __mod__(self, other: Any) -> Any:
        return self._make(other, sympy.Mod)

    def _ask(self, other: Any, relation: Any) -> Any:
        if not isinstance(other, int | Size):
            return NotImplemented
        return self.env.decide(relation(self.expr, expr_of(other)))

    def __eq__(self, other: Any) -> Any:
        return self._ask(other, sympy.Eq)

    def __ne__(self, other: Any) -> Any:
        return self._ask(other, sympy.Ne)

    def __lt__(self, other: Any) -> Any:
        return self._ask(other, sympy.Lt)

    def __le__(self, other: Any) -> Any:
        return self._ask(other, sympy.Le)

    def __gt__(self, other: Any) -> Any:
        return self._ask(other, sympy.Gt)

    def __ge__(self, other: Any) -> Any:
        return self._ask(other, sympy.Ge)


def expr_of(value: Any) -> Any:
    """The sympy expression of a Size or an int."""
    return value.expr if isinstance(value, Size) else sympy.Integer(int(value))


@cache
def known(condition: Any) -> bool | None:
    """Whether a condition holds for all sizes of at least 2 (True), for none (False), or for some (None)."""
    if condition in (sympy.true, sympy.false):
        return bool(condition)
    rest = {s: sympy.Symbol(f"{s}_", integer=True, nonnegative=True) + 2 for s in condition.free_symbols}
    found = sympy.simplify(condition.subs(rest))
    return bool(found) if found in (sympy.true, sympy.false) else None
