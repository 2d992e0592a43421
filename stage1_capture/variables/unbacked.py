"""Numbers that only the data knows, in the graph instead of a break: what item() reads, and sizes of nonzero's result.

Input: a tensor whose item is read (config capture_scalar_outputs), or a size made of unbacked symbols. A whole number
is an expression of symbols (u0 + 1), and a tensor without dimensions where an operator takes it as an operand; a float
is such a tensor. A question that needs the value is a break, which names the call that made it and the check to write.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial, reduce
from typing import Any, NoReturn

from stage0_eager import TABLE
from stage0_eager.functions import unbacked as ops
from stage0_eager.table.number_operands import FLOATS, TAKEN
from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import BUILTINS, Args, Kwargs, Tx
from stage1_capture.state.open_sizes import OpenSizes
from stage1_capture.variables.base import FROM_CONSTANT, Variable, realize, yes
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.function import function_variable
from stage1_capture.variables.number import NumberVariable, size_number
from stage1_capture.variables.operators import UNKNOWN, call_operator, record_node
from stage1_capture.variables.sequence import ListVariable, TupleVariable
from stage1_capture.variables.tensor import DATA_READS, TensorVariable
from stage_contracts import config
from stage_contracts import dtype as dt
from stage_contracts.size_text import python_text
from stage_contracts.symbolic import SymBool, SymInt
from stage_contracts.unbacked import SymbolName, has_effect, learn, question, unbacked_in

# ---- the kinds of value ----------------------------------------------------------------------------------------


class UnknownVariable(Variable):
    """What the kinds have in common: the value is not there while the program is captured."""

    def needs_value(self, what: str = "it") -> NoReturn:
        raise NotImplementedError

    def as_constant(self) -> Any:
        self.needs_value()

    def truth(self, tx: Tx) -> bool:
        self.needs_value("a branch")

    def iterator(self, tx: Tx) -> Variable:
        self.needs_value("a loop")

    def hash_key(self, tx: Tx) -> Any:
        self.needs_value("a key")

    def operand_class(self) -> type | None:
        return self.stands_for

    def class_name(self) -> str:
        return self.stands_for.__name__

    def describe(self) -> str:
        return "a number that only the data knows"


class UnbackedIntVariable(UnknownVariable):
    """A whole number: an expression with unbacked symbols in it."""

    sym: SymInt
    stands_for = int
    is_plain_data = yes

    def as_constant(self) -> Any:
        low, high = self.sym.env.bounds(self.sym.env.simplify(self.sym.expr))
        return int(low) if low == high else self.needs_value()

    def needs_value(self, what: str = "it") -> NoReturn:
        env = _env(self.sym)
        env.output.unsupported("GB0016", f"{what} needs a value: {question(env, self.sym.expr)}")

    def truth(self, tx: Tx) -> bool:
        return compared(tx, "!=", operator.ne, self, ConstantVariable(0)).truth(tx)  # type: ignore[union-attr]

    def as_proxy(self, leaf: Callable[[Any], Any], refuse: Callable[[Variable], NoReturn]) -> Any:
        return self.sym

    def parts(self) -> list[Variable]:
        return _makers(self.sym)

    def binary(self, tx: Tx, symbol: str, function: Callable[..., Any], right: Variable) -> Variable | None:
        return combined(tx, symbol.removesuffix("="), self, right)

    def reflected(self, tx: Tx, symbol: str, function: Callable[..., Any], left: Variable) -> Variable | None:
        return combined(tx, symbol.removesuffix("="), left, self)

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        self.needs_value(f"the attribute {name}")

    def describe(self) -> str:
        return f"the number {self.sym}, which only the data knows"


class UnbackedFloatVariable(UnknownVariable):
    """A float: a tensor of float64 without dimensions."""

    tensor: TensorVariable
    made_at: str
    output: OutputGraph
    holds = ("tensor",)
    stands_for = float
    is_plain_data = yes

    def needs_value(self, what: str = "it") -> NoReturn:
        _refuse_float(self.output, self.made_at, what)

    def as_proxy(self, leaf: Callable[[Any], Any], refuse: Callable[[Variable], NoReturn]) -> Any:
        return leaf(self.tensor)

    binary = UnbackedIntVariable.binary
    reflected = UnbackedIntVariable.reflected


class UnbackedBoolVariable(UnknownVariable):
    """An answer that only the data gives: a condition on symbols, or a tensor of bool without dimensions."""

    sym: SymBool | None = None
    tensor: TensorVariable | None = None
    made_at: str = ""
    output: Any = None
    certain: bool = False  # it was checked: it is true from here on
    stands_for = bool

    def truth(self, tx: Tx) -> bool:
        return self.certain or self.needs_value("a branch")

    def needs_value(self, what: str = "it") -> NoReturn:
        if self.sym is None:
            _refuse_float(self.output, self.made_at, what)
        env = _env(self.sym)
        env.output.unsupported("GB0016", f"{what} on {question(env, self.sym.expr)}")

    def parts(self) -> list[Variable]:
        if self.sym is None:
            return [self.tensor]  # type: ignore[list-item]
        return _makers(self.sym)

    def describe(self) -> str:
        return "an answer that only the data gives"


def _env(sym: SymInt | SymBool) -> OpenSizes:
    return sym.env  # type: ignore[return-value]


def _makers(sym: SymInt | SymBool) -> list[Variable]:
    return [_env(sym).makers[s] for s in unbacked_in(_env(sym), sym.expr)]


def _refuse_float(output: OutputGraph, made_at: str, what: str) -> NoReturn:
    output.unsupported(
        "GB0016",
        f"{what} on a float that only the data knows, made at {made_at}; use cutaway.where, or read it outside",
    )


def _of_size(size: SymInt) -> Variable:
    """A size as a value of the program."""
    if unbacked_in(size.env, size.env.simplify(size.expr)):
        return UnbackedIntVariable(size)
    return size_number(size.env, size)  # type: ignore[arg-type]


FROM_CONSTANT[SymInt] = _of_size

# ---- reading a tensor ------------------------------------------------------------------------------------------


def new_symbol(tx: Tx, low: int | None = None) -> SymInt:
    """A symbol that the call under way makes."""
    return tx.output.sizes.unbacked(tx.output.origin().describe(), low)


def maker(tx: Tx, op: Any, args: Args, symbol: SymInt) -> Variable:
    """Record a call of an operator that makes `symbol`; the first tensor of its result shows it."""
    metas = [a.meta if a.is_tensor() else a.as_constant() for a in args]
    name = SymbolName(symbol)
    found = record_node(tx, op, [*args, ConstantVariable(name)], {}, op.meta(*metas, name))
    shown: Any = found.items[0] if isinstance(found, TupleVariable) else found
    tx.output.sizes.makers[symbol.expr] = shown
    return found


def read_item(tx: Tx, tensor: TensorVariable) -> Variable:
    """`tensor.item()`."""
    meta = tensor.meta
    if meta.numel == 1 and meta.dtype is dt.bool_:
        flag = (
            call_operator(tx, TABLE["core.reshape"], [tensor, ConstantVariable(())], {})
            if meta.shape
            else tensor
        )
        return UnbackedBoolVariable(tensor=flag, made_at=tx.output.origin().describe(), output=tx.output)  # type: ignore[arg-type]
    if meta.numel != 1 or not (meta.dtype.is_floating_point or meta.dtype.category == dt.INTEGER):
        tx.unsupported("GB0004", "the tensor's item reads its data")
    if meta.dtype.is_floating_point:
        plain = call_operator(tx, TABLE["cutaway.detach"], [tensor], {})
        if meta.shape:
            plain = call_operator(tx, TABLE["core.reshape"], [plain, ConstantVariable(())], {})
        wide = call_operator(tx, TABLE["core.cast"], [plain, ConstantVariable(dt.float64)], {})
        return UnbackedFloatVariable(wide, tx.output.origin().describe(), tx.output)  # type: ignore[arg-type]
    low = 0 if meta.dtype is dt.uint8 else None
    symbol = new_symbol(tx, low)
    maker(tx, ops.item, [tensor], symbol)
    return UnbackedIntVariable(symbol)


def read_list(tx: Tx, tensor: TensorVariable) -> Variable:
    """`tensor.tolist()`: an item for each element."""
    if not tensor.meta.shape:
        return read_item(tx, tensor)
    if not all(isinstance(size, int) for size in tensor.meta.shape):
        tx.unsupported(
            "GB0004", "the tensor's tolist reads its data, and only the data knows how long the list is"
        )
    rows = [tensor.subscript(tx, ConstantVariable(i)) for i in range(tensor.meta.shape[0])]
    return ListVariable([read_list(tx, row) for row in rows])  # type: ignore[arg-type]


def _as_int(tx: Tx, tensor: TensorVariable) -> Variable:
    found = read_item(tx, tensor)
    if isinstance(found, UnbackedIntVariable):
        return found
    whole = call_operator(tx, TABLE["core.cast"], [tensor, ConstantVariable(dt.int64)], {})
    return read_item(tx, whole)  # type: ignore[arg-type]


# The methods that read a tensor's data, and what they give. Others stay a break.
DATA_READS.update(item=read_item, tolist=read_list, __int__=_as_int, __index__=_as_int)
DATA_READS["__float__"] = lambda tx, tensor: as_float(tx, read_item(tx, tensor))

# ---- arithmetic ------------------------------------------------------------------------------------------------

_EXACT = {"+": operator.add, "-": operator.sub, "*": operator.mul, "//": operator.floordiv, "%": operator.mod}
_POWERS = 8  # a power is written as a product
_OF_TENSORS = {
    "+": "cutaway.add", "-": "cutaway.sub", "*": "cutaway.mul", "/": "cutaway.div", "//": "cutaway.floor_divide",
    "%": "cutaway.remainder", "**": "cutaway.pow",
    "<": "cutaway.lt", "<=": "cutaway.le", ">": "cutaway.gt", ">=": "cutaway.ge", "==": "cutaway.eq",
    "!=": "cutaway.ne",
}  # fmt: skip


def _is_unknown(value: Variable) -> bool:
    return isinstance(value, (UnbackedIntVariable, UnbackedFloatVariable))


def as_size(value: Variable) -> Any:
    """A whole number as a size; None for any other value."""
    if isinstance(value, (UnbackedIntVariable, NumberVariable)):
        return value.sym
    known = value.is_python_constant() and type(value.value) in (int, bool)
    return int(value.value) if known else None


def combined(tx: Tx, symbol: str, left: Variable, right: Variable) -> Variable | None:
    """`left + right` of numbers; None if one is something else."""
    sizes = as_size(left), as_size(right)
    if symbol == "**" and sizes[0] is not None and isinstance(sizes[1], int) and 0 < sizes[1] <= _POWERS:
        found = reduce(operator.mul, [sizes[0]] * sizes[1])
        return _of_size(found) if isinstance(found, SymInt) else ConstantVariable(found)
    if None not in sizes and symbol in _EXACT:
        if symbol in ("//", "%") and not (isinstance(sizes[1], int) and sizes[1] > 0):
            return _of_tensors(tx, symbol, left, right)
        found = _EXACT[symbol](*sizes)
        return _of_size(found) if isinstance(found, SymInt) else ConstantVariable(found)
    return _of_tensors(tx, symbol, left, right)


def _of_tensors(tx: Tx, symbol: str, left: Variable, right: Variable) -> Variable | None:
    """The same in float64, by operators: a float, or None where Python would give something else."""
    numbers = [as_float(tx, v) for v in (left, right)]
    whole = all(as_size(v) is not None for v in (left, right))
    if None in numbers or symbol not in _OF_TENSORS or (whole and symbol != "/"):
        return None
    a, b = (n.tensor if isinstance(n, UnbackedFloatVariable) else n for n in numbers)
    found = call_operator(tx, TABLE[_OF_TENSORS[symbol]], [a, b], {})
    places = [n.made_at for n in numbers if isinstance(n, UnbackedFloatVariable)]
    return UnbackedFloatVariable(found, places[0], tx.output)  # type: ignore[arg-type]


def as_float(tx: Tx, value: Variable) -> Any:
    """A number as an operand in float64: a known float, or a tensor. None for what is no number."""
    if isinstance(value, UnbackedFloatVariable):
        return value
    if isinstance(value, UnbackedIntVariable):
        wide = call_operator(tx, TABLE["core.cast"], [as_tensor(tx, value), ConstantVariable(dt.float64)], {})
        return UnbackedFloatVariable(wide, str(value.sym), tx.output)  # type: ignore[arg-type]
    known = value.is_python_constant() and type(value.value) in (int, float, bool)
    return ConstantVariable(float(value.value)) if known else None


def as_tensor(tx: Tx, value: Variable) -> TensorVariable:
    """A number as a tensor without dimensions, which an operator takes as an operand."""
    if isinstance(value, UnbackedFloatVariable):
        return value.tensor
    assert isinstance(value, UnbackedIntVariable)
    own = value.sym.env.makers.get(value.sym.expr)  # type: ignore[attr-defined]
    if own is not None and not own.meta.shape:
        return own
    return record_node(tx, ops.scalar, [value], {}, ops.scalar.meta(value.sym))  # type: ignore[return-value]


def compared(
    tx: Tx, symbol: str, function: Callable[..., Any], left: Variable, right: Variable
) -> Variable | None:
    """A comparison with a number that only the data knows; None for any other."""
    if not (_is_unknown(left) or _is_unknown(right)):
        return None
    sizes = as_size(left), as_size(right)
    if None not in sizes:
        found = function(*sizes)
        env = next(s.env for s in sizes if isinstance(s, SymInt))
        known = env.known(found.expr) if isinstance(found, SymBool) else bool(found)
        return UnbackedBoolVariable(found) if known is None else ConstantVariable(known)
    numbers = [as_float(tx, v) for v in (left, right)]
    if None in numbers:
        return None
    places = [n.made_at for n in numbers if isinstance(n, UnbackedFloatVariable)]
    a, b = (n.tensor if isinstance(n, UnbackedFloatVariable) else n for n in numbers)
    found = call_operator(tx, TABLE[_OF_TENSORS[symbol]], [a, b], {})
    return UnbackedBoolVariable(tensor=found, made_at=places[0], output=tx.output)  # type: ignore[arg-type]


def negated(tx: Tx, value: Variable) -> Variable | None:
    return combined(tx, "*", value, ConstantVariable(-1)) if _is_unknown(value) else None


def converted(tx: Tx, function: Any, value: Variable) -> Variable | None:
    """`int(n)` and `float(n)` of a tensor or of such a number; None for any other call."""
    method = {int: "__int__", operator.index: "__index__", float: "__float__"}.get(function)
    if value.has_data() and method and config.current().capture.capture_scalar_outputs:
        return DATA_READS[method](tx, value if value.is_tensor() else value.tensor)
    if isinstance(value, UnbackedIntVariable) and function in (int, operator.index):
        return value
    if _is_unknown(value) and function is float:
        return as_float(tx, value)
    if isinstance(value, UnbackedFloatVariable) and function is int:
        return _as_int(tx, value.tensor)
    return None


# ---- operands of operators -------------------------------------------------------------------------------------


_KEYED = ("getitem", "setitem")


def as_operands(tx: Tx, op: Any, args: Args, kwargs: Kwargs) -> tuple[Args, Kwargs]:
    """The arguments, with a tensor in place of each number that only the data knows, where the operator takes one."""

    def placed(name: str, value: Variable) -> Variable:
        value = realize(value)
        if isinstance(value, UnbackedFloatVariable) or (
            isinstance(value, UnbackedIntVariable) and name in taken
        ):
            return as_tensor(tx, value)
        if isinstance(value, UnbackedBoolVariable) and value.tensor is not None and name in taken:
            return value.tensor
        return value

    if op.name in _KEYED:
        args = [args[0], UNKNOWN["places"](tx, UNKNOWN["bounds"](tx, realize(args[0]), args[1])), *args[2:]]
    if not any(isinstance(realize(a), UnknownVariable) for a in (*args, *kwargs.values())):
        return args, kwargs
    taken = {*TAKEN.get(op.name, ()), *FLOATS.get(op.name, ())}
    named = [placed(name, a) for name, a in zip(op.params, args)]
    return [*named, *args[len(named) :]], {name: placed(name, a) for name, a in kwargs.items()}


# ---- checks ----------------------------------------------------------------------------------------------------


def record_deferred(tx: Tx) -> None:
    """What rules have learnt about unbacked symbols as checks in the graph."""
    sizes = tx.output.sizes
    learnt, sizes.deferred = sizes.deferred, []
    for condition in learnt:
        record_check(tx, condition, RuntimeError, f"Runtime assertion failed for expression {condition}")


def record_check(tx: Tx, condition: Any, error: type[Exception], message: str) -> None:
    sizes = tx.output.sizes
    symbols = sorted(condition.free_symbols, key=str)
    shown: list[Variable] = [sizes.makers[s] for s in symbols if s in sizes.makers]
    names = [str(s) for s in symbols if s in sizes.makers] + [
        str(s) for s in symbols if s not in sizes.makers
    ]
    known: list[Variable] = [size_number(sizes, SymInt(s, sizes)) for s in symbols if s not in sizes.makers]
    text = python_text(condition, str)
    _record_check(tx, shown, known, names, text, error, message)


def _record_check(
    tx: Tx, shown: Args, known: Args, names: list[str], text: str, error: Any, message: str
) -> None:
    if config.current().capture.do_not_emit_runtime_asserts:
        return
    words = [TupleVariable(shown), TupleVariable(known), ConstantVariable(tuple(names)), *map(
        ConstantVariable, (text, error.__name__, message))]  # fmt: skip
    graph, nodes = tx.output.graph, list(tx.output.graph.nodes)
    # as soon as the data is there, and after the checks that are there already
    at = 1 + max((nodes.index(tx.output.node_of(value)) for value in shown), default=len(nodes) - 1)  # type: ignore[arg-type]
    while at < len(nodes) and has_effect(nodes[at]):
        at += 1
    with graph.inserting_before(nodes[at]) if at < len(nodes) else nullcontext():
        record_node(tx, ops.check, words, {}, ops.check.meta(None, None, None, "", "", ""))


_REQUIRE: Any = ops.require


def require(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """`torch._check(cond)`: of a condition that only the data decides, a check in the graph, and a fact from now on."""
    cond, error, message = map(realize, args)
    if not isinstance(cond, UnbackedBoolVariable):
        return tx.inline(function_variable(tx.output, _REQUIRE, None), args, kwargs)
    hold(tx, cond, error.real, tx.constant(message, "a message"))
    return NONE


def hold(tx: Tx, cond: UnbackedBoolVariable, raised: type[Exception], text: str) -> None:
    """Check a condition when the data is there, and take it as true from here on."""
    cond.certain = True
    if cond.tensor is not None:
        _record_check(tx, [cond.tensor], [], ["holds"], "holds", raised, text)
        return
    assert cond.sym is not None
    sizes = tx.output.sizes
    record_check(tx, cond.sym.expr, raised, text)
    if sizes.known(cond.sym.expr) is None:
        learn(sizes, cond.sym.expr)
        sizes.deferred.pop()  # it is recorded


def _asked(default: bool, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """`guard_or_false(cond)` and the like: what is known of the condition, else the default."""
    (cond,) = map(realize, args)
    if isinstance(cond, UnbackedBoolVariable):
        return ConstantVariable(default)
    return ConstantVariable(cond.truth(tx))


UNKNOWN.update(operands=as_operands, deferred=record_deferred)
BUILTINS[ops.require] = require
BUILTINS.update(dict.fromkeys((ops.guard_or_false, ops.statically_known_true), partial(_asked, False)))
BUILTINS[ops.guard_or_true] = partial(_asked, True)
