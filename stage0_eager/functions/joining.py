"""Tensors taken apart, put side by side, repeated and turned: torch's shape functions beyond the basic views.

Input: tensors. What torch gives as a view is a view here: bodies call the core views, and copies only for what
repeats or reorders elements. The variadic methods (x.repeat(2, 3)) are in tensor_methods.py.
"""

from __future__ import annotations

from stage0_eager.functions.shape import builtin_sum, cat, flip, select, transpose, unsqueeze, view
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor, method
from stage_contracts import core_metas
from stage_contracts import dtype as dt
from stage_contracts.core_metas import broadcast_shapes, wrap_dim

# ---- apart ---------------------------------------------------------------------------------------------------


@method
@operator
def unbind(input, dim=0):
    """Each position of `dim`, without that dimension; views."""
    dim = wrap_dim(dim, input.ndim)
    if not input.ndim:
        raise RuntimeError("Dimension specified as 0 but tensor has no dimensions")
    return tuple(select(input, dim, i) for i in range(input.shape[dim]))


@method
@operator
def tensor_split(input, indices_or_sections, dim=0):
    """Pieces of `dim`: so many, as equal as possible (larger ones first), or cut before the places given. Views."""
    if not input.ndim:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    dim = wrap_dim(dim, input.ndim)
    size = input.shape[dim]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {count}")
        each, larger = size // count, size % count
        cuts = [i * each + min(i, larger) for i in range(count + 1)]
        return tuple(c.slice(input, dim, a, b, 1) for a, b in zip(cuts, cuts[1:], strict=False))
    starts, stops = [None, *indices_or_sections], [*indices_or_sections, None]
    return tuple(c.slice(input, dim, a, b, 1) for a, b in zip(starts, stops, strict=True))


@method
@operator
def unflatten(input, dim, sizes):
    """One dimension as several whose product it is; one of `sizes` may be -1. A view where strides allow."""
    dim = wrap_dim(dim, input.ndim)
    sizes = tuple(sizes)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        sizes = core_metas.infer_shape(sizes, input.shape[dim])
    except RuntimeError:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
            f"({input.shape[dim]}) in the input tensor"
        ) from None
    return c.reshape(input, (*input.shape[:dim], *sizes, *input.shape[dim + 1 :]))


# ---- diagonals -----------------------------------------------------------------------------------------------


@method
@operator
def diagonal(input, offset=0, dim1=0, dim2=1):
    """The diagonal of the planes of dim1 and dim2, as a new last dimension; a view."""
    return c.diagonal(input, offset, dim1, dim2)


@method
@operator
def diag_embed(input, offset=0, dim1=-2, dim2=-1):
    """Square planes, in new dimensions dim1 and dim2, with the last dimension on a diagonal and zeros elsewhere."""
    rank = input.ndim + 1
    dim1, dim2 = wrap_dim(dim1, rank), wrap_dim(dim2, rank)
    if dim1 == dim2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = input.shape[-1] + abs(offset)
    before = max(-offset, 0)
    pads = (*[(0, 0)] * (input.ndim - 1), (before, size - input.shape[-1] - before))
    rows = unsqueeze(c.constant_pad(input, pads, 0), -1)
    i = c.reshape(c.iota(size, offset, 1, dt.int64, input.device), (size, 1))
    here = c.eq(c.iota(size, 0, 1, dt.int64, input.device), i)
    return movedim(c.where(here, rows, c.full((), 0, input.dtype, input.device)), (-2, -1), (dim1, dim2))


@method
@operator
def diag(input, diagonal=0):
    """A vector as the diagonal of a matrix, or a copy of a matrix's diagonal."""
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")
    return c.clone(c.diagonal(input, diagonal, 0, 1))


# ---- the order of dimensions ---------------------------------------------------------------------------------


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
    """The last two dimensions swapped (there are no complex numbers to conjugate)."""
    if input.ndim < 2:
        raise RuntimeError(f"adjoint: expected a matrix or a batch of them, got a {input.ndim}-d tensor")
    return transpose(input, -2, -1)


# ---- together ------------------------------------------------------------------------------------------------


@operator
def atleast_1d(input):
    """A 0-d tensor as one of shape (1,), also in a sequence; others as they are."""
    if isinstance(input, (tuple, list)):
        return tuple(atleast_1d(x) for x in input)
    return input if input.ndim else c.reshape(input, (1,))


@operator
def atleast_2d(input):
    """Leading dimensions added until there are two, also in a sequence."""
    if isinstance(input, (tuple, list)):
        return tuple(atleast_2d(x) for x in input)
    return input if input.ndim >= 2 else c.reshape(input, (1, input.numel()))


@operator
def atleast_3d(input):
    """At least three dimensions: (n,) becomes (1, n, 1) and (n, m) becomes (n, m, 1); also in a sequence."""
    if isinstance(input, (tuple, list)):
        return tuple(atleast_3d(x) for x in input)
    if input.ndim >= 3:
        return input
    return unsqueeze(atleast_2d(input), -1)


@operator
def hstack(tensors):
    """Side by side: along dimension 1, or 0 for vectors."""
    tensors = atleast_1d(_some(tensors, "hstack"))
    return cat(tensors, 0 if tensors[0].ndim == 1 else 1)


@operator
def vstack(tensors):
    """One below the other: along dimension 0, vectors as rows."""
    return cat(atleast_2d(_some(tensors, "vstack")), 0)


@operator
def dstack(tensors):
    """One behind the other: along dimension 2."""
    return cat(atleast_3d(_some(tensors, "dstack")), 2)


@operator
def column_stack(tensors):
    """As hstack, vectors and numbers as columns."""
    tensors = _some(tensors, "column_stack")
    return hstack([c.reshape(x, (x.numel(), 1)) if x.ndim <= 1 else x for x in tensors])


def _some(tensors, name):
    if not tensors:
        raise RuntimeError(f"{name} expects a non-empty TensorList")
    return list(tensors)


@operator
def broadcast_tensors(tensors):
    """All at their common shape, as views. (torch's is variadic: broadcast_tensors(x, y).)"""
    shape = broadcast_shapes(*(x.shape for x in tensors))
    return tuple(c.expand(x, shape) for x in tensors)


# ---- repeated ------------------------------------------------------------------------------------------------


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
    if isinstance(repeats, int):
        if repeats < 0:
            raise RuntimeError("repeats can not be negative")
        split = (*input.shape[: dim + 1], repeats, *input.shape[dim + 1 :])
        out = c.expand(unsqueeze(input, dim + 1), split)
        return c.reshape(c.clone(out), (*input.shape[:dim], size * repeats, *input.shape[dim + 1 :]))
    counts = repeats.tolist() if isinstance(repeats, Tensor) else list(repeats)
    counts = counts if isinstance(counts, list) else [counts]
    if len(counts) != size:
        raise RuntimeError("repeats must have the same size as input along dim")
    if any(n < 0 for n in counts):
        raise RuntimeError("repeats can not be negative")
    if output_size is not None and output_size != builtin_sum(counts):
        raise RuntimeError(f"output_size {output_size} is not the sum of repeats, {builtin_sum(counts)}")
    shape = list(input.shape)
    pieces = []
    for i, n in enumerate(counts):
        shape[dim] = n
        pieces.append(c.expand(c.slice(input, dim, i, i + 1, 1), tuple(shape)))
    return c.cat(pieces, dim) if pieces else c.clone(input)


# ---- turned --------------------------------------------------------------------------------------------------


@method
@operator
def roll(input, shifts, dims=None):
    """Elements moved by `shifts` along `dims`, what leaves at the end coming back at the start."""
    shifts = (shifts,) if isinstance(shifts, int) else tuple(shifts)
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


# ---- shapes taken from another tensor ------------------------------------------------------------------------


@method
@operator
def expand_as(input, other):
    """Expanded to other's shape."""
    return c.expand(input, other.shape)


@method
@operator
def view_as(input, other):
    """A view with other's shape."""
    return view(input, other.shape)


@method
@operator
def reshape_as(input, other):
    """Reshaped to other's shape."""
    return c.reshape(input, other.shape)


@method
@operator
def ravel(input):
    """As one dimension; a view where strides allow."""
    return c.reshape(input, (input.numel(),))
