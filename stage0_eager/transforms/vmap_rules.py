"""Batching rules: how to run a core operator on a batch of examples. One entry per operator, by name.

Input: a Call, whose arguments may be batched. A rule returns the batch of results, with the batch dimension first.
Rules call operators only, so a batch can be differentiated, traced, or batched again. An operator without an entry runs
example by example (`loop`): the routines of the array library, and unlisted composites with their own derivative.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from stage0_eager.functions.inplace import write
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import map_tensors
from stage_contracts import external_metas
from stage_contracts.core_metas import promoted_dtype, wrap_dim
from stage_contracts.core_ops import CORE_OPS


class Call:
    """One operator call inside a vmap (`level`). Ranks and dims in its arguments are those of one example."""

    def __init__(self, op: Any, args: tuple, level: Any) -> None:
        self.op, self.args, self.level = op, args, level

    def front(self, tensor: Tensor) -> Tensor:
        """The batch of a tensor, in dimension 0. A tensor that is not batched is repeated, as a view."""
        return self.level.whole(tensor)

    def aligned(self, tensor: Any, rank: int) -> Any:
        """A batch that broadcasts with tensors of `rank`: it has sizes of 1 between the batch and the example.

        A tensor that is not batched broadcasts as it is.
        """
        if not self.level.batched(tensor):
            return tensor
        whole, missing = tensor._data.whole, rank - tensor.ndim
        if missing == 0:
            return whole
        return c.reshape(whole, (whole.shape[0], *([1] * missing), *whole.shape[1:]))


def dim_first(whole: Tensor, dim: int) -> Tensor:
    """`dim` moved to the front, as a view."""
    if dim == 0:
        return whole
    return c.permute(whole, (dim, *(d for d in range(whole.ndim) if d != dim)))


def _tensors(args: tuple) -> list[Tensor]:
    return [a for a in args if isinstance(a, Tensor)]


# ---- elementwise and products: align, and let them broadcast -------------------------------------------------------


def pointwise(call: Call) -> Tensor:
    tensors = _tensors(call.args)
    rank = max(t.ndim for t in tensors)
    args = [call.aligned(a, rank) for a in call.args]
    if len(call.args) > 1 and any(t.ndim == 0 and call.level.batched(t) for t in tensors):
        args = _as_promoted(call, args)
    return call.op(*args)


def _as_promoted(call: Call, args: list) -> list:
    """Promote a 0-d tensor of each example like a 0-d tensor; the batch of them would promote like a vector."""
    operands = range(1 if call.op.name == "where" else 0, len(args))
    metas = [a.meta if isinstance(a, Tensor) else a for a in call.args]
    if not all(isinstance(a, (Tensor, bool, int, float)) for a in call.args):
        return args  # cast's dtype, clamp's None
    dtype = promoted_dtype([metas[i] for i in operands])
    return [
        c.cast(a, dtype)
        if i in operands
        and call.level.batched(call.args[i])
        and call.args[i].ndim == 0
        and a.dtype is not dtype
        else a
        for i, a in enumerate(args)
    ]


def matrices(call: Call) -> Any:
    """Products and systems: the last two dimensions are matrices; the others broadcast."""
    rank = max(t.ndim for t in _tensors(call.args))
    return call.op(*[call.aligned(a, rank) for a in call.args])


def convolution(call: Call) -> Tensor:
    """With one weight for all examples, their images are one larger batch of images. Otherwise example by example."""
    x, weight, *rest = call.args
    if call.level.batched(weight):
        return loop(call)
    whole = call.front(x)
    count, images, *sizes = whole.shape
    out = c.convolution(c.reshape(whole, (count * images, *sizes)), weight, *rest)
    return c.reshape(out, (count, images, *out.shape[1:]))


# ---- one tensor, then dims ------------------------------------------------------------------------------------------


def _shifted(rank: int, dims: Any) -> Any:
    """The dims of an example in the batch. (A 0-d example accepts dim 0, but has no dimension.)"""
    if isinstance(dims, (tuple, list)):
        return tuple(wrap_dim(d, rank) + 1 for d in dims) if rank else ()
    return wrap_dim(dims, rank) + 1


def dims_shifted(call: Call) -> Tensor:
    """Reductions, flip, permute, softmax: `dims` is the second argument; a tuple, or an int that needs a dimension."""
    x, dims, *rest = call.args
    return call.op(call.front(x), _shifted(x.ndim, dims), *rest)


def along(call: Call) -> Any:
    """Operators along one dimension: cumulative operations, argmax, sort. A 0-d example gets a dimension of size 1."""
    x, dim, *rest = call.args
    if x.ndim:
        return call.op(call.front(x), wrap_dim(dim, x.ndim) + 1, *rest)
    out = call.op(_column(call.front(x)), 1, *rest)
    return map_tensors(out, lambda t: c.reshape(t, (t.shape[0],)))


def _column(batch: Tensor) -> Tensor:
    return c.reshape(batch, (batch.shape[0], 1))


def permute(call: Call) -> Tensor:
    x, dims = call.args
    return c.permute(call.front(x), (0, *(wrap_dim(d, x.ndim) + 1 for d in dims)))


def reshape(call: Call) -> Tensor:
    x, shape = call.args
    shape = CORE_OPS["reshape"].meta(x.meta, shape).shape
    return c.reshape(call.front(x), (call.level.size, *shape))


def expand(call: Call) -> Tensor:
    x, shape = call.args
    shape = CORE_OPS["expand"].meta(x.meta, shape).shape
    return c.expand(call.aligned(x, len(shape)), (call.level.size, *shape))


def slice_(call: Call) -> Tensor:
    x, dim, *rest = call.args
    return c.slice(call.front(x), wrap_dim(dim, x.ndim) + 1, *rest)


def diagonal(call: Call) -> Tensor:
    x, offset, dim1, dim2 = call.args
    return c.diagonal(call.front(x), offset, wrap_dim(dim1, x.ndim) + 1, wrap_dim(dim2, x.ndim) + 1)


def unfold(call: Call) -> Tensor:
    x, dim, size, step = call.args
    if x.ndim == 0:
        return c.slice(_column(call.front(x)), 1, 0, size, 1)
    return c.unfold(call.front(x), wrap_dim(dim, x.ndim) + 1, size, step)


def as_strided(call: Call) -> Tensor:
    """as_strided: the elements of an example are a row of the batch, in row-major order."""
    x, shape, strides, offset = call.args
    return c.as_strided(call.front(x), (call.level.size, *shape), (x.numel(), *strides), offset)


def constant_pad(call: Call) -> Tensor:
    x, pads, value = call.args
    return c.constant_pad(call.front(x), ((0, 0), *pads), value)


# ---- several tensors, a dimension -----------------------------------------------------------------------------------


def slice_scatter(call: Call) -> Tensor:
    x, src, dim, *rest = call.args
    return c.slice_scatter(call.front(x), call.front(src), wrap_dim(dim, x.ndim) + 1, *rest)


def cat(call: Call) -> Tensor:
    tensors, dim = call.args
    dtype = promoted_dtype([t.meta for t in tensors])
    fronts = [call.front(t) for t in tensors]
    return c.cat(
        [t if t.dtype is dtype else c.cast(t, dtype) for t in fronts], wrap_dim(dim, tensors[0].ndim) + 1
    )


def indexed(call: Call) -> Tensor:
    """gather and the scatters: (input, dim, index, ...), all of the same rank. The batch is an additional dimension."""
    x, dim, *rest = call.args
    if x.ndim:
        return call.op(
            call.front(x),
            wrap_dim(dim, x.ndim) + 1,
            *[call.front(t) if isinstance(t, Tensor) else t for t in rest],
        )
    columns = [_column(call.front(t)) if isinstance(t, Tensor) else t for t in rest]
    out = call.op(_column(call.front(x)), 1, *columns)
    return c.reshape(out, (out.shape[0],))


# ---- the rest --------------------------------------------------------------------------------------------------------


def alone(call: Call) -> Tensor:
    """Operators of one tensor that accept an additional first dimension: clone, detach, inv, svd."""
    x, *rest = call.args
    return call.op(call.front(x), *rest)


def copy_(call: Call) -> Tensor:
    """A write. Raises RuntimeError if the examples would write different values to the same place."""
    target, src = call.args
    if not call.level.batched(target):
        raise RuntimeError(
            "vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in "
            "extra_args that has more elements than `self`. This happened due to `other` being vmapped over but "
            "`self` not being vmapped over in a vmap. Please try to use out-of-place operators instead"
        )
    return write(target._data.whole, call.aligned(src, target.ndim))


def nonzero(call: Call) -> Tensor:
    raise RuntimeError(
        "vmap: We do not support batching operators that can output dynamic shape, such as nonzero or an index that "
        "is a mask. Use where() with the mask, or do this outside of vmap"
    )


def loop(call: Call) -> Any:
    """Run example by example, and stack the results. Every rule must give the same."""
    size, batched = call.level.size, call.level.batched

    def example(i: int, tensor: Tensor) -> Tensor:
        if not batched(tensor):
            return tensor
        whole = tensor._data.whole
        return c.reshape(c.slice(whole, 0, i, i + 1, 1), whole.shape[1:])

    results = [call.op(*map_tensors(call.args, partial(example, i))) for i in range(size)]
    if not results:
        metas = call.op.meta(*map_tensors(call.args, lambda t: t.meta))
        metas = metas if isinstance(metas, tuple) else (metas,)
        empty = tuple(c.full((0, *m.shape), 0, m.dtype, m.device) for m in metas)
        return empty if len(empty) > 1 else empty[0]
    if not isinstance(results[0], (tuple, list)):
        return _batch_of(results)
    return tuple(_batch_of([r[k] for r in results]) for k in range(len(results[0])))


def _batch_of(tensors: list[Tensor]) -> Tensor:
    return c.cat([c.reshape(t, (1, *t.shape)) for t in tensors], 0)


# elementwise library routines
_SPECIAL = (external_metas.floats, external_metas.integers, external_metas.frexp)
RULES: dict[str, Callable[[Call], Any]] = {
    **{
        row.name: pointwise
        for row in CORE_OPS.values()
        if row.kind == "pointwise" or getattr(row.meta, "__wrapped__", row.meta) in _SPECIAL
    },
    # elementwise composites with their own derivative
    **dict.fromkeys(("relu", "clamp", "hypot", "logit", "hardsigmoid", "hardswish", "softshrink"), pointwise),
    **dict.fromkeys(
        ("sum", "prod", "amax", "amin", "any", "all", "flip", "fft_c2c", "fft_r2c", "fft_c2r"), dims_shifted
    ),
    **dict.fromkeys(
        (
            "argmax",
            "argmin",
            "cumsum",
            "cumprod",
            "cummax",
            "cummin",
            "logcumsumexp",
            "sort",
            "softmax",
            "log_softmax",
        ),
        along,
    ),
    **dict.fromkeys(("gather", "scatter", "scatter_add", "scatter_reduce"), indexed),
    **dict.fromkeys(("clone", "contiguous", "detach", "to_device"), alone),
    **dict.fromkeys(("all_reduce", "reduce", "average", "average_gradient", "broadcast"), alone),
    **dict.fromkeys(("cholesky", "inv", "matrix_exp", "det", "slogdet", "qr", "svd", "eigh", "eig"), alone),
    **dict.fromkeys(("matmul", "solve", "triangular_solve"), matrices),
    "convolution": convolution,
    "permute": permute,
    "reshape": reshape,
    "expand": expand,
    "slice": slice_,
    "diagonal": diagonal,
    "unfold": unfold,
    "as_strided": as_strided,
    **dict.fromkeys(("conj", "view_as_real", "view_as_complex"), alone),
    "constant_pad": constant_pad,
    "slice_scatter": slice_scatter,
    "cat": cat,
    "copy_": copy_,
    "nonzero": nonzero,
}


def looped() -> list[str]:
    """The core operators that run example by example."""
    free = ("creation", "random")  # no tensor operand, so nothing to batch
    return sorted(row.name for row in CORE_OPS.values() if row.name not in RULES and row.kind not in free)
