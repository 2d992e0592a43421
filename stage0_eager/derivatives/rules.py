"""Derivatives of the core operators: one rule per differentiable parameter, each calling operators only.

Input: `g` (the gradient of the output) and, by name, what the rule needs saved: see Operator.derivative. Layout and
many formulas follow torch's derivatives.yaml. An operator missing here is piecewise constant or integer-valued.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from stage0_eager.table.core import core as c
from stage_contracts import dtype as dt
from stage_contracts.core_metas import slice_bounds, wrap_dim
from stage_contracts.symbolic import same_shape, same_size
from stage_contracts.tensor_meta import TensorMeta
from stage_contracts.view_metas import diagonal_window


def fit(g: Any, meta: TensorMeta) -> Any:
    """Undo broadcasting and promotion: sum `g` to `meta`'s shape and cast it to its dtype."""
    if same_shape(g.shape, meta.shape):  # most are
        return g if g.dtype is meta.dtype else c.cast(g, meta.dtype)
    lead = g.ndim - meta.ndim
    dims = tuple(range(lead)) + tuple(
        i + lead
        for i, size in enumerate(meta.shape)
        if same_size(size, 1) and not same_size(g.shape[i + lead], 1)
    )
    if dims:
        g = c.sum(g, dims, True)
    if not same_shape(g.shape, meta.shape):
        g = c.reshape(g, meta.shape)
    return g if g.dtype is meta.dtype else c.cast(g, meta.dtype)


def _acosh_slope(x: Any) -> Any:
    if x.dtype.is_complex:  # the root of the product would be on the other branch where x.real < 0
        return c.mul(c.rsqrt(c.sub(x, 1)), c.rsqrt(c.add(x, 1)))
    return c.rsqrt(c.sub(c.mul(x, x), 1))


def zeros(meta: TensorMeta) -> Any:
    return c.full(meta.shape, 0.0, meta.dtype, meta.device)


def direction(x: Any, size: Any) -> Any:
    """x / |x|, and 0 for 0: the gradient of |x|."""
    if not x.dtype.is_complex:
        return c.sign(x)
    zero = c.eq(size, 0)
    return c.where(zero, 0.0, c.div(x, c.where(zero, 1.0, size)))


# ---- elementwise, one operand: g * f'(x) ----------------------------------------------------------------------

_UNARY: dict[str, Callable] = {
    "exp": lambda g, out: c.mul(g, out),
    "exp2": lambda g, out: c.mul(g, c.mul(out, math.log(2.0))),
    "expm1": lambda g, out: c.mul(g, c.add(out, 1)),
    "log": lambda g, input: c.div(g, input),
    "log2": lambda g, input: c.div(g, c.mul(input, math.log(2.0))),
    "log10": lambda g, input: c.div(g, c.mul(input, math.log(10.0))),
    "log1p": lambda g, input: c.div(g, c.add(input, 1)),
    "sqrt": lambda g, out: c.div(g, c.mul(out, 2)),
    "rsqrt": lambda g, out: c.mul(c.mul(g, -0.5), c.mul(out, c.mul(out, out))),
    "reciprocal": lambda g, out: c.mul(c.neg(g), c.mul(out, out)),
    "sin": lambda g, input: c.mul(g, c.cos(input)),
    "cos": lambda g, input: c.mul(c.neg(g), c.sin(input)),
    "tan": lambda g, out: c.mul(g, c.add(c.mul(out, out), 1)),
    "asin": lambda g, input: c.mul(g, c.rsqrt(c.sub(1, c.mul(input, input)))),
    "acos": lambda g, input: c.mul(c.neg(g), c.rsqrt(c.sub(1, c.mul(input, input)))),
    "atan": lambda g, input: c.div(g, c.add(c.mul(input, input), 1)),
    "sinh": lambda g, input: c.mul(g, c.cosh(input)),
    "cosh": lambda g, input: c.mul(g, c.sinh(input)),
    "tanh": lambda g, out: c.mul(g, c.sub(1, c.mul(out, out))),
    "asinh": lambda g, input: c.mul(g, c.rsqrt(c.add(c.mul(input, input), 1))),
    "acosh": lambda g, input: c.mul(g, _acosh_slope(input)),
    "atanh": lambda g, input: c.div(g, c.sub(1, c.mul(input, input))),
    "erf": lambda g, input: c.mul(g, c.mul(c.exp(c.neg(c.mul(input, input))), 2 / math.sqrt(math.pi))),
    "erfc": lambda g, input: c.mul(g, c.mul(c.exp(c.neg(c.mul(input, input))), -2 / math.sqrt(math.pi))),
    "sigmoid": lambda g, out: c.mul(g, c.mul(out, c.sub(1, out))),
    "abs": lambda g, input, out: c.mul(g, direction(input, out)),
    "conj": lambda g: c.conj(g) if g.dtype.is_complex else g,
    "neg": lambda g: c.neg(g),
    "floor": lambda g, out_meta: zeros(out_meta),
    "ceil": lambda g, out_meta: zeros(out_meta),
    "round": lambda g, out_meta: zeros(out_meta),
    "trunc": lambda g, out_meta: zeros(out_meta),
    "sign": lambda g, out_meta: zeros(out_meta),
}
for _name, _rule in _UNARY.items():
    getattr(c, _name).derivative(input=_rule)

# ---- elementwise, several operands ----------------------------------------------------------------------------


def _half_where_equal(g: Any, input: Any, other: Any, loses: Callable) -> Any:
    """maximum and minimum: none to the loser, half to each at a tie, all to both where one is NaN (as torch)."""
    return c.where(loses(input, other), 0.0, c.where(c.eq(input, other), c.mul(g, 0.5), g))


def _pow_input(g: Any, input: Any, other: Any, input_meta: Any) -> Any:
    if _is_number(other):
        if other == 0:
            return zeros(input_meta)
        return fit(c.mul(g, c.mul(c.pow(input, other - 1), other)), input_meta)
    if other.dtype is dt.bool_:  # from which nothing can be subtracted
        other = c.cast(other, dt.int8)
    slope = c.mul(other, c.pow(input, c.sub(other, 1)))
    return fit(c.where(c.eq(other, 0), 0.0, c.mul(g, slope)), input_meta)


def _pow_other(g: Any, input: Any, other: Any, out: Any, other_meta: Any) -> Any:
    # 0 ** y is 0 around y > 0, where out * log(0) would be NaN
    if not _is_number(input):
        above = real_part(other)
        flat = c.logical_and(c.eq(input, 0), above >= 0 if _is_number(above) else c.ge(above, 0))
        return fit(c.where(flat, 0.0, c.mul(g, c.mul(out, c.log(input)))), other_meta)
    if isinstance(input, complex) or other.dtype.is_complex:
        input = c.full((), input, out.dtype, other.device)
        return _pow_other(g, input, other, out, other_meta)
    log = math.log(input) if input > 0 else -math.inf if input == 0 else math.nan
    slope = c.mul(g, c.mul(out, log))
    return fit(c.where(c.ge(other, 0), 0.0, slope) if input == 0 else slope, other_meta)


def real_part(x: Any) -> Any:
    """The real part; a real number or tensor as it is."""
    if _is_number(x):
        return x.real
    if not x.dtype.is_complex:
        return x
    return c.reshape(c.slice(c.view_as_real(x), x.ndim, 0, 1, 1), x.shape)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex))


def _square(x: Any) -> Any:
    return x * x if _is_number(x) else c.mul(x, x)


c.add.derivative(
    input=lambda g, input_meta: fit(g, input_meta),
    other=lambda g, other_meta: fit(g, other_meta),
)
c.sub.derivative(
    input=lambda g, input_meta: fit(g, input_meta),
    other=lambda g, other_meta: fit(c.neg(g), other_meta),
)
c.mul.derivative(
    input=lambda g, other, input_meta: fit(c.mul(g, other), input_meta),
    other=lambda g, input, other_meta: fit(c.mul(g, input), other_meta),
)
c.div.derivative(
    input=lambda g, other, input_meta: fit(c.div(g, other), input_meta),
    other=lambda g, input, other, other_meta: fit(
        c.neg(c.mul(g, c.div(c.div(input, other), other))), other_meta
    ),
)
c.pow.derivative(input=_pow_input, other=_pow_other)
c.maximum.derivative(
    input=lambda g, input, other, input_meta: fit(_half_where_equal(g, input, other, c.lt), input_meta),
    other=lambda g, input, other, other_meta: fit(_half_where_equal(g, input, other, c.gt), other_meta),
)
c.minimum.derivative(
    input=lambda g, input, other, input_meta: fit(_half_where_equal(g, input, other, c.gt), input_meta),
    other=lambda g, input, other, other_meta: fit(_half_where_equal(g, input, other, c.lt), other_meta),
)
c.atan2.derivative(
    input=lambda g, input, other, input_meta: fit(
        c.mul(g, c.div(other, c.add(_square(input), _square(other)))), input_meta
    ),
    other=lambda g, input, other, other_meta: fit(
        c.neg(c.mul(g, c.div(input, c.add(_square(input), _square(other))))), other_meta
    ),
)
c.copysign.derivative(
    input=lambda g, input, out, input_meta: fit(
        c.where(c.eq(input, 0), 0.0, c.mul(g, c.mul(c.sign(input), c.sign(out)))), input_meta
    ),
    other=lambda g, other_meta: zeros(other_meta),
)
c.remainder.derivative(
    input=lambda g, input_meta: fit(g, input_meta),
    other=lambda g, input, other, other_meta: fit(c.neg(c.mul(g, c.floor(c.div(input, other)))), other_meta),
)
c.fmod.derivative(
    input=lambda g, input_meta: fit(g, input_meta),
    other=lambda g, input, other, other_meta: fit(c.neg(c.mul(g, c.trunc(c.div(input, other)))), other_meta),
)
c.floor_divide.derivative(
    input=lambda g, input_meta: zeros(input_meta), other=lambda g, other_meta: zeros(other_meta)
)
c.where.derivative(
    input=lambda g, condition, input_meta: fit(c.where(condition, g, 0.0), input_meta),
    other=lambda g, condition, other_meta: fit(c.where(condition, 0.0, g), other_meta),
)
c.cast.derivative(
    input=lambda g, input_meta: c.cast(g, input_meta.dtype) if g.dtype is not input_meta.dtype else g
)

# ---- reductions -----------------------------------------------------------------------------------------------


def spread(g: Any, meta: TensorMeta, dims: Sequence[int], keepdim: bool) -> Any:
    """A reduced tensor back over the dimensions it was reduced along, as a view."""
    if not keepdim:
        wrapped = {wrap_dim(d, meta.ndim) for d in dims}
        g = c.reshape(g, tuple(1 if i in wrapped else s for i, s in enumerate(meta.shape)))
    return c.expand(g, meta.shape)


def reverse_cumsum(x: Any, dim: int) -> Any:
    """The running sum from the end."""
    return c.flip(c.cumsum(c.flip(x, (dim,)), dim), (dim,))


def _prod_input(g: Any, input: Any, out: Any, dims: Any, keepdim: Any, input_meta: Any) -> Any:
    # product of the others: out / x where nothing is zero; where one element is zero, the product of the rest
    # reaches it alone; with two zeros nothing does
    total, g = spread(out, input_meta, dims, keepdim), spread(g, input_meta, dims, keepdim)
    is_zero = c.eq(input, 0)
    zeros_seen = spread(c.sum(is_zero, dims, True), input_meta, dims, True)
    rest = spread(c.prod(c.where(is_zero, 1.0, input), dims, True), input_meta, dims, True)
    only = c.where(c.logical_and(is_zero, c.eq(zeros_seen, 1)), rest, 0.0)
    return fit(c.mul(g, c.where(c.eq(zeros_seen, 0), c.div(total, input), only)), input_meta)


def _extremum_input(g: Any, input: Any, out: Any, dims: Any, keepdim: Any, input_meta: Any) -> Any:
    hit = c.eq(input, spread(out, input_meta, dims, keepdim))
    mine = c.where(hit, spread(g, input_meta, dims, keepdim), 0.0)
    # of NaN, which nothing is equal to, 0 / 0: NaN for all
    return fit(c.div(mine, spread(c.sum(hit, dims, True), input_meta, dims, True)), input_meta)


c.sum.derivative(input=lambda g, input_meta, dims, keepdim: spread(g, input_meta, dims, keepdim))
c.prod.derivative(input=_prod_input)
c.amax.derivative(input=_extremum_input)
c.amin.derivative(input=_extremum_input)
c.cumsum.derivative(input=lambda g, dim: reverse_cumsum(g, dim))

# ---- views and movement ---------------------------------------------------------------------------------------


def _inverse(dims: Sequence[int]) -> tuple[int, ...]:
    order = [d % len(dims) for d in dims]
    return tuple(order.index(i) for i in range(len(order)))


def _slice_input(g: Any, input_meta: Any, dim: Any, start: Any, stop: Any, step: Any) -> Any:
    dim = wrap_dim(dim, input_meta.ndim)
    low, _, length = slice_bounds(input_meta.shape[dim], start, stop, step)
    if step != 1:
        return c.slice_scatter(zeros(input_meta), g, dim, start, stop, step)
    after = input_meta.shape[dim] - low - length
    pads = tuple((low, after) if i == dim else (0, 0) for i in range(input_meta.ndim))
    return c.constant_pad(g, pads, 0.0)


def _cat_tensors(g: Any, tensors_meta: Any, dim: Any) -> list:
    dim = wrap_dim(dim, g.ndim)
    parts, at = [], 0
    for meta in tensors_meta:
        parts.append(fit(c.slice(g, dim, at, at + meta.shape[dim], 1), meta))
        at += meta.shape[dim]
    return parts


c.view_as_real.derivative(input=lambda g: c.view_as_complex(c.contiguous(g)))
c.view_as_complex.derivative(input=lambda g: c.view_as_real(g))
c.reshape.derivative(input=lambda g, input_meta: c.reshape(g, input_meta.shape))
c.permute.derivative(input=lambda g, dims: c.permute(g, _inverse(dims)))
c.expand.derivative(input=lambda g, input_meta: fit(g, input_meta))
c.slice.derivative(input=_slice_input)
c.slice_scatter.derivative(
    input=lambda g, src_meta, dim, start, stop, step: c.slice_scatter(
        g, zeros(src_meta), dim, start, stop, step
    ),
    src=lambda g, dim, start, stop, step: c.slice(g, dim, start, stop, step),
)
c.flip.derivative(input=lambda g, dims: c.flip(g, dims))
c.cat.derivative(tensors=_cat_tensors)
c.constant_pad.derivative(
    input=lambda g, pads: c.constant_pad(g, tuple((-a, -b) for a, b in pads), 0.0),
)
c.gather.derivative(input=lambda g, input_meta, dim, index: c.scatter_add(zeros(input_meta), dim, index, g))
c.scatter.derivative(
    input=lambda g, dim, index, src_meta: c.scatter(g, dim, index, zeros(src_meta)),
    src=lambda g, dim, index, src_meta: _into_corner(c.gather(g, dim, index), src_meta),
)
c.scatter_add.derivative(
    input=lambda g: g,
    src=lambda g, dim, index, src_meta: _into_corner(c.gather(g, dim, index), src_meta),
)

# Views whose parts lie apart or overlap: `move` is scatter_add for gradients, scatter for writes through the view.


def into_diagonal(whole: Any, part: Any, offset: int, dim1: int, dim2: int) -> Any:
    """A copy of `whole` whose diagonal is `part`."""
    first, second, length = diagonal_window(whole.shape, offset, dim1, dim2)
    order = [*(d for d in range(whole.ndim) if d not in (first, second)), first, second]
    rows, columns = whole.shape[first], whole.shape[second]
    above = -offset if offset < 0 and length else 0  # a diagonal beyond the last row is nowhere
    pads = (*[(0, 0)] * (part.ndim - 1), (above, rows - above - length))
    part = c.constant_pad(part, pads, 0)
    part = c.reshape(part, (*part.shape, 1))
    i = c.reshape(c.iota(rows, offset, 1, dt.int64, whole.device), (rows, 1))
    here = c.eq(c.iota(columns, 0, 1, dt.int64, whole.device), i)
    here = c.reshape(here, (*[1] * (whole.ndim - 2), rows, columns))
    own = _inverse(order)  # of the dimensions: the result lies in memory as the whole
    return c.where(c.permute(here, own), c.permute(part, own), whole)


def into_windows(whole: Any, part: Any, dim: int, size: int, step: int, move: Any) -> Any:
    """A copy of `whole` with what its windows are moved to where they come from."""
    if not whole.ndim:
        return c.reshape(
            into_windows(c.reshape(whole, (1,)), c.reshape(part, (1, size)), 0, size, 1, move), ()
        )
    dim = wrap_dim(dim, whole.ndim)
    count = part.shape[dim]
    order = [*range(dim + 1), part.ndim - 1, *range(dim + 1, part.ndim - 1)]
    shape = (*part.shape[:dim], count * size, *part.shape[dim + 1 : -1])
    part = c.reshape(c.permute(part, tuple(order)), shape)
    starts = c.reshape(c.iota(count, 0, step, dt.int64, whole.device), (count, 1))
    places = c.add(starts, c.iota(size, 0, 1, dt.int64, whole.device))
    places = c.reshape(places, (*[1] * dim, count * size, *[1] * (whole.ndim - dim - 1)))
    return move(whole, dim, c.expand(places, shape), part)


def into_strided(whole: Any, part: Any, shape: tuple, strides: tuple, offset: int, move: Any) -> Any:
    """A copy of `whole` with the elements of `part` moved to where as_strided takes them from."""
    places = c.full((), offset, dt.int64, whole.device)
    for i, (size, step) in enumerate(zip(shape, strides, strict=True)):
        along = c.iota(size, 0, step, dt.int64, whole.device)
        places = c.add(places, c.reshape(along, (size, *[1] * (len(shape) - i - 1))))
    count = math.prod(shape)
    flat = move(c.reshape(whole, (-1,)), 0, c.reshape(places, (count,)), c.reshape(part, (count,)))
    return c.reshape(flat, whole.shape)


c.diagonal.derivative(
    input=lambda g, input_meta, offset, dim1, dim2: into_diagonal(zeros(input_meta), g, offset, dim1, dim2)
)
c.unfold.derivative(
    input=lambda g, input_meta, dim, size, step: into_windows(
        zeros(input_meta), g, dim, size, step, c.scatter_add
    )
)
c.as_strided.derivative(
    input=lambda g, input_meta, shape, strides, offset: into_strided(
        zeros(input_meta), g, shape, strides, offset, c.scatter_add
    )
)


def _scatter_reduce_input(g: Any, input: Any, out: Any, dim: Any, index: Any, src: Any, reduce: str) -> Any:
    if reduce == "prod":
        factor = c.where(c.eq(input, 0), 1, input)
        return c.div(c.mul(g, c.scatter_reduce(factor, dim, index, src, reduce)), factor)
    mine, _, share = _extremum_shares(g, input, out, dim, index, src)
    return c.where(mine, share, 0.0)


def _scatter_reduce_src(
    g: Any, input: Any, out: Any, dim: Any, index: Any, src: Any, src_meta: Any, reduce: str
) -> Any:
    read = _corner(src, index)
    if reduce == "prod":
        return _into_corner(_factor_slopes(g, input, out, dim, index, read), src_meta)
    _, theirs, share = _extremum_shares(g, input, out, dim, index, src)
    return _into_corner(c.where(theirs, c.gather(share, dim, index), 0.0), src_meta)


def _factor_slopes(g: Any, input: Any, out: Any, dim: Any, index: Any, factors: Any) -> Any:
    """g times the product without this factor: the quotient, or for the only 0 the product with 1 in its place."""
    zero = c.eq(factors, 0)
    zeros_at = c.scatter_add(c.full(g.shape, 0, g.dtype, g.device), dim, index, c.cast(zero, g.dtype))
    only = c.logical_and(zero, c.eq(c.gather(zeros_at, dim, index), 1))
    others = c.scatter_reduce(input, dim, index, c.where(only, 1, factors), "prod")
    quotient = c.div(c.gather(c.mul(g, out), dim, index), c.where(zero, 1, factors))
    return c.where(only, c.gather(c.mul(g, others), dim, index), quotient)


def _extremum_shares(g: Any, input: Any, out: Any, dim: Any, index: Any, src: Any) -> tuple:
    """What of input and of src is the extremum, and what each such element gets: all alike, as amax does."""
    mine = c.eq(input, out)
    theirs = c.eq(_corner(src, index), c.gather(out, dim, index))
    count = c.scatter_add(c.cast(mine, g.dtype), dim, index, c.cast(theirs, g.dtype))
    return mine, theirs, c.div(g, count)


def _corner(src: Any, index: Any) -> Any:
    for dim, size in enumerate(index.shape):
        src = c.slice(src, dim, 0, size, 1)
    return src


c.scatter_reduce.derivative(input=_scatter_reduce_input, src=_scatter_reduce_src)
c.sort.derivative(
    input=lambda g, out, input_meta, dim: c.scatter(zeros(input_meta), dim, out[1], g[0]),
)


def _into_corner(g: Any, meta: TensorMeta) -> Any:
    """scatter reads only the leading corner of src that index covers; the rest gets no gradient."""
    if g.shape == meta.shape:
        return g
    return c.constant_pad(
        g, tuple((0, want - have) for want, have in zip(meta.shape, g.shape, strict=True)), 0.0
    )


# ---- contraction, identity ------------------------------------------------------------------------------------


def conjugate(x: Any) -> Any:
    """The conjugate; a real x itself."""
    return c.conj(x) if x.dtype.is_complex else x


def adjoint(x: Any) -> Any:
    """The last two dimensions exchanged, and conjugated."""
    return conjugate(transpose_last(x))


def transpose_last(x: Any) -> Any:
    dims = list(range(x.ndim))
    dims[-1], dims[-2] = dims[-2], dims[-1]
    return c.permute(x, tuple(dims))


def _product_like(operand: Any, left: Any, right: Any) -> Any:
    """left @ right, by columns in memory where the matrices whose gradient it is lie so: the gradient of a weight that
    was turned, as a linear layer does, then lies as the weight, and that of attention's keys as the keys. As in torch's
    mm_mat2_backward, which does it for one matrix."""
    if operand.ndim >= 2 and _is_one(operand.strides[-2]) and not _is_one(operand.strides[-1]):
        return transpose_last(c.matmul(transpose_last(right), transpose_last(left)))
    return c.matmul(left, right)


def _is_one(stride: Any) -> bool:
    return isinstance(stride, int) and stride == 1  # what is open is left open


c.matmul.derivative(
    input=lambda g, other, input_meta: fit(_product_like(input_meta, g, transpose_last(other)), input_meta),
    other=lambda g, input, other_meta: fit(_product_like(other_meta, transpose_last(input), g), other_meta),
)
c.copy_.derivative(input=lambda g, input_meta: zeros(input_meta), src=lambda g, src_meta: fit(g, src_meta))
c.clone.derivative(input=lambda g: g)
c.contiguous.derivative(input=lambda g: g)
c.to_device.derivative(input=lambda g, input_meta: c.to_device(g, input_meta.device))
