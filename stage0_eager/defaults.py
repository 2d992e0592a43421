"""The default dtype and device of new tensors, and the functions that set them, with torch's names.

Input: dtypes and devices as users write them. The default dtype belongs to the process and the device to the thread, as
in torch. Compiled code relies on both (the guard MODES).
"""

from __future__ import annotations

from typing import Any

from stage0_eager.kernels import eager as kernels
from stage0_eager.state import STATE, settle
from stage_contracts.device import Device, device_of
from stage_contracts.dtype import DEFAULT_DTYPE, DType, dtype_of


def get_default_dtype() -> DType:
    """The dtype of Python floats, and of float functions of integers: float32, unless it was set."""
    return DEFAULT_DTYPE.dtype


def set_default_dtype(d: Any, /) -> None:
    """Set the default dtype of the whole process. Raises TypeError if `d` is not a floating dtype."""
    dtype = d if isinstance(d, DType) else dtype_of(d)
    if not dtype.is_floating_point:
        raise TypeError(f"only floating-point types are supported as the default type, got {dtype.name}")
    DEFAULT_DTYPE.dtype = dtype
    kernels.forget_dtypes()


def get_default_device() -> Device:
    """The device of new tensors without `device=`: the CPU, unless it was set."""
    return STATE.devices[-1]


def set_default_device(device: Any) -> None:
    """Set the default device of this thread. None means the CPU. Raises RuntimeError for an unknown device."""
    STATE.devices = (*STATE.devices[:-1], device_of(device))
    settle()


def dtype_or_default(dtype: Any) -> DType:
    """The DType of a `dtype=` argument; None means the default."""
    return DEFAULT_DTYPE.dtype if dtype is None else dtype_of(dtype)


def device_or_default(device: Any) -> Device:
    """The Device of a `device=` argument; None means the default."""
    return STATE.devices[-1] if device is None else device_of(device)


def _enter(self: Device) -> Device:
    """`with device("cuda"):` makes it the default device of the block."""
    STATE.devices = (*STATE.devices, self)
    settle()
    return self


def _exit(self: Device, *_: object) -> None:
    STATE.devices = STATE.devices[:-1]
    settle()


Device.__enter__, Device.__exit__ = _enter, _exit  # type: ignore[attr-defined]
