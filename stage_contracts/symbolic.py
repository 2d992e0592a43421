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
    def hint(self) -> int | float:
        value = self.env.evaluate(self.expr)
        return int(value) if isinstance(self, SymInt) else float(value)

    def __repr__(self) -> str:
        return str(self.expr)

    def __hash__(self) -> int:
        return hash(self.expr)

    def _arith(self, other: Any, function: Any, reflected: bool = False) -> Any:
        right = other.expr if isinstance(other, _Symbolic) else other
        expr = function(right, self.expr) if reflected else function(self.expr, right)
        # int or float by the rules of Python, not of sympy, which does not know that what is divided by is not 0
        whole = (
            isinstance(self, SymInt) and isinstance(other, (int, SymInt)) and function is not operator.truediv
        )
        if getattr(expr, "is_number", True):
            return int(expr) if whole else float(expr)
        return (SymInt if whole else SymFloat)(expr, self.env)

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


def same_size(a: Any, b: Any) -> bool:
    """Whether two sizes are one number for all sizes of the inputs, as far as can be seen; assumes nothing."""
    if isinstance(a, int) and isinstance(b, int):
        return a == b
    return getattr(a, "expr", a) == getattr(b, "expr", b)


def same_shape(a: tuple, b: tuple) -> bool:
    """same_size for each pair."""
    return len(a) == len(b) and all(map(same_size, a, b))


# sympy's functions -> Python text of their printed arguments. Integers only, so floor(a/b) is exact as a // b.
def python_text(expr: Any, name_of: Any) -> str:
    """A sympy expression or relation over sizes as Python, with `name_of(symbol)` for each symbol.

    Raises ValueError for what it does not know.
    """
    import sympy

    def text(e: Any) -> str:
        if e.is_Symbol:
            return str(name_of(e))
        if isinstance(e, (sympy.logic.boolalg.BooleanTrue, sympy.logic.boolalg.BooleanFalse)):
            return str(bool(e))
        if e.is_Integer:
            return str(int(e)) if e >= 0 else f"({int(e)})"
        if e.is_Rational or e.is_Float:
            return f"({e})"
        words = [text(a) for a in e.args]
        if isinstance(e, sympy.Pow) and e.exp.is_Integer and e.exp > 0:
            return f"({' ** '.join(words)})"
        if isinstance(e, sympy.floor):
            numerator, denominator = sympy.fraction(sympy.together(e.args[0]))
            return f"({text(numerator)} // {text(denominator)})"
        if isinstance(e, sympy.Pow) and e.exp == -1:
            return f"(1 / {words[0]})"
        if isinstance(e, (sympy.Max, sympy.Min)):
            return f"{'max' if isinstance(e, sympy.Max) else 'min'}({', '.join(words)})"
        if isinstance(e, sympy.Not):
            return f"(not {words[0]})"
        sign = _SIGNS.get(type(e).__name__)
        if sign is None:
            raise ValueError(f"{type(e).__name__} of sizes has no Python text: {e}")
        return f"({f' {sign} '.join(words)})"

    return text(expr)


_SIGNS = {
    "Add": "+", "Mul": "*", "Mod": "%", "Equality": "==", "Unequality": "!=", "StrictLessThan": "<", "LessThan": "<=",
    "StrictGreaterThan": ">", "GreaterThan": ">=", "And": "and", "Or": "or",
}  # fmt: skip


def hinted(size: Any) -> int:
    """The size, or its hint where it is symbolic: for estimates, which must not become assumptions."""
    return size if isinstance(size, int) else int(size.hint)
