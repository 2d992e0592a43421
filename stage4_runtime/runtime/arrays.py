"""The host's arrays: allocate, address and view NumPy memory for generated launch code.

Input: metas and byte counts. `ArrayLibrary` is the table of what launch code needs from an array library: NUMPY fills
it for the CPU, and cuda.py fills it for CuPy. No other file knows which of the two it works with.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stage4_runtime.runtime.arenas import arenas
from stage4_runtime.runtime.layout import byte_strides, slot_alignment, span
from stage4_runtime.runtime.lent_memory import is_large, result_memory
from stage_contracts.device import CPU
from stage_contracts.tensor_meta import TensorMeta


@dataclass(frozen=True)
class ArrayLibrary:
    """What differs between NumPy and CuPy."""

    xp: Any  # the module: what eager kernels take as their first argument
    array_type: Any  # its array class
    address: Callable[[Any], int]  # array -> address of its first element
    allocate: Callable[[int], tuple[Any, int]]  # bytes -> (memory, its aligned address)
    empty: Callable[[TensorMeta], Any]  # a new array
    slot_view: Callable[[Any, int, TensorMeta], Any]  # (memory, byte address in it, meta) -> array
    view: Callable[[Any, tuple, tuple, int], Any]  # (array, shape, byte strides, byte offset) -> array
    bind: Callable[[Any, Any], Callable]  # (loaded kernel, Kernel) -> what launch code calls with addresses
    kernel_alignment: int = 1  # kernels assume pointers to be multiples of this (and of the element's size)
    current_stream: Callable[[], Any] | None = None  # None: there are no streams
    # (streams beside the caller's, events) -> a SideStreams of side_streams.py
    side_streams: Callable[[int, int], Any] | None = None
    # the addresses of a table's column -> what its kernel takes; for C++ a pointer to them
    column: Callable[..., Any] = lambda *pointers: (ctypes.c_void_p * len(pointers))(*pointers)
    # (External, Program) -> a prepared call (stream, addresses of operands and result), or None: the eager kernel runs
    routine: Callable[[Any, Any], Callable | None] = lambda step, program: None
    # what prepares launches as one call of C (issue.py), or None: each launch is a call of its own
    issuer: Callable[[], Callable[..., Callable] | None] = lambda: None
    refused: Callable[[int], None] | None = None  # raises what the driver's number says
    maker: Callable[[TensorMeta], Callable[[], Any]] = lambda meta: lambda: empty(meta)  # makes such arrays
    # (array, token) -> another array of its memory; as long as it or a view of it is there, so is the token
    lend: Callable[[Any, Any], Any] | None = None
    # allocate -> what launch code takes the memory of temporaries with, by name
    arenas: Callable[[Callable[[int], tuple[Any, int]]], dict[str, Callable]] = lambda allocate: {
        **arenas(),
        "allocate_pool": allocate,
    }


# Every extension compiled against NumPy reads the data pointer right after the object's head (PyArray_DATA);
# so do we, because `__array_interface__` builds a dict for each call. Checked once, below.
_HEAD = object.__basicsize__
_read = ctypes.c_size_t.from_address


def _fast_address(array: np.ndarray) -> int:
    return _read(id(array) + _HEAD).value


def _slow_address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _check_fast_address() -> Callable[[np.ndarray], int]:
    probe = np.zeros(4)
    return _fast_address if _fast_address(probe) == _slow_address(probe) else _slow_address


address = _check_fast_address()


def allocate(nbytes: int) -> tuple[np.ndarray, int]:
    alignment = slot_alignment(CPU)
    memory = np.empty(nbytes + alignment, np.uint8)
    return memory, -(-address(memory) // alignment) * alignment


def empty(meta: TensorMeta) -> np.ndarray:
    if is_large(meta.nbytes) and meta.is_contiguous:
        return np.ndarray(meta.shape, meta.dtype.numpy, result_memory(meta.nbytes))
    if meta.is_contiguous:
        return np.empty(meta.shape, meta.dtype.numpy)
    return np.ndarray(meta.shape, meta.dtype.numpy, np.empty(span(meta), np.uint8), 0, byte_strides(meta))


def slot_view(memory: np.ndarray, start: int, meta: TensorMeta) -> np.ndarray:
    offset = start - address(memory)
    return np.ndarray(meta.shape, meta.dtype.numpy, memory, offset, byte_strides(meta))


def view(array: np.ndarray, shape: tuple, strides: tuple, offset: int) -> np.ndarray:
    if 0 in shape:  # no element is read, and its offset may lie outside
        return np.empty(shape, array.dtype)
    if array.flags.c_contiguous:  # the quick way needs one block of memory
        return np.ndarray(shape, array.dtype, array, offset, strides)
    element = np.asarray(_Bytes(array, offset)).view(array.dtype)
    return np.lib.stride_tricks.as_strided(element, shape, strides)


class _Bytes:
    """One element of an array as raw bytes, by NumPy's array interface; keeps the array alive."""

    def __init__(self, owner: np.ndarray, offset: int) -> None:
        self.owner = owner
        self.__array_interface__ = {
            "version": 3,
            "typestr": "|u1",
            "shape": (owner.itemsize,),
            "data": (address(owner) + offset, not owner.flags.writeable),
        }


NUMPY = ArrayLibrary(
    xp=np,
    array_type=np.ndarray,
    address=address,
    allocate=allocate,
    empty=empty,
    slot_view=slot_view,
    view=view,
    bind=lambda loaded, kernel: loaded,
)
