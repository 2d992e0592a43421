"""Methods of Tensor that are a few lines over others: put, index_reduce_, as_strided_scatter, apply_, dim_order, ...

Input: a tensor, and the arguments that torch's method of this name takes. They are plain Python, so that capture
follows them and the tape differentiates them; the functions among them are names of torch too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from stage0_eager.functions import creation, gather_scatter, joining, other_operations, special
from stage0_eager.tensor import Tensor, attribute, method
from stage_contracts import dtype as dt

# ---- places in a tensor --------------------------------------------------------------------------------------------


@method
def index_reduce(
    input: Tensor, dim: int, index: Tensor, source: Tensor, reduce: str, *, include_self: bool = True
) -> Tensor:
    """input, with the slices of source combined into it along `dim`: `reduce` is prod, mean, amax or amin."""
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"index_reduce: reduce must be prod, mean, amax or amin, but got {reduce!r}")
    dim = dim % max(input.ndim, 1)
    along = index.reshape([-1 if d == dim else 1 for d in range(source.ndim)]).expand(source.shape)
    return gather_scatter.scatter_reduce(input, dim, along, source, reduce, include_self=include_self)


@method
def put(input: Tensor, index: Tensor, source: Tensor, accumulate: bool = False) -> Tensor:
    """input, with the elements of source at the places `index` of its row-major order; accumulate adds them up."""
    if index.numel() != source.numel():
        raise RuntimeError(
            f"put_(): Expected source and index to have the same number of elements, but got source.numel() = "
            f"{source.numel()}, index.numel() = {index.numel()}"
        )
    flat = input.reshape(-1).index_put((index.reshape(-1),), source.reshape(-1), accumulate=accumulate)
    return flat.reshape(input.shape)


@method
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` rows of nonzero; rows of fill_value where there are fewer."""
    found = gather_scatter.nonzero(input)[:size]
    missing = creation.full((size - found.shape[0], input.ndim), fill_value, dtype=dt.int64)
    return joining.cat([found, missing])


@method
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None
) -> Tensor:
    """A copy of input in which as_strided(size, stride, storage_offset) is src."""
    out = input.clone()
    out.as_strided(size, stride, storage_offset or 0).copy_(src)
    return out


def _in_place(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def write(self: Tensor, *args: Any, **options: Any) -> Tensor:
        return self.copy_(function(self.clone(), *args, **options))

    write.__name__, write.__doc__ = name, f"{name.removesuffix('_')}, written into the tensor."
    return write


method(_in_place("index_reduce_", index_reduce))
method(_in_place("put_", put))
method(_in_place("renorm_", other_operations.renorm))
method(_in_place("polygamma_", lambda self, n: special.polygamma(n, self)))


# ---- Python's functions, element by element ------------------------------------------------------------------------


def _elementwise(self: Tensor, others: tuple, function: Callable[..., Any]) -> Tensor:
    """Write function(element, ...) of each element into the tensor, which is on the CPU and not on the tape."""
    if self.requires_grad or any(other.requires_grad for other in others):
        raise RuntimeError("a Python function of elements has no derivative; use the operators of torch")
    lists = [tensor.detach().expand(self.shape).reshape(-1).tolist() for tensor in (self, *others)]
    made = np.array([function(*elements) for elements in zip(*lists, strict=True)]).reshape(self.shape)
    return self.copy_(creation.tensor(made, dtype=self.dtype))


@method
def apply_(self: Tensor, callable: Callable[[Any], Any]) -> Tensor:
    """Write callable(x) of each element x, a Python number, into the tensor. Slow."""
    return _elementwise(self, (), callable)


@method
def map_(self: Tensor, tensor: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Write callable(x, y) of each element x and that of `tensor` into the tensor. Slow."""
    return _elementwise(self, (tensor,), callable)


# ---- how it lies in memory -----------------------------------------------------------------------------------------


@method
def dim_order(self: Tensor, *, ambiguity_check: Any = False) -> tuple:
    """The dimensions from the slowest in memory to the fastest."""
    if ambiguity_check is not False:
        raise NotImplementedError("dim_order: only ambiguity_check=False is supported")
    return tuple(sorted(range(self.ndim), key=lambda d: -self.stride(d)))


@method
def new_empty_strided(self: Tensor, size: Sequence[int], stride: Sequence[int], **options: Any) -> Tensor:
    """An empty tensor of this size and these strides, with this tensor's dtype and device."""
    last = 1 + sum((n - 1) * step for n, step in zip(size, stride, strict=True)) if all(size) else 0
    return self.new_empty(last, **options).as_strided(size, stride)


@attribute
def grad_dtype(self: Tensor) -> Any:
    """The dtype of its gradient: its own."""
    return self.dtype


@method
def module_load(self: Tensor, other: Tensor, assign: bool = False) -> Tensor:
    """What load_state_dict makes of this tensor and the loaded one: the loaded one, or this with its values."""
    return other.detach() if assign else self.copy_(other).detach()


__all__ = ["as_strided_scatter", "index_reduce", "nonzero_static", "put"]
