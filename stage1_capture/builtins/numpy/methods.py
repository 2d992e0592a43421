"""Methods, operators and computed attributes of arrays: each is a NumPy function by another name.

Input: an abstract array and a call. What is written here has rules of its own: `+=` writes, `x[i]` may be a view, a
tensor on the other side takes the operation over.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from stage0_eager import numpy_api
from stage0_eager.functions import creation
from stage0_eager.functions import numpy_wrapping as wrapping
from stage1_capture.builtins.numpy.calls import (
    apply,
    argument,
    call_row,
    dtype_of,
    fixed,
    record,
    seen,
    writable,
    write,
    written,
)
from stage1_capture.state.machine import BUILTINS, METHODS, Args, Builtin, Kwargs, Tx, spread
from stage1_capture.variables.base import Variable, from_constant, realize
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.function import function_variable
from stage1_capture.variables.ndarray import COMPUTED, NAMES, NumpyNdarrayVariable
from stage1_capture.variables.numpy_functions import left
from stage1_capture.variables.sequence import SliceVariable, TupleVariable
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts import dtype as dt

ROWS = numpy_api.ROWS
Method = Callable[..., Variable]


def method(*names: str) -> Callable[[Method], Method]:
    """Decorator: enter a method of arrays, `handler(tx, array, *args, **kwargs)`."""

    def enter(handler: Method) -> Method:
        call = spread(handler, f"the method {names[0]} with such arguments", "GB0030")
        given = lambda tx, args, kwargs: call(tx, [*map(realize, args)], kwargs)  # noqa: E731
        METHODS.update({(NumpyNdarrayVariable, name): given for name in names})
        NAMES.update(names)
        return handler

    return enter


# ---- operators --------------------------------------------------------------------------------------------------

_DECLINED = ConstantVariable(NotImplemented)
_BINARY = {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide",
    "mod": "remainder", "pow": "power", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or",
    "xor": "bitwise_xor", "lshift": "left_shift", "rshift": "right_shift", "divmod": "divmod",
}  # fmt: skip
_COMPARED = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal"
}  # fmt: skip
_UNARY = {"neg": "negative", "pos": "positive", "abs": "absolute", "invert": "invert"}


def _operator(name: str, function: str, reflected: bool = False, in_place: bool = False) -> None:
    row, real = ROWS[function], getattr(np, function)

    def call(tx: Tx, array: NumpyNdarrayVariable, *other: Variable) -> Variable:
        squared = function == "power" and not reflected and other[0].is_python_constant()
        if squared and array.meta.dtype is dt.bool_ and type(other[0].value) is int and other[0].value == 2:
            return call_row(ROWS["square"], np.square, tx, [array], {"out": array} if in_place else {})
        if other and other[0].is_tensor() or (in_place and array.scalar):
            return _DECLINED  # the tensor's own operator, or a new scalar
        operands = [*other, array] if reflected else [array, *other]
        return call_row(row, real, tx, list(operands), {"out": array} if in_place else {})

    method(f"__{name}__")(call)


for _name, _function in _BINARY.items():
    _operator(_name, _function)
    _operator(f"r{_name}", _function, reflected=True)
    if _name != "divmod":
        _operator(f"i{_name}", _function, in_place=True)
for _name, _function in (_COMPARED | _UNARY).items():
    _operator(_name, _function)


def _of_numbers(name: str, of_python: Builtin, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """A builtin of Python's numbers that arrays have a method for."""
    given = [realize(a) for a in args]
    if any(a.is_array() for a in given) and not kwargs:
        first, *rest = given
        if first.is_array():
            return METHODS[NumpyNdarrayVariable, name](tx, [first, *rest], {})
        return METHODS[NumpyNdarrayVariable, f"__r{name[2:]}"](tx, [*rest, first], {})
    return of_python(tx, args, kwargs)


BUILTINS[divmod] = partial(_of_numbers, "__divmod__", BUILTINS[divmod])
BUILTINS[pow] = partial(_of_numbers, "__pow__", BUILTINS[pow])


def _named(name: str) -> None:
    row, real = ROWS[name], getattr(np, name)
    method(name)(lambda tx, array, *args, **kwargs: call_row(row, real, tx, [array, *args], kwargs))


for _name, _row in ROWS.items():
    if _row.method and hasattr(np.ndarray, _name) and _name not in ("reshape", "copy"):
        _named(_name)
for _name in ("argsort", "nonzero"):
    _named(_name)


@method("reshape")
def _reshape(tx: Tx, array: NumpyNdarrayVariable, *shape: Variable, **kwargs: Variable) -> Variable:
    size = shape[0] if len(shape) == 1 else TupleVariable(list(shape))
    return call_row(ROWS["reshape"], np.reshape, tx, [array, size], kwargs)


@method("transpose")
def _transpose(tx: Tx, array: NumpyNdarrayVariable, *axes: Variable) -> Variable:
    given = axes[0] if len(axes) == 1 else TupleVariable(list(axes))
    return call_row(ROWS["transpose"], np.transpose, tx, [array, given] if axes else [array], {})


@method("copy", "__copy__")
def _copy(tx: Tx, array: NumpyNdarrayVariable, order: Variable | None = None) -> Variable:
    if order is not None and tx.constant(order, "an order") not in ("C", "K", "A"):
        left(tx, "a copy in another order")
    made = apply(tx, ROWS["copy"], {"a": array})
    made.scalar = array.scalar  # type: ignore[attr-defined]
    return made


_FLATTEN = numpy_api.shapes.flatten_operator
_ASTYPE = numpy_api.shapes.astype_operator


@method("flatten")
def _flatten(tx: Tx, array: NumpyNdarrayVariable, order: Variable | None = None) -> Variable:
    if order is not None and tx.constant(order, "an order") not in ("C", "A"):
        left(tx, "flatten in another order")
    return NumpyNdarrayVariable(record(tx, _FLATTEN, [array.tensor]))


@method("astype")
def _astype(tx: Tx, array: NumpyNdarrayVariable, dtype: Variable, **kwargs: Variable) -> Variable:
    copy = kwargs.pop("copy", ConstantVariable(True))
    if kwargs:
        left(tx, f"astype with {', '.join(kwargs)}=")
    wanted = ConstantVariable(dtype_of(tx, dtype))
    made = seen(tx, None, record(tx, _ASTYPE, [array.tensor, wanted, copy]), array)
    made.scalar = array.scalar  # type: ignore[attr-defined]
    return made


@method("fill")
def _fill(tx: Tx, array: NumpyNdarrayVariable, value: Variable) -> Variable:
    return _setitem(tx, array, ConstantVariable(...), value)


@method("sort")
def _sort(tx: Tx, array: NumpyNdarrayVariable, axis: Variable | None = None, **kwargs: Variable) -> Variable:
    made = call_row(ROWS["sort"], np.sort, tx, [array] if axis is None else [array, axis], kwargs)
    write(tx, array, made)
    return NONE


method("conj", "conjugate")(lambda tx, array: array)


@method("__len__")
def _len(tx: Tx, array: NumpyNdarrayVariable) -> Variable:
    if not array.meta.shape:
        tx.throw(TypeError, "len() of unsized object")
    return from_constant(array.meta.shape[0])


@method("item", "tolist", "__float__", "__int__", "__index__", "__bool__", "tobytes", "__complex__")
def _read(tx: Tx, array: NumpyNdarrayVariable, *args: Variable) -> Variable:
    tx.unsupported("GB0004", f"the data of {array.describe()} read into Python")


# ---- indexing ---------------------------------------------------------------------------------------------------


def _index(tx: Tx, key: Variable) -> Variable:
    """An index as our row takes it."""
    key = realize(key)
    match key:
        case TupleVariable(items=items):
            return TupleVariable([_index(tx, i) for i in items])
        case NumpyNdarrayVariable(scalar=True, real=np.generic()):
            return _known_index(tx, key)
        case SliceVariable(items=items):
            parts = [realize(i) for i in items]
            return SliceVariable([_known_index(tx, p) if p.is_array() else p for p in parts])
        case TensorVariable():
            left(tx, "an array indexed by a tensor")
    return argument(tx, ROWS["take"], "indices", key)


def _known_index(tx: Tx, key: Any) -> Variable:
    if not isinstance(key.real, np.integer):
        return key.tensor
    return fixed(tx, key)


@method("__getitem__")
def _getitem(tx: Tx, array: NumpyNdarrayVariable, key: Variable) -> Variable:
    made = record(tx, numpy_api.indexing.getitem, [array.tensor, _index(tx, key)])
    items = realize(key).items if realize(key).family() is tuple else [key]
    dots = any(realize(i).is_python_constant() and realize(i).value is ... for i in items)
    scalar = not made.meta.shape and not dots
    found = NumpyNdarrayVariable(made, scalar=scalar, base=array.root, frozen=array.frozen)
    if made.meta.shape:
        _note_view(tx, array, key, [realize(i) for i in items], found)
    return found


def _note_view(tx: Tx, array: Any, key: Variable, items: list[Variable], found: NumpyNdarrayVariable) -> None:
    """A basic index makes a view; a reversed one, and one of such a one, is a copy in the graph."""
    if all(map(_basic, items)):
        computed = any(i.is_array() for i in items)  # known only at run time
        if array.derived:
            found.derived = True
        elif computed or array.view is not None or any(map(_backwards, items)):
            found.view = (array, key)
        if found.derived or found.view is not None:
            tx.output.reversals.append(found)


def _basic(item: Variable) -> bool:
    """Whether an item of an index makes a view: an int (also one computed), a slice, None, an ellipsis."""
    if item.is_array():
        return not item.meta.shape and item.meta.dtype is not dt.bool_
    return isinstance(item, (SliceVariable, ConstantVariable))


def _backwards(item: Variable) -> bool:
    step = realize(item.items[2]) if isinstance(item, SliceVariable) else NONE
    return step.is_python_constant() and step.value is not None and step.value < 0


@method("__setitem__")
def _setitem(tx: Tx, array: NumpyNdarrayVariable, key: Variable, value: Variable) -> Variable:
    writable(tx, array)
    value = argument(tx, ROWS["take"], "value", value) if not value.is_tensor() else value
    record(tx, numpy_api.indexing.setitem, [array.tensor, _index(tx, key), value])
    written(tx, array)
    return NONE


_LAST_TWO = (ConstantVariable(-1), ConstantVariable(-2))


def _flat(tx: Tx, array: NumpyNdarrayVariable) -> Variable:
    """array.flat, to be walked or read: all elements in order. If it is written to or passed on, NumPy handles it."""
    made: Any = call_row(ROWS["ravel"], np.ravel, tx, [array], {})
    made.derived = True
    tx.output.reversals.append(made)
    return made


COMPUTED["T"] = lambda tx, array: call_row(ROWS["transpose"], np.transpose, tx, [array], {})
COMPUTED["mT"] = lambda tx, array: call_row(ROWS["swapaxes"], np.swapaxes, tx, [array, *_LAST_TWO], {})
COMPUTED["real"] = lambda tx, array: array
COMPUTED["flat"] = _flat


# ---- functions that are slices ----------------------------------------------------------------------------------


def _turned(tx: Tx, array: NumpyNdarrayVariable, axes: set[int]) -> Variable:
    """The view in which these axes run backwards."""
    rank = array.meta.ndim
    steps = [from_constant(slice(None, None, -1 if d in axes else None)) for d in range(rank)]
    return _getitem(tx, array, TupleVariable(steps))


def _array_and_constants(
    tx: Tx, function: Any, args: Args, kwargs: Kwargs
) -> tuple[NumpyNdarrayVariable, list[Any]]:
    """The first argument, an array, and the others, known now, in the order of NumPy's signature."""
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except TypeError:
        left(tx, f"such a call of np.{function.__name__}")
    bound.apply_defaults()
    array, *rest = [
        realize(v) if isinstance(v, Variable) else ConstantVariable(v) for v in bound.arguments.values()
    ]
    if not array.is_array():
        left(tx, f"np.{function.__name__} of {array.describe()}")
    return array, [tx.constant(v, f"np.{function.__name__}") for v in rest]  # type: ignore[return-value]


def _axes(tx: Tx, array: NumpyNdarrayVariable, axis: Any) -> list[int]:
    rank = array.meta.ndim
    axes = range(rank) if axis is None else axis if isinstance(axis, tuple) else (axis,)
    if not all(type(a) is int and -rank <= a < rank for a in axes):
        left(tx, f"axes {axis} of {array.describe()}")
    return [a % rank for a in axes]


def _flip(function: Any, axis: int | None, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    array, rest = _array_and_constants(tx, function, args, kwargs)
    return _turned(tx, array, {*_axes(tx, array, rest[0] if rest else axis)})


def _rot90(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """np.rot90: two axes exchanged, then one of them backwards."""
    array, (k, plane) = _array_and_constants(tx, np.rot90, args, kwargs)
    first, second = _axes(tx, array, tuple(plane))
    k %= 4
    if k % 2:
        swapped = [array, ConstantVariable(first), ConstantVariable(second)]
        array = call_row(ROWS["swapaxes"], np.swapaxes, tx, swapped, {})  # type: ignore[assignment]
    return _turned(tx, array, {0: set(), 1: {first}, 2: {first, second}, 3: {second}}[k])


def _diag(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """np.diag: of a matrix a view of its diagonal."""
    array, (k,) = _array_and_constants(tx, np.diag, args, kwargs)
    row, real = (ROWS["diagonal"], np.diagonal) if array.meta.ndim == 2 else (ROWS["diag"], np.diag)
    return call_row(row, real, tx, [array, ConstantVariable(k)], {})


BUILTINS.update({f: partial(_flip, f, axis) for f, axis in ((np.flip, None), (np.flipud, 0), (np.fliplr, 1))})
BUILTINS.update({np.rot90: _rot90, np.diag: _diag})


def _from_numpy(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """from_numpy(array): the tensor on the array's memory."""
    if len(args) != 1 or kwargs or not realize(args[0]).is_array():
        tx.unsupported("GB0069", "from_numpy of something else than an array")
    array: Any = realize(args[0])
    return array.tensor


def tensor_of_array(tx: Tx, array: NumpyNdarrayVariable, kwargs: Kwargs) -> Variable:
    """tensor(array): a copy."""
    if set(kwargs) - {"dtype"}:
        tx.unsupported("GB0068", f"tensor of an array with {', '.join(kwargs)}")
    made = _placed(tx, record(tx, ROWS["copy"].op, [array.tensor]))
    if "dtype" in kwargs:
        made = record(tx, _ASTYPE, [made, ConstantVariable(dtype_of(tx, realize(kwargs["dtype"])))])
    return made


def _array_of(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """wrap_numpy's way in: unlike tensor.numpy(), for tensors that require grad too."""
    (tensor,) = map(realize, args)
    if not tensor.is_tensor() or tensor.meta.dtype not in numpy_api.ARRAY_DTYPES:
        left(tx, f"an array of {tensor.describe()}")
    return NumpyNdarrayVariable(tensor)  # type: ignore[arg-type]


def _placed(tx: Tx, tensor: Variable) -> Variable:
    """The tensor of an array where tensors are made: wrap_numpy's way out."""
    move: Any = creation.on_default_device
    return tx.inline(function_variable(tx.output, move, None), [tensor], {})


BUILTINS[wrapping.array_of] = _array_of
BUILTINS[wrapping.tensor_of] = lambda tx, args, kwargs: _placed(tx, realize(args[0]).tensor)
BUILTINS[creation.from_numpy] = _from_numpy
