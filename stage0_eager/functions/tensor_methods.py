"""Tensor's methods and arithmetic: operators of the table attached to the class, and the variadic forms.

Input: functions/*.py. An operator is a descriptor, so as a class attribute it is a method; `x + y` calls the row
`cutaway.add` directly.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stage0_eager.functions import (
    aliases,
    comparison,
    complex_numbers,
    creation,
    cumulative,
    gather_scatter,
    indexing,
    inplace,
    inplace_views,
    joining,
    other_operations,
    pointwise,
    pointwise_composed,
    random_sampling,
    reductions,
    shape,
    slicing,
    sorting,
    special,
    statistics,
    strided_windows,
)
from stage0_eager.functions.linalg import decompositions, einsum, matrix_properties, products
from stage0_eager.functions.nn import activations, rectifiers
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor
from stage_contracts.device import DEVICE_TYPES, Device, device_of
from stage_contracts.dtype import DTYPES, DType, dtype_of
from stage_contracts.symbolic import SymFloat, SymInt

_ARITHMETIC = {
    "__add__": pointwise.add, "__radd__": pointwise.add, "__sub__": pointwise.sub, "__rsub__": pointwise.rsub,
    "__mul__": pointwise.mul, "__rmul__": pointwise.mul, "__truediv__": pointwise.div, "__rtruediv__": pointwise.rdiv,
    "__floordiv__": pointwise.floor_divide, "__mod__": pointwise.remainder, "__pow__": pointwise.pow,
    "__rpow__": pointwise.rpow, "__matmul__": products.matmul, "__neg__": pointwise.neg, "__abs__": pointwise.abs,
    "__eq__": pointwise.eq, "__ne__": pointwise.ne, "__lt__": pointwise.lt, "__le__": pointwise.le,
    "__gt__": pointwise.gt, "__ge__": pointwise.ge, "__invert__": pointwise.bitwise_not,
    "__and__": pointwise.bitwise_and, "__rand__": pointwise.bitwise_and, "__or__": pointwise.bitwise_or,
    "__ror__": pointwise.bitwise_or, "__xor__": pointwise.bitwise_xor, "__rxor__": pointwise.bitwise_xor,
    "__lshift__": pointwise.bitwise_left_shift, "__rshift__": pointwise.bitwise_right_shift,
    "__getitem__": indexing.getitem, "__iadd__": inplace.add_, "__isub__": inplace.sub_, "__imul__": inplace.mul_,
    "__itruediv__": inplace.div_,
}  # fmt: skip

# In-place forms that torch has as functions of torch.nn.functional only.
_FUNCTIONAL = "mish hardswish hardsigmoid hardtanh relu6 elu selu celu threshold leaky_relu silu".split()

_METHODS = {
    pointwise: (*pointwise.SAME_AS_CORE, "add", "sub", "div", "pow", "round", "square", "clamp", "isfinite",
                "masked_fill", "lerp", "addcmul", "addcdiv"),
    reductions: ("sum", "prod", "mean", "var", "std", "amax", "amin", "any", "all", "argmax", "argmin", "cumsum",
                 "logsumexp", "softmax", "log_softmax"),
    shape: ("transpose", "t", "unsqueeze", "squeeze", "flatten", "narrow", "select", "flip", "split", "chunk",
            "gather", "scatter_add", "clone", "contiguous", "detach", "tril", "triu", "broadcast_to"),
    products: ("matmul", "mm", "bmm", "dot", "outer", "addmm"),
    activations: ("relu",),
    pointwise_composed: ("hypot", "logaddexp", "logaddexp2", "xlogy", "logit", "sinc", "deg2rad", "rad2deg", "frac",
                 "signbit", "heaviside", "float_power", "ldexp", "positive"),
    aliases: (*(set(aliases.ALIASES) - {"expit"}),),
    comparison: ("isposinf", "isneginf", "isreal", "nan_to_num", "clamp_min", "clamp_max", "fmax", "fmin",
                     "isclose", "allclose", "equal"),
    statistics: ("max", "min", "aminmax", "nansum", "nanmean", "count_nonzero", "dist", "cov", "corrcoef"),
    other_operations: ("diff",),
    special: ("lgamma", "digamma", "erfinv", "i0", "mvlgamma", "igamma", "igammac", "nextafter", "gcd", "lcm", "frexp"),
    cumulative: ("cumprod", "logcumsumexp", "cummax", "cummin", "mode", "histc"),
    einsum: ("mv", "addmv", "baddbmm", "addbmm", "addr", "matrix_power", "inner", "kron", "trace"),
    decompositions: ("det", "slogdet", "logdet", "inverse", "matrix_exp", "cholesky", "cholesky_solve",
               "cholesky_inverse", "triangular_solve", "pinverse", "qr", "svd", "cross"),
    matrix_properties: ("norm",),
    slicing: ("split_with_sizes", "unsafe_split_with_sizes", "narrow_copy", "slice_scatter", "select_scatter",
             "diagonal_scatter", "diagflat", "renorm"),
    complex_numbers: ("vdot", "ger", "unsafe_chunk", "unsafe_split", "conj", "conj_physical", "resolve_conj",
                   "resolve_neg", "angle"),
    random_sampling: ("multinomial", *(op.name for op in random_sampling.IN_PLACE)),
    rectifiers: ("hardshrink", "prelu"),
    joining: ("unbind", "tensor_split", "unflatten", "diagonal", "diag", "diag_embed", "movedim", "moveaxis",
              "swapaxes", "swapdims", "adjoint", "repeat_interleave", "roll", "rot90", "fliplr", "flipud", "expand_as",
              "view_as", "reshape_as", "ravel"),
    strided_windows: ("unfold",),
    gather_scatter: ("index_select", "index_add", "index_fill", "index_copy", "index_put", "take", "take_along_dim",
              "masked_select", "masked_scatter", "nonzero", "argwhere", "scatter", "scatter_reduce", "bincount"),
    sorting: ("sort", "argsort", "topk", "msort", "kthvalue", "median", "nanmedian", "quantile", "nanquantile",
              "unique", "unique_consecutive", "isin"),
    inplace: ("copy_", "zero_", "fill_", "float_power_",
              *(f"{name}_" for name in inplace.IN_PLACE if name not in _FUNCTIONAL)),
}  # fmt: skip


def _sizes(sizes: tuple) -> tuple:
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes


def reshape(self: Tensor, *shape_: Any) -> Tensor:
    """x.reshape(2, 3) or x.reshape((2, 3))."""
    return shape.reshape(self, _sizes(shape_))


def view(self: Tensor, *shape_: Any) -> Tensor:
    """x.view(2, 3) or x.view((2, 3))."""
    return shape.view(self, _sizes(shape_))


def permute(self: Tensor, *dims: Any) -> Tensor:
    return shape.permute(self, _sizes(dims))


def expand(self: Tensor, *size: Any) -> Tensor:
    return shape.expand(self, _sizes(size))


def flip(self: Tensor, *dims: Any) -> Tensor:
    return shape.flip(self, _sizes(dims))


def repeat(self: Tensor, *repeats: Any) -> Tensor:
    """x.repeat(2, 3) or x.repeat((2, 3))."""
    return joining.repeat(self, _sizes(repeats))


def tile(self: Tensor, *dims: Any) -> Tensor:
    return joining.tile(self, _sizes(dims))


def polygamma(self: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma; as a method torch takes n second."""
    return special.polygamma(n, self)


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


def to(
    self: Tensor, *args: Any, device: Any = None, dtype: Any = None, non_blocking: bool = False,
    copy: bool = False, memory_format: Any = None,
) -> Tensor:  # fmt: skip
    """x.to(float64), x.to("cuda"), x.to("cpu", float32), x.to(other): cast, move, or x itself (copy: never x itself).

    non_blocking and memory_format ask for nothing that could be seen here.
    """
    device, dtype = destination(args, device, dtype)
    out = self
    if device is not None and device != out.device:
        out = shape.to_device(out, device)
    if dtype is not None:
        out = pointwise.cast(out, dtype)
    return shape.clone(out) if copy and out is self else out


def _cast_method(dtype: DType) -> Any:
    def method(self: Tensor) -> Tensor:
        return pointwise.cast(self, dtype)

    method.__doc__ = f"The tensor as {dtype.name}."
    return method


def cuda(self: Tensor, device: Any = None) -> Tensor:
    return to(self, device="cuda" if device is None else device)


def cpu(self: Tensor) -> Tensor:
    return to(self, device="cpu")


def type_as(self: Tensor, other: Tensor) -> Tensor:
    return pointwise.cast(self, other.dtype)


_FLOAT_NAMES = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32",
                "bool": "bool", "bfloat16": "bfloat16"}  # fmt: skip
_PLAIN = {"reshape": reshape, "view": view, "permute": permute, "expand": expand, "flip": flip, "to": to,
          "repeat": repeat, "tile": tile, "polygamma": polygamma,
          "hsplit": slicing.hsplit, "vsplit": slicing.vsplit, "dsplit": slicing.dsplit,
          "cuda": cuda, "cpu": cpu, "type_as": type_as, "__setitem__": indexing.setitem}  # fmt: skip


_OPERANDS = (Tensor, bool, int, float, np.generic, SymInt, SymFloat)


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
    return method


def attach() -> None:
    """Put everything above on the class. Called once, at import."""
    for name, op in _ARITHMETIC.items():
        setattr(Tensor, name, _special_method(name, op))
    for module, names in _METHODS.items():
        for name in names:
            setattr(Tensor, name, getattr(module, name))
    for name, function in (_PLAIN | inplace_views.METHODS).items():
        setattr(Tensor, name, function)
    for name, dtype_name in _FLOAT_NAMES.items():
        setattr(Tensor, name, _cast_method(DTYPES[dtype_name]))
    Tensor.T = property(lambda self: shape.permute(self, tuple(reversed(range(self.ndim)))))  # type: ignore
    Tensor.mT = property(lambda self: shape.transpose(self, -1, -2))  # type: ignore


attach()
