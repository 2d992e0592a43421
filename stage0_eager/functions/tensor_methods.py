"""Tensor's arithmetic, and the methods whose arguments are not those of the function of the same name.

Input: functions/*.py. Other methods are marked `@method` where they are defined: an operator is a descriptor, so as a
class attribute it is a method. `x + y` calls the row `cutaway.add` directly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stage0_eager.functions import (
    creation,
    gather_scatter,
    indexing,
    inplace,
    pointwise,
    pointwise_composed,
    rearranging,
    shape,
    special,
)
from stage0_eager.functions.linalg import products
from stage0_eager.storage import viewed_as
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor, attribute, method
from stage_contracts import dtype as dt
from stage_contracts.device import DEVICE_TYPES, Device, device_of
from stage_contracts.dtype import DType, dtype_of
from stage_contracts.symbolic import SymFloat, SymInt


def _sizes(sizes: tuple) -> tuple:
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes


@method
def reshape(self: Tensor, *shape_: Any) -> Tensor:
    """x.reshape(2, 3) or x.reshape((2, 3))."""
    return shape.reshape(self, _sizes(shape_))


@method
def view(self: Tensor, *shape_: Any, dtype: Any = None) -> Tensor:
    """x.view(2, 3) or x.view((2, 3)): another shape. x.view(int32): the same bytes as elements of another dtype."""
    if dtype is not None or (len(shape_) == 1 and isinstance(shape_[0], DType)):
        return viewed_as(self, dtype_of(shape_[0] if dtype is None else dtype))
    return shape.view(self, _sizes(shape_))


@method
def permute(self: Tensor, *dims: Any) -> Tensor:
    return shape.permute(self, _sizes(dims))


@method
def expand(self: Tensor, *size: Any) -> Tensor:
    return shape.expand(self, _sizes(size))


@method
def broadcast_to(self: Tensor, *size: Any) -> Tensor:
    return shape.broadcast_to(self, _sizes(size))


@method
def flip(self: Tensor, *dims: Any) -> Tensor:
    return shape.flip(self, _sizes(dims))


@method
def repeat(self: Tensor, *repeats: Any) -> Tensor:
    """x.repeat(2, 3) or x.repeat((2, 3))."""
    return rearranging.repeat(self, _sizes(repeats))


@method
def tile(self: Tensor, *dims: Any) -> Tensor:
    return rearranging.tile(self, _sizes(dims))


@method
def polygamma(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma; as a method torch takes n second."""
    return special.polygamma(n, self)


@method
def where(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """The tensor where condition holds, else other."""
    return gather_scatter.where(condition, self, other)


def destination(args: tuple, device: Any = None, dtype: Any = None) -> tuple[Device | None, DType | None]:
    """(device, dtype) that the arguments of `to` name; None for what stays."""
    for arg in args:
        if isinstance(arg, Tensor):
            dtype, device = arg.dtype, arg.device
        elif isinstance(arg, Device) or (isinstance(arg, str) and arg.partition(":")[0] in DEVICE_TYPES):
            device = arg
        elif not isinstance(arg, bool):  # non_blocking, copy
            dtype = arg
    return None if device is None else device_of(device), None if dtype is None else dtype_of(dtype)


@method
def to(
    self: Tensor, *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False,
    copy: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """x.to(float64), x.to("cuda"), x.to("cpu", float32), x.to(other): cast, move, or x itself (copy: never x itself).

    memory_format lays the result out (channels_last). non_blocking: the host does not wait for a copy from pinned
    memory to a GPU, nor for one from a GPU to the CPU, which comes into pinned memory. Until cuda.synchronize(), do not
    write to what is copied, nor compute on the CPU with what comes there; `numpy()`, `item()` and printing wait for it.
    """
    device, dtype = destination(args, device, dtype)
    if len(args) > 1:  # x.to(device, dtype, non_blocking, copy)
        given = [arg for arg in args if isinstance(arg, bool)]
        non_blocking, copy = non_blocking or given[:1] == [True], copy or given[1:] == [True]
    out = self
    if device is not None and device != out.device:
        out = shape.to_device(out, device, True) if non_blocking else shape.to_device(out, device)
    if dtype is not None:
        out = pointwise.cast(out, dtype)
    if memory_format is not None and memory_format.name != "preserve_format":
        out = shape.contiguous(out, memory_format=memory_format)
    return shape.clone(out) if copy and out is self else out


def _cast(name: str, dtype: DType) -> Any:
    def cast(self: Tensor) -> Tensor:
        return pointwise.cast(self, dtype)

    cast.__name__ = cast.__qualname__ = name
    cast.__doc__ = f"The tensor as {dtype.name}."
    return cast


method(_cast("float", dt.float32))
method(_cast("double", dt.float64))
method(_cast("half", dt.float16))
method(_cast("bfloat16", dt.bfloat16))
method(_cast("cfloat", dt.complex64))
method(_cast("cdouble", dt.complex128))
method(_cast("long", dt.int64))
method(_cast("int", dt.int32))
method(_cast("short", dt.int16))
method(_cast("char", dt.int8))
method(_cast("byte", dt.uint8))
method(_cast("bool", dt.bool_))


@method
def cuda(self: Tensor, device: Any = None, non_blocking: bool = False) -> Tensor:
    return to(self, device="cuda" if device is None else device, non_blocking=non_blocking)


@method
def cpu(self: Tensor) -> Tensor:
    return to(self, device="cpu")


@method
def type_as(self: Tensor, other: Tensor) -> Tensor:
    return pointwise.cast(self, other.dtype)


@attribute
def T(self: Tensor) -> Tensor:
    """The dimensions in reverse."""
    return shape.permute(self, tuple(reversed(range(self.ndim))))


@attribute
def mT(self: Tensor) -> Tensor:
    """The last two dimensions exchanged."""
    return shape.transpose(self, -1, -2)


# ---- Python's operators ---------------------------------------------------------------------------------------------

_OPERANDS = (Tensor, bool, int, float, complex, np.generic, SymInt, SymFloat)


def _special_method(name: str, op: Operator) -> Any:
    """A plain function: Python's arithmetic looks it up and calls it faster than any other kind of attribute.

    It leaves what is no operand to the other side, so that `x == None` is False and `x + None` a TypeError.
    """
    if op.arity == 1:

        def method(self):
            return op(self)
    elif name in ("__getitem__", "__setitem__"):
        return op
    else:

        def method(self, other):  # type: ignore[misc]
            if isinstance(other, _OPERANDS):
                return op(self, other)
            return op(self, creation.from_numpy(other)) if isinstance(other, np.ndarray) else NotImplemented

    method.__name__, method.__doc__ = name, op.__doc__
    method.operator = op  # type: ignore[attr-defined]  # for capture, which need not follow it
    return method


_ARITHMETIC = {
    "__add__": pointwise.add, "__radd__": pointwise.add, "__sub__": pointwise.sub, "__rsub__": pointwise.rsub,
    "__mul__": pointwise.mul, "__rmul__": pointwise.mul, "__truediv__": pointwise.div, "__rtruediv__": pointwise.rdiv,
    "__floordiv__": pointwise.floor_divide, "__mod__": pointwise.remainder, "__pow__": pointwise.pow,
    "__rpow__": pointwise.rpow, "__matmul__": products.matmul, "__neg__": pointwise.neg, "__abs__": pointwise.abs,
    "__pos__": pointwise_composed.positive,
    "__eq__": pointwise.eq, "__ne__": pointwise.ne, "__lt__": pointwise.lt, "__le__": pointwise.le,
    "__gt__": pointwise.gt, "__ge__": pointwise.ge, "__invert__": pointwise.bitwise_not,
    "__and__": pointwise.bitwise_and, "__rand__": pointwise.bitwise_and, "__or__": pointwise.bitwise_or,
    "__ror__": pointwise.bitwise_or, "__xor__": pointwise.bitwise_xor, "__rxor__": pointwise.bitwise_xor,
    "__lshift__": pointwise.bitwise_left_shift, "__rshift__": pointwise.bitwise_right_shift,
    "__getitem__": indexing.getitem, "__setitem__": indexing.setitem, "__iadd__": inplace.add_,
    "__isub__": inplace.sub_, "__imul__": inplace.mul_,
    "__itruediv__": inplace.div_, "__ifloordiv__": inplace.floor_divide_, "__imod__": inplace.remainder_,
    "__ipow__": inplace.pow_, "__iand__": inplace.bitwise_and_, "__ior__": inplace.bitwise_or_,
    "__ixor__": inplace.bitwise_xor_, "__ilshift__": inplace.bitwise_left_shift_,
    "__irshift__": inplace.bitwise_right_shift_, "__rfloordiv__": pointwise.rfloor_divide,
    "__rmod__": pointwise.rremainder, "__rlshift__": pointwise.rleft_shift, "__rrshift__": pointwise.rright_shift,
}  # fmt: skip

for _name, _op in _ARITHMETIC.items():  # names that nobody completes or looks for; the table above has them
    setattr(Tensor, _name, _special_method(_name, _op))
