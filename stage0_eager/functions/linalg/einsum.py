"""einsum and the products that reduce to it: an equation parsed, then permute, reshape and one matmul per operand.

Input: an equation such as "bij,bjk->bik" (with "...", repeated letters and implicit outputs) and tensors.
A pair of operands becomes (batch, kept left, summed) @ (batch, summed, kept right).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stage0_eager.functions.in_float32 import in_float32
from stage0_eager.functions.linalg.products import addmm, blend, bmm, matmul, mm, summed
from stage0_eager.functions.promotion import in_common, same_dtype
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import method
from stage_contracts import dtype as dt


def _product(sizes: Sequence[Any]) -> Any:
    total: Any = 1
    for s in sizes:
        total = total * s
    return total


def _extra(term: str, letters: str, rank: int) -> int:
    """How many dimensions a term's ellipsis stands for."""
    extra = rank - len(letters)
    if extra < 0 or (extra and "..." not in term):
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({len(letters)}) does not match the number of "
            f"dimensions ({rank}) for an operand and no ellipsis was given"
        )
    return extra


def parse(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """The letters of each operand and of the output. Ellipsis dimensions get names "0", "1", ... from the right."""
    equation = equation.replace(" ", "")
    left, arrow, right = equation.partition("->")
    terms = left.split(",")
    if len(terms) != len(ranks):
        raise ValueError(
            f"einsum(): more operands were provided than specified in the equation, or fewer: {equation!r} with "
            f"{len(ranks)} operands"
        )
    widest = 0
    operands = []
    for term, rank in zip(terms, ranks, strict=True):
        letters = term.replace("...", "")
        if not (letters.isalpha() or not letters) or term.count("...") > 1:
            raise ValueError(f"einsum(): invalid subscript given in {term!r}; subscripts must be in [a-zA-Z]")
        extra = _extra(term, letters, rank)
        widest = max(widest, extra)
        dots = [str(i) for i in reversed(range(extra))]
        before, _, after = term.partition("...")
        operands.append([*before, *dots, *after])
    dots = [str(i) for i in reversed(range(widest))]
    if arrow:
        before, found, after = right.partition("...")
        output = [*before, *(dots if found else []), *after]
    else:
        seen = [x for term in terms for x in term.replace("...", "")]
        output = dots + sorted(x for x in set(seen) if seen.count(x) == 1)
    _check_output(output, {x for letters in operands for x in letters})
    return operands, output


def _check_output(output: list[str], known: set[str]) -> None:
    for x in output:
        if output.count(x) > 1:
            raise RuntimeError(f"einsum(): output subscript {x} appears more than once in the output")
        if x not in known:
            raise RuntimeError(
                f"einsum(): output subscript {x} does not appear in the equation for any input operand"
            )


def _diagonal(x: Any, names: list[str]) -> tuple[Any, list[str]]:
    """Repeated letters made one: off-diagonal elements become zero and are summed away."""
    while len(set(names)) < len(names):
        name = next(n for n in names if names.count(n) > 1)
        i, j = [k for k, n in enumerate(names) if n == name][:2]
        if x.shape[i] != x.shape[j]:
            raise RuntimeError(
                f"einsum(): subscript {name} is repeated but the sizes don't match: {tuple(x.shape)}"
            )

        def ids(at: int, ndim: int = x.ndim, size: Any = x.shape[i], device: Any = x.device) -> Any:
            shape = tuple(size if k == at else 1 for k in range(ndim))
            return c.reshape(c.iota(size, 0, 1, dt.int64, device), shape)

        x = summed(c.where(c.eq(ids(i), ids(j)), x, 0), (j,))
        names = names[:j] + names[j + 1 :]
    return x, names


def _sum_out(x: Any, names: list[str], keep: set[str]) -> tuple[Any, list[str]]:
    dims = tuple(i for i, n in enumerate(names) if n not in keep)
    return (summed(x, dims), [n for n in names if n in keep]) if dims else (x, names)


def _arranged(x: Any, names: list[str], order: list[str]) -> Any:
    """x with a dimension per name of `order`; a name it lacks has size 1."""
    have = [n for n in order if n in names]
    x = c.permute(x, tuple(names.index(n) for n in have)) if have != names else x
    if len(have) == len(order):
        return x
    sizes = iter(x.shape)
    return c.reshape(x, tuple(next(sizes) if n in names else 1 for n in order))


def _sizes_of(a: Any, a_names: list[str], b: Any, b_names: list[str], shared: list[str]) -> dict[str, Any]:
    """The size that each name stands for, of two operands that broadcast."""
    size = {n: s for names, x in ((b_names, b), (a_names, a)) for n, s in zip(names, x.shape, strict=True)}
    for n in shared:
        one, two = a.shape[a_names.index(n)], b.shape[b_names.index(n)]
        if one != two and one != 1 and two != 1:
            raise RuntimeError(
                f"einsum(): operands do not broadcast with remapped shapes: subscript {n} has sizes {one} and {two}"
            )
        size[n] = two if isinstance(one, int) and one == 1 else one
    return size


def _pair(a: Any, a_names: list[str], b: Any, b_names: list[str], keep: set[str]) -> tuple[Any, list[str]]:
    """The product of two operands, summed over what neither the output nor a later operand names."""
    a, a_names = _sum_out(a, a_names, keep | set(b_names))
    b, b_names = _sum_out(b, b_names, keep | set(a_names))
    shared = [n for n in a_names if n in b_names]
    size = _sizes_of(a, a_names, b, b_names, shared)
    summed = [n for n in shared if n not in keep]
    batch = [n for n in shared if n in keep]
    rows, columns = [n for n in a_names if n not in shared], [n for n in b_names if n not in shared]
    if not summed:
        order = batch + rows + columns
        return c.mul(_arranged(a, a_names, order), _arranged(b, b_names, order)), order

    def full(x: Any, names: list[str], order: list[str]) -> Any:
        x, want = _arranged(x, names, order), tuple(size[n] for n in order)
        return x if tuple(x.shape) == want else c.expand(x, want)

    def sizes(names: list[str]) -> Any:
        return [size[n] for n in names]

    left = full(a, a_names, batch + rows + summed)
    right = full(b, b_names, batch + summed + columns)
    flat = [_product(sizes(names)) for names in (batch, rows, summed, columns)]
    lead = (flat[0],) if batch else ()
    left = c.reshape(left, (*lead, flat[1], flat[2]))
    right = c.reshape(right, (*lead, flat[2], flat[3]))
    order = batch + rows + columns
    return c.reshape(c.matmul(left, right), tuple(sizes(order))), order


@operator
def einsum_of(equation, operands):
    """einsum with its operands in one list."""
    operands = list(operands)
    names, output = parse(equation, [x.ndim for x in operands])
    out, have = _diagonal(operands[0], names[0])
    for i in range(1, len(operands)):
        other, other_names = _diagonal(operands[i], names[i])
        keep = {*output, *(n for later in names[i + 1 :] for n in later)}
        out, have = _pair(out, have, other, other_names, keep)
    out, have = _sum_out(out, have, set(output))
    return c.permute(out, tuple(have.index(n) for n in output)) if have != output else out


def einsum(equation: str, *operands: Any) -> Any:
    """Sums of products of elements by Einstein's convention: einsum("bij,bjk->bik", a, b)."""
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    return einsum_of(equation, list(operands))


@method
@operator
def mv(input, vec):
    """Matrix (n, m) times vector (m,)."""
    if input.ndim != 2 or vec.ndim != 1:
        raise RuntimeError(f"vector + matrix @ vector expected, got {vec.ndim}, {input.ndim}, {vec.ndim}")
    return matmul(input, vec)


@method
@operator
def addmv(input, mat, vec, *, beta=1, alpha=1):
    """beta * input + alpha * (mat @ vec)."""
    return blend(mv, input, mat, vec, beta, alpha)


@method
@operator
def baddbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """beta * input + alpha * (batch1 @ batch2), over a batch of matrices."""
    return blend(bmm, input, batch1, batch2, beta, alpha)


@method
@operator
def addbmm(input, batch1, batch2, *, beta=1, alpha=1):
    """beta * input + alpha * the sum over the batch of batch1 @ batch2."""
    return blend(_sum_of_products, input, batch1, batch2, beta, alpha)


@method
@operator
def addr(input, vec1, vec2, *, beta=1, alpha=1):
    """beta * input + alpha * the outer product of two vectors."""
    input, vec1, vec2 = in_common(input, vec1, vec2)
    return blend(_outer, input, vec1, vec2, beta, alpha)


def _outer(vec1, vec2):
    return c.mul(c.reshape(vec1, (vec1.shape[0], 1)), vec2)


@in_float32
def _sum_of_products(batch1, batch2):
    return summed(bmm(batch1, batch2), (0,))


@method
@operator
def matrix_power(input, n):
    """The n-th power of square matrices by repeated squaring; of the inverse where n < 0."""
    if input.ndim < 2 or input.shape[-1] != input.shape[-2]:
        raise RuntimeError(
            f"linalg.matrix_power: A must be batches of square matrices, but they are {tuple(input.shape)}"
        )
    if n < 0:
        input, n = c.inv(input), -n
    if n == 1:
        return c.clone(input)
    if n == 0:
        size = input.shape[-1]
        i = c.iota(size, 0, 1, dt.int64, input.device)
        return c.expand(c.cast(c.eq(c.reshape(i, (size, 1)), i), input.dtype), input.shape)
    out, square = None, input
    while n:
        if n & 1:
            out = square if out is None else c.matmul(out, square)
        n >>= 1
        square = c.matmul(square, square) if n else square
    return out


@method
@operator
def inner(input, other):
    """Sum of products over the last dimension of both: (..., n) and (*, n) give (..., *)."""
    if input.ndim == 0 or other.ndim == 0:
        return c.mul(input, other)
    return tensordot(input, other, ((input.ndim - 1,), (other.ndim - 1,)))


@operator
def tensordot(a, b, dims=2):
    """Sum over the last `dims` of a and the first of b, or over two lists of dims, in order. A size of 1 broadcasts."""
    if isinstance(dims, int):
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        dims = (tuple(range(a.ndim - dims, a.ndim)), tuple(range(dims)))
    left, right = ([d % x.ndim for d in ds] for x, ds in zip((a, b), dims, strict=True))
    if len(left) != len(right):
        raise RuntimeError("both dimension lists should have same length")
    for i, j in zip(left, right, strict=True):
        if a.shape[i] == b.shape[j]:
            continue
        if a.shape[i] == 1:
            b = c.cast(c.sum(b, (j,), True), b.dtype)
        elif b.shape[j] == 1:
            a = c.cast(c.sum(a, (i,), True), a.dtype)
        else:
            raise RuntimeError(f"contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and "
                               f"second has size {b.shape[j]} in dim {j}")  # fmt: skip
    rows = [d for d in range(a.ndim) if d not in left]
    columns = [d for d in range(b.ndim) if d not in right]
    summed = _product([a.shape[d] for d in left])
    row_sizes, column_sizes = [a.shape[d] for d in rows], [b.shape[d] for d in columns]
    one = c.reshape(c.permute(a, (*rows, *left)), (_product(row_sizes), summed))
    two = c.reshape(c.permute(b, (*right, *columns)), (summed, _product(column_sizes)))
    return c.reshape(c.matmul(one, two), (*row_sizes, *column_sizes))


@method
@operator
def kron(input, other):
    """Kronecker product: sizes multiply, the shorter shape padded with leading ones."""
    rank = max(input.ndim, other.ndim)
    a, b = ((*([1] * (rank - x.ndim)), *x.shape) for x in (input, other))
    left = c.reshape(input, tuple(s for size in a for s in (size, 1)))
    right = c.reshape(other, tuple(s for size in b for s in (1, size)))
    return c.reshape(c.mul(left, right), tuple(x * y for x, y in zip(a, b, strict=True)))


@method
@operator
def trace(input):
    """Sum of a matrix's diagonal."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    rows, columns = input.shape
    i = c.reshape(c.iota(rows, 0, 1, dt.int64, input.device), (rows, 1))
    return c.sum(c.where(c.eq(i, c.iota(columns, 0, 1, dt.int64, input.device)), input, 0), (0, 1), False)


@operator
@in_float32
def bilinear(input1, input2, weight, bias=None):
    """out[..., k] = input1 @ weight[k] @ input2 + bias[k]; weight is (out, in1, in2)."""
    same_dtype("bilinear", input1, input2, weight, bias)
    out_features, in1, in2 = weight.shape
    if input1.shape[-1] != in1 or input2.shape[-1] != in2:
        raise RuntimeError(
            f"bilinear(): input sizes do not match weight size: got {input1.shape[-1]}, {input2.shape[-1]} but "
            f"expected {in1}, {in2}"
        )
    lead = tuple(input1.shape[:-1])
    rows = _product(lead)
    x = c.reshape(input1, (rows, in1))
    flat = mm(x, c.reshape(c.permute(weight, (1, 0, 2)), (in1, out_features * in2)))
    pairs = c.reshape(flat, (rows, out_features, in2))
    out = c.sum(c.mul(pairs, c.reshape(input2, (rows, 1, in2))), (2,), False)
    out = c.reshape(out, (*lead, out_features))
    return out if bias is None else c.add(out, bias)


__all__ = ["addbmm", "addmm", "addmv", "addr", "baddbmm", "bilinear", "einsum", "einsum_of", "inner", "kron",
           "matrix_power", "mv", "parse", "tensordot", "trace"]  # fmt: skip
