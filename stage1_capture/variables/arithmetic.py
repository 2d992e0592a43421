"""Operators, comparisons and truth of abstract values, as Python defines them.

Input: abstract operands. Constants are computed now; a tensor's dunder methods are operators of the table,
so `x + y` becomes a node; a branch on a tensor's data is a break.
"""

from __future__ import annotations

import collections
import operator
import types
from collections import OrderedDict
from collections.abc import Callable
from typing import Any

from stage1_capture.state.machine import Tx
from stage1_capture.state.mro import MISSING, class_lookup
from stage1_capture.variables.answers import judged
from stage1_capture.variables.attributes import special_method
from stage1_capture.variables.base import (
    IteratorVariable,
    NotConstant,
    Variable,
    as_constant,
    describe,
    from_constant,
    realize,
)
from stage1_capture.variables.calls import attempt, call_function, iterate, must_be_local
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.exception import TracebackVariable
from stage1_capture.variables.function import PartialVariable, UserFunctionVariable, UserMethodVariable
from stage1_capture.variables.keys import IdVariable, hashable
from stage1_capture.variables.mapping import ConstDictVariable, DefaultDictVariable, DictViewVariable
from stage1_capture.variables.ndarray import NumpyNdarrayVariable, dtype_comparison
from stage1_capture.variables.number import (
    NumberVariable,
    hint_of,
    open_binary,
    open_compare,
    open_negative,
    open_truth,
)
from stage1_capture.variables.sequence import DequeVariable, ListVariable, TupleVariable
from stage1_capture.variables.set import SetVariable
from stage1_capture.variables.tensor import TensorVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable

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
    order = turns(class_of(left), class_of(right), name, in_place)
    if name == "or" and isinstance(left, ConstDictVariable) and isinstance(right, ConstDictVariable):
        return _merged(tx, left, right, in_place)
    if any(not is_left for is_left, _ in order[:-1]):  # the right operand goes before the left one
        return _first_answer(tx, symbol, left, right, order)
    if in_place and name == "add" and isinstance(left, ListVariable):
        new = iterate(tx, right)
        must_be_local(tx, left, "+=")
        left.items[:] = kept(left, [*left.items, *new])
        return left
    if isinstance(left, (SetVariable, DictViewVariable)) and isinstance(
        right, (SetVariable, DictViewVariable)
    ):
        return on_sets(tx, symbol, function, left, right)
    if in_place and name == "mul" and isinstance(left, ListVariable) and isinstance(right, ConstantVariable):
        must_be_local(tx, left, symbol)
        left.items[:] = kept(left, attempt(tx, symbol, lambda: left.items * right.value))
        return left
    if in_place and isinstance(left, (ListVariable, ConstDictVariable)) and right.unwrapped() is right:
        tx.unsupported("GB0038", f"{symbol} on {describe(left)}")
    still_open = open_binary(symbol.removesuffix("="), function, left, right)
    if still_open is not None:
        return still_open
    both = _constants(left, right)
    if both is not None:
        exactly = getattr(operator, f"i{name}") if in_place else function  # which its messages tell apart
        return attempt(tx, symbol, lambda: from_constant(exactly(*both)), exact=True)
    if symbol == "|" and all(map(_is_type, (left, right))):
        return UserDefinedObjectVariable(_real_type(left) | _real_type(right))
    if symbol.startswith("%") and isinstance(left, ConstantVariable) and isinstance(left.value, (str, bytes)):
        from stage1_capture.variables.shown import in_text, stand_in

        return in_text(tx, "%", lambda: left.value % stand_in(tx, right))
    joined = _on_sequences(tx, function, symbol, left, right)
    if joined is not None:
        return joined
    if isinstance(left, ConstantVariable) and _of_plain_values(left, right, f"__{name}__"):
        return binary(tx, symbol, left, right.unwrapped())
    return _first_answer(tx, symbol, left, right, order)


def _first_answer(tx: Tx, symbol: str, left: Variable, right: Variable, order: Order) -> Variable:
    for is_left, dunder in order:
        receiver, other = (left, right) if is_left else (right, left)
        method = special_method(tx, receiver, dunder)
        result = _declined if method is None else call_function(tx, method, [other], {})
        if not _declines(result):
            return result
    tx.unsupported("GB0038", f"{symbol} between {describe(left)} and {describe(right)}")


def _of_plain_values(left: ConstantVariable, right: Variable, name: str) -> bool:
    """Whether a number's own method takes an object that derives from another kind of number: True + MyInt(2)."""
    inside = right.unwrapped()
    if inside is right or not isinstance(inside, ConstantVariable):
        return False
    method = getattr(type(hint_of(left)), name, None)
    try:
        return method is not None and method(hint_of(left), inside.value) is not NotImplemented
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


def class_of(value: Variable) -> type | None:
    """The class of an operand, where it matters who is asked first."""
    match value:
        case UserDefinedObjectVariable(real=real):
            return None if isinstance(real, (type, types.ModuleType)) else type(real)
        case ConstantVariable():
            return type(hint_of(value))
        case TupleVariable(kind=kind) | ConstDictVariable(kind=kind) | SetVariable(kind=kind):
            return kind
        case ListVariable():
            return collections.deque if isinstance(value, DequeVariable) else list
    return None


def _is_type(value: Variable) -> bool:
    """A class whose `|` is Python's, a union, or None among them."""
    real = getattr(value, "real", None)
    plain = isinstance(real, type) and class_lookup(type(real), "__or__") is type.__or__
    none = type(value) is ConstantVariable and value.value is None
    return (
        isinstance(value, UserDefinedObjectVariable) and (plain or isinstance(real, types.UnionType)) or none
    )


def _real_type(value: Variable) -> Any:
    return value.real if isinstance(value, UserDefinedObjectVariable) else None


def _merged(tx: Tx, left: ConstDictVariable, right: ConstDictVariable, in_place: bool) -> ConstDictVariable:
    """left | right, of the left one's kind, unless that is a plain dict; left |= right."""
    if in_place:
        must_be_local(tx, left, "|=")
        left.items.update(right.items)
        return left
    entries = {**left.items, **right.items}
    like = right if left.kind is dict else left
    if isinstance(like, DefaultDictVariable):
        return DefaultDictVariable(entries, like.kind, like.factory)
    return ConstDictVariable(entries, like.kind)


def kept(sequence: ListVariable, items: list[Variable]) -> list[Variable]:
    """Of the items of a deque with a length, the last ones."""
    limit = getattr(sequence, "limit", None)
    return items if limit is None else items[max(len(items) - limit, 0) :]


def on_sets(tx: Tx, symbol: str, function: Callable, left: Any, right: Any) -> Variable:
    """a | b, a & b, a - b, a ^ b of sets and views of dicts; in place on a set."""
    values = [v.items if isinstance(v, SetVariable) else set(shown_by(tx, v)) for v in (left, right)]
    result = attempt(tx, symbol, lambda: function(*values))
    if symbol.endswith("=") and isinstance(left, SetVariable) and left.kind is set:
        must_be_local(tx, left, symbol)
        left.items.clear()
        left.items |= result
        return left
    return SetVariable(set(result), left.kind if isinstance(left, SetVariable) else set)


def shown_by(tx: Tx, view: DictViewVariable) -> list:
    """What a view of a dict shows, as elements of a set."""
    if view.name == "values":
        tx.unsupported("GB0038", f"a set operation on {describe(view)}")
    return [hashable(tx, item) for item in view.items]


_declined = ConstantVariable(NotImplemented)


def _declines(result: Variable) -> bool:
    """Whether an operand's method leaves the operation to the other operand."""
    return type(result) is ConstantVariable and result.value is NotImplemented


def _constants(*operands: Variable) -> tuple | None:
    """The operands' values when all are immutable constants."""
    if all(isinstance(o, (ConstantVariable, TupleVariable)) for o in operands):
        try:
            return tuple(map(as_constant, operands))
        except NotConstant:
            pass
    return None


def _on_sequences(
    tx: Tx, function: Callable, symbol: str, left: Variable, right: Variable
) -> Variable | None:
    """list + list, tuple * int: Python's own operation on the items."""
    for kind in (ListVariable, TupleVariable, DequeVariable):
        if symbol == "+" and _is_row(left, kind) and _is_row(right, kind):
            return _row_like(left, [*left.items, *right.items])  # type: ignore[attr-defined]
        for sequence, count in ((left, right), (right, left)):
            if symbol == "*" and _is_row(sequence, kind) and isinstance(count, ConstantVariable):
                return _row_like(sequence, attempt(tx, symbol, lambda s=sequence, c=count: s.items * c.value))  # type: ignore
    return None


def _is_row(value: Variable, kind: type) -> bool:
    return isinstance(value, kind) and isinstance(value, DequeVariable) is (kind is DequeVariable)


def _row_like(sequence: Variable, items: list[Variable]) -> Variable:
    """A list, tuple or deque of these items. What is made of a named tuple is a tuple."""
    if isinstance(sequence, DequeVariable):
        return DequeVariable(kept(sequence, items), limit=sequence.limit)
    return TupleVariable(items) if isinstance(sequence, TupleVariable) else ListVariable(items)


def unary(tx: Tx, opname: str, value: Variable) -> Variable:
    function, dunder = UNARY[opname]
    if isinstance(value, NumberVariable) and opname == "UNARY_NEGATIVE":
        return open_negative(value)
    if isinstance(value, ConstantVariable):
        return attempt(tx, dunder, lambda: ConstantVariable(function(value.value)))
    method = special_method(tx, value, dunder)
    if method is None:
        tx.unsupported("GB0038", f"{dunder} of {describe(value)}")
    return call_function(tx, method, [], {})


def compare(tx: Tx, symbol: str, left: Variable, right: Variable) -> Variable:
    """A comparison: a node between tensors, a constant between constants."""
    function, dunder, reflected = COMPARISONS[symbol]
    if isinstance(left, IdVariable) and isinstance(right, IdVariable) and symbol in ("==", "!="):
        return ConstantVariable(is_same(tx, left, right) is (symbol == "=="))
    decided = open_compare(symbol, function, left, right)
    if decided is None:
        decided = dtype_comparison(function, left, right)
    if decided is not None:
        return decided
    try:
        if isinstance(right, (TensorVariable, NumpyNdarrayVariable)):
            raise NotConstant(right)  # before an open number on the left is asked for its value
        values = as_constant(left), as_constant(right)
        return attempt(tx, symbol, lambda: ConstantVariable(function(*values)), exact=True)
    except NotConstant:
        pass
    kinds = family(left), family(right)
    if None not in kinds and (kinds[0] is kinds[1] or symbol in ("==", "!=")):
        return _compare_containers(tx, symbol, left, right)
    first = derives(class_of(left), class_of(right))
    if not first and isinstance(left, ConstantVariable) and _of_plain_values(left, right, dunder):
        return compare(tx, symbol, left, right.unwrapped())
    tries = [(left, right, dunder), (right, left, reflected)]
    for receiver, other, name in reversed(tries) if first else tries:
        result = _rich_compare(tx, receiver, other, name)
        if not _declines(result):
            return result
    by_identity = (UserDefinedObjectVariable, UserFunctionVariable, ConstantVariable, TensorVariable)
    if symbol in ("==", "!=") and isinstance(left, by_identity) and isinstance(right, by_identity):
        return ConstantVariable(is_same(tx, left, right) is (symbol == "=="))
    tx.unsupported("GB0038", f"{symbol} between {describe(left)} and {describe(right)}")


def family(value: Variable) -> Any:
    """Containers of Python's that compare with each other: by their items, keys and values, or elements."""
    match value:
        case DictViewVariable(name=name):
            return "values" if name == "values" else set
        case DequeVariable():
            return "deque"
        case ListVariable():
            return list
        case TupleVariable():
            return tuple
        case ConstDictVariable():
            return dict
        case SetVariable():
            return set
    return None


def _compare_containers(tx: Tx, symbol: str, left: Any, right: Any) -> Variable:
    """Containers whose contents are not all constants."""
    kind = family(left)
    if kind is not family(right) or kind == "values":
        return ConstantVariable((left is right) is (symbol == "=="))
    function = COMPARISONS[symbol][0]
    if kind is set:
        elements = [v.items if isinstance(v, SetVariable) else set(shown_by(tx, v)) for v in (left, right)]
        return attempt(tx, symbol, lambda: ConstantVariable(function(*elements)))
    if kind is dict:
        if symbol not in ("==", "!="):
            words = f"{symbol!r} not supported between instances of 'dict' and 'dict'"
            tx.throw(TypeError, words)
        if left.kind is right.kind is OrderedDict and [*left.items] != [*right.items]:
            return ConstantVariable(symbol == "!=")
        same = left.items.keys() == right.items.keys() and all(
            equal(tx, realize(value), realize(right.items[key])) for key, value in left.items.items()
        )
        return ConstantVariable(same is (symbol == "=="))
    for one, other in zip(left.items, right.items):
        if not equal(tx, realize(one), realize(other)):
            if symbol in ("==", "!="):
                return ConstantVariable(symbol == "!=")
            return compare(tx, symbol, realize(one), realize(other))
    return ConstantVariable(function(len(left.items), len(right.items)))


def equal(tx: Tx, left: Variable, right: Variable) -> bool:
    """As containers compare what is in them: the same object, or an equal one."""
    return left is right or truth(tx, compare(tx, "==", left, right))


def _rich_compare(tx: Tx, receiver: Variable, other: Variable, name: str) -> Variable:
    """receiver.__lt__(other). Without a `__ne__` of its own, a class has the opposite of its `__eq__`."""
    if isinstance(receiver, (TensorVariable, NumpyNdarrayVariable)) or _defines(receiver, name):
        method = special_method(tx, receiver, name)
        assert method is not None
        return call_function(tx, method, [other], {})
    if name == "__ne__" and _defines(receiver, "__eq__"):
        equal = _rich_compare(tx, receiver, other, "__eq__")
        return equal if _declines(equal) else ConstantVariable(not truth(tx, equal))
    return _declined


def _defines(value: Variable, name: str) -> bool:
    if not isinstance(value, UserDefinedObjectVariable) or isinstance(value.real, type):
        return False
    return class_lookup(type(value.real), name) not in (MISSING, getattr(object, name))


def is_same(tx: Tx, left: Variable, right: Variable) -> bool:
    """`left is right`. Two objects from outside that differ are guarded to differ."""
    if left is right:
        return True
    match left, right:
        case IdVariable(of=a), IdVariable(of=b):
            return is_same(tx, a, b)
        case ConstantVariable(value=a), ConstantVariable(value=b):
            if a is b or type(a) is not type(b) or a != b:
                return a is b
            tx.unsupported("GB0046", f"the identity of the constant {a!r}")
        case (
            UserDefinedObjectVariable() | UserFunctionVariable(),
            UserDefinedObjectVariable() | UserFunctionVariable(),
        ):
            if left.real is not None and left.real is right.real:
                return True
        case (UserMethodVariable(), UserMethodVariable()):
            tx.unsupported("GB0046", "the identity of a bound method")
    if left.source is not None and right.source is not None and type(left) is type(right):
        tx.output.guard("NOT_ALIASED", left.source, right.source)
    return False


def truth(tx: Tx, value: Variable) -> bool:
    """`bool(value)`, which must be known now."""
    match value:
        case NumberVariable():
            return open_truth(value)
        case ConstantVariable(value=constant):
            return bool(constant)
        case ListVariable(items=items) | TupleVariable(items=items) | DictViewVariable(items=items):
            return bool(items)
        case ConstDictVariable(items=entries) | SetVariable(items=entries):
            return bool(entries)
        case IteratorVariable() | TracebackVariable() | PartialVariable():
            return True
        case TensorVariable() | NumpyNdarrayVariable():
            tx.unsupported("GB0003", f"a branch on {describe(value)}")
        case UserDefinedObjectVariable():
            for name in ("__bool__", "__len__"):
                method = special_method(tx, value, name)
                if method is not None:
                    return truth(tx, judged(tx, value, name, call_function(tx, method, [], {})))
    return True
