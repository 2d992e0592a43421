"""Arrays as values: how an ndarray or NumPy scalar comes in, what its attributes are, and what NumPy keeps to itself.

Input: real arrays with their sources (variables/builder.py's tables call here), and abstract arrays. An array is
captured when a tensor can stand on its memory; any other is an object like others, and what is done with it runs in
NumPy.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from stage0_eager.tensor import Tensor
from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import BUILTINS, FOLDED, Tx
from stage1_capture.state.mro import MISSING, class_lookup
from stage1_capture.variables import builder
from stage1_capture.variables.base import (
    ConstantVariable,
    NumpyNdarrayVariable,
    TensorVariable,
    UserDefinedObjectVariable,
    UserMethodVariable,
    Variable,
    describe,
    from_constant,
)
from stage1_capture.variables.number import NumberVariable
from stage_contracts import config
from stage_contracts.array_guards import CAPTURED_DTYPES, ArrayMeta, is_captured
from stage_contracts.source import ArraySource, AttrSource, Source
from stage_contracts.tensor_meta import TensorMeta

# the classes of NumPy's functions beside Python's own
FUNCTION_KINDS: tuple[type, ...] = (np.ufunc, type(np.sum))


# ---- from outside -----------------------------------------------------------------------------------------------


def wrap_array(output: OutputGraph, real: np.ndarray, source: Source | None) -> Variable:
    """An ndarray as a tensor on its memory, guarded as a tensor is; one that cannot be is an object."""
    if source is None or not config.current().capture.trace_numpy:
        return builder.wrap_object(output, real, source)
    if not is_captured(real):
        output.guard("LEFT_TO_NUMPY", source, None)
        output.guard("TYPE", source, type(real))
        return builder.once(output, real, source, lambda: UserDefinedObjectVariable(real, source=source))
    where, tensor = source, Tensor(real)
    if id(real) in output.known:  # a second way to it: that it is the same object says everything
        return builder.once(output, real, source, lambda: UserDefinedObjectVariable(real, source=source))
    meta, (kind, fact) = builder.open_meta(output, tensor, where)
    if kind == "TENSOR":
        output.guard("ARRAY", source, ArrayMeta(real.dtype, real.shape, real.strides))
    else:
        output.guard("OPEN_ARRAY", source, fact.meta)
    inside = TensorVariable(meta, real=tensor, source=ArraySource(where))
    return builder.once(output, real, source, lambda: NumpyNdarrayVariable(inside, real=real, source=source))


def wrap_scalar(output: OutputGraph, real: np.generic, source: Source | None) -> Variable:
    """A NumPy scalar as an array without dimensions, that nothing writes to."""
    captured = real.dtype.num in CAPTURED_DTYPES and config.current().capture.trace_numpy
    captured = captured and type(real) is real.dtype.type  # and not a class derived from it
    if source is None or not captured:
        return builder.wrap_object(output, real, source)
    output.guard("TYPE", source, type(real))
    meta = TensorMeta((), CAPTURED_DTYPES[real.dtype.num])
    inside = TensorVariable(meta, real=Tensor(np.asarray(real)), source=ArraySource(source))
    made = NumpyNdarrayVariable(inside, scalar=True, real=real, source=source)
    return builder.once(output, real, source, lambda: made)


def wrap_dtype(output: OutputGraph, real: np.dtype, source: Source | None) -> Variable:
    output.guard("EQUALS", source, real, source in output.epoch_sources)
    return ConstantVariable(real)


def can_be_array(tensor: TensorVariable) -> bool:
    """Whether `tensor.numpy()` gives an array that can be followed."""
    meta = tensor.meta
    captured = meta.dtype.numpy.num in CAPTURED_DTYPES and config.current().capture.trace_numpy
    return captured and not meta.requires_grad and meta.device.type == "cpu"


# ---- attributes -------------------------------------------------------------------------------------------------

# What the guard of an array fixes: constants of the capture.
FACTS: dict[str, Callable[[TensorMeta], Any]] = {
    "shape": lambda m: m.shape,
    "ndim": lambda m: m.ndim,
    "size": lambda m: m.numel,
    "dtype": lambda m: m.dtype.numpy,
    "itemsize": lambda m: m.dtype.itemsize,
    "nbytes": lambda m: m.numel * m.dtype.itemsize,
}
COMPUTED: dict[
    str, Callable[[Tx, NumpyNdarrayVariable], Variable]
] = {}  # T, mT, real, flat: builtins/numpy/methods.py
NAMES: set[str] = set()  # methods that builtins/numpy/methods.py has


def array_attribute(tx: Tx, array: NumpyNdarrayVariable, name: str) -> Variable | None:
    """`array.name`: a fact, a method, or what only NumPy knows (a break)."""
    if name in FACTS:
        return from_constant(FACTS[name](array.meta))
    if name in COMPUTED:
        return COMPUTED[name](tx, array)
    cls = array.meta.dtype.numpy.type if array.scalar else np.ndarray
    if name in NAMES:
        return UserMethodVariable(name, array)
    if name == "__class__":
        return UserDefinedObjectVariable(cls)
    if class_lookup(cls, name) is MISSING:  # `hasattr` finds what `type` has too: `__call__`
        return None
    if callable(getattr(cls, name)):
        return UserMethodVariable(name, array)  # it is the call that breaks
    left(tx, f"the attribute {name} of {describe(array)}")


def dtype_comparison(
    function: Callable[[Any, Any], Any], left: Variable, right: Variable
) -> ConstantVariable | None:
    """`a.dtype == np.float32`: of a dtype with another, a class or a name."""
    sides = [_dtype_or_class(v) for v in (left, right)]
    if not any(isinstance(side, np.dtype) for side in sides):
        return None
    known = all(isinstance(side, (np.dtype, type, str)) for side in sides)
    return ConstantVariable(bool(function(*sides))) if known else None


def _dtype_or_class(value: Variable) -> Any:
    if isinstance(value, UserDefinedObjectVariable):
        return value.real
    plain = isinstance(value, ConstantVariable) and not isinstance(value, NumberVariable)
    return value.value if plain else None  # type: ignore[attr-defined]


# ---- what NumPy keeps to itself ---------------------------------------------------------------------------------


def left(tx: Tx, what: str) -> NoReturn:
    """Break: NumPy does this, on real arrays."""
    tx.unsupported("GB0030", what)


def is_numpys(function: Variable) -> bool:
    """Whether something callable is part of NumPy, so that its source is not followed."""
    real: Any = getattr(function, "real", None)
    if isinstance(real, _NAMED):
        # of a method: a generator of random numbers. A class is not asked: its metaclass may be the user's
        owner = None if isinstance(real, type) else getattr(real, "__self__", None)
        home = getattr(real, "__module__", None) or type(owner).__module__
        return str(home).split(".")[0] == "numpy" and not (
            isinstance(real, type) and issubclass(real, BaseException)
        )
    if (
        type(real).__name__ == "cython_function_or_method"
    ):  # np.random's, which a class of its own is made for
        return str(real.__module__ or type(real.__self__).__module__).split(".")[0] == "numpy"
    return type(real).__module__.split(".")[0] == "numpy"


def function_attribute(function: UserDefinedObjectVariable, name: str) -> Variable | None:
    """An attribute of a ufunc, which is guarded itself: `np.add.reduce`. What calls it breaks."""
    found = getattr(function.real, name, None)
    if found is None:
        return None
    source = function.source and AttrSource(function.source, name)
    return UserDefinedObjectVariable(found, source=source) if callable(found) else from_constant(found)


_NAMED: tuple[type, ...] = (types.FunctionType, types.BuiltinFunctionType, type, *FUNCTION_KINDS)


def call_in_numpy(tx: Tx, function: Variable, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """A call of something of NumPy's: a row of builtins/numpy/calls.py, or a break."""
    from stage1_capture.variables.calls import fold

    real: Any = function.real  # type: ignore[attr-defined]
    try:
        known, folded = real in BUILTINS, real in FOLDED
    except TypeError:  # it cannot be hashed
        known = folded = False
    if known and config.current().capture.trace_numpy:
        return BUILTINS[real](tx, args, kwargs)
    if folded:
        return fold(tx, real, args, kwargs)
    left(tx, f"a call of {name_of(real)}")


def name_of(real: Any) -> str:
    """`np.add.reduce`, `np.random.rand`: what a person calls it."""
    owner = getattr(real, "__self__", None)
    name = getattr(real, "__name__", type(real).__name__)
    if isinstance(owner, np.ufunc):
        return f"np.{owner.__name__}.{name}"
    home = str(
        getattr(real, "__module__", None) or (type(owner).__module__ if owner is not None else "numpy")
    )
    if home.startswith("numpy.random"):
        return f"np.random.{name}"
    return f"{home.replace('numpy', 'np', 1)}.{name}"


_BUILDERS: dict[type, Any] = {np.ndarray: wrap_array, np.generic: wrap_scalar, np.dtype: wrap_dtype}
builder.BY_CLASS.update(_BUILDERS | dict.fromkeys(FUNCTION_KINDS, builder.wrap_identity))
