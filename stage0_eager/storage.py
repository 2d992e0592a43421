"""Storages: the memory of a tensor and its views, for code that needs addresses (Triton's interpreter).

Input: tensors. Names as torch's `Tensor.untyped_storage()` and `Tensor.set_`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stage0_eager import arrays
from stage0_eager.state import STATE
from stage0_eager.tensor import Tensor, method


class UntypedStorage:
    """Memory from its first byte: `whole`. `array` is the array whose storage this is."""

    def __init__(self, array: Any) -> None:
        self.array, self.whole = array, arrays.owner(array)
        if not arrays.is_array(self.whole):  # memory of another library: only this array is known
            self.whole = array

    def data_ptr(self) -> int:
        return arrays.address(self.whole)

    def nbytes(self) -> int:
        return int(self.whole.nbytes)

    def cpu(self) -> UntypedStorage:
        """The same storage, which is in the CPU's memory already. Raises RuntimeError for one on a GPU."""
        if not hasattr(self.whole, "__array_interface__"):
            raise RuntimeError(
                "the storage of a tensor on a GPU cannot be read; copy the tensor with .cpu() first"
            )
        return self

    def copy_(self, source: UntypedStorage) -> UntypedStorage:
        """Does nothing if both are the same memory. Raises RuntimeError otherwise: copy tensors instead."""
        if source.data_ptr() != self.data_ptr():
            raise RuntimeError("storages are not copied; copy tensors with copy_")
        return self


@method
def untyped_storage(self: Tensor) -> UntypedStorage:
    """The memory of this tensor."""
    return UntypedStorage(self._real("untyped_storage()"))


@method
def set_(
    self: Tensor,
    source: UntypedStorage | Tensor,
    storage_offset: int = 0,
    size: Sequence[int] | None = None,
    stride: Sequence[int] | None = None,
) -> Tensor:
    """Make this tensor a view of `source`, with an offset, a size and strides in elements of its dtype.

    If `source` is a tensor, pass nothing else. If it is a storage, pass size and stride.
    """
    if self.requires_grad and STATE.grad_enabled:
        what = "a leaf Variable" if self.is_leaf else "a Variable"
        raise RuntimeError(f"{what} that requires grad is being used in an in-place operation.")
    if isinstance(source, Tensor):
        if size is not None or source.dtype is not self.dtype:
            raise RuntimeError(
                f"set_ expects a tensor of dtype {self.dtype.name} and no further arguments, or a storage with a size "
                f"and strides, but got a tensor of dtype {source.dtype.name}"
            )
        self._data = source._real("set_()")
        self._bump_version()
        return self
    if size is None or stride is None:
        raise RuntimeError("set_ with a storage expects storage_offset, size and stride as well")
    width = self.dtype.itemsize
    begins = arrays.address(source.whole) + storage_offset * width
    if begins != arrays.address(source.array) or source.array.dtype != self.dtype.numpy:
        raise RuntimeError(
            "set_ with a storage supports only the storage of a tensor of the same dtype that begins at storage_offset"
        )
    strided = arrays.namespace_of(source.array).lib.stride_tricks.as_strided
    self._data = strided(source.array, tuple(size), tuple(s * width for s in stride))
    return self
