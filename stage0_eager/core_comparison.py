"""Makes inputs for a graph or a program, and compares two results bit for bit: used to check a pass.

Input: a TensorMeta and a seed; two arrays. To check a pass, interpret its input and its output and compare.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from stage0_eager import arrays
from stage_contracts.breaks import Unsupported
from stage_contracts.node import GraphError
from stage_contracts.symbolic import hinted
from stage_contracts.tensor_meta import TensorMeta

SPECIAL = (0.0, -0.0, math.inf, -math.inf, math.nan, 1e-310, -1e-40)


# The errors that eager raises for data that a program cannot accept: an index out of range, a matrix without an
# inverse, a division by zero. Any other error on made-up data is a bug in the code that runs.
NOT_FOR_MADE_UP_DATA = (RuntimeError, IndexError, ValueError, ArithmeticError)


def made_by(name: str, run: Callable[..., Any], *given: Any) -> Any:
    """Call `run` on data that the earlier artifact accepted. If it raises, raises GraphError with the name of the
    pass."""
    try:
        return run(*given)
    except Unsupported:  # sizes that only a later step decides: raised as it is
        raise
    except Exception as error:
        raise GraphError(
            f"what {name} made raises {type(error).__name__}, while its input runs: {error}"
        ) from error


def example(meta: TensorMeta, seed: int, special: bool = True) -> Any:
    """An array with the strides that `meta` has, because they decide what a graph copies. Floats are around 0, with
    special values among them; integers are zeros and ones."""
    rng = np.random.default_rng(seed)
    shape, strides = tuple(map(hinted, meta.shape)), tuple(map(hinted, meta.strides))
    reach = [(size - 1) * stride for size, stride in zip(shape, strides, strict=True)]
    needed = 0 if 0 in shape else 1 + sum(map(abs, reach))
    if meta.dtype.is_floating_point:
        memory: np.ndarray = rng.normal(size=needed)
        if special and needed >= 2 * len(SPECIAL):
            memory[rng.permutation(needed)[: len(SPECIAL)]] = SPECIAL
    else:
        memory = rng.integers(0, 2, needed)
    memory = memory.astype(meta.dtype.numpy)
    start = memory[-sum(step for step in reach if step < 0) :] if needed else memory
    laid_out = np.lib.stride_tricks.as_strided(start, shape, [stride * memory.itemsize for stride in strides])
    return arrays.move(laid_out, meta.device)


def same_bits(a: Any, b: Any) -> bool:
    """Whether two arrays have the same dtype, shape, layout and bits. All NaNs count as equal."""
    if a is None or b is None:
        return a is b
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return False
    a, b = arrays.move(a, arrays.CPU), arrays.move(b, arrays.CPU)
    nan = a != a
    return (
        bool(((a == b) & (np.signbit(a) == np.signbit(b)) | nan & (b != b)).all())
        if _is_float(a)
        else bool((a == b).all())
    )


def _is_float(a: Any) -> bool:
    return a.dtype.kind not in "biu"


def first_difference(a: Any, b: Any) -> str:
    """The first element that differs, in words."""
    if a is None or b is None or (a.dtype, a.shape) != (b.dtype, b.shape):
        return f"{_words(a)} became {_words(b)}"
    signs = np.signbit(a) == np.signbit(b) if _is_float(a) else True
    differs = ~((a == b) & signs | (a != a) & (b != b))
    at = tuple(int(i[0]) for i in np.nonzero(np.atleast_1d(differs)))[: a.ndim]
    return f"at {at} {a[at]!r} became {b[at]!r}"


def _words(a: Any) -> str:
    return "None" if a is None else f"{a.dtype}{list(a.shape)}"
