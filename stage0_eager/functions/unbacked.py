"""Operators whose result only the data sizes, or that read a number out of a tensor, and checks of such numbers.

Input: capture records them instead of breaking (capture_scalar_outputs, capture_dynamic_output_shape_ops). The last
argument is the name of the unbacked symbol that the call makes. Every stage keeps them as calls.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from stage0_eager.kernels.eager import eager_kernel, namespace_of_all
from stage0_eager.table.opaque import OpaqueOperator
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import map_tensors
from stage_contracts import dtype as dt
from stage_contracts.symbolic import ShapeEnv, SymBool
from stage_contracts.tensor_meta import TensorMeta
from stage_contracts.unbacked import SymbolName


def _size(binds: Any) -> Any:
    """The symbol that a name stands for. A graph that was read back from text has only the name."""
    return binds.size if isinstance(binds, SymbolName) else ShapeEnv().dimension(binds, None)


# ---- meta rules ------------------------------------------------------------------------------------------------


def _item_meta(input: TensorMeta, binds: Any) -> TensorMeta:
    if input.numel != 1:
        raise RuntimeError(f"a Tensor with {input.numel} elements cannot be converted to Scalar")
    return TensorMeta((), dt.int64, device=input.device)


def _scalar_meta(size: Any) -> TensorMeta:
    return TensorMeta((), dt.int64)


def _nonzero_meta(input: TensorMeta, binds: Any) -> TensorMeta:
    return TensorMeta((_size(binds), len(input.shape)), dt.int64, device=input.device)


def _unique_meta(input: TensorMeta, binds: Any) -> tuple[TensorMeta, TensorMeta, TensorMeta]:
    groups = TensorMeta((_size(binds),), dt.int64, device=input.device)
    return groups.with_(dtype=input.dtype), TensorMeta(input.shape, dt.int64, device=input.device), groups


def _bincount_meta(input: TensorMeta, weights: Any, minlength: int, binds: Any) -> TensorMeta:
    dtype = dt.int64 if weights is None else weights.dtype if weights.dtype is dt.float32 else dt.float64
    return TensorMeta((_size(binds),), dtype, device=input.device)


def _repeated_meta(counts: TensorMeta, binds: Any) -> TensorMeta:
    return TensorMeta((_size(binds),), dt.int64, device=counts.device)


def _checked_meta(shown: Any, sizes: Any, names: Any, condition: str, error: str, message: str) -> TensorMeta:
    return TensorMeta((0,), dt.uint8)


# ---- kernels ---------------------------------------------------------------------------------------------------


def _item(xp: Any, input: Any, binds: Any) -> Any:
    return xp.asarray(input).reshape(()).astype(xp.int64)


def _scalar(xp: Any, size: Any) -> Any:
    return xp.asarray(size, xp.int64)


def _nonzero(xp: Any, input: Any, binds: Any) -> Any:
    return eager_kernel("nonzero")(xp, input)


def _unique(xp: Any, input: Any, binds: Any) -> tuple:
    values, inverse, counts = xp.unique(
        input.reshape(-1),
        return_inverse=True,
        return_counts=True,
        **({"equal_nan": False} if xp is np else {}),
    )
    return values, inverse.reshape(input.shape).astype(xp.int64), counts.astype(xp.int64)


def _bincount(xp: Any, input: Any, weights: Any, minlength: int, binds: Any) -> Any:
    if input.size and int(input.min()) < 0:
        raise RuntimeError("bincount only supports 1-d non-negative integral inputs.")
    found = xp.bincount(input, weights, minlength)
    return (
        found if weights is None else found.astype(xp.float32 if weights.dtype == xp.float32 else xp.float64)
    )


def _repeated(xp: Any, counts: Any, binds: Any) -> Any:
    if counts.size and int(counts.min()) < 0:
        raise RuntimeError("repeats can not be negative")
    return xp.repeat(xp.arange(counts.shape[0], dtype=xp.int64), counts)


_ERRORS = {e.__name__: e for e in (RuntimeError, ValueError, IndexError, TypeError, AssertionError)}


@cache
def _test(names: tuple[str, ...], condition: str) -> Callable[..., bool]:
    return eval(f"lambda {', '.join(names)}: {condition}")


def _checked(xp: Any, shown: Any, sizes: Any, names: Any, condition: str, error: str, message: str) -> Any:
    """Each of `shown` is a number, or has one as its first dimension. `names`: what those and the sizes are called."""
    values = [int(a) if not a.ndim else a.shape[0] for a in shown]
    if not _test(tuple(names), condition)(*values, *sizes):
        raise _ERRORS[error](*filter(None, (message,)))
    return np.zeros((0,), np.uint8)


# ---- the operators ---------------------------------------------------------------------------------------------


def _computed(kernel: Callable[..., Any], *args: Any) -> Any:
    """An eager call: the kernel on the arrays of the tensors."""
    data = [map_tensors(a, lambda t: t._data) for a in args]
    found = kernel(namespace_of_all(data), *data)
    return tuple(map(Tensor, found)) if isinstance(found, tuple) else Tensor(found)


item = OpaqueOperator(
    "unbacked", "item", lambda input, binds: _computed(_item, input, binds), _item_meta, _item
)
scalar = OpaqueOperator("unbacked", "scalar", lambda size: _computed(_scalar, size), _scalar_meta, _scalar)
nonzero = OpaqueOperator(
    "unbacked", "nonzero", lambda input, binds: _computed(_nonzero, input, binds), _nonzero_meta, _nonzero
)
unique = OpaqueOperator(
    "unbacked", "unique", lambda input, binds: _computed(_unique, input, binds), _unique_meta, _unique
)
bincount = OpaqueOperator(
    "unbacked",
    "bincount",
    lambda input, weights, minlength, binds: _computed(_bincount, input, weights, minlength, binds),
    _bincount_meta,
    _bincount,
)
repeated = OpaqueOperator(
    "unbacked",
    "repeated",
    lambda counts, binds: _computed(_repeated, counts, binds),
    _repeated_meta,
    _repeated,
)
check = OpaqueOperator(
    "unbacked",
    "check",
    lambda shown, sizes, names, condition, error, message: _computed(
        _checked, shown, sizes, names, condition, error, message
    ),
    _checked_meta,
    _checked,
)
for _op in (item, nonzero, unique, bincount, repeated):
    _op.makes_symbol = True  # type: ignore[attr-defined]
check.has_effect = True


# ---- what programs call ----------------------------------------------------------------------------------------


def require(cond: Any, error: type[Exception], message: str) -> None:
    """Raise the error if `cond` is false. Capture makes it a check at run time if only the data decides `cond`."""
    if not cond:
        raise error(message)


def statically_known_true(condition: Any) -> bool:
    """Whether a condition on sizes holds for all of their values. Makes no guard."""
    return bool(condition.env.known(condition.expr)) if isinstance(condition, SymBool) else bool(condition)


def guard_or_false(condition: Any) -> bool:
    """The condition; False if only the data decides it."""
    return bool(condition)


def guard_or_true(condition: Any) -> bool:
    """The condition; True if only the data decides it."""
    return bool(condition)
