"""Attributes and constructors of a tensor: bytes, device, type names; new_zeros, new_tensor.

Input: a tensor. Attributes come from its meta. A new tensor has its dtype and device unless you pass others.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stage0_eager import arrays
from stage0_eager.functions import creation, pointwise, rearranging, reductions
from stage0_eager.kernels import host_copies
from stage0_eager.random import generator as random_module
from stage0_eager.tensor import Tensor, attribute, is_traced, method
from stage_contracts.device import Device, device_of
from stage_contracts.dtype import DTYPES, DType
from stage_contracts.symbolic import SymInt

_TYPE_NAMES = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "uint8": "Byte",
               "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "bool": "Bool"}  # fmt: skip
_BY_TYPE_NAME = {f"{name}Tensor": DTYPES[dtype] for dtype, name in _TYPE_NAMES.items()}


class Layout:
    """How a tensor's elements lie in memory. There is one: `strided`."""

    def __repr__(self) -> str:
        return "torch.strided"


strided = Layout()


# ---- of itself ---------------------------------------------------------------------------------------------------


@attribute
def layout(self: Tensor) -> Layout:
    """`strided`, as every tensor's."""
    return strided


@method
def element_size(self: Tensor) -> int:
    """Bytes of one element."""
    return self.dtype.itemsize


@attribute
def itemsize(self: Tensor) -> int:
    """Bytes of one element."""
    return self.dtype.itemsize


@attribute
def nbytes(self: Tensor) -> Any:
    """Bytes of all elements."""
    return self.numel() * self.dtype.itemsize


@method
def data_ptr(self: Tensor) -> int:
    """The address of the first element: two tensors that share storage and start alike have one."""
    if self.device.type == "meta":
        return 0
    data = self._real("data_ptr()")
    return data.ctypes.data if self.device.type == "cpu" else data.data.ptr


@method
def storage_offset(self: Tensor) -> int:
    """How many elements after its storage's beginning this tensor begins."""
    if self.device.type == "meta":
        return 0  # of views, too: nothing says where one begins
    data = self._real("storage_offset()")
    whole = arrays.owner(data)
    if isinstance(whole, (memoryview, bytearray, bytes)):  # what a file was read into
        whole = np.frombuffer(whole, np.uint8)
    starts = [a.ctypes.data if self.device.type == "cpu" else a.data.ptr for a in (data, whole)]
    return (starts[0] - starts[1]) // self.dtype.itemsize


@method
def get_device(self: Tensor) -> int:
    """The GPU's number; -1 on the CPU."""
    return self.device.index if self.is_cuda else -1


@method
def is_nonzero(self: Tensor) -> bool:
    """Whether the single element is not 0. Raises RuntimeError for any other number of elements."""
    return bool(self)


@method
def type(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """x.type() is a name such as "torch.FloatTensor"; x.type(float64) or x.type("torch.DoubleTensor") casts."""
    if dtype is None:
        where = "cuda." if self.is_cuda else ""
        return f"torch.{where}{_TYPE_NAMES[self.dtype.name]}Tensor"
    return pointwise.cast(self, dtype_by_type_name(dtype)) if isinstance(dtype, str) else self.to(dtype=dtype)


def dtype_by_type_name(type_name: str) -> DType:
    """float32 for "torch.FloatTensor"."""
    name = type_name.removeprefix("torch.").removeprefix("cuda.")
    if name not in _BY_TYPE_NAME:
        raise ValueError(f"invalid type: {type_name!r}; expected one such as 'torch.FloatTensor'")
    return _BY_TYPE_NAME[name]


@method
def is_signed(self: Tensor) -> bool:
    return self.dtype.is_signed


@method
def is_same_size(self: Tensor, other: Tensor) -> bool:
    return self.shape == other.shape


@method
def is_set_to(self: Tensor, other: Tensor) -> bool:
    """Whether both are the same look at the same memory."""
    return data_ptr(self) == data_ptr(other) and self.meta == other.meta


@attribute
def is_cpu(self: Tensor) -> bool:
    return self.device.type == "cpu"


@attribute
def is_meta(self: Tensor) -> bool:
    """Whether the tensor is known by its meta only, as while it is traced."""
    return is_traced(self)


@attribute
def output_nr(self: Tensor) -> int:
    """Which result of its grad_fn this is."""
    return self._output_index


@attribute
def mH(self: Tensor) -> Tensor:
    """The last two dimensions exchanged, and conjugated."""
    return rearranging.adjoint(self)


@attribute
def H(self: Tensor) -> Tensor:
    """mH, of a matrix only."""
    if self.ndim != 2:
        raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.")
    return rearranging.adjoint(self)


# ---- what no tensor here is ----------------------------------------------------------------------------------------


def _no(name: str) -> Any:
    def never(self: Tensor) -> bool:
        return False

    never.__name__ = never.__qualname__ = name
    never.__doc__ = "False: no tensor here is."
    return never


method(_no("is_shared"))
method(_no("is_conj"))
method(_no("is_neg"))
method(_no("is_distributed"))
attribute(_no("is_sparse"))
attribute(_no("is_quantized"))
attribute(_no("is_mps"))
attribute(_no("is_xpu"))
attribute(_no("is_nested"))
attribute(_no("is_mkldnn"))


@method
def is_pinned(self: Tensor) -> bool:
    """Whether the tensor lies in page-locked memory of the host, which a GPU can copy from and to by itself."""
    return arrays.gpu_is_there() and host_copies.is_pinned(self._data)


@method
def pin_memory(self: Tensor) -> Tensor:
    """A copy in page-locked memory, from which `to("cuda", non_blocking=True)` does not make the host wait.

    The tensor itself if it is pinned, and where there is no GPU. (Torch raises there. A program that pins its batches
    runs here without a GPU, too.) Raises RuntimeError for a tensor on a GPU.
    """
    if self.is_cuda:
        raise RuntimeError(f"cannot pin '{self.type()}' only dense CPU tensors can be pinned")
    if not arrays.gpu_is_there() or is_traced(self):
        return self
    array = host_copies.pinned(self._real("pin_memory()"))
    return self if array is self._data else Tensor(array)


@method
def share_memory_(self: Tensor) -> Tensor:
    """The tensor itself."""
    return self


# ---- after its own kind ------------------------------------------------------------------------------------------


def _kind(self: Tensor, dtype: DType | None, device: Device | str | None) -> dict[str, Any]:
    return {"dtype": dtype or self.dtype, "device": self.device if device is None else device_of(device)}


@method
def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype=None, device=None, requires_grad=False
) -> Tensor:
    return creation.full(size, fill_value, **_kind(self, dtype, device), requires_grad=requires_grad)


@method
def new_zeros(self: Tensor, *size: Any, dtype=None, device=None, requires_grad=False) -> Tensor:
    return creation.zeros(*size, **_kind(self, dtype, device), requires_grad=requires_grad)


@method
def new_empty(self: Tensor, *size: Any, dtype=None, device=None, requires_grad=False) -> Tensor:
    """As new_zeros: nothing here is left unwritten."""
    return new_zeros(self, *size, dtype=dtype, device=device, requires_grad=requires_grad)


@method
def new_ones(self: Tensor, *size: Any, dtype=None, device=None, requires_grad=False) -> Tensor:
    return creation.ones(*size, **_kind(self, dtype, device), requires_grad=requires_grad)


@method
def new_tensor(self: Tensor, data: Any, *, dtype=None, device=None, requires_grad=False) -> Tensor:
    return creation.tensor(data, **_kind(self, dtype, device), requires_grad=requires_grad)


@method
def new(self: Tensor, *sizes_or_data: Any, device: Any = None) -> Tensor:
    """Older form of new_empty and new_tensor: `x.new(2, 3)` by sizes, `x.new([1, 2])` by data."""
    given = sizes_or_data[0] if len(sizes_or_data) == 1 else None
    if isinstance(given, Tensor) and given.dtype is not self.dtype:
        raise TypeError(
            f"new() expected a tensor of dtype {self.dtype.name}, but got {given.dtype.name}; cast it"
        )
    if given is None or isinstance(given, (int, SymInt)):
        return new_empty(self, *sizes_or_data or (0,), device=device)
    return given.detach() if isinstance(given, Tensor) else new_tensor(self, given, device=device)


# ---- further forms -----------------------------------------------------------------------------------------------


@method
def bernoulli(self: Tensor, p: float | None = None, *, generator: Any = None) -> Tensor:
    """1 with probability p, or without it with the probability that each element is."""
    return random_module.bernoulli(self, p, generator=generator)


@method
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Summed over the dimensions that broadcasting from `size` would have added or stretched."""
    wanted = creation.shape_of(size)
    extra = self.ndim - len(wanted)
    out = reductions.sum(self, tuple(range(extra))) if extra > 0 else self
    if extra < 0 or any(w not in (1, s) for s, w in zip(out.shape, wanted, strict=True)):
        raise RuntimeError(f"size {list(wanted)} is not expandable to size {list(self.shape)}.")
    stretched = tuple(i for i, w in enumerate(wanted) if w == 1 and out.shape[i] != 1)
    return reductions.sum(out, stretched, True) if stretched else out
