"""What a tensor says of itself and makes after its own kind: bytes, places, type names; new_zeros, new_tensor.

Input: a tensor. Answers come from its meta; what is made has its dtype and device unless others are given.
"""

from __future__ import annotations

from typing import Any

from stage0_eager import arrays, storage
from stage0_eager.functions import creation, joining, pointwise, reductions, strided_windows
from stage0_eager.tensor import Tensor, is_traced
from stage_contracts.device import Device, device_of
from stage_contracts.dtype import DTYPES, DType

_TYPE_NAMES = {"float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "uint8": "Byte",
               "int8": "Char", "int16": "Short", "int32": "Int", "int64": "Long", "bool": "Bool"}  # fmt: skip
_BY_TYPE_NAME = {f"{name}Tensor": DTYPES[dtype] for dtype, name in _TYPE_NAMES.items()}


# ---- of itself ---------------------------------------------------------------------------------------------------


def element_size(self: Tensor) -> int:
    """Bytes of one element."""
    return self.dtype.itemsize


def nbytes(self: Tensor) -> Any:
    """Bytes of all elements."""
    return self.numel() * self.dtype.itemsize


def data_ptr(self: Tensor) -> int:
    """The address of the first element: two tensors that share storage and start alike have one."""
    data = self._real("data_ptr()")
    return data.ctypes.data if self.device.type == "cpu" else data.data.ptr


def storage_offset(self: Tensor) -> int:
    """How many elements after its storage's beginning this tensor begins."""
    data = self._real("storage_offset()")
    whole = arrays.owner(data)
    starts = [a.ctypes.data if self.device.type == "cpu" else a.data.ptr for a in (data, whole)]
    return (starts[0] - starts[1]) // self.dtype.itemsize


def get_device(self: Tensor) -> int:
    """The GPU's number; -1 on the CPU."""
    return self.device.index if self.is_cuda else -1


def is_nonzero(self: Tensor) -> bool:
    """Whether the single element is not 0. Raises RuntimeError for any other number of elements."""
    return bool(self)


def type_(self: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """x.type() is a name such as "torch.FloatTensor"; x.type(float64) or x.type("torch.DoubleTensor") casts."""
    if dtype is None:
        where = "cuda." if self.is_cuda else ""
        return f"torch.{where}{_TYPE_NAMES[self.dtype.name]}Tensor"
    if isinstance(dtype, str):
        name = dtype.removeprefix("torch.").removeprefix("cuda.")
        if name not in _BY_TYPE_NAME:
            raise ValueError(f"invalid type: {dtype!r}; expected one such as 'torch.FloatTensor'")
        return pointwise.cast(self, _BY_TYPE_NAME[name])
    return self.to(dtype=dtype)


# ---- after its own kind ------------------------------------------------------------------------------------------


def _kind(self: Tensor, dtype: DType | None, device: Device | str | None) -> dict[str, Any]:
    return {"dtype": dtype or self.dtype, "device": self.device if device is None else device_of(device)}


def new_full(
    self: Tensor, size: Any, fill_value: Any, *, dtype=None, device=None, requires_grad=False
) -> Tensor:
    return creation.full(size, fill_value, **_kind(self, dtype, device), requires_grad=requires_grad)


def new_zeros(self: Tensor, *size: Any, dtype=None, device=None, requires_grad=False) -> Tensor:
    return creation.zeros(*size, **_kind(self, dtype, device), requires_grad=requires_grad)


def new_ones(self: Tensor, *size: Any, dtype=None, device=None, requires_grad=False) -> Tensor:
    return creation.ones(*size, **_kind(self, dtype, device), requires_grad=requires_grad)


def new_tensor(self: Tensor, data: Any, *, dtype=None, device=None, requires_grad=False) -> Tensor:
    return creation.tensor(data, **_kind(self, dtype, device), requires_grad=requires_grad)


# ---- further forms -----------------------------------------------------------------------------------------------


def bernoulli(self: Tensor, *, generator: Any = None) -> Tensor:
    """1 with the probability that each element is."""
    return creation.zeros_like(self).bernoulli_(self, generator=generator)


def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """Summed over the dimensions that broadcasting from `size` would have added or stretched."""
    wanted = creation.shape_of(size)
    extra = self.ndim - len(wanted)
    out = reductions.sum(self, tuple(range(extra))) if extra > 0 else self
    if extra < 0 or any(w not in (1, s) for s, w in zip(out.shape, wanted, strict=True)):
        raise RuntimeError(f"size {list(wanted)} is not expandable to size {list(self.shape)}.")
    stretched = tuple(i for i, w in enumerate(wanted) if w == 1 and out.shape[i] != 1)
    return reductions.sum(out, stretched, True) if stretched else out


def _no_adjoint(self: Tensor) -> Tensor:
    raise RuntimeError(f"tensor.H is only supported on matrices (2-D tensors). Got {self.ndim}-D tensor.")


_METHODS = {
    "element_size": element_size, "data_ptr": data_ptr, "storage_offset": storage_offset, "get_device": get_device,
    "is_nonzero": is_nonzero, "type": type_, "new_full": new_full, "new_zeros": new_zeros, "new_empty": new_zeros,
    "new_ones": new_ones, "new_tensor": new_tensor, "sum_to_size": sum_to_size, "bernoulli": bernoulli,
    "as_strided": strided_windows.as_strided, "untyped_storage": storage.untyped_storage, "set_": storage.set_,
    "nelement": Tensor.numel, "ndimension": Tensor.dim,
    "is_complex": lambda self: False, "is_signed": lambda self: self.dtype.is_signed,
    "is_same_size": lambda self, other: self.shape == other.shape,
    "pin_memory": lambda self: self, "share_memory_": lambda self: self, "is_pinned": lambda self: False,
    "is_shared": lambda self: False, "is_conj": lambda self: False, "is_neg": lambda self: False,
    "is_distributed": lambda self: False,
    "is_set_to": lambda self, other: data_ptr(self) == data_ptr(other) and self.meta == other.meta,
}  # fmt: skip
_PROPERTIES: dict[str, Any] = {
    "itemsize": element_size, "nbytes": nbytes, "is_cpu": lambda self: self.device.type == "cpu",
    "is_meta": is_traced, "is_sparse": lambda self: False, "is_quantized": lambda self: False,
    "is_mps": lambda self: False, "is_xpu": lambda self: False, "is_nested": lambda self: False,
    "is_mkldnn": lambda self: False, "output_nr": lambda self: self._output_index, "real": lambda self: self,
    "H": lambda self: joining.adjoint(self) if self.ndim == 2 else _no_adjoint(self), "mH": joining.adjoint,
}  # fmt: skip
_CASTS = {"short": "int16", "char": "int8", "byte": "uint8"}


def _cast(dtype: DType) -> Any:
    return lambda self: pointwise.cast(self, dtype)


for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)
for _name, _function in _PROPERTIES.items():
    setattr(Tensor, _name, property(_function))
for _name, _dtype in _CASTS.items():
    setattr(Tensor, _name, _cast(DTYPES[_dtype]))
