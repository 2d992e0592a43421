"""Sizes that are not known until run time: SymInt, SymFloat, SymBool, and the ShapeEnv that relates them.

Input: named dimensions that capture makes from the first call's sizes (their hints). A symbolic value is a
sympy expression; asking it for a Python bool answers from the hint and records the assumption as a guard
would need it, with the user's line. An unbacked symbol has no hint, so asking it raises.
"""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stage_contracts.origin import Origin

if TYPE_CHECKING:
    import sympy


class DataDependentError(RuntimeError):
    """The program branches on a value that only the data knows (an unbacked symbol)."""


@dataclass(frozen=True)
class Assumption:
    """`condition` held for the hints when `origin` was captured; compiled code relies on it."""

    condition: Any  # a sympy relational
    origin: Origin | None

    def __str__(self) -> str:
        return f"{self.condition}" + (f"  # {self.origin.describe()}" if self.origin else "")


@dataclass
class ShapeEnv:
    """The symbols of one compilation. It stays open until `build`: any stage may still add an assumption."""

    hints: dict[Any, int | float | None] = field(default_factory=dict)
    ranges: dict[Any, tuple[int, int | None]] = field(default_factory=dict)
    assumptions: list[Assumption] = field(default_factory=list)
    origin: Origin | None = None  # the user's line being captured now

    def dimension(self, name: str, hint: int | None, low: int = 0, high: int | None = None) -> SymInt:
        """A new size called `name`, at least `low`. `hint=None` makes it unbacked."""
        import sympy

        symbol = sympy.Symbol(name, integer=True, nonnegative=low >= 0)
        self.hints[symbol], self.ranges[symbol] = hint, (low, high)
        return SymInt(symbol, self)

    def evaluate(self, expr: Any) -> Any:
        """The value of `expr` at the hints. Raises DataDependentError when a symbol in it is unbacked."""
        unbacked = [s for s in expr.free_symbols if self.hints.get(s) is None]
        if unbacked:
            raise DataDependentError(
                f"{expr} depends on the data ({', '.join(map(str, unbacked))} has no value at compile time); "
                "rewrite the branch with cutaway.where or cutaway.cond"
            )
        return expr.subs(self.hints)

    def assume(self, condition: Any) -> bool:
        """Decide `condition` by the hints and record whichever way it went."""
        import sympy

        if condition in (True, False, sympy.true, sympy.false):
            return bool(condition)
        holds = bool(self.evaluate(condition))
        entry = Assumption(condition if holds else sympy.Not(condition), self.origin)
        if entry not in self.assumptions:
            self.assumptions.append(entry)
        return holds


class _Symbolic:
    """Arithmetic shared by SymInt and SymFloat; results stay symbolic."""

    __slots__ = ("env", "expr")

    def __init__(self, expr: sympy.Expr, env: ShapeEnv) -> None:
        self.expr, self.env = expr, env

    @property
    def hint(self) -> Any:
        return self.env.evaluate(self.expr)

    def __repr__(self) -> str:
        return str(self.expr)

    def __hash__(self) -> int:
        return hash(self.expr)

    def _arith(self, other: Any, function: Any, reflected: bool = False) -> Any:
        right = other.expr if isinstance(other, _Symbolic) else other
        expr = function(right, self.expr) if reflected else function(self.expr, right)
        if getattr(expr, "is_Integer", False):
            return int(expr)
        return (SymInt if expr.is_integer else SymFloat)(expr, self.env)

    def _compare(self, other: Any, relation: str) -> SymBool:
        import sympy

        right = other.expr if isinstance(other, _Symbolic) else other
        return SymBool(getattr(sympy, relation)(self.expr, right), self.env)

    def __bool__(self) -> bool:
        import sympy

        return self.env.assume(sympy.Ne(self.expr, 0))


# Python's operators: the name of the method, what it does, whether the operands are swapped.
_ARITHMETIC = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "truediv": operator.truediv,
}
_RELATIONS = {"eq": "Eq", "ne": "Ne", "lt": "Lt", "le": "Le", "gt": "Gt", "ge": "Ge"}


def _attach() -> None:
    for name, function in _ARITHMETIC.items():
        setattr(_Symbolic, f"__{name}__", lambda self, other, f=function: self._arith(other, f))
        setattr(_Symbolic, f"__r{name}__", lambda self, other, f=function: self._arith(other, f, True))
    for name, relation in _RELATIONS.items():
        setattr(_Symbolic, f"__{name}__", lambda self, other, r=relation: self._compare(other, r))
    setattr(_Symbolic, "__neg__", lambda self: self._arith(-1, operator.mul))  # noqa: B010


_attach()


class SymInt(_Symbolic):
    """An integer known by an expression. `int(n)` fixes it to its hint and records that assumption."""

    def __int__(self) -> int:
        import sympy

        value = int(self.hint)
        self.env.assume(sympy.Eq(self.expr, value))
        return value

    __index__ = __int__


class SymFloat(_Symbolic):
    """A float known by an expression (a learning rate, a scale)."""

    def __float__(self) -> float:
        import sympy

        value = float(self.hint)
        self.env.assume(sympy.Eq(self.expr, value))
        return value


class SymBool:
    """A condition on symbolic sizes; using it as a Python bool records the assumption."""

    __slots__ = ("env", "expr")

    def __init__(self, expr: Any, env: ShapeEnv) -> None:
        self.expr, self.env = expr, env

    def __bool__(self) -> bool:
        return self.env.assume(self.expr)

    def __repr__(self) -> str:
        return str(self.expr)


Size = int | SymInt  # one entry of a shape, in elements
