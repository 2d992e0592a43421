"""The arrays of tensors: NumPy on the CPU, CuPy on a GPU, none on the device meta. Only this file uses CuPy.

Input: a device or an array. Kernels are written once, for the array namespace that this file returns.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

from stage0_eager.meta_arrays import META, MetaArray, moved
from stage_contracts.core_metas import to_device
from stage_contracts.device import CPU, Device
from stage_contracts.dtype import DTYPES, DType
from stage_contracts.layouts import order_in_memory
from stage_contracts.memory_format import inverse
from stage_contracts.tensor_meta import TensorMeta

_FOUND: list[Any] = [None]  # the cupy module, once there was a GPU: operators ask for it all the time
GPU_TYPES: set[type] = set()  # its class of arrays
# Owners of memory that no other owner has. (A buffer, a capsule or UnownedMemory may refer to another one's.)
OWNERS: set[type] = {np.ndarray}
PLAIN_TYPES: set[type] = {np.ndarray}  # arrays that a Tensor holds as they are: NumPy's, and those of a GPU
# Copies to the host that nobody has waited for, by the id of the memory's owner (kernels/host_copies.py).
ARRIVING: dict[int, Any] = {}


def cupy() -> Any:
    """The cupy module. If it or a GPU is missing, raises RuntimeError, which says what to install."""
    known = sys.modules.get("cupy")
    if known is not None and known is _FOUND[0]:
        return known
    try:
        import cupy as module

        module.cuda.runtime.getDeviceCount()
    except Exception as error:  # ImportError, or CuPy's own error when there is no driver
        raise RuntimeError(
            f"device 'cuda' needs CuPy and an NVIDIA GPU ({type(error).__name__}: {error}); "
            "install the extra with: pip install 'cutaway[cuda]'"
        ) from None
    _FOUND[0] = module
    GPU_TYPES.add(module.ndarray)
    allocators = getattr(module.cuda, "memory", None)  # a stand-in has none
    OWNERS.update(getattr(allocators, name, np.ndarray) for name in ("Memory", "PooledMemory"))
    PLAIN_TYPES.add(module.ndarray)
    return module


def gpu_is_there() -> bool:
    """Whether tensors can be on a GPU here."""
    try:
        return int(cupy().cuda.runtime.getDeviceCount()) > 0
    except RuntimeError:
        return False


def namespace(device: Device) -> Any:
    """The array namespace (numpy or cupy) of a device."""
    return np if device.type == "cpu" else META if device.type == "meta" else cupy()


def is_array(value: Any) -> bool:
    """Whether this is an array, and not a number."""
    return isinstance(value, (np.ndarray, MetaArray)) or hasattr(value, "__cuda_array_interface__")


def namespace_of(array: Any) -> Any:
    return np if isinstance(array, np.ndarray) else cupy()


def owner(array: Any) -> Any:
    """The array or buffer that owns the memory of this array: the same object for all its views."""
    while getattr(array, "base", None) is not None:
        array = array.base
    return array


def arrived(array: Any) -> Any:
    """The array, when what it shows has come from a GPU."""
    if ARRIVING and (copy := ARRIVING.get(id(owner(array)))) is not None:
        copy.wait()
    return array


def owners_of(arrays: list[Any]) -> list[Any]:
    """What owns each array's memory: for a GPU, what CuPy's allocator gave."""
    if {*map(type, arrays)} <= {np.ndarray}:  # an optimizer's step has hundreds
        return [a if a.base is None else owner(a) for a in arrays]
    return [owner(a) if isinstance(a, np.ndarray) else a.data.mem for a in arrays]


def address(array: Any) -> int:
    """The address of an array's first element in the memory of its device."""
    if isinstance(array, np.ndarray):
        return int(array.__array_interface__["data"][0])
    return int(array.__cuda_array_interface__["data"][0])


def bounds(array: Any) -> tuple[int, int]:
    """The addresses between which an array's bytes lie: the first one, and the one behind the last."""
    if not array.size:
        return 0, 0
    begin = address(array) if isinstance(array, np.ndarray) else array.data.ptr
    if array.flags.c_contiguous:
        return begin, begin + array.nbytes
    steps = [(n - 1) * step for n, step in zip(array.shape, array.strides, strict=True)]
    return begin + sum(s for s in steps if s < 0), begin + sum(s for s in steps if s > 0) + array.itemsize


def device_of_array(array: Any) -> Device:
    """The device of an array: CPU for a NumPy array, a GPU for a CuPy array."""
    if type(array) is MetaArray:
        return array.meta.device
    return CPU if isinstance(array, np.ndarray) else _gpu(array.data.device_id)


@lru_cache
def _gpu(index: int) -> Device:
    return Device("cuda", int(index))


def meta_of_array(array: Any, requires_grad: bool = False) -> TensorMeta:
    """The TensorMeta of an array."""
    if isinstance(array, np.ndarray):
        return meta_of_numpy(array.shape, array.strides, array.dtype.num, requires_grad)
    if type(array) is MetaArray:
        return array.meta.with_(requires_grad=requires_grad, strides=array.meta.strides)
    return meta_on(array.data.device_id, array.shape, array.strides, array.dtype.num, requires_grad)


_BY_NUMBER: dict[int, DType] = {d.numpy.num: d for d in DTYPES.values()}


@lru_cache(maxsize=4096)  # cached, because every recorded call needs metas: 0.4 µs instead of 2
def meta_of_numpy(shape: tuple, strides: tuple, number: int, requires_grad: bool) -> TensorMeta:
    """The meta of a CPU array with these strides, in bytes, and the dtype of this number (quicker to hash)."""
    dtype = _BY_NUMBER[number]
    return TensorMeta(shape, dtype, tuple([s // dtype.itemsize for s in strides]), CPU, requires_grad)


@lru_cache(maxsize=4096)
def meta_on(index: int, shape: tuple, strides: tuple, number: int, requires_grad: bool) -> TensorMeta:
    """The meta of an array on the GPU of this number (quicker to hash than its Device)."""
    known = meta_of_numpy(shape, strides, number, requires_grad)
    return TensorMeta(known.shape, known.dtype, known.strides, _gpu(index), requires_grad)


def element_strides(array: Any) -> tuple[int, ...]:
    """Strides in elements, not bytes; row-major for an array without elements, as TensorMeta has it."""
    return meta_of_array(array).strides


def move(array: Any, device: Device) -> Any:
    """The array on `device`, with its layout if that has no gaps; the array itself if it is there already."""
    if type(array) is MetaArray or device.type == "meta":
        return moved(array, to_device(meta_of_array(array), device), device)
    if device_of_array(array) == device:
        return array
    if device.type == "cpu":
        return as_rows(array, lambda rows: rows.get())
    module = cupy()
    with module.cuda.Device(device.index):
        return as_rows(arrived(array), module.asarray)


def as_rows(array: Any, copied: Callable[[Any], Any]) -> Any:
    """A dense copy with its dimensions in the array's order. `copied` gets the elements row-major."""
    if array.flags.c_contiguous:
        return copied(array)
    order = order_in_memory(meta_of_array(array))
    rows = array.transpose(order)
    rows = rows if rows.flags.c_contiguous else namespace_of(array).ascontiguousarray(rows)
    return copied(rows).transpose(inverse(order))


def copy_as_laid_out(xp: Any, x: Any) -> Any:
    """A dense copy with its dimensions in the order of `x`."""
    if x.flags.c_contiguous:
        return x.copy()
    order = order_in_memory(meta_of_array(x))
    return x.transpose(order).copy().transpose(inverse(order))
