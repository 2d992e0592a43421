"""Numbers that the graph need not know: sizes left open, ints and floats that only reach arithmetic and operators.

Input: variables/builder.py makes a NumberVariable for a number in an argument, for one elsewhere that changed between
captures (`self.calls += 1`, a global), and for a size that the policy leaves open. It is an expression over the
call's arguments; whoever reads its `value` fixes it, with a guard. So code that knows nothing of this is right, and
code that does (arithmetic, comparison, an operator's operand) keeps it open. As an operand see
variables/scalar_inputs.py.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any, NoReturn

from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import Tx
from stage1_capture.state.open_sizes import OpenSizes
from stage1_capture.variables.base import FROM_CONSTANT, Variable, no, yes
from stage1_capture.variables.builder import BUILDERS, in_arguments
from stage1_capture.variables.constant import ConstantVariable, wrap_constant
from stage_contracts import config
from stage_contracts.guard_constants import is_told_by_equality
from stage_contracts.source import ExpressionSource, ItemSource, KeySource, Source
from stage_contracts.symbolic import SymInt

DRAWN = "__drawn_"  # begins the name of a random number
EXACT = 2**53  # integers up to here are floats exactly


class NumberVariable(ConstantVariable):
    """`hint` is its value in this call, `source` an expression that computes it at any other.

    roots: the arguments it is made of, with their values here. sym: what it is as a size, if it may be one.
    """

    is_open = yes
    is_none = no

    def __init__(
        self,
        output: OutputGraph,
        hint: Any,
        source: Source,
        roots: tuple[tuple[Source, Any], ...] = (),
        sym: SymInt | None = None,
    ) -> None:
        self.output, self.hint, self.source, self.roots, self.sym = output, hint, source, roots, sym

    @property  # type: ignore[misc]  # computed here
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

    def as_proxy(self, leaf: Callable[[Any], Any], refuse: Callable[[Variable], NoReturn]) -> Any:
        return self.value if self.sym is None else leaf(self)

    def operand_class(self) -> type | None:
        return type(self.hint)

    def truth(self, tx: Tx) -> bool:
        return open_compare("!=", operator.ne, self, ConstantVariable(0)).value  # type: ignore[union-attr]


def size_number(sizes: OpenSizes, sym: SymInt) -> Variable:
    """A size as a value of the program."""
    if sym.expr.is_Integer:
        return ConstantVariable(int(sym.expr))
    try:
        text = sizes.text(sym.expr)
    except ValueError:
        return ConstantVariable(int(sym))
    return NumberVariable(sizes.output, sym.hint, ExpressionSource(text, str(sym)), (), sym)


FROM_CONSTANT[SymInt] = lambda value: size_number(value.env, value)


_SIZE_ARITHMETIC = {"+", "-", "*", "//", "%"}
_NUMBER_ARITHMETIC = {"+", "-", "*", "/", "//", "%", "**"}
_DIVISIONS = {"/", "//", "%"}
_BITS = {"&", "|", "^"}  # of two ints


def number_operand(value: Variable) -> bool:
    """Whether a value is a number that arithmetic may combine with an open one."""
    return isinstance(value, NumberVariable) or (
        value.is_python_constant() and type(value.value) in (int, float)
    )


def open_binary(symbol: str, function: Callable, left: Variable, right: Variable) -> Variable | None:
    """`left + right` when one is open and it can stay so; None when both must be known."""
    opens = [v for v in (left, right) if isinstance(v, NumberVariable)]
    if not opens or not (number_operand(left) and number_operand(right)):
        return None
    if (divided := _of_bits(symbol, left, right)) is not None:
        return divided
    whole = type(hint_of(left)) is type(hint_of(right)) is int
    if symbol not in _NUMBER_ARITHMETIC and not (whole and symbol in _BITS):
        return None
    if symbol in _SIZE_ARITHMETIC:
        _open_beside(left, right)
        _open_beside(right, left)
        sizes = as_size(left), as_size(right)
        if all(s is not None for s in sizes) and any(isinstance(s, SymInt) for s in sizes):
            return _of_sizes(symbol, function, opens[0].output, *sizes)
    return _of_numbers(symbol, function, opens[0].output, left, right)


def _of_sizes(symbol: str, function: Callable, output: OutputGraph, a: Any, b: Any) -> Variable | None:
    if symbol in _DIVISIONS and b == 0:  # asked, so that it is guarded
        return None
    found = function(a, b)
    return size_number(output.sizes, found) if isinstance(found, SymInt) else ConstantVariable(found)


def _of_numbers(
    symbol: str, function: Callable, output: OutputGraph, left: Variable, right: Variable
) -> Variable | None:
    a, b = hint_of(left), hint_of(right)
    try:
        hint = function(a, b)
    except ArithmeticError:  # eager raises it
        return None
    texts = text_of(left), text_of(right)
    if type(hint) not in (int, float) or not _guarded(output, symbol, texts, a, b, right):
        return None
    return NumberVariable(
        output, hint, ExpressionSource(f"({texts[0]} {symbol} {texts[1]})"), _roots(left, right)
    )


Steps = tuple[tuple[str, Callable[[Any, Any], Any], int], ...]
_SHIFTS: dict[str, Callable[[int], Steps]] = {
    "<<": lambda n: (("*", operator.mul, 2**n),) if 0 <= n < EXACT.bit_length() else (),
    ">>": lambda n: (("//", operator.floordiv, 2**n),) if 0 <= n < EXACT.bit_length() else (),
}
# Of a mask that is 2**k - 1, and of a negative one that is -(2**k): no other leaves the low or the high bits.
_MASKS: dict[bool, Callable[[int], Steps]] = {
    False: lambda n: () if n & (n + 1) else (("%", operator.mod, n + 1),),
    True: lambda n: () if -n & (-n - 1) else (("//", operator.floordiv, -n), ("*", operator.mul, -n)),
}


def _of_bits(symbol: str, left: Variable, right: Variable) -> Variable | None:
    """A shift or a mask of low or high bits as the division that it is, which a size may stay open in."""
    if symbol == "&" and isinstance(right, NumberVariable):
        left, right = right, left
    n = None if isinstance(right, NumberVariable) else right.value
    if type(n) is not int or type(hint_of(left)) is not int:
        return None
    steps_of = _MASKS[n < 0] if symbol == "&" else _SHIFTS.get(symbol)
    steps = steps_of(n) if steps_of else ()
    for step, function, number in steps:
        found = open_binary(step, function, left, ConstantVariable(number))
        left = function(left.value, number) if found is None else found
    return left if steps else None


def _open_beside(value: Variable, other: Variable) -> None:
    """An open int that meets a size is one from now on: fixed where their sum is a size, it would fix the size too."""
    if not (
        isinstance(value, NumberVariable) and isinstance(other, NumberVariable) and other.sym is not None
    ):
        return
    _openas_size(value)


def _openas_size(value: NumberVariable) -> None:
    """An int is a size from here on, if it may be one and is not drawn: before the draw no guard can ask for it."""
    text = text_of(value)
    if value.sym is None and type(value.hint) is int and 0 <= value.hint <= EXACT and DRAWN not in text:
        value.sym = _size_at(value.output, value.source, value.hint)


def _size_at(output: OutputGraph, source: Any, hint: int) -> SymInt:
    """The int at `source` as a size. Larger ones than that are constants: kernels compute with 64 bits."""
    output.guard("SHAPE", None, f"0 <= {source.expression()} <= {EXACT}")
    return output.sizes.open(source, hint)


def _guarded(
    output: OutputGraph, symbol: str, texts: tuple[str, str], a: Any, b: Any, right: Variable
) -> bool:
    """Whether the result is a number for all values that the guards made here let through."""
    if symbol in _DIVISIONS:
        output.guard("SHAPE", None, f"{texts[1]} != 0")
    if symbol != "**":  # which may give a complex number, or an error
        return True
    if not (type(b) is int and b >= 0 and isinstance(right, ConstantVariable)) and not a > 0:
        return False
    if a > 0:
        output.guard("SHAPE", None, f"{texts[0]} > 0")
    if type(a) is int and type(b) is int:  # its sign decides whether the result is an int
        output.guard("SHAPE", None, f"{texts[1]} >= 0" if b >= 0 else f"{texts[1]} < 0")
    return True


def open_unary(opname: str, value: Variable) -> Variable | None:
    """`-n`, `+n` or `~n` of an open number."""
    if not isinstance(value, NumberVariable):
        return None
    if opname == "UNARY_POSITIVE":
        return value
    if opname == "UNARY_INVERT":  # -n - 1
        whole = type(value.hint) is int
        return open_binary("-", operator.sub, _negative(value), ConstantVariable(1)) if whole else None
    return _negative(value)


def _negative(value: NumberVariable) -> Variable:
    if value.sym is not None:
        return size_number(value.output.sizes, operator.mul(value.sym, -1))
    return NumberVariable(value.output, -value.hint, ExpressionSource(f"(-{text_of(value)})"), value.roots)


# Functions of math, and where they give a float and raise nothing.
_MATH: dict[Any, tuple[str, Callable, float] | None] = {
    math.sqrt: (">=", operator.ge, 0),
    math.exp: ("<=", operator.le, 700),
    **dict.fromkeys((math.log, math.log2, math.log10), (">", operator.gt, 0)),
    **dict.fromkeys((math.fabs, math.tanh, math.atan, math.erf, math.sin, math.cos)),
}
_OF_FINITE = (math.sin, math.cos)


# Functions of a number that give an int, as text.
_WHOLE: dict[Any, str] = {
    **dict.fromkeys((int, math.trunc), "int({})"),
    math.floor: "__math__.floor({})",
    math.ceil: "__math__.ceil({})",
    round: "round({})",
}


def open_conversion(function: Callable, args: list[Variable]) -> Variable | None:
    """`float(n)`, `int(n)`, `abs(n)` and functions of math of an open number; None for any other call."""
    value = args[0] if len(args) == 1 else None
    if not isinstance(value, NumberVariable):
        return None
    if function in _MATH:
        return _open_math(function, value, _MATH[function])
    if function in _WHOLE:
        return _open_whole(function, value)
    if function is abs:
        return _whole_number(value, f"abs({text_of(value)})", abs(value.hint))
    if function is not float:
        return None
    if type(value.hint) is float:
        return value
    source = ExpressionSource(f"float({text_of(value)})")
    return NumberVariable(value.output, float(value.hint), source, _roots(value))


def _open_whole(function: Callable, value: NumberVariable) -> Variable | None:
    """An int, where no float near here is too large for one, or NaN."""
    if type(value.hint) is int:
        return value
    if not abs(value.hint) < EXACT:
        return None
    text = text_of(value)
    value.output.guard("SHAPE", None, f"-{EXACT} < {text} < {EXACT}")
    return _whole_number(value, _WHOLE[function].format(text), function(value.hint))


def _whole_number(value: NumberVariable, text: str, hint: Any) -> Variable:
    """A number that a function gives; an int may be a size."""
    made = NumberVariable(value.output, hint, ExpressionSource(text), _roots(value))
    _openas_size(made)
    return made


def _open_math(function: Callable, value: NumberVariable, where: tuple | None) -> Variable | None:
    if where is not None:
        symbol, compare, limit = where
        if not compare(value.hint, limit):
            return None
        open_compare(symbol, compare, value, ConstantVariable(limit))
    source = ExpressionSource(f"__math__.{function.__name__}({text_of(value)})")
    if function in _OF_FINITE:  # anything else raises, so that the guard does not hold
        if not math.isfinite(value.hint):
            return None
        value.output.guard("SHAPE", None, f"{source.text} <= 1")
    return NumberVariable(value.output, function(value.hint), source, _roots(value))


def open_compare(symbol: str, function: Callable, left: Variable, right: Variable) -> Variable | None:
    """A comparison with an open number: its outcome here, guarded with the user's line."""
    if not any(isinstance(v, NumberVariable) for v in (left, right)):
        return None
    if not (number_operand(left) and number_operand(right)):
        return None
    output = next(v.output for v in (left, right) if isinstance(v, NumberVariable))
    sizes = as_size(left), as_size(right)
    if all(s is not None for s in sizes):
        return ConstantVariable(bool(function(*sizes)))
    holds = bool(function(hint_of(left), hint_of(right)))
    text = f"{text_of(left)} {symbol} {text_of(right)}"
    output.guard("SHAPE", None, text if holds else f"not ({text})")
    return ConstantVariable(holds)


def hint_of(value: Variable) -> Any:
    return value.hint if isinstance(value, NumberVariable) else value.value


def text_of(value: Variable) -> str:
    if isinstance(value, NumberVariable):
        assert value.source is not None
        return value.source.expression()
    number = value.value
    finite = type(number) is int or number - number == 0
    return f"({number!r})" if finite else f"float({str(number)!r})"


def as_size(value: Variable) -> Any:
    if isinstance(value, NumberVariable):
        return value.sym
    return value.value if type(value.value) is int else None


def _roots(*values: Variable) -> tuple[tuple[Source, Any], ...]:
    found = [root for v in values if isinstance(v, NumberVariable) for root in v.roots]
    # of an open size that joins a float expression, the expression itself is what would be fixed
    found += [
        (v.source, v.hint)
        for v in values
        if isinstance(v, NumberVariable) and v.sym is not None and v.source is not None
    ]
    return tuple(dict.fromkeys(found))


_fixed_number = wrap_constant("EQUALS")


def _wrap_number(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    """A number in an argument, or in a container of one, stays open until something needs to know it.

    One found elsewhere (an attribute, a global, a closure) is fixed at first, for most never change, and open from
    its first change on: a counter is compiled twice.
    """
    under_epoch = source in output.epoch_sources
    differs = in_arguments(output, source) and not under_epoch
    settings = config.current().capture
    if settings.specialize_float if type(real) is float else settings.specialize_int:
        return _fixed_number(output, real, source)
    if source is None or not (differs or output.policy.opens_number(source.expression(), real)):
        return _fixed_number(output, real, source)
    if isinstance(source, ItemSource) and isinstance(source.base, KeySource):
        same = output.alike.setdefault((source.base.base, source.key, type(real), real), source)
        # For example the step of every parameter: while all are equal, they are one input of the graph.
        if same != source and is_told_by_equality(real):
            output.guard("EQUALS", source, same)
            source = same
    output.guard("TYPE", source, type(real), under_epoch)
    if (
        type(real) is int and real <= EXACT and output.policy.opens(source.expression(), real)
    ):  # it is used as a size
        return NumberVariable(output, real, source, (), _size_at(output, source, real))
    return NumberVariable(output, real, source, ((source, real),))


BUILDERS.update(dict.fromkeys((int, float), _wrap_number))
