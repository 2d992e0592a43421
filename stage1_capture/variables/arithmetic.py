"""Operators and comparisons of abstract values, as Python defines them.

Input: abstract operands. Constants are computed now; containers answer `binary` and `compare_contents`; a tensor's
special methods are operators of the table, so `x + y` becomes a node.
"""

from __future__ import annotations

import collections
import operator
import types
from collections.abc import Callable
from typing import Any

from stage1_capture.state.machine import KINDS, Args, Kwargs, Raised, Tx, attempt
from stage1_capture.variables import unbacked
from stage1_capture.variables.base import (
    SEQUENCES,
    NotConstant,
    Variable,
    as_constant,
    from_constant,
    is_same,
    realize,
)
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.formatting import percent
from stage1_capture.variables.ndarray import dtype_comparison
from stage1_capture.variables.number import (
    hint_of,
    number_operand,
    open_binary,
    open_compare,
    open_conversion,
    open_unary,
)
from stage1_capture.variables.unbacked import converted
from stage_contracts.breaks import Unsupported
from stage_contracts.class_lookup import MISSING, class_lookup, made_by_python

# symbol -> the function for constants, and the name between the underscores of its methods
BINARY: dict[str, tuple[Callable[[Any, Any], Any], str]] = {
    "+": (operator.add, "add"), "-": (operator.sub, "sub"), "*": (operator.mul, "mul"),
    "/": (operator.truediv, "truediv"), "//": (operator.floordiv, "floordiv"), "%": (operator.mod, "mod"),
    "**": (operator.pow, "pow"), "@": (operator.matmul, "matmul"), "&": (operator.and_, "and"),
    "|": (operator.or_, "or"), "^": (operator.xor, "xor"), "<<": (operator.lshift, "lshift"),
    ">>": (operator.rshift, "rshift"),
}  # fmt: skip
# symbol -> the function, the method of the left operand, the method of the right one
COMPARISONS: dict[str, tuple[Callable[[Any, Any], Any], str, str]] = {
    "<": (operator.lt, "__lt__", "__gt__"), "<=": (operator.le, "__le__", "__ge__"),
    ">": (operator.gt, "__gt__", "__lt__"), ">=": (operator.ge, "__ge__", "__le__"),
    "==": (operator.eq, "__eq__", "__eq__"), "!=": (operator.ne, "__ne__", "__ne__"),
}  # fmt: skip
UNARY: dict[str, tuple[Callable[[Any], Any], str]] = {
    "UNARY_NEGATIVE": (operator.neg, "__neg__"),
    "UNARY_POSITIVE": (operator.pos, "__pos__"),
    "UNARY_INVERT": (operator.invert, "__invert__"),
}


def binary(tx: Tx, symbol: str, left: Variable, right: Variable) -> Variable:
    """`left + right`, or `left += right` when the symbol ends in =."""
    in_place = symbol.endswith("=")
    function, name = BINARY[symbol.removesuffix("=")]
    merged = left.merged(tx, symbol, right)
    if merged is not None:
        return merged
    order = turns(left.operand_class(), right.operand_class(), name, in_place)
    if any(not is_left for is_left, _ in order[:-1]):  # the right operand goes before the left one
        return _first_answer(tx, symbol, left, right, order)
    found = left.binary_in_place(tx, symbol, right) if in_place else None
    if found is None:
        found = open_binary(symbol.removesuffix("="), function, left, right)
    if found is None and left.is_immutable() and right.is_immutable():
        # in place, which its messages tell apart
        found = _folded(tx, symbol, getattr(operator, f"i{name}") if in_place else function, left, right)
    found = found or percent(tx, symbol, left, right) or left.binary(tx, symbol, function, right)
    found = found or right.reflected(tx, symbol, function, left)
    if found is not None:
        return found
    if _of_plain_values(left, right, f"__{name}__"):
        return binary(tx, symbol, left, right.unwrapped())
    return _first_answer(tx, symbol, left, right, order)


def _folded(tx: Tx, symbol: str, function: Callable, left: Variable, right: Variable) -> Variable | None:
    try:
        values = as_constant(left), as_constant(right)
    except NotConstant:
        return None
    return attempt(tx, symbol, lambda: from_constant(function(*values)), exact=True)


def _first_answer(tx: Tx, symbol: str, left: Variable, right: Variable, order: Order) -> Variable:
    for is_left, method_name in order:
        receiver, other = (left, right) if is_left else (right, left)
        result = receiver.ask(tx, method_name, other) or DECLINED
        if not _declines(result):
            return result
    if all(_has_only_python_methods(value, order) for value in (left, right)):
        words = "** or pow()" if symbol == "**" else symbol
        kinds = f"{left.operand_class().__name__!r} and {right.operand_class().__name__!r}"  # type: ignore[union-attr]
        tx.throw(TypeError, f"unsupported operand type(s) for {words}: {kinds}")
    tx.unsupported("GB0038", f"{symbol} between {left.describe()} and {right.describe()}")


def _has_only_python_methods(value: Variable, order: Order) -> bool:
    """Whether nothing of C's could answer for this operand, once its methods have declined: a number, or an object."""
    cls = value.operand_class()
    if cls in (int, float, complex, bool, type(None)):
        return value.is_python_constant()
    if cls is None or value.is_python_constant() or value.unwrapped() is not value or not made_by_python(cls):
        return False
    found = [class_lookup(cls, name) for _, name in order]
    return all(each is MISSING or isinstance(each, types.FunctionType) for each in found)


def _of_plain_values(left: Variable, right: Variable, name: str) -> bool:
    """Whether a number's own method takes an object that derives from another kind of number: True + MyInt(2)."""
    inside = right.unwrapped()
    if inside is right or not (left.is_python_constant() and inside.is_python_constant()):
        return False
    method = getattr(type(hint_of(left)), name, None)
    try:
        return method is not None and method(hint_of(left), as_constant(inside)) is not NotImplemented
    except ArithmeticError:
        return True  # it raises, when it is called


# ---- whose turn it is --------------------------------------------------------------------------------

Order = tuple[tuple[bool, str], ...]
# in C these join and repeat last, after all that add
_SEQUENCES = (list, tuple, str, bytes, collections.deque)


def turns(left: type | None, right: type | None, name: str, in_place: bool = False) -> Order:
    """The methods of `left + right` as Python asks them: whether of the left operand, and which.

    The right one is first where its class derives from the left one's and reflects in its own way; and where the
    left one only joins or repeats, as lists do. One of the same class has nothing to add.
    """
    here, back = (True, f"__{name}__"), (False, f"__r{name}__")
    first: Order = ((True, f"__i{name}__"),) if in_place else ()
    if left is right is not None:
        return (*first, here)
    if left is None or right is None:
        return (*first, here, back)
    reflects = class_lookup(right, back[1])
    joins = name in ("add", "mul") and issubclass(left, _SEQUENCES)
    joins = joins and type(class_lookup(left, here[1])) is not types.FunctionType
    if joins and first:
        joins = type(class_lookup(left, first[0][1])) is not types.FunctionType
    if joins and type(reflects) is types.FunctionType:
        return (back, *first, here)
    if derives(left, right) and reflects not in (MISSING, class_lookup(left, back[1])):
        return (*first, back, here)
    return (*first, here, back)


def derives(left: type | None, right: type | None) -> bool:
    """Whether a comparison asks the right operand first."""
    return left is not right and left is not None and right is not None and left in right.__mro__


DECLINED = ConstantVariable(NotImplemented)


def _declines(result: Variable) -> bool:
    """Whether an operand's method leaves the operation to the other operand."""
    return type(result) is ConstantVariable and result.value is NotImplemented


def unary(tx: Tx, opname: str, value: Variable) -> Variable:
    function, method_name = UNARY[opname]
    still_open = open_unary(opname, value)
    if still_open is None and opname == "UNARY_NEGATIVE":
        still_open = unbacked.negated(tx, value)
    if still_open is not None:
        return still_open
    if value.is_python_constant():
        return attempt(tx, method_name, lambda: ConstantVariable(function(as_constant(value))))
    return value.ask(tx, method_name) or tx.unsupported("GB0038", f"{method_name} of {value.describe()}")


# ---- comparisons -------------------------------------------------------------------------------------


def compare(tx: Tx, symbol: str, left: Variable, right: Variable) -> Variable:
    """A comparison: a node between tensors, a constant between constants."""
    function, method_name, reflected = COMPARISONS[symbol]
    decided = (
        open_compare(symbol, function, left, right)
        or dtype_comparison(function, left, right)
        or unbacked.compared(tx, symbol, function, left, right)
    )
    if decided is not None:
        return decided
    kinds = left.family(), right.family()
    alike = None not in kinds and kinds[0] is kinds[1]
    try:
        if right.has_data() or (alike and (_holds_open(left) or _holds_open(right))):
            raise NotConstant(right)  # before an open number is asked for its value
        values = as_constant(left), as_constant(right)
        return attempt(tx, symbol, lambda: ConstantVariable(function(*values)), exact=True)
    except NotConstant:
        pass
    equality = symbol in ("==", "!=")
    if alike:
        return left.compare_contents(tx, symbol, function, right)
    if None not in kinds and equality:
        return ConstantVariable(symbol == "!=")
    first = derives(left.operand_class(), right.operand_class())
    if not first and _of_plain_values(left, right, method_name):
        return compare(tx, symbol, left, right.unwrapped())
    tries = [(left, right, method_name), (right, left, reflected)]
    answers = (_rich_compare(tx, *each) for each in (reversed(tries) if first else tries))
    answer = next((one for one in answers if not _declines(one)), None)
    if answer is not None:
        return answer
    if equality and left.is_compared_by_identity() and right.is_compared_by_identity():
        return ConstantVariable(is_same(tx, left, right) is (symbol == "=="))
    tx.unsupported("GB0038", f"{symbol} between {left.describe()} and {right.describe()}")


def _holds_open(value: Variable) -> bool:
    """Whether it is a list or tuple with an open number in it, such as a shape, or in a tuple in it."""
    items = map(realize, value.items) if value.family() in SEQUENCES else ()
    return any(item.is_open() or (item.family() is tuple and _holds_open(item)) for item in items)


def _rich_compare(tx: Tx, receiver: Variable, other: Variable, name: str) -> Variable:
    """receiver.__lt__(other). Without a `__ne__` of its own, a class has the opposite of its `__eq__`."""
    if receiver.defines(name):
        return receiver.ask(tx, name, other)
    if name == "__ne__" and receiver.defines("__eq__"):
        equal = _rich_compare(tx, receiver, other, "__eq__")
        return equal if _declines(equal) else ConstantVariable(not equal.truth(tx))
    return DECLINED


def _divides_open(operands: list[Variable]) -> bool:
    numbers = len(operands) == 2 and all(map(number_operand, operands))
    return numbers and any(a.is_open() for a in operands) and hint_of(operands[1]) != 0


def _of_open_numbers(tx: Tx, function: Callable[..., Any], operands: list[Variable]) -> Variable | None:
    """What stays open, where the graph can compute it."""
    if function is divmod and _divides_open(operands):
        return KINDS["tuple"]([binary(tx, symbol, *operands) for symbol in ("//", "%")])
    found = open_conversion(function, operands)
    return converted(tx, function, operands[0]) if found is None and len(operands) == 1 else found


def fold(tx: Tx, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Variable:
    """Compute a pure function of constants now. What it raises, the program raises."""
    name = getattr(function, "__name__", "a function")
    still_open = None if kwargs else _of_open_numbers(tx, function, [realize(a) for a in args])
    if still_open is not None:
        return still_open
    values = [tx.constant(a, name) for a in args]
    options = {k: tx.constant(v, name) for k, v in kwargs.items()}

    def compute() -> Variable:
        try:
            return from_constant(function(*values, **options))
        except (Raised, Unsupported):
            raise
        except Exception as error:
            if type(error).__module__ == "builtins":  # attempt() knows it
                raise
            # its class may have a say in how it is made
            tx.unsupported("GB0066", f"{name} raises {type(error).__name__}: {error}")

    return attempt(tx, name, compute, exact=True)
