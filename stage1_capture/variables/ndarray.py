"""Arrays as values: how an ndarray or NumPy scalar comes in, what its attributes are, and what NumPy keeps to itself.

Input: real arrays with their sources (variables/builder.py's tables call here), and abstract arrays. An array is
captured when a tensor can stand on its memory; any other is an object like others, and what is done with it runs in
NumPy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from stage0_eager.tensor import Tensor
from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import KINDS, Tx
from stage1_capture.variables import builder
from stage1_capture.variables.base import Variable, from_constant, yes
from stage1_capture.variables.builder import wrap_identity
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.numpy_functions import FUNCTION_KINDS, left
from stage1_capture.variables.tensor import DataVariable, TensorVariable, open_meta
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts import config
from stage_contracts.array_guards import CAPTURED_DTYPES, ArrayMeta, is_captured
from stage_contracts.class_lookup import MISSING, class_lookup, full_name
from stage_contracts.source import ArraySource, Source
from stage_contracts.tensor_meta import TensorMeta


class NumpyNdarrayVariable(DataVariable):
    """An ndarray of the program's: a tensor in the graph, of which Python sees an array.

    scalar: NumPy has a scalar here, which no write changes. real: the object itself, for an input.
    base: the array whose memory this one may show. frozen: NumPy makes it read-only.
    view: (array, index) of a reversed slice: a copy in the graph, made again as the view it is for Python.
    derived: a view of such a copy, which cannot be made again.
    """

    tensor: TensorVariable
    scalar: bool = False
    real: Any = None
    base: NumpyNdarrayVariable | None = None
    frozen: bool = False
    view: tuple[NumpyNdarrayVariable, Variable] | None = None
    derived: bool = False
    is_array = yes

    @property
    def root(self) -> NumpyNdarrayVariable:
        return self.base or self

    @property
    def meta(self) -> TensorMeta:
        return self.tensor.meta

    def python_type(self, tx: Tx) -> type:
        return self.meta.dtype.numpy.type if self.scalar else np.ndarray

    def class_name(self) -> str:
        return full_name(self.meta.dtype.numpy.type if self.scalar else np.ndarray)

    def parts(self) -> list[Variable]:
        return [] if self.view is None else [self.view[0]]

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        return array_attribute(tx, self, name)

    def special_method(self, tx: Tx, name: str) -> Variable | None:
        return array_attribute(tx, self, name)

    def describe(self) -> str:
        return f"an array {self.tensor.meta}"


def wrap_array(output: OutputGraph, real: np.ndarray, source: Source | None) -> Variable:
    """An ndarray as a tensor on its memory, guarded as a tensor is; one that cannot be is an object."""
    if source is None or not config.current().capture.trace_numpy:
        return builder.wrap_as_object(output, real, source)
    if not is_captured(real):
        output.guard("LEFT_TO_NUMPY", source, None)
        output.guard("TYPE", source, type(real))
        return builder.once(output, real, source, lambda: UserDefinedObjectVariable(real, source=source))
    where, tensor = source, Tensor(real)
    if id(real) in output.known:  # a second way to it: that it is the same object says everything
        return builder.once(output, real, source, lambda: UserDefinedObjectVariable(real, source=source))
    meta, (kind, fact) = open_meta(output, tensor, where)
    if kind == "TENSOR":
        output.guard("ARRAY", source, ArrayMeta(real.dtype, real.shape, real.strides))
    else:
        output.guard("OPEN_ARRAY", source, fact.meta)
    inside = TensorVariable(meta, real=tensor, source=ArraySource(where))
    return builder.once(output, real, source, lambda: NumpyNdarrayVariable(inside, real=real, source=source))


def wrap_scalar(output: OutputGraph, real: np.generic, source: Source | None) -> Variable:
    """A NumPy scalar as an array without dimensions, that nothing writes to."""
    dtype = _DTYPE.__get__(real)  # past a class derived from NumPy's, which may compute it
    captured = dtype.num in CAPTURED_DTYPES and config.current().capture.trace_numpy
    captured = captured and type(real) is dtype.type
    if source is None or not captured:
        return builder.wrap_as_object(output, real, source)
    output.guard("TYPE", source, type(real))
    meta = TensorMeta((), CAPTURED_DTYPES[dtype.num])
    inside = TensorVariable(meta, real=Tensor(np.asarray(real)), source=ArraySource(source))
    made = NumpyNdarrayVariable(inside, scalar=True, real=real, source=source)
    return builder.once(output, real, source, lambda: made)


def wrap_dtype(output: OutputGraph, real: np.dtype, source: Source | None) -> Variable:
    output.guard("EQUALS", source, real, source in output.epoch_sources)
    return ConstantVariable(real)


_DTYPE: Any = np.generic.__dict__["dtype"]


# What the guard of an array fixes: constants of the capture.
FACTS: dict[str, Callable[[TensorMeta], Any]] = {
    "shape": lambda m: m.shape,
    "ndim": lambda m: m.ndim,
    "size": lambda m: m.numel,
    "dtype": lambda m: m.dtype.numpy,
    "itemsize": lambda m: m.dtype.itemsize,
    "nbytes": lambda m: m.numel * m.dtype.itemsize,
}
# T, mT, real, flat: builtins/numpy/methods.py
COMPUTED: dict[str, Callable[[Tx, NumpyNdarrayVariable], Variable]] = {}
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
    left(tx, f"the attribute {name} of {array.describe()}")


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
    plain = value.is_python_constant() and not value.is_open()
    return value.value if plain else None


_BUILDERS: dict[type, Any] = {np.ndarray: wrap_array, np.generic: wrap_scalar, np.dtype: wrap_dtype}
builder.BUILDERS_BY_CLASS.update(_BUILDERS | dict.fromkeys(FUNCTION_KINDS, wrap_identity))
KINDS["array"] = NumpyNdarrayVariable
