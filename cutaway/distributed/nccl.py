"""NCCL, through CuPy: its communicators, its types, and each operation as its calls. No other file calls it.

Input: CuPy's `cuda.nccl`, or nccl_binding.py, imported when a group needs it. A call is put on a stream and returns at
once. Copies travel as bytes, so any dtype can; what NCCL cannot add raises TypeError.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

from cutaway.distributed import nccl_binding
from cutaway.distributed.mpi import ReduceOp
from stage0_eager import arrays

NO_NCCL = (
    'backend "nccl" needs CuPy, an NVIDIA GPU and NCCL ({}); `pip install cutaway[cuda]` brings CuPy, and '
    "`pip install nvidia-nccl-cu13` (cu12 for CUDA 12) the library"
)
_TYPES = {"bool": "UINT8", "int8": "INT8", "uint8": "UINT8", "int32": "INT32", "uint32": "UINT32", "int64": "INT64",
          "uint64": "UINT64", "float16": "FLOAT16", "bfloat16": "BFLOAT16", "float32": "FLOAT32",
          "float64": "FLOAT64"}  # fmt: skip
_NUMBERS = {"BFLOAT16": 9, "AVG": 4}  # CuPy before 14 has no names for them
_OPS = {"sum": "SUM", "avg": "AVG", "product": "PROD", "min": "MIN", "max": "MAX"}
_OF_BOOLS = {"sum": "MAX", "product": "MIN", "min": "MIN", "max": "MAX", "band": "MIN", "bor": "MAX"}
_HALVES = {"complex64": "float32", "complex128": "float64"}


@dataclass(frozen=True)
class Engine:
    """CuPy's modules, or a stand-in's with the same calls."""

    xp: Any  # zeros
    cuda: Any  # Stream, Event, Device, get_current_stream
    nccl: Any  # get_unique_id, NcclCommunicator, groupStart, groupEnd and the numbers of types


def library() -> Engine:
    """CuPy with NCCL. RuntimeError where one of them is missing."""
    try:
        import cupy

        return Engine(cupy, cupy.cuda, _of_cupy() or nccl_binding.binding())
    except Exception as error:  # ImportError, or what CuPy says of a missing driver or library
        raise RuntimeError(NO_NCCL.format(f"{type(error).__name__}: {error}")) from error


def _of_cupy() -> Any:
    """CuPy's module, which is not imported with CuPy; None where CuPy was built without it or finds no library."""
    try:
        found = importlib.import_module("cupy.cuda.nccl")
    except Exception:  # no such module, or a library that does not fit: nccl_binding.py looks for another
        return None
    return found if getattr(found, "available", False) else None


def available() -> bool:
    try:
        return bool(library().nccl)
    except RuntimeError:
        return False


@dataclass(frozen=True)
class Link:
    """A communicator of NCCL, and the stream that its calls go to."""

    engine: Engine
    comm: Any
    rank: int
    size: int
    stream: int

    def number(self, name: str) -> int:
        """The number of a type or an operation."""
        return getattr(self.engine.nccl, f"NCCL_{name}", _NUMBERS.get(name))  # type: ignore[return-value]


def reducible(reduction: str, dtype: np.dtype) -> tuple[str, str, int]:
    """NCCL's type and operation for arrays of this dtype, and its elements for one of ours. TypeError without one."""
    name = dtype.name
    if dtype.kind == "b":
        found = _OF_BOOLS.get(reduction)
    elif name in _HALVES:
        return _TYPES[_HALVES[name]], *_complex(reduction), 2
    else:
        found = _OPS.get(reduction)
    if name not in _TYPES or found is None:
        raise TypeError(
            f"NCCL has no ReduceOp.{reduction.upper()} of {dtype}; it has SUM, AVG, PRODUCT, MIN and MAX of floats and "
            "of integers with 8, 32 and 64 bits. Move the tensor to the CPU, or to another dtype, first"
        )
    if reduction == "avg" and dtype.kind in "iu":
        raise TypeError(f"ReduceOp.AVG divides, which {dtype} cannot; use ReduceOp.SUM and divide yourself")
    return _TYPES[name], found, 1


def _complex(reduction: str) -> tuple[str]:
    if reduction not in ("sum", "avg"):
        raise TypeError(f"NCCL has no ReduceOp.{reduction.upper()} of complex numbers; it has SUM and AVG")
    return (_OPS[reduction],)


def address(array: Any) -> int:
    """Of the first element. The quick way of CuPy: its interface for other libraries takes microseconds."""
    return arrays.address(array) if isinstance(array, np.ndarray) else array.data.ptr


# ---- each operation as NCCL's calls ------------------------------------------------------------------------------


def _all_reduce(link: Link, words: tuple, source: Any, destination: Any) -> None:
    kind, how, each = reducible(words[0], source.dtype)
    link.comm.allReduce(address(source), address(destination), source.size * each, link.number(kind),
                        link.number(how), link.stream)  # fmt: skip


def _average(link: Link, words: tuple, source: Any, destination: Any) -> None:
    _all_reduce(link, ("avg",), source, destination)


def _reduce(link: Link, words: tuple, source: Any, destination: Any) -> None:
    kind, how, each = reducible(words[0], source.dtype)
    link.comm.reduce(address(source), address(destination), source.size * each, link.number(kind), link.number(how),
                     words[1], link.stream)  # fmt: skip


def _reduce_scatter(link: Link, words: tuple, source: Any, destination: Any) -> None:
    kind, how, each = reducible(words[0], source.dtype)
    link.comm.reduceScatter(address(source), address(destination), destination.size * each, link.number(kind),
                            link.number(how), link.stream)  # fmt: skip


def _broadcast(link: Link, words: tuple, source: Any, destination: Any) -> None:
    link.comm.broadcast(
        address(source), address(destination), source.nbytes, link.number("UINT8"), words[0], link.stream
    )


def _all_gather(link: Link, words: tuple, source: Any, destination: Any) -> None:
    link.comm.allGather(
        address(source), address(destination), source.nbytes, link.number("UINT8"), link.stream
    )


def _all_to_all(link: Link, words: tuple, source: Any, destination: Any) -> None:
    part = source.nbytes // link.size
    exchange(
        link,
        [(peer, address(source) + peer * part, part) for peer in range(link.size)],
        [(peer, address(destination) + peer * part, part) for peer in range(link.size)],
    )


def _all_to_all_splits(link: Link, words: tuple, source: Any, destination: Any) -> None:
    received, sent = words[:2]
    row = source.dtype.itemsize * math.prod(source.shape[1:])
    exchange(link, _parcels(address(source), sent, row), _parcels(address(destination), received, row))


def _parcels(at: int, rows: Iterable[int], row: int) -> list[Parcel]:
    """One for each rank that gets or sends something, one after another in memory."""
    ends = list(accumulate(rows))
    starts = [0, *ends[:-1]]
    return [
        (peer, at + start * row, (end - start) * row)
        for peer, (start, end) in enumerate(zip(starts, ends, strict=True))
        if end > start
    ]


Parcel = tuple[int, int, int]  # the other rank, an address, a count of bytes


def exchange(link: Link, sent: Iterable[Parcel], received: Iterable[Parcel]) -> None:
    """Sends and receives as one: in a group none of them waits for another."""
    kind = link.number("UINT8")
    link.engine.nccl.groupStart()
    try:
        for peer, at, nbytes in sent:
            link.comm.send(at, nbytes, kind, peer, link.stream)
        for peer, at, nbytes in received:
            link.comm.recv(at, nbytes, kind, peer, link.stream)
    finally:
        link.engine.nccl.groupEnd()


POSTS: dict[str, Callable[[Link, tuple, Any, Any], None]] = {
    "all_reduce": _all_reduce,
    "average": _average,
    "reduce": _reduce,
    "reduce_scatter": _reduce_scatter,
    "broadcast": _broadcast,
    "all_gather": _all_gather,
    "all_to_all": _all_to_all,
    "all_to_all_splits": _all_to_all_splits,
}
assert ReduceOp.AVG.value in _OPS
