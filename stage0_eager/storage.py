"""Storages: the memory of a tensor and its views, for code that needs addresses or bytes.

Input: tensors, and files (safetensors reads weights so). Names as torch's `UntypedStorage`, `Tensor.untyped_storage()`,
`Tensor.view(dtype)` and `Tensor.set_`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from stage0_eager import arrays
from stage0_eager.state import STATE
from stage0_eager.tensor import Tensor, method
from stage_contracts.dtype import DType
from stage_contracts.tensor_meta import TensorMeta


class UntypedStorage:
    """Memory from its first byte: `whole`. `array` is the array whose storage this is."""

    def __init__(self, array: Any) -> None:
        self.array, self.whole = array, arrays.owner(array)
        if not arrays.is_array(self.whole):  # memory of another library: only this array is known
            self.whole = array

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first `nbytes` bytes of a file, read when they are used; a write changes the file only if `shared`.

        Raises OSError if there is no such file, RuntimeError if it is shorter.
        """
        size = Path(filename).stat().st_size
        if nbytes > size:
            raise RuntimeError(
                f"the file {str(filename)!r} has {size} bytes, fewer than the {nbytes} asked for"
            )
        if not nbytes:  # nothing can be mapped
            return cls(np.zeros(0, np.uint8))
        return cls(np.memmap(filename, np.uint8, "r+" if shared else "c", shape=(nbytes,)).view(np.ndarray))

    def __len__(self) -> int:
        return self.nbytes()

    def __getitem__(self, place: int | slice) -> int | UntypedStorage:
        """A byte as a number, or a part of the same memory."""
        found = self.as_bytes()[place]
        if not isinstance(place, slice):
            return int(found)
        part = UntypedStorage(found)
        part.whole = found
        return part

    def as_bytes(self) -> Any:
        """The memory as an array of uint8."""
        return self.whole.reshape(-1).view(np.uint8)

    def untyped(self) -> UntypedStorage:
        return self

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


def viewed_as(tensor: Tensor, dtype: DType) -> Tensor:
    """The same memory with elements of another dtype; the last dimension is longer or shorter if they have another
    width. Raises RuntimeError if that does not come out even, or if the last dimension is not contiguous."""
    if isinstance(data := tensor._data, arrays.MetaArray):
        bytes_ = tensor.shape[-1] * tensor.dtype.itemsize if tensor.ndim else 0
        shape = (*tensor.shape[:-1], bytes_ // dtype.itemsize) if tensor.ndim else ()
        return Tensor(arrays.MetaArray(TensorMeta(shape, dtype, device=tensor.device), data))
    data = tensor._real("view(dtype)")
    try:
        out = Tensor(data.view(dtype.numpy))
    except ValueError as error:
        raise RuntimeError(
            f"a tensor of size {tuple(tensor.shape)} and strides {tensor.stride()} with elements of "
            f"{tensor.dtype.itemsize} bytes cannot be viewed as {dtype.name} ({dtype.itemsize} bytes): {error}"
        ) from None
    tensor._share_version(out)
    return out


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
