"""Numbers that the graph need not know: sizes left open, and ints and floats that only reach arithmetic.

Input: variables/builder.py makes a NumberVariable for a number in an argument, for one elsewhere that changed between
captures (`self.calls += 1`, a global), and for a size that the policy leaves open. It is an expression over the
call's arguments; whoever reads its `value` fixes it, with a guard. So code that knows nothing of this is right, and
code that does (arithmetic, comparison, an operator's operand) keeps it open.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import ConstantVariable, Variable
from stage_contracts.size_text import python_text
from stage_contracts.source import ExpressionSource, Source
from stage_contracts.symbolic import ShapeEnv, SymInt

if TYPE_CHECKING:
    from stage1_capture.state.graph_builder import OutputGraph

EXACT = 2**53  # integers up to here are floats exactly


class NumberVariable(ConstantVariable):
    """`hint` is its value in this call, `source` an expression that computes it at any other.

    roots: the arguments it is made of, with their values here. sym: what it is as a size, if it may be one.
    """

    def __init__(
        self,
        output: OutputGraph,
        hint: Any,
        source: Source,
        roots: tuple[tuple[Source, Any], ...] = (),
        sym: SymInt | None = None,
    ) -> None:
        self.output, self.hint, self.source, self.roots, self.sym = output, hint, source, roots, sym

    @property
    def value(self) -> Any:
        """The number, fixed from now on."""
        if self.sym is not None:
            return int(self.sym)
        for source, hint in self.roots:
            self.output.guard("EQUALS", source, hint)
            if type(hint) is int:
                self.output.policy.fixes(source.expression(), hint)
        return self.hint

    def python_type(self, tx: Tx) -> type:
        return type(self.hint)


class OpenSizes(ShapeEnv):
    """The sizes of one capture that are left open. Every assumption carries the user's line that forced it."""

    def __init__(self, output: OutputGraph) -> None:
        super().__init__()
        self.output = output
        self.closed = False  # the guards are made: nothing more may be assumed
        self.sources: dict[Any, Source] = {}  # symbol -> where its value is read
        self.texts: dict[Any, str] = {}  # of `text`

    def assume(self, condition: Any) -> bool:
        known = self.known(condition)
        if known is not None:
            return known
        if self.closed:
            raise RuntimeError(
                f"internal error: {condition} was asked after the guards were made; a stage must ask while it compiles"
            )
        self.origin = self.output.origin()
        return super().assume(condition)

    def open(
        self, source: Source, hint: int, name: str = "", low: int = 0, high: int | None = None
    ) -> SymInt:
        """The size read at `source`, as a symbol."""
        known = next((s for s, where in self.sources.items() if where == source), None)
        if known is not None:
            return SymInt(known, self)
        alike = next((s for s in self.sources if str(s) == name), None)
        if alike is not None and self.hints[alike] == hint:  # a name says that sizes are equal
            self.output.guard("SHAPE", None, f"{source.expression()} == {self.sources[alike].expression()}")
            return SymInt(alike, self)
        sym = self.dimension(name if name and alike is None else f"s{len(self.sources)}", hint, low, high)
        self.sources[sym.expr] = source
        if low > 0:
            self.output.guard("SHAPE", None, f"{source.expression()} >= {low}")
        if high is not None:
            self.output.guard("SHAPE", None, f"{source.expression()} <= {high}")
        return sym

    def text(self, expr: Any) -> str:
        """A size, or a relation of sizes, as Python over the arguments; ValueError if there is no text."""
        found = self.texts.get(expr)
        if found is None:
            found = self.texts[expr] = python_text(expr, lambda symbol: self.sources[symbol].expression())
        return found

    def number(self, sym: SymInt) -> Variable:
        """A size as a value of the program."""
        if sym.expr.is_Integer:
            return ConstantVariable(int(sym.expr))
        try:
            text = self.text(sym.expr)
        except ValueError:
            return ConstantVariable(int(sym))
        return NumberVariable(self.output, sym.hint, ExpressionSource(text, str(sym)), (), sym)

    def add_guards(self) -> None:
        """The assumptions as guards, each with the line that made it."""
        for entry in self.assumptions:
            try:
                texts = [self.text(entry.condition)]
            except ValueError:  # it holds at least for the sizes of this call
                symbols = sorted(entry.condition.free_symbols, key=str)
                texts = [f"{self.sources[s].expression()} == {self.hints[s]}" for s in symbols]
            for text in texts:
                self.output.guard("SHAPE", None, text, origin=entry.origin)


# ---- arithmetic and comparison ---------------------------------------------------------------------------------

_SIZE_ARITHMETIC = {"+", "-", "*", "//", "%"}
_NUMBER_ARITHMETIC = {"+", "-", "*", "/", "//", "%", "**"}
_DIVISIONS = {"/", "//", "%"}


def number_operand(value: Variable) -> bool:
    """Whether a value is a number that arithmetic may combine with an open one."""
    return isinstance(value, NumberVariable) or (
        isinstance(value, ConstantVariable) and type(value.value) in (int, float)
    )


def open_binary(symbol: str, function: Callable, left: Variable, right: Variable) -> Variable | None:
    """`left + right` when one is open and it can stay so; None when both must be known."""
    if not any(isinstance(v, NumberVariable) for v in (left, right)):
        return None
    if symbol not in _NUMBER_ARITHMETIC or not (number_operand(left) and number_operand(right)):
        return None
    output = next(v.output for v in (left, right) if isinstance(v, NumberVariable))
    a, b = hint_of(left), hint_of(right)
    sizes = _as_size(left), _as_size(right)
    if (
        symbol in _SIZE_ARITHMETIC
        and all(s is not None for s in sizes)
        and any(isinstance(s, SymInt) for s in sizes)
    ):
        if symbol in _DIVISIONS and sizes[1] == 0:  # asked, so that it is guarded
            return None
        found = function(*sizes)
        return output.sizes.number(found) if isinstance(found, SymInt) else ConstantVariable(found)
    try:
        hint = function(a, b)
    except ArithmeticError:  # eager raises it
        return None
    if type(hint) not in (int, float):
        return None
    texts = text_of(left), text_of(right)
    if symbol in _DIVISIONS:
        output.guard("SHAPE", None, f"{texts[1]} != 0")
    if symbol == "**":  # otherwise the result may be complex, or an error
        if not (type(b) is int and b >= 0 and isinstance(right, ConstantVariable)) and not a > 0:
            return None
        if a > 0:
            output.guard("SHAPE", None, f"{texts[0]} > 0")
        if type(a) is int and type(b) is int:  # its sign decides whether the result is an int
            output.guard("SHAPE", None, f"{texts[1]} >= 0" if b >= 0 else f"{texts[1]} < 0")
    return NumberVariable(
        output, hint, ExpressionSource(f"({texts[0]} {symbol} {texts[1]})"), _roots(left, right)
    )


def open_negative(value: NumberVariable) -> Variable:
    if value.sym is not None:
        return value.output.sizes.number(operator.mul(value.sym, -1))
    return NumberVariable(value.output, -value.hint, ExpressionSource(f"(-{text_of(value)})"), value.roots)


def open_conversion(function: Callable, args: list[Variable]) -> Variable | None:
    """`float(n)`, and `int(n)` of an int, of an open number; None for any other call."""
    value = args[0] if len(args) == 1 else None
    if not isinstance(value, NumberVariable) or function not in (int, float):
        return None
    if type(value.hint) is function:
        return value
    if function is int:  # it may raise
        return None
    source = ExpressionSource(f"float({text_of(value)})")
    return NumberVariable(value.output, float(value.hint), source, _roots(value))


def open_compare(symbol: str, function: Callable, left: Variable, right: Variable) -> Variable | None:
    """A comparison with an open number: its outcome here, guarded with the user's line."""
    if not any(isinstance(v, NumberVariable) for v in (left, right)):
        return None
    if not (number_operand(left) and number_operand(right)):
        return None
    output = next(v.output for v in (left, right) if isinstance(v, NumberVariable))
    sizes = _as_size(left), _as_size(right)
    if all(s is not None for s in sizes):
        return ConstantVariable(bool(function(*sizes)))
    holds = bool(function(hint_of(left), hint_of(right)))
    text = f"{text_of(left)} {symbol} {text_of(right)}"
    output.guard("SHAPE", None, text if holds else f"not ({text})")
    return ConstantVariable(holds)


def open_truth(value: NumberVariable) -> bool:
    return open_compare("!=", operator.ne, value, ConstantVariable(0)).value  # type: ignore[union-attr]


def hint_of(value: Variable) -> Any:
    return value.hint if isinstance(value, NumberVariable) else value.value  # type: ignore[attr-defined]


def text_of(value: Variable) -> str:
    if isinstance(value, NumberVariable):
        assert value.source is not None
        return value.source.expression()
    number = value.value  # type: ignore[attr-defined]
    finite = type(number) is int or number - number == 0
    return f"({number!r})" if finite else f"float({str(number)!r})"


def _as_size(value: Variable) -> Any:
    if isinstance(value, NumberVariable):
        return value.sym
    return value.value if type(value.value) is int else None  # type: ignore[attr-defined]


def _roots(*values: Variable) -> tuple[tuple[Source, Any], ...]:
    found = [root for v in values if isinstance(v, NumberVariable) for root in v.roots]
    # of an open size that joins a float expression, the expression itself is what would be fixed
    found += [
        (v.source, v.hint)
        for v in values
        if isinstance(v, NumberVariable) and v.sym is not None and v.source is not None
    ]
    return tuple(dict.fromkeys(found))
