"""Sizes that are not known until run time: SymInt, SymFloat, SymBool, and ShapeEnv, which knows their relations.

Input: named dimensions that capture makes from the first call's sizes (their hints). A symbolic value is a sympy
expression. Its conversion to a Python bool uses the hint, and records the assumption for a guard, with the user's line.
An unbacked symbol has no hint, so its conversion raises.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stage_contracts.origin import Origin
from stage_contracts.size_values import value_at
from stage_contracts.unbacked import DataDependentError, answered, question, unbacked_in

if TYPE_CHECKING:
    import sympy


@dataclass(frozen=True)
class Assumption:
    """A fact that compiled code relies on: `condition` held for the hints when `origin` was captured."""

    condition: Any  # a sympy relational
    origin: Origin | None

    def __str__(self) -> str:
        return f"{self.condition}" + (f"  # {self.origin.describe()}" if self.origin else "")


@dataclass
class ShapeEnv:
    """The symbols of one compile, and the assumptions about them. Any stage may add an assumption, until `build`.

    Assumptions are used: after an equality one symbol represents the other (`replacements`), and a bound narrows a
    range.
    """

    hints: dict[Any, int | float | None] = field(default_factory=dict)
    ranges: dict[Any, tuple[int, int | None]] = field(default_factory=dict)
    assumptions: list[Assumption] = field(default_factory=list)
    origin: Origin | None = None  # the user's line that is being captured
    replacements: dict[Any, Any] = field(default_factory=dict)  # symbol -> the expression that it is equal to
    # a sum of sizes that is known to be a number -> minus that number
    zeros: dict[Any, Any] = field(default_factory=dict)
    # product, quotient or remainder -> the expression that it is equal to
    products: dict[Any, Any] = field(default_factory=dict)
    # as they were before any assumption
    first_ranges: dict[Any, tuple[int, int | None]] = field(default_factory=dict)
    # cache of `known`; a None is dropped at the next assumption
    answers: dict[Any, bool | None] = field(default_factory=dict)
    simplified: dict[Any, Any] = field(default_factory=dict)  # cache of `simplify`, until the next assumption
    values: dict[Any, Any] = field(
        default_factory=dict
    )  # cache of `evaluate`: all stages ask for the same hints
    made_at: dict[Any, str] = field(default_factory=dict)  # unbacked symbol -> the call that makes it
    floors: dict[Any, int] = field(default_factory=dict)  # a sum of unbacked symbols -> the least it can be
    deferred: list[Any] = field(
        default_factory=list
    )  # facts about unbacked symbols, to be checked at run time

    def dimension(self, name: str, hint: int | None, low: int = 0, high: int | None = None) -> SymInt:
        """Make a size named `name`, at least `low`. `hint=None` makes it unbacked."""
        import sympy

        symbol = sympy.Symbol(name, integer=True, nonnegative=low >= 0 or None)
        if symbol in self.hints:  # forget the facts about an earlier size of this name
            self.answers, self.simplified, self.values = {}, {}, {}
        self.hints[symbol], self.ranges[symbol], self.first_ranges[symbol] = hint, (low, high), (low, high)
        return SymInt(symbol, self)

    def evaluate(self, expr: Any) -> Any:
        """The value of `expr` at the hints. Raises DataDependentError if a symbol in it is unbacked."""
        found = self.values.get(expr)
        if found is None:
            found = self.values[expr] = self._evaluate(expr)
        return found

    def _evaluate(self, expr: Any) -> Any:
        if any(self.hints.get(s) is None for s in expr.free_symbols):
            raise DataDependentError(question(self, expr))
        try:
            return value_at(expr, self.hints)
        except NotImplementedError:
            return expr.subs(self.hints)

    def simplify(self, expr: Any) -> Any:
        """The expression, in which each symbol or product that is known to be equal to others is replaced by them."""
        found = self.simplified.get(expr)
        if found is None:
            found = self.simplified[expr] = self._simplify(expr)
        return found

    def _simplify(self, expr: Any) -> Any:
        expr = expr.xreplace(self.replacements) if self.replacements else expr
        try:
            return expr.subs(self.products) if self.products else expr
        except ZeroDivisionError:  # a remainder or quotient by a size that is known to be 0
            return expr

    def known(self, condition: Any) -> bool | None:
        """Whether `condition` holds for all sizes (True) or for none (False). None: it depends. Makes no assumption."""
        answer = self.answers.get(condition, _UNASKED)
        if answer is _UNASKED:
            answer = self.answers[condition] = self._known(condition)
        return answer

    def _known(self, condition: Any) -> bool | None:
        import sympy

        if condition in (True, False):
            return bool(condition)
        rule = _BY_BOUNDS.get(type(condition).__name__)
        if rule is None:
            return None
        difference = self.simplify(condition.lhs - condition.rhs)
        if _has_rest_of_quotient(difference):
            difference = difference.replace(sympy.floor, _exact_quotient)
        if _has_rest_of_quotient(difference):
            return None  # for some expressions, sympy's `expand` does not end
        return rule(*self.bounds(sympy.expand(difference)))

    def bounds(self, expr: Any) -> tuple[float, float]:
        """The smallest and largest value of an expression of sizes, from the ranges of the sizes."""
        constant, rest = expr.as_coeff_Add()
        # s0 - 2*(s0 // 3) may be known to be 1, though nothing is known about its symbols and terms
        if rest in self.zeros:
            whole = constant - self.zeros[rest]
            if whole.is_Integer:
                return int(whole), int(whole)
        low, high = interval(expr, self.ranges)
        if self.floors:
            low = max(low, constant + self.floors.get(rest, -math.inf))
            high = min(high, constant - self.floors.get(-rest, -math.inf))
        return low, high

    def assume(self, condition: Any) -> bool:
        """Decide `condition` from the known facts, or else from the hints; then record the result as an assumption."""
        import sympy

        known = self.known(condition)
        if known is not None:
            return known
        if unbacked_in(self, condition):
            return answered(self, condition)
        holds = bool(self.evaluate(condition))
        self._record(condition if holds else sympy.Not(condition))
        self.answers[condition] = holds
        return holds

    def knowing_less(self) -> Iterator[None]:
        """Iterate over the earlier states of the known facts: as at the beginning, then after each assumption."""
        assumed, self.assumptions = self.assumptions, []
        self.ranges, self.replacements, self.zeros, self.products = dict(self.first_ranges), {}, {}, {}
        self.answers, self.simplified = {}, {}
        for each in assumed:
            yield
            self._record(each.condition)

    def _record(self, condition: Any) -> None:
        import sympy

        # Make new dicts instead of clearing them: a saved state keeps the old ones. Known facts stay known.
        self.answers = {asked: known for asked, known in self.answers.items() if known is not None}
        self.simplified = {}
        # _simplify, not simplify: the cache must not keep the difference as it was before this fact
        relation, difference = type(condition).__name__, self._simplify(condition.lhs - condition.rhs)
        if not _has_rest_of_quotient(difference):  # as in known
            difference = difference.expand()
        symbols = sorted(difference.free_symbols, key=str)
        if relation == "Equality":
            constant, rest = difference.as_coeff_Add()
            self.zeros |= {rest: constant, -rest: -constant}
            solved = _solved(difference, symbols)
            if solved is not None:  # 3*s0 == 12 is s0 == 4
                symbol, value = solved
                condition = sympy.Eq(symbol, value)
                self.replacements = {s: e.subs(symbol, value) for s, e in self.replacements.items()}
                self.replacements[symbol] = value
            else:  # s0*s1 == s2*s3; s0 // 3 + s0 % 3 == 1
                self._replace_term(difference)
        elif len(symbols) == 1 and (difference - symbols[0]).is_Integer:
            self._narrow(symbols[0], relation, int(symbols[0] - difference))
        if all(a.condition != condition for a in self.assumptions):
            self.assumptions.append(Assumption(condition, self.origin))

    def _replace_term(self, difference: Any) -> None:
        """`difference == 0`, but no symbol can be isolated: replace its last term by the others."""
        terms = difference.as_coefficients_dict()
        for term in sorted((t for t in terms if not t.is_Integer), key=str, reverse=True):
            rest = {t: -c / terms[term] for t, c in terms.items() if t != term}
            if all(c.is_Integer for c in rest.values()) and not any(t.has(term) for t in rest):
                value = sum((c * t for t, c in rest.items()), terms[term] * 0)
                self.products = {t: v.subs(term, value) for t, v in self.products.items()}
                self.products[term] = value
                return

    def _narrow(self, symbol: Any, relation: str, number: int) -> None:
        """Record that `symbol <relation> number` holds."""
        low, high = self.ranges[symbol]
        if relation == "Unequality":
            low = low + 1 if number == low else low
            high = high - 1 if high is not None and number == high else high
        elif relation in ("StrictGreaterThan", "GreaterThan"):
            low = max(low, number + (relation == "StrictGreaterThan"))
        elif relation in ("StrictLessThan", "LessThan"):
            limit = number - (relation == "StrictLessThan")
            high = limit if high is None else min(high, limit)
        self.ranges[symbol] = low, high


def _solved(difference: Any, symbols: list[Any]) -> tuple[Any, Any] | None:
    """The newest symbol that `difference == 0` determines as a sum of integer multiples of the others, and its
    value."""
    for symbol in reversed(symbols):
        factor, rest = difference.coeff(symbol), difference.coeff(symbol, 0)
        if not factor.is_Integer or factor == 0 or (difference - factor * symbol - rest).expand() != 0:
            continue
        value = (-rest / factor).expand()
        if all(c.is_Integer for c in value.as_coefficients_dict().values()):
            return symbol, value
    return None


_UNASKED: Any = object()

_BY_BOUNDS: dict[str, Callable[[float, float], bool | None]] = {
    # (bounds of `left - right`) -> whether `left <relation> right` holds
    "Equality": lambda low, high: True if low == high == 0 else False if low > 0 or high < 0 else None,
    "Unequality": lambda low, high: False if low == high == 0 else True if low > 0 or high < 0 else None,
    "StrictLessThan": lambda low, high: True if high < 0 else False if low >= 0 else None,
    "LessThan": lambda low, high: True if high <= 0 else False if low > 0 else None,
    "StrictGreaterThan": lambda low, high: True if low > 0 else False if high <= 0 else None,
    "GreaterThan": lambda low, high: True if low >= 0 else False if high < 0 else None,
}


def _has_rest_of_quotient(expr: Any) -> bool:
    import sympy

    return any(power.exp.is_negative for rest in expr.atoms(sympy.Mod) for power in rest.atoms(sympy.Pow))


def _exact_quotient(quotient: Any) -> Any:
    """floor(quotient), or the quotient itself if the division has no remainder: (2*s0 - 2)/(s0 - 1) is 2."""
    import sympy

    numerator, denominator = sympy.fraction(sympy.cancel(quotient))
    return numerator if denominator == 1 else sympy.floor(quotient)


Interval = tuple[float, float]


def interval(expr: Any, ranges: Mapping[Any, tuple[int, int | None]]) -> Interval:
    """Interval arithmetic over +, *, powers, floor and Mod of sizes. An unknown bound is infinite."""
    if expr.is_number:
        return (float(expr), float(expr)) if not expr.is_Integer else (int(expr), int(expr))
    if expr.is_Symbol:
        low, high = ranges.get(expr, (-math.inf, None))
        return low, math.inf if high is None else high
    rule = _INTERVALS.get(type(expr).__name__)
    return rule(expr, [interval(a, ranges) for a in expr.args]) if rule else UNKNOWN


UNKNOWN: Interval = (-math.inf, math.inf)


def _interval_of_power(expr: Any, parts: list[Interval]) -> Interval:
    whole = expr.exp.is_Integer and expr.exp > 0
    return functools.reduce(_product, [parts[0]] * int(expr.exp)) if whole else UNKNOWN


def _rounded(rounding: Callable[[float], int]) -> Callable[[Any, list[Interval]], Interval]:
    def rule(expr: Any, parts: list[Interval]) -> Interval:
        low, high = (bound if math.isinf(bound) else rounding(bound) for bound in parts[0])
        return low, high

    return rule


def _best(choose: Callable[[Any], float]) -> Callable[[Any, list[Interval]], Interval]:
    return lambda expr, parts: (choose(p[0] for p in parts), choose(p[1] for p in parts))


# sympy's name of an operation -> the interval of its result, from those of its operands
_INTERVALS: dict[str, Callable[[Any, list[Interval]], Interval]] = {
    "Add": lambda expr, parts: (sum(p[0] for p in parts), sum(p[1] for p in parts)),
    "Mul": lambda expr, parts: functools.reduce(_product, parts),
    "Pow": _interval_of_power,
    "floor": _rounded(math.floor),
    "ceiling": _rounded(math.ceil),
    "Mod": lambda expr, parts: (0, parts[1][1] - 1) if parts[1][0] > 0 else UNKNOWN,
    "Max": _best(max),
    "Min": _best(min),
}


def _product(a: tuple[float, float], b: tuple[float, float]) -> tuple[float, float]:
    corners = [0 if 0 in (x, y) else x * y for x in a for y in b]
    return min(corners), max(corners)


class _Symbolic:
    """The arithmetic of SymInt and SymFloat. Results are symbolic, too."""

    __slots__ = ("env", "expr")

    def __init__(self, expr: sympy.Expr, env: ShapeEnv) -> None:
        self.expr, self.env = expr, env

    @property
    def hint(self) -> int | float:
        value = self.env.evaluate(self.expr)
        return int(value) if isinstance(self, SymInt) else float(value)

    def __repr__(self) -> str:
        return _shown(self.expr)

    def __hash__(self) -> int:
        return hash(self.expr)

    def _arith(self, other: Any, function: Any, reflected: bool = False) -> Any:
        right = other.expr if isinstance(other, _Symbolic) else other
        combine = function if isinstance(right, float) else _combined(function)  # 0.0 == -0.0
        expr = combine(right, self.expr) if reflected else combine(self.expr, right)
        # int or float by Python's rules, not sympy's: sympy does not know that a divisor is not 0
        whole = (
            isinstance(self, SymInt) and isinstance(other, (int, SymInt)) and function is not operator.truediv
        )
        if getattr(expr, "is_number", True):
            return int(expr) if whole else float(expr)
        return (SymInt if whole else SymFloat)(expr, self.env)

    def _compare(self, other: Any, relation: str) -> Any:
        if not isinstance(other, (int, float, _Symbolic)):
            return NotImplemented
        right = other.expr if isinstance(other, _Symbolic) else other
        return SymBool(_relation(relation, self.expr, right), self.env)

    def __bool__(self) -> bool:
        import sympy

        return self.env.assume(sympy.Ne(self.expr, 0))


_shown = functools.lru_cache(maxsize=4096)(str)  # sympy's printer takes a millisecond


@functools.cache
def _combined(function: Callable) -> Callable:
    """sympy's arithmetic, cached: all rules multiply the same few sizes to compute strides."""
    return functools.lru_cache(maxsize=4096, typed=True)(function)


@functools.lru_cache(maxsize=4096, typed=True)
def _relation(name: str, left: Any, right: Any) -> Any:
    """sympy's relation, cached: all rules compare the same few sizes."""
    import sympy

    return getattr(sympy, name)(left, right)


# Python's operators: the name of the method, its function, and whether the operands are swapped.
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
    """An integer that is an expression of sizes. `int(n)` returns its hint and records that assumption."""

    def __int__(self) -> int:
        import sympy

        value = int(self.hint)
        self.env.assume(sympy.Eq(self.expr, value))
        return value

    __index__ = __int__


class SymFloat(_Symbolic):
    """A float that is an expression (a learning rate, a scale)."""

    def __float__(self) -> float:
        import sympy

        value = float(self.hint)
        self.env.assume(sympy.Eq(self.expr, value))
        return value


class SymBool:
    """A condition on symbolic sizes. Converting it to a Python bool records an assumption."""

    __slots__ = ("env", "expr")

    def __init__(self, expr: Any, env: ShapeEnv) -> None:
        self.expr, self.env = expr, env

    def __bool__(self) -> bool:
        return self.env.assume(self.expr)

    def __repr__(self) -> str:
        return str(self.expr)


Size = int | SymInt  # one entry of a shape, in elements


def statically_known_true(condition: Any) -> bool:
    """Whether a comparison of sizes holds for all their values. Unlike `bool(condition)`, this makes no assumption.

    For questions that do not change a result: whether a layout is dense, or whether a dimension broadcasts.
    """
    return bool(condition.env.known(condition.expr)) if isinstance(condition, SymBool) else condition is True


def same_size(a: Any, b: Any) -> bool:
    """Whether two sizes are certainly equal, for all sizes of the inputs. Makes no assumption."""
    if type(a) is int and type(b) is int:  # first what is most frequent
        return a == b
    if isinstance(a, SymInt) or isinstance(b, SymInt):
        if isinstance(a, SymInt) and isinstance(b, SymInt) and a.expr == b.expr:
            return True
        return statically_known_true(a == b)
    return bool(a == b)


def same_shape(a: tuple, b: tuple) -> bool:
    """same_size for each pair."""
    return a is b or len(a) == len(b) and all(map(same_size, a, b))


NOMINAL = 8192  # in an estimate, a size without a hint counts as this large number


def hinted(size: Any) -> int:
    """The size, or its hint if it is symbolic: for estimates, which must not become assumptions."""
    if isinstance(size, int):
        return size
    if isinstance(size, SymInt):
        try:
            return int(size.hint)
        except DataDependentError:
            return hinted(size.expr)
    numbers = dict.fromkeys(size.free_symbols, NOMINAL)
    try:
        return int(value_at(size, numbers))
    except NotImplementedError:
        return int(size.subs(numbers))
