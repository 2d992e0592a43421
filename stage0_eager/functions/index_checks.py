"""Checks of indices and of losses' targets, with torch's exceptions: their range, dtype and shape.

Input: an integer tensor and the size that it must stay below. Eager code checks the numbers. Traced code cannot, so the
gather checks them: kernels report an index out of range (OutOfRange, which is an IndexError and a RuntimeError).
"""

from __future__ import annotations

import warnings

import numpy as np

from stage0_eager.functions.promotion import same_dtype
from stage0_eager.table.core import core as c
from stage0_eager.transforms.trace import TracedArray
from stage_contracts import dtype as dt
from stage_contracts.messages import say
from stage_contracts.unbacked import expect

# How torch's messages call dtypes.
NAMES = {
    dt.int64: "Long", dt.int32: "Int", dt.int16: "Short", dt.int8: "Char", dt.uint8: "Byte", dt.bool_: "Bool",
    dt.complex64: "ComplexFloat", dt.complex128: "ComplexDouble",
    dt.float32: "Float", dt.float64: "Double", dt.float16: "Half", dt.bfloat16: "BFloat16",
}  # fmt: skip


OUTSIDE = "index {bad} is out of bounds for dimension with size {size}"


def size_along(input, dim):
    return input.shape[dim] if input.ndim else 1


def in_range(index, size, kind, says):
    """`index` (int64), whose numbers are all in [0, size). Raises `kind`; `says` may name {bad}, {size}."""
    if _seen_in_range(index, size, kind, says):
        return index
    flat = c.reshape(not_negative(index, size, kind, says), (index.numel(),))
    return c.reshape(c.gather(c.iota(size, 0, 1, dt.int64, index.device), 0, flat), index.shape)


def not_negative(index, size, kind, says):
    """As in_range, for an index that a gather or scatter reads next, which finds what is too large."""
    if _seen_in_range(index, size, kind, says):
        return index
    index = index if index.dtype is dt.int64 else c.cast(index, dt.int64)
    return c.where(c.lt(index, 0), size, index)


def _seen_in_range(index, size, kind, says):
    """False where there are no numbers to look at."""
    numbers = getattr(index, "_data", None)
    if type(numbers) is not np.ndarray or not isinstance(size, int):
        return False
    if numbers.size:
        low, high = int(numbers.min()), int(numbers.max())
        if low < 0 or high >= size:
            raise kind(says.format(bad=high if high >= size else low, size=size))
    return True


def numbers_are_seen(x):
    """False while code is traced: there are only metas then."""
    return not isinstance(getattr(x, "_data", None), TracedArray)


def within(x, low, high, nan=False):
    """Whether all numbers are in [low, high]; `nan`: NaN counts as inside. True where there are none to look at."""
    numbers = getattr(x, "_data", None)
    if type(numbers) is not np.ndarray or not numbers.size:
        return True
    if nan:  # fmin skips NaN
        return not (np.fmin.reduce(numbers, axis=None) < low or np.fmax.reduce(numbers, axis=None) > high)
    return bool(numbers.min() >= low and numbers.max() <= high)


def check_probabilities(name, p):
    """Raises for a tensor of probabilities to draw with that is none, where the numbers are seen."""
    if not p.is_floating_point():
        raise NotImplementedError(f'"{name}" not implemented for probabilities of dtype {NAMES[p.dtype]!r}')
    if not within(p, 0, 1):
        raise RuntimeError(f"{name} expects all probabilities to be in [0, 1]")


def long_index(name, index):
    """An index as int64; int32 is taken too."""
    if index.dtype not in (dt.int64, dt.int32):
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index, got {index.dtype.name}")
    return index if index.dtype is dt.int64 else c.cast(index, dt.int64)


def check_classes(input, target, weight):
    """What nll_loss asks of shapes and dtypes: scores (N, C, ...) or (C,), classes (N, ...) or (), weights (C,)."""
    _check_batch(input, target)
    _check_places(input, target)
    if not input.is_floating_point():
        raise NotImplementedError(f"a loss of classes is not implemented for {NAMES[input.dtype]!r}")
    if target.dtype not in (dt.int64, dt.uint8):
        raise RuntimeError(f"expected target dtype to be Long or Byte, but got {NAMES[target.dtype]}")
    same_dtype("a loss of classes", input, weight)
    classes = input.shape[0 if input.ndim == 1 else 1]
    if weight is not None and tuple(weight.shape) != (classes,):
        raise RuntimeError(
            f"weight tensor should be defined either for all {classes} classes or no classes but got weight "
            f"tensor of shape: {list(weight.shape)}"
        )


def _check_batch(input, target):
    """One row of scores for each class, or one row in all."""
    if not input.ndim:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if input.ndim > 1 and (not target.ndim or input.shape[0] != target.shape[0]):
        seen = target.shape[0] if target.ndim else 0
        raise ValueError(f"Expected input batch_size ({input.shape[0]}) to match target batch_size ({seen}).")
    if input.ndim == 1 and target.ndim == 1 and target.shape[0] != 1:
        raise ValueError(f"For 1D input, 1D target must have size 1, but got target size: {target.shape[0]}")


def _check_places(input, target):
    """With further dimensions each place has its class."""
    given, want = list(target.shape), list(input.shape)
    if input.ndim <= 2 and target.ndim > 1:
        raise RuntimeError(say("target_of_classes"))
    if input.ndim == 4 and target.ndim != 3:
        raise RuntimeError(
            "only batches of spatial targets supported (3D tensors) but got targets of dimension: "
            f"{target.ndim}"
        )
    if input.ndim == 4 and given != [*want[:1], *want[2:]]:
        raise RuntimeError(f"size mismatch (got input: {want}, target: {given})")
    if input.ndim > 2 and given != [*want[:1], *want[2:]]:
        raise RuntimeError(f"Expected target size {[*want[:1], *want[2:]]}, got {given}")


def expect_fits(input, dim, index, src):
    """The same for sizes that only the data knows: it is checked at run time."""
    if all(type(size) is int for size in index.shape):
        return
    for d, size in enumerate(index.shape):
        expect(d == dim or size <= input.shape[d])
        expect(src is None or size <= src.shape[d])


def check_fits(name, input, dim, index, src=None):
    """What gather and scatter ask of shapes: no more than input beside `dim`, and no more than src anywhere."""
    if index.ndim != input.ndim or (src is not None and src.ndim != input.ndim):
        raise RuntimeError(f"{name}(): Index tensor must have the same number of dimensions as input tensor")
    expect_fits(input, dim, index, src)
    large = [d for d, size in enumerate(index.shape) if d != dim and size > input.shape[d]]
    if index.numel() and (large or (src is not None and any(i > s for i, s in zip(index.shape, src.shape)))):
        more = "" if src is None else f" and to be no larger size than src {list(src.shape)}"
        raise RuntimeError(
            f"Size does not match at dimension {large[0] if large else dim} expected index {list(index.shape)} to be "
            f"no larger than self {list(input.shape)} apart from dimension {dim}{more}"
        )


def warn_of_broadcast(input, target):
    """The losses that broadcast say that this is rarely meant."""
    if input.shape != target.shape:
        warnings.warn(
            say("target_broadcast", target=list(target.shape), input=list(input.shape)),
            stacklevel=4,
        )
