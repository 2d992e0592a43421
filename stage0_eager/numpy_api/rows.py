"""The table of NumPy's functions: each a row as cutaway's own are, under the namespace `numpy`.

Input: bodies over tensors and Python numbers, with NumPy's parameter names. They are written over cutaway's operators
alone, so a row can be differentiated, traced and compiled as any other composite.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from stage0_eager.numpy_api import promotion
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt
from stage_contracts.device import CPU, device_of
from stage_contracts.dtype import DType


class NotHere(TypeError):
    """A call of a NumPy function that our rows do not have: NumPy itself runs it."""


@dataclass(frozen=True)
class Row:
    """One NumPy function: our operator, and what only Python sees of its results.

    scalar: NumPy gives a scalar, not an array, where a result has no dimensions.
    view: results may share the first argument's memory.
    ufunc: takes `out`, `where` and `dtype`.
    method: also a method of arrays.
    """

    name: str
    op: Operator
    scalar: bool = True
    view: bool = False
    ufunc: bool = False
    method: bool = False


ROWS: dict[str, Row] = {}  # by the name below `np`: "add", "linalg.norm"
# Those of ROWS, and those that only methods and subscripts call, by the name that graphs print: "numpy.getitem".
OPERATORS: dict[str, Operator] = {}


@cache
def call_signature(row: Row, real: Any) -> tuple[tuple[str, ...], dict[str, Any]]:
    """How NumPy's own function `real` is called: its parameters by position, and their defaults."""
    if isinstance(real, np.ufunc):
        names = ("x",) if real.nin == 1 else ("x1", "x2")
        options = {"where": True, "casting": "same_kind", "order": "K", "subok": True, "dtype": None}
        return (*names, "out"), options
    try:
        parameters = inspect.signature(real).parameters.values()
    except (TypeError, ValueError):
        parameters = inspect.signature(row.op.body).parameters.values()  # type: ignore[arg-type]
    defaults = {p.name: p.default for p in parameters if p.default is not p.empty}
    positional = tuple(p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD))
    if real is np.arange:  # its signature depends on how many arguments there are
        positional = ("start", "stop", "step", "dtype")
    return positional, {**defaults, "like": None, "device": None}


def numpy_function(
    *names: str, scalar: bool = True, view: bool = False, ufunc: bool = False, method: bool = False
) -> Callable[[Callable], Operator]:
    """Decorator: enter a body under each of `names` (the first is what graphs print)."""

    def enter(body: Callable) -> Operator:
        op = make_operator(names[0], body)
        for name in names:
            if name in ROWS:
                raise ValueError(f"NumPy function {name} is defined twice")
            ROWS[name] = Row(name, op, scalar, view, ufunc, method)
        return op

    return enter


def make_operator(name: str, body: Callable, mutates: tuple[str, ...] = ()) -> Operator:
    """A row of its own, outside cutaway's table: `numpy.<name>`."""
    space, _, leaf = f"numpy.{name}".rpartition(".")
    op = Operator(leaf, "", body=body, mutates=mutates)
    op.namespace = op.__module__ = space
    OPERATORS[op.qualname] = op
    return op


# ---- what bodies share ------------------------------------------------------------------------------------------


def kind_of(operand: Any) -> Any:
    """What promotion looks at: a tensor's dtype, or the number itself."""
    if isinstance(operand, (list, tuple)):
        return promotion.result_type(map(_strong, _leaves(operand)))
    return operand.dtype if isinstance(operand, Tensor) else operand


def cast(x: Any, dtype: DType) -> Any:
    """The tensor in `dtype`; itself if it is."""
    return x if x.dtype is dtype else c.cast(x, dtype)


def array(value: Any, dtype: DType | None = None, device: Any = "cpu") -> Any:
    """A tensor, number or nested list as a tensor (of `dtype`)."""
    if isinstance(value, Tensor):
        return value if dtype is None else cast(value, dtype)
    if isinstance(value, (list, tuple)):
        return _listed(value, dtype)
    dtype = dtype or promotion.result_type([value])
    return c.full((), fitted(value, dtype), dtype, device_of(device))


def fitted(value: Any, dtype: DType) -> Any:
    """A Python number as one of `dtype`. Raises OverflowError where it does not fit, as NumPy does."""
    if dtype.limits is not None and type(value) is int:
        low, high = dtype.limits
        if not low <= value <= high:
            raise OverflowError(f"Python integer {value} out of bounds for {dtype.name}")
    if dtype is dt.bool_:
        return bool(value != 0)
    return int(value) if dtype.limits is not None and type(value) in (float, bool) else value


def _listed(values: Any, dtype: DType | None) -> Any:
    """np.array([[1, x], ...]): nested sequences of numbers and tensors, stacked."""
    leaves = list(_leaves(values))
    if dtype is None:
        dtype = promotion.result_type(map(_strong, leaves)) if leaves else dt.float64
    return _stacked(values, dtype)


def _strong(value: Any) -> DType:
    """The dtype of an item of a list, where a Python number counts as the array it would be alone."""
    return value.dtype if isinstance(value, Tensor) else promotion.result_type([value])


def _leaves(values: Any) -> Any:
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _leaves(value)
        else:
            yield value


def _stacked(values: Any, dtype: DType) -> Any:
    if not values:
        return c.full((0,), 0, dtype, CPU)
    parts = [_stacked(v, dtype) if isinstance(v, (list, tuple)) else array(v, dtype) for v in values]
    parts = on_one_device(parts)[1]
    if len({p.shape for p in parts}) != 1:
        raise ValueError("setting an array element with a sequence: the parts have different shapes")
    return c.cat([c.reshape(p, (1, *p.shape)) for p in parts], 0)


def on_one_device(values: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The device of these operands, and all of them there: what NumPy's functions make comes to a tensor on a GPU (of
    wrap_numpy's)."""
    device = next((v.device for v in values if isinstance(v, Tensor) and v.device != CPU), CPU)
    if device == CPU:
        return device, [*values]
    return device, [
        c.to_device(v, device) if isinstance(v, Tensor) and v.device != device else v for v in values
    ]


def operands(*values: Any, dtype: DType | None = None, numbers: bool = False) -> list[Any]:
    """The operands as tensors of the dtype they promote to (or of `dtype`).

    numbers: Python numbers stay what they are where one operand is a tensor, as cutaway's operators take them.
    """
    given = [_listed(v, None) if isinstance(v, (list, tuple)) else v for v in values]
    wanted = promotion.result_type(map(kind_of, given)) if dtype is None else dtype
    device, given = on_one_device(given)
    if numbers and any(isinstance(v, Tensor) for v in given):
        return [cast(v, wanted) if isinstance(v, Tensor) else fitted(v, wanted) for v in given]
    return [array(v, wanted, device) for v in given]


def axis_of(axis: Any, ndim: int) -> int:
    """A non-negative axis. Raises AxisError, as NumPy does."""
    if not isinstance(axis, int) or not -ndim <= axis < ndim:
        raise NotHere(f"axis {axis} is out of bounds for array of dimension {ndim}")
    return axis % ndim


def axes_of(axis: Any, ndim: int) -> tuple[int, ...]:
    """`axis` (None, an int, several) as a tuple of non-negative axes."""
    if axis is None:
        return tuple(range(ndim))
    found = tuple(axis_of(a, ndim) for a in (axis if isinstance(axis, (tuple, list)) else (axis,)))
    if len(set(found)) != len(found):
        raise NotHere("duplicate value in 'axis'")
    return found


def count(x: Any, axes: tuple[int, ...]) -> Any:
    """How many elements one result of a reduction over `axes` has."""
    total = 1
    for axis in axes:
        total = total * x.shape[axis]
    return total


def flat(x: Any) -> Any:
    """All elements in row-major order: a view where that can be."""
    return c.reshape(x, (x.numel(),))
