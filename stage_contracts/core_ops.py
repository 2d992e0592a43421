"""The core operators: everything that stage 2 may emit and that stage 3 must accept, with their meaning.

Input: none; this is the table. Stage 0 gives each row its eager kernel, derivative and vmap rule; stage 3 lowers each
row by its kind. Arguments are in normal form: tensors first, dims as tuples, no optional tensors. Elementwise rows
broadcast and promote by dtype.py's table. Any operand may be a Python scalar, as long as one is a tensor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stage_contracts import collective_ops, complex_metas, convolution_metas, view_metas
from stage_contracts import core_metas as m
from stage_contracts.external_ops import EXTERNAL
from stage_contracts.fft_metas import FOURIER

# The kinds of rows. Lowering treats each kind in its own way.
KINDS = {
    "pointwise": "one output element from one element of each operand",
    "reduction": "reduces some dimensions",
    "view": "the same elements under another index; eager shares storage where strides allow",
    "movement": "copies elements to other places",
    "indexing": "places given by an index tensor",
    "contraction": "sums of products: goes to BLAS or a template",
    "creation": "no tensor operand",
    "random": "bits from (seed, counter, flat index)",
    "scan": "running reductions along one dimension",
    "external": "a routine of the array library, several results or one; lowering calls its eager kernel",
    "collective": "exchanges data with the other ranks of a process group; runs once, in the order of the graph",
    "identity": "same value; matters to autograd or to placement",
}


@dataclass(frozen=True)
class CoreOp:
    """One row. `meta` gets the arguments, with a TensorMeta for each tensor, and returns the TensorMeta of the
    result."""

    name: str
    params: str  # the parameter list, as in a def
    kind: str
    meta: Callable[..., Any]
    meaning: str


def _rows(kind: str, params: str, meta: Callable[..., Any], text: str) -> list[CoreOp]:
    """Rows with the same kind, parameters and meta rule: one `name: meaning` per line."""
    pairs = [line.split(":", 1) for line in text.strip().splitlines()]
    return [CoreOp(name.strip(), params, kind, meta, meaning.strip()) for name, meaning in pairs]


_TABLE: list[CoreOp] = [
    *_rows("pointwise", "input", m.pointwise_float, """
        exp: e ** x
        exp2: 2 ** x
        expm1: e ** x - 1, accurate near 0
        log: natural logarithm
        log2: logarithm to base 2
        log10: logarithm to base 10
        log1p: log(1 + x), accurate near 0
        sqrt: square root
        rsqrt: 1 / sqrt(x)
        reciprocal: 1 / x
        sin: sine, in radians
        cos: cosine, in radians
        tan: tangent, in radians
        asin: inverse sine
        acos: inverse cosine
        atan: inverse tangent
        sinh: hyperbolic sine
        cosh: hyperbolic cosine
        tanh: hyperbolic tangent
        asinh: inverse hyperbolic sine
        acosh: inverse hyperbolic cosine
        atanh: inverse hyperbolic tangent
        erf: error function
        erfc: 1 - erf(x), accurate for large x
        sigmoid: 1 / (1 + e ** -x), without overflow
    """),
    *_rows("pointwise", "input", m.pointwise, """
        sign: -1, 0 or 1; 0 for NaN
        floor: largest integer not above x
        ceil: smallest integer not below x
        round: nearest integer, ties to even
        trunc: integer part
    """),
    *_rows("pointwise", "input", m.pointwise_no_bool, "neg: -x"),
    CoreOp("abs", "input", "pointwise", complex_metas.absolute, "absolute value; real for a complex x"),
    CoreOp("conj", "input", "external", complex_metas.conj, "the imaginary part negated; complex tensors only"),
    *_rows("pointwise", "input", m.predicate, """
        isnan: x is NaN
        isinf: x is an infinity
        logical_not: x == 0
    """),
    *_rows("pointwise", "input", m.pointwise_integral, "bitwise_not: every bit flipped; logical not for bool"),
    *_rows("pointwise", "input, other", m.pointwise, """
        add: x + y; logical or for bool
        mul: x * y; logical and for bool
        maximum: the larger; NaN if either is NaN
        minimum: the smaller; NaN if either is NaN
    """),
    *_rows("pointwise", "input, other", m.pointwise_number, """
        floor_divide: floor(x / y)
        remainder: x - y * floor(x / y): the sign of y, as Python's %
        fmod: x - y * trunc(x / y): the sign of x, as C's fmod
        pow: x ** y
    """),
    *_rows("pointwise", "input, other", m.pointwise_no_bool, "sub: x - y"),
    *_rows("pointwise", "input, other", m.pointwise_float, """
        div: x / y, true division
        atan2: the angle of the point (y=other, x=input swapped as in C: atan2(input, other))
        copysign: |x| with the sign of y
    """),
    *_rows("pointwise", "input, other", m.predicate, """
        eq: x == y
        ne: x != y
        lt: x < y
        le: x <= y
        gt: x > y
        ge: x >= y
        logical_and: both nonzero
        logical_or: either nonzero
        logical_xor: exactly one nonzero
    """),
    *_rows("pointwise", "input, other", m.pointwise_integral, """
        bitwise_and: bits set in both
        bitwise_or: bits set in either
        bitwise_xor: bits set in exactly one
    """),
    *_rows("pointwise", "input, other", m.pointwise_shift, """
        bitwise_left_shift: x * 2 ** y, wrapping; 0 where y is negative or not below the number of bits
        bitwise_right_shift: floor(x / 2 ** y); as if all bits were shifted out where y is out of that range
    """),
    CoreOp("where", "condition, input, other", "pointwise", m.where, "input where condition is true, else other"),
    CoreOp("cast", "input, dtype", "pointwise", m.cast,
           "convert each element; a float to bool is x != 0, to an integer truncates: toward zero into int32 (int64 "
           "into int64), -2**31 (-2**63) for NaN and what does not fit there, of which the low bits are kept"),
    CoreOp("bitcast", "input, dtype", "pointwise", m.bitcast, "the same bits read as another dtype of the same width"),
    *_rows("reduction", "input, dims, keepdim=False", m.reduction_sum, """
        sum: sum over dims; half precision accumulates in float32, integers in int64
        prod: product over dims, accumulated as sum is
    """),
    *_rows("reduction", "input, dims, keepdim=False", m.reduction_extremum, """
        amax: largest over dims; NaN if any is NaN
        amin: smallest over dims; NaN if any is NaN
    """),
    *_rows("reduction", "input, dims, keepdim=False", m.reduction_bool, """
        any: whether any is nonzero
        all: whether all are nonzero
    """),
    *_rows("reduction", "input, dim, keepdim=False", m.reduction_index, """
        argmax: position of the first largest along dim; the first NaN wins
        argmin: position of the first smallest along dim; the first NaN wins
    """),
    CoreOp("cumsum", "input, dim", "scan", m.scan, "running sum along dim"),
    CoreOp("reshape", "input, shape", "view", m.reshape, "the elements in row-major order under a new shape"),
    CoreOp("permute", "input, dims", "view", m.permute, "dimensions in another order"),
    CoreOp("expand", "input, shape", "view", m.expand, "size-1 and new leading dimensions repeated; -1 keeps a size"),
    CoreOp("slice", "input, dim, start, stop, step=1", "view", m.slice_, "every step-th element of a range of dim"),
    CoreOp("diagonal", "input, offset, dim1, dim2", "view", view_metas.diagonal,
           "out[..., i] = input[i][i + offset] of two dims"),
    CoreOp("unfold", "input, dim, size, step", "view", view_metas.unfold,
           "windows of a dim; their elements are the last dim"),
    CoreOp("as_strided", "input, shape, strides, offset", "view", view_metas.as_strided,
           "out[i, j] = the row-major elements of input at offset + i * strides[0] + j * strides[1]"),
    CoreOp("view_as_real", "input", "view", complex_metas.view_as_real, "the two parts in a new last dimension"),
    CoreOp("view_as_complex", "input", "view", complex_metas.view_as_complex,
           "the numbers whose two parts are the last dimension, which must have stride 1"),
    CoreOp("slice_scatter", "input, src, dim, start, stop, step=1", "movement", m.slice_scatter,
           "a copy of input with the slice replaced by src"),
    CoreOp("flip", "input, dims", "movement", m.flip, "order reversed along dims; a copy"),
    CoreOp("cat", "tensors, dim", "movement", m.cat, "tensors one after another along dim"),
    CoreOp("constant_pad", "input, pads, value", "movement", m.constant_pad,
           "value added before and after each dimension; negative pads crop"),
    CoreOp("gather", "input, dim, index", "indexing", m.gather, "out[i][j] = input[index[i][j]][j] for dim 0"),
    CoreOp("scatter", "input, dim, index, src", "indexing", m.scatter,
           "a copy of input with out[index[i][j]][j] = src[i][j] for dim 0"),
    CoreOp("scatter_add", "input, dim, index, src", "indexing", m.scatter, "as scatter, adding; repeats add up"),
    CoreOp("scatter_reduce", "input, dim, index, src, reduce", "indexing", m.scatter_reduce,
           "as scatter_add with another reduction: prod, amax or amin"),
    CoreOp("sort", "input, dim, descending, stable", "external", m.sort,
           "(values, indices) in order along dim; NaN counts as largest; equal elements keep their order"),
    CoreOp("nonzero", "input", "external", m.nonzero,
           "the places of what is not zero, one row each, int64; eager only, as the data decides the shape"),
    CoreOp("matmul", "input, other", "contraction", m.matmul, "matrix product of the last two dimensions"),
    CoreOp("convolution", "input, weight, stride, padding, dilation, transposed, output_padding, groups", "contraction",
           convolution_metas.convolution,
           "windows of input (N, C, ...) times weight (O, C/groups, ...), summed; transposed: the adjoint of that, "
           "with weight (C, O/groups, ...)"),
    CoreOp("convolution_weight_gradient", "input, grad, kernel_size, stride, padding, dilation, groups", "contraction",
           convolution_metas.convolution_weight_gradient,
           "the gradient of convolution's weight, from its input and its result's gradient"),
    CoreOp("full", "shape, value, dtype, device", "creation", m.full, "every element is value"),
    CoreOp("iota", "length, start, step, dtype, device", "creation", m.iota, "start + i * step"),
    CoreOp("random_bits", "rng, offset, shape", "random", m.random_bits,
           "Philox-4x32-10 words in 0..2**32-1 as int64: key = rng[0], counter = (flat index // 4, rng[1] + offset), "
           "word flat index % 4"),
    CoreOp("clone", "input", "identity", m.clone, "a copy in new storage, dense layout kept"),
    CoreOp("contiguous", "input", "identity", m.contiguous, "row-major; input itself when it already is"),
    CoreOp("average_gradient", "input, limit, group", "identity", collective_ops.copied,
           "the same values; their gradient is the mean over the group, which travels with others up to limit bytes"),
    CoreOp("detach", "input", "identity", m.same, "shares storage; no gradient flows"),
    CoreOp("to_device", "input, device, non_blocking=False", "identity", m.to_device,
           "a copy on another device; input itself if there; non_blocking: the host need not wait for it"),
    *(row for params, meta, text in (*EXTERNAL, *FOURIER) for row in _rows("external", params, meta, text)),
    *(row for params, meta, text in collective_ops.COLLECTIVE for row in _rows("collective", params, meta, text)),
]  # fmt: skip

CORE_OPS: dict[str, CoreOp] = {row.name: complex_metas.refused_unless_listed(row) for row in _TABLE}
assert len(CORE_OPS) == len(_TABLE), "two core operators share a name"

# The only operator that writes. Eager code and captured graphs may use it; functionalize removes it.
COPY_ = CoreOp("copy_", "input, src", "mutation", m.copy_,
               "write src, broadcast and cast, into input's storage; yields input")  # fmt: skip
