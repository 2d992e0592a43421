"""Meta rules: from the TensorMetas of a core operator's arguments to the TensorMeta of its result.

Input: the operator's arguments, with a TensorMeta in place of each tensor. The rules touch no data and work on symbolic
sizes. They raise the same errors as eager (RuntimeError for shapes, IndexError for dimensions, TypeError). The table in
core_ops.py names the rule of each operator; many operators share one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stage_contracts import dtype as dt
from stage_contracts.breaks import Unsupported
from stage_contracts.device import Device
from stage_contracts.dtype import DType, result_type, scalar_dtype
from stage_contracts.layouts import elementwise_strides, view_strides
from stage_contracts.symbolic import hinted, same_size, statically_known_true
from stage_contracts.tensor_meta import TensorMeta
from stage_contracts.unbacked import expect

# ---- helpers that eager kernels and lowering use too ---------------------------------------------------------


def broadcast_shapes(*shapes: Sequence[Any]) -> tuple[Any, ...]:
    """The common shape, right-aligned. Raises RuntimeError as torch does when two sizes clash."""
    first = next(iter(shapes), ())
    if all(s is first or (len(s) == len(first) and all(map(same_size, s, first))) for s in shapes):
        return tuple(first)
    rank = max((len(s) for s in shapes), default=0)
    # dimensions that only one of the shapes has
    alone = [sum(len(s) >= rank - i for s in shapes) == 1 for i in range(rank)]
    result: list[Any] = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, start=rank - len(shape)):
            common = size if alone[i] else _common_size(result[i], size)
            if common is None:
                raise RuntimeError(
                    f"The size of tensor a ({result[i]}) must match the size of tensor b ({size}) at "
                    f"non-singleton dimension {i}; got shapes {', '.join(map(str, map(tuple, shapes)))}"
                )
            result[i] = common
    return tuple(result)


def _common_size(a: Any, b: Any) -> Any:
    """The size that two sizes broadcast to; None if they do not. The last comparison of open sizes becomes a guard."""
    if same_size(a, b) or same_size(b, 1):
        return a
    if same_size(a, 1):
        return b
    if hinted(a) == hinted(b) and a == b:  # the usual case
        return a if isinstance(a, int) else b
    if b == 1:
        return a
    if a == 1:
        return b
    expect(same := a == b)  # only the data knows: checked when the program runs
    return b if statically_known_true(same) else None


def wrap_dim(dim: int, rank: int) -> int:
    """A dimension as a non-negative number: -1 is the last one. A 0-d tensor accepts 0 and -1. Raises IndexError."""
    limit = max(rank, 1)
    if not -limit <= dim < limit:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim})"
        )
    return dim % limit


def tensors_in(args: Sequence[Any]) -> list[TensorMeta]:
    return [a for a in args if isinstance(a, TensorMeta)]


def common_device(metas: Sequence[TensorMeta]) -> Device:
    """The device of all operands. Only 0-d CPU tensors may be on another device. Raises RuntimeError."""
    devices = dict.fromkeys(m.device for m in metas if m.ndim or m.device.type != "cpu")
    if len(devices) > 1:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two devices, "
            f"{' and '.join(map(str, devices))}"
        )
    return next(iter(devices), metas[0].device)


def promoted_dtype(args: Sequence[Any]) -> DType:
    """The dtype of elementwise arithmetic on these operands (metas and Python scalars)."""
    return result_type(
        (a.dtype, dt.DIMENSIONED if a.ndim else dt.ZERO_DIM)
        if isinstance(a, TensorMeta)
        else (scalar_dtype(a), dt.SCALAR)
        for a in args
        if a is not None
    )


# ---- rules ---------------------------------------------------------------------------------------------------


def elementwise(args: Sequence[Any], dtype: DType) -> TensorMeta:
    metas = tensors_in(args)
    shape = broadcast_shapes(*(m.shape for m in metas))
    return TensorMeta(shape, dtype, elementwise_strides(shape, metas), common_device(metas))


def pointwise(*args: Any) -> TensorMeta:
    """Broadcast and promote; the result has the promoted dtype."""
    return elementwise(args, promoted_dtype(args))


def pointwise_float(*args: Any) -> TensorMeta:
    """The same as pointwise, but integers and bools become the default floating dtype (sin, exp, true division)."""
    dtype = promoted_dtype(args)
    return elementwise(args, dtype if dtype.is_differentiable else dt.DEFAULT_DTYPE.dtype)


def computes_in_floats(rule: Any) -> bool:
    """Whether a row with this rule computes integers in the default floating dtype."""
    return getattr(rule, "__wrapped__", rule) is pointwise_float


def pointwise_no_bool(*args: Any) -> TensorMeta:
    """The same as pointwise, but raises for bool tensors (subtraction, negation)."""
    if any(m.dtype is dt.bool_ for m in tensors_in(args)):
        raise RuntimeError(
            "subtraction and negation of bool tensors are not supported; use logical_xor (^) or logical_not (~)"
        )
    return pointwise(*args)


def pointwise_number(*args: Any) -> TensorMeta:
    """The same as pointwise, for integers and floats only (floor division, remainders, powers)."""
    if promoted_dtype(args) is dt.bool_:
        raise NotImplementedError("this operator is not implemented for bool; cast to an integer dtype first")
    return pointwise(*args)


def pointwise_integral(*args: Any) -> TensorMeta:
    """The same as pointwise, for integers and bools only (bitwise operators)."""
    if promoted_dtype(args).is_floating_point:
        raise NotImplementedError(
            f"bitwise operators are implemented for integers and bools, not for {promoted_dtype(args).name}"
        )
    return pointwise(*args)


def pointwise_shift(*args: Any) -> TensorMeta:
    """The same as pointwise, for integers only."""
    if promoted_dtype(args) is dt.bool_:
        return pointwise_number(*args)  # raises
    return pointwise_integral(*args)


def predicate(*args: Any) -> TensorMeta:
    """Broadcast; the result is bool (comparisons, isnan, logical operators)."""
    promoted_dtype(args)
    return elementwise(args, dt.bool_)


def where(condition: TensorMeta, input: Any, other: Any) -> TensorMeta:
    if condition.dtype is not dt.bool_:
        raise RuntimeError(f"where expected condition to be a bool tensor, got {condition.dtype.name}")
    return elementwise((condition, input, other), promoted_dtype((input, other)))


def cast(input: TensorMeta, dtype: DType) -> TensorMeta:
    return elementwise((input,), dtype)


def check_bitcast(given: DType, dtype: DType) -> None:
    if given.itemsize != dtype.itemsize or dt.bool_ in (given, dtype):
        raise RuntimeError(
            f"bitcast expects a dtype of the same width that is not bool, but {given.name} has {8 * given.itemsize} "
            f"bits and {dtype.name} has {8 * dtype.itemsize}"
        )


def bitcast(input: TensorMeta, dtype: DType) -> TensorMeta:
    check_bitcast(input.dtype, dtype)
    return elementwise((input,), dtype)


def same(input: TensorMeta, *_: Any) -> TensorMeta:
    return input.with_(requires_grad=False, strides=input.strides)


def copy_(input: TensorMeta, src: TensorMeta) -> TensorMeta:
    """The result is the tensor that was written to. src must broadcast to it."""
    expand(src, input.shape)
    return same(input)


def clone(input: TensorMeta) -> TensorMeta:
    return elementwise((input,), input.dtype)


def contiguous(input: TensorMeta) -> TensorMeta:
    if input.is_contiguous:
        return same(input)
    return TensorMeta(input.shape, input.dtype, None, input.device)


def reduced_shape(shape: Sequence[Any], dims: Sequence[int], keepdim: bool) -> tuple[Any, ...]:
    wrapped = {wrap_dim(d, len(shape)) for d in dims}
    if len(wrapped) != len(dims):
        raise RuntimeError(f"dim appears multiple times in the list of dims: {tuple(dims)}")
    return tuple(1 if i in wrapped else s for i, s in enumerate(shape) if keepdim or i not in wrapped)


def _need_elements(input: TensorMeta, dims: Sequence[int]) -> None:
    for dim in dims:
        if input.ndim and input.shape[wrap_dim(dim, input.ndim)] == 0:
            raise IndexError(f"Expected reduction dim {dim} to have non-zero size, got shape {input.shape}")


def reduction_extremum(input: TensorMeta, dims: tuple[int, ...], keepdim: bool = False) -> TensorMeta:
    """The same as reduction (amax, amin). Raises for a reduced dimension of size 0, which has no largest element."""
    _need_elements(input, dims)
    return reduction(input, dims, keepdim)


def reduction(input: TensorMeta, dims: tuple[int, ...], keepdim: bool = False) -> TensorMeta:
    """A reduction whose result has the dtype of the input."""
    return TensorMeta(reduced_shape(input.shape, dims, keepdim), input.dtype, device=input.device)


def reduction_sum(input: TensorMeta, dims: tuple[int, ...], keepdim: bool = False) -> TensorMeta:
    """A reduction whose result is int64 for bools and integers (sum, prod)."""
    dtype = input.dtype if input.dtype.is_differentiable else dt.int64
    return reduction(input, dims, keepdim).with_(dtype=dtype)


def reduction_bool(input: TensorMeta, dims: tuple[int, ...], keepdim: bool = False) -> TensorMeta:
    return reduction(input, dims, keepdim).with_(dtype=dt.bool_)


def reduction_index(input: TensorMeta, dim: int, keepdim: bool = False) -> TensorMeta:
    """A reduction whose result is a position along one dimension, int64 (argmax, argmin)."""
    _need_elements(input, (dim,))
    return reduction(input, (dim,), keepdim).with_(dtype=dt.int64)


def scan(input: TensorMeta, dim: int) -> TensorMeta:
    wrap_dim(dim, input.ndim)
    dtype = input.dtype if input.dtype.is_differentiable else dt.int64
    return TensorMeta(input.shape, dtype, device=input.device)


def infer_shape(shape: Sequence[Any], numel: Any) -> tuple[Any, ...]:
    """Replace a -1 by the size that follows from the number of elements. Raises RuntimeError as torch's reshape
    does."""
    known: Any = 1
    for size in shape:
        known = known if isinstance(size, int) and size == -1 else known * size
    unknown = [i for i, size in enumerate(shape) if isinstance(size, int) and size == -1]
    if len(unknown) > 1:
        raise RuntimeError(f"only one dimension can be inferred, got shape {tuple(shape)}")
    if (unknown and (known == 0 or numel % known != 0)) or (not unknown and known != numel):
        raise RuntimeError(f"shape '{list(shape)}' is invalid for input of size {numel}")
    return tuple(numel // known if i in unknown else size for i, size in enumerate(shape))


def reshape(input: TensorMeta, shape: tuple[Any, ...]) -> TensorMeta:
    """A view if the strides allow it, otherwise a row-major copy."""
    shape = infer_shape(shape, input.numel)
    return input.with_(shape=shape, strides=view_strides(input, shape), requires_grad=False)


def permute(input: TensorMeta, dims: tuple[int, ...]) -> TensorMeta:
    order = [wrap_dim(d, input.ndim) for d in dims]
    if sorted(order) != list(range(input.ndim)):
        raise RuntimeError(
            f"permute(): expected dims to name each of the {input.ndim} dimensions once, but got {tuple(dims)}"
        )
    return input.with_(
        shape=tuple(input.shape[d] for d in order),
        strides=tuple(input.strides[d] for d in order),
        requires_grad=False,
    )


def expand(input: TensorMeta, shape: tuple[Any, ...]) -> TensorMeta:
    new = len(shape) - input.ndim
    if new < 0:
        raise RuntimeError(
            f"expand(size={tuple(shape)}): the number of sizes provided ({len(shape)}) must be greater or equal to "
            f"the number of dimensions in the tensor ({input.ndim})"
        )
    sizes, strides = list(shape[:new]), [0] * new
    for size, old, stride in zip(shape[new:], input.shape, input.strides, strict=True):
        keep = (isinstance(size, int) and size == -1) or same_size(size, old)
        broadcasts = same_size(old, 1)
        if not keep and not broadcasts:
            expect(size == old)
        keep = keep or (not broadcasts and bool(size == old))
        if not keep and not broadcasts and old != 1:
            raise RuntimeError(
                f"The expanded size of the tensor ({size}) must match the existing size ({old}) at "
                f"non-singleton dimension {len(sizes)}. Target sizes: {tuple(shape)}. Tensor sizes: {input.shape}"
            )
        sizes.append(old if keep else size)
        # as in NumPy: no index uses the stride of a dimension of size 1
        strides.append(stride if keep and not broadcasts else 0)
    if any(isinstance(size, int) and size < 0 for size in sizes[:new]):
        raise RuntimeError(
            f"expand(size={tuple(shape)}): the expanded size of the tensor (-1) isn't allowed in a leading, "
            "non-existing dimension; give the new dimension a size"
        )
    return input.with_(shape=tuple(sizes), strides=tuple(strides), requires_grad=False)


def slice_bounds(size: Any, start: Any, stop: Any, step: int) -> tuple[Any, Any, Any]:
    """(start, stop, length) with Python's clamping for `step > 0`. Raises ValueError for other steps."""
    if step <= 0:
        raise ValueError(f"step must be greater than zero, got {step}")

    def clamp(v: Any) -> Any:
        at = v + size if v < 0 else v
        return 0 if at < 0 else at if at <= size else size

    low = 0 if start is None else clamp(start)
    high = size if stop is None else clamp(stop)
    high = high if high >= low else low
    return low, high, -(-(high - low) // step)


def slice_(input: TensorMeta, dim: int, start: Any, stop: Any, step: int = 1) -> TensorMeta:
    dim = wrap_dim(dim, input.ndim)
    _, _, length = slice_bounds(input.shape[dim], start, stop, step)
    shape, strides = list(input.shape), list(input.strides)
    shape[dim], strides[dim] = length, strides[dim] * step
    return input.with_(shape=tuple(shape), strides=tuple(strides), requires_grad=False)


def slice_scatter(
    input: TensorMeta, src: TensorMeta, dim: int, start: Any, stop: Any, step: int = 1
) -> TensorMeta:
    window = slice_(input, dim, start, stop, step)
    if window.shape != src.shape:
        raise RuntimeError(f"slice_scatter: expected src of shape {window.shape}, got {src.shape}")
    return clone(input)


def flip(input: TensorMeta, dims: tuple[int, ...]) -> TensorMeta:
    for dim in dims:
        wrap_dim(dim, input.ndim)
    return clone(input)


def cat(tensors: Sequence[TensorMeta], dim: int) -> TensorMeta:
    if not tensors:
        raise RuntimeError("torch.cat(): expected a non-empty list of Tensors")
    dim = wrap_dim(dim, tensors[0].ndim)
    first = tensors[0]
    for t in tensors:
        same_elsewhere = t.ndim == first.ndim and all(
            a == b for i, (a, b) in enumerate(zip(t.shape, first.shape, strict=False)) if i != dim
        )
        if not same_elsewhere:
            raise RuntimeError(
                f"Sizes of tensors must match except in dimension {dim}, but got {first.shape} and {t.shape}"
            )
    total: Any = 0
    for t in tensors:
        total = total + t.shape[dim]
    shape = tuple(total if i == dim else s for i, s in enumerate(first.shape))
    return TensorMeta(shape, promoted_dtype(tensors), device=common_device(tensors))


def crop(pad: Any) -> Any:
    """The part of a pad that removes elements: a negative number, or 0."""
    return 0 if statically_known_true(pad >= 0) else min(pad, 0)


def constant_pad(input: TensorMeta, pads: tuple[tuple[int, int], ...], value: Any) -> TensorMeta:
    """`pads` has one (before, after) pair per dimension; negative pads crop."""
    dt.check_number(value, input.dtype)
    shape = tuple(s + low + high for s, (low, high) in zip(input.shape, pads, strict=True))
    left = [s + crop(low) + crop(high) for s, (low, high) in zip(input.shape, pads, strict=True)]
    if any(bool(s < 0) for s in left):  # for an open size this adds a guard, because eager raises
        raise RuntimeError(
            f"constant_pad: the negative pads in {pads} remove more than the size of a dimension of {input.shape}"
        )
    return TensorMeta(shape, input.dtype, device=input.device)


def gather(input: TensorMeta, dim: int, index: TensorMeta) -> TensorMeta:
    wrap_dim(dim, input.ndim)
    if index.dtype is not dt.int64:
        raise RuntimeError(f"gather(): Expected dtype int64 for index, got {index.dtype.name}")
    if index.ndim != input.ndim:
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as input tensor, but got {index} and {input}"
        )
    return TensorMeta(index.shape, input.dtype, device=input.device)


def scatter(input: TensorMeta, dim: int, index: TensorMeta, src: TensorMeta) -> TensorMeta:
    gather(input, dim, index)
    if src.dtype is not input.dtype:
        seen = f"{input.dtype.name}, {src.dtype.name}"
        raise RuntimeError(f"scatter(): Expected self.dtype to be equal to src.dtype: {seen}")
    return clone(input)


def scatter_reduce(
    input: TensorMeta, dim: int, index: TensorMeta, src: TensorMeta, reduce: str
) -> TensorMeta:
    if reduce not in ("prod", "amax", "amin"):
        raise RuntimeError(
            f"core.scatter_reduce expects reduce to be 'prod', 'amax' or 'amin', but got {reduce!r}"
        )
    return scatter(input, dim, index, src)


def sort(input: TensorMeta, dim: int, descending: bool, stable: bool) -> tuple[TensorMeta, TensorMeta]:
    """Values and indices, both row-major."""
    wrap_dim(dim, input.ndim)
    values = TensorMeta(input.shape, input.dtype, device=input.device)
    return values, values.with_(dtype=dt.int64)


def nonzero(input: TensorMeta) -> TensorMeta:
    raise Unsupported("the size of what nonzero or a boolean mask picks", code="GB0014")


def matmul(input: TensorMeta, other: TensorMeta) -> TensorMeta:
    """Matrix product over the last two dimensions of operands of rank 2 or more; the rest broadcasts."""
    if input.ndim < 2 or other.ndim < 2:
        raise RuntimeError(
            f"core.matmul expects operands with at least 2 dimensions, but got {input.shape} and {other.shape}"
        )
    if input.dtype is not other.dtype:
        raise RuntimeError(
            f"expected m1 and m2 to have the same dtype, but got: {input.dtype.name} != {other.dtype.name}"
        )
    if input.dtype is dt.bool_:
        raise NotImplementedError("matmul is not implemented for bool; cast to an integer dtype first")
    if input.shape[-1] != other.shape[-2]:
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({input.shape[-2]}x{input.shape[-1]} and "
            f"{other.shape[-2]}x{other.shape[-1]})"
        )
    batch = broadcast_shapes(input.shape[:-2], other.shape[:-2])
    shape = (*batch, input.shape[-2], other.shape[-1])
    return TensorMeta(shape, input.dtype, device=common_device((input, other)))


def full(shape: tuple[Any, ...], value: Any, dtype: DType, device: Device) -> TensorMeta:
    no_negative_sizes(shape)
    dt.check_number(value, dtype)
    return TensorMeta(shape, dtype, device=device)


def no_negative_sizes(shape: tuple[Any, ...]) -> None:
    """Raise RuntimeError for a size that is known to be below 0."""
    for size in shape:
        if isinstance(size, int) and size < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {size}: {list(shape)}")


def iota(length: Any, start: Any, step: Any, dtype: DType, device: Device) -> TensorMeta:
    return TensorMeta((length,), dtype, device=device)


def random_bits(rng: TensorMeta, offset: int, shape: tuple[Any, ...]) -> TensorMeta:
    """`rng` is int64[2]: (seed, call counter)."""
    if rng.dtype is not dt.int64 or rng.shape != (2,):
        raise RuntimeError(f"expected the random state to be int64[2] (seed and counter), but got {rng}")
    no_negative_sizes(shape)
    return TensorMeta(shape, dt.int64, device=rng.device)


def to_device(input: TensorMeta, device: Device, non_blocking: bool = False) -> TensorMeta:
    moved = elementwise((input,), input.dtype)
    return moved.with_(device=device, strides=(input if input.device == device else moved).strides)
