"""The same elements in another order, or repeated: movedim, swapaxes, repeat, tile, roll, rot90, flips.

Input: a tensor. A result that only permutes dimensions is a view of it.
"""

from __future__ import annotations

from stage0_eager.functions.reductions import in_rows
from stage0_eager.functions.shape import builtin_sum, flip, transpose, unsqueeze
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor, method
from stage_contracts.core_metas import wrap_dim
from stage_contracts.symbolic import SymInt


@method
@operator
def movedim(input, source, destination):
    """Dimensions `source` at places `destination`, the others in their order; a view."""
    rank = input.ndim
    source = [wrap_dim(d, rank) for d in ((source,) if isinstance(source, int) else source)]
    destination = [
        wrap_dim(d, rank) for d in ((destination,) if isinstance(destination, int) else destination)
    ]
    if len(source) != len(destination):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({source} dims) should contain the same number of "
            f"dims as destination ({destination} dims)"
        )
    for name, dims in (("source", source), ("destination", destination)):
        if len(set(dims)) != len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{name}` ({dims})")
    rest = iter([d for d in range(rank) if d not in source])
    given = dict(zip(destination, source, strict=True))
    return c.permute(input, tuple(given[d] if d in given else next(rest) for d in range(rank)))


@method
@operator
def moveaxis(input, source, destination):
    """As movedim."""
    return movedim(input, source, destination)


@method
@operator
def swapaxes(input, axis0, axis1):
    """As transpose."""
    return transpose(input, axis0, axis1)


@method
@operator
def swapdims(input, dim0, dim1):
    """As transpose."""
    return transpose(input, dim0, dim1)


@method
@operator
def adjoint(input):
    """The last two dimensions swapped, and conjugated."""
    if input.ndim < 2:
        raise RuntimeError(f"adjoint: expected a matrix or a batch of them, got a {input.ndim}-d tensor")
    out = transpose(input, -2, -1)
    return c.conj(out) if input.dtype.is_complex else out


@operator
def repeat(input, repeats):
    """The whole tensor so many times along each dimension; extra counts are new leading dimensions."""
    repeats = tuple(repeats)
    lead = len(repeats) - input.ndim
    if lead < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor"
        )
    if any(n < 0 for n in repeats):
        raise RuntimeError(f"Trying to create tensor with negative dimension: repeats {list(repeats)}")
    input = in_rows(input)
    sizes = (*[1] * lead, *input.shape)
    apart, spread, together = [], [], []
    for n, size in zip(repeats, sizes, strict=True):
        apart += [1, size]
        spread += [n, size]
        together.append(n * size)
    out = c.expand(c.reshape(input, tuple(apart)), tuple(spread))
    return c.reshape(c.clone(out), tuple(together))  # clone: never a view, also where nothing is repeated


@operator
def tile(input, dims):
    """As repeat; missing counts are 1, for the leading dimensions."""
    dims = tuple(dims)
    return repeat(input, (*[1] * (input.ndim - len(dims)), *dims))


def _counts(repeats, size, output_size):
    """A count for each of `size` elements."""
    counts = repeats.tolist() if isinstance(repeats, Tensor) else list(repeats)
    counts = counts if isinstance(counts, list) else [counts]
    if len(counts) != size:
        raise RuntimeError("repeats must have the same size as input along dim")
    if any(n < 0 for n in counts):
        raise RuntimeError("repeats can not be negative")
    if output_size is not None and output_size != builtin_sum(counts):
        raise RuntimeError(f"output_size {output_size} is not the sum of repeats, {builtin_sum(counts)}")
    return counts


@method
@operator
def repeat_interleave(input, repeats, dim=None, *, output_size=None):
    """Each element (or slice of `dim`) so many times in place. A tensor of counts makes the size depend on data."""
    if dim is None:
        input, dim = c.reshape(input, (input.numel(),)), 0
    dim = wrap_dim(dim, input.ndim)
    size = input.shape[dim]
    if isinstance(repeats, Tensor) and repeats.numel() == 1 and size != 1:
        repeats = int(repeats)
    if isinstance(repeats, (int, SymInt)):
        if repeats < 0:  # type: ignore[operator]
            raise RuntimeError("repeats can not be negative")
        split = (*input.shape[: dim + 1], repeats, *input.shape[dim + 1 :])
        out = c.expand(unsqueeze(in_rows(input), dim + 1), split)
        return c.reshape(c.clone(out), (*input.shape[:dim], size * repeats, *input.shape[dim + 1 :]))
    counts = _counts(repeats, size, output_size)
    shape = list(input.shape)
    pieces = []
    for i, n in enumerate(counts):
        shape[dim] = n
        pieces.append(c.expand(c.slice(input, dim, i, i + 1, 1), tuple(shape)))
    return c.cat(pieces, dim) if pieces else c.clone(input)


@method
@operator
def roll(input, shifts, dims=None):
    """Elements moved by `shifts` along `dims`, what leaves at the end coming back at the start."""
    shifts = tuple(shifts) if isinstance(shifts, (list, tuple)) else (shifts,)
    dims = () if dims is None else (dims,) if isinstance(dims, int) else tuple(dims)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if not dims and len(shifts) == 1:
        flat = c.reshape(input, (input.numel(),))
        return c.reshape(roll(flat, shifts, 0), input.shape)
    if len(dims) != len(shifts):
        raise RuntimeError(f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}")
    out = input
    for shift, dim in zip(shifts, dims, strict=True):
        dim = wrap_dim(dim, input.ndim)
        if input.ndim == 0 or input.numel() == 0:
            continue
        cut = -shift % input.shape[dim]
        out = c.cat([c.slice(out, dim, cut, None, 1), c.slice(out, dim, 0, cut, 1)], dim)
    return c.clone(out) if out is input else out


@method
@operator
def rot90(input, k=1, dims=(0, 1)):
    """Turned by k quarters in the plane of `dims`, from the first towards the second."""
    dims = tuple(dims)
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if input.ndim < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {input.ndim}")
    a, b = (wrap_dim(d, input.ndim) for d in dims)
    if a == b:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    if k % 4 == 1:
        return transpose(flip(input, (b,)), a, b)
    if k % 4 == 2:
        return flip(input, (a, b))
    if k % 4 == 3:
        return transpose(flip(input, (a,)), a, b)
    return c.clone(input)


@method
@operator
def fliplr(input):
    """Columns in the other order."""
    if input.ndim < 2:
        raise RuntimeError("Input must be >= 2-d.")
    return flip(input, (1,))


@method
@operator
def flipud(input):
    """Rows in the other order."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, (0,))
