"""The only file that touches MPI: the library, its communicators, and what a NumPy array looks like on the wire.

Input: mpi4py, imported when a process group is made and not before, so that one process alone pays nothing for it.
MPI has no half-precision floats: a sum of them travels as float32 and is rounded once; a copy travels as 16-bit words.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
import traceback
from enum import Enum
from types import ModuleType
from typing import Any

import numpy as np

NO_MPI = (
    "cutaway.distributed needs mpi4py and an MPI library, and mpi4py is not installed; "
    "`pip install 'cutaway[distributed]'` brings both"
)

# Seconds before an abort: mpiexec ends at once then, and with it what it has read from a rank and not printed yet.
FORWARDED = 0.5


class ReduceOp(Enum):
    """How a reduction joins the values of all ranks. The members also stand in the package, as in torch."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


_MPI_NAMES = {
    ReduceOp.SUM: "SUM",
    ReduceOp.AVG: "SUM",  # divided by the number of ranks afterwards
    ReduceOp.PRODUCT: "PROD",
    ReduceOp.MIN: "MIN",
    ReduceOp.MAX: "MAX",
    ReduceOp.BAND: "BAND",
    ReduceOp.BOR: "BOR",
    ReduceOp.BXOR: "BXOR",
}
# A sum of truths is whether any is true, and a product whether all are.
_OF_BOOLS = {"SUM": "MAX", "PROD": "MIN", "BAND": "MIN", "BOR": "MAX"}


def available() -> bool:
    return importlib.util.find_spec("mpi4py") is not None


def library() -> ModuleType:
    """mpi4py.MPI, which starts MPI when first imported. RuntimeError where it is not installed."""
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise RuntimeError(f"{NO_MPI} ({error})") from error
    return MPI


def end_all_on_an_error(rank: int) -> None:
    """From now on an exception that nobody catches ends every rank: the others would wait for this one for ever."""
    before = sys.excepthook

    def report(kind: type[BaseException], error: BaseException, where: Any) -> None:
        if issubclass(kind, KeyboardInterrupt):
            before(kind, error, where)
        else:
            lines = "".join(traceback.format_exception(kind, error, where)).splitlines()
            sys.stderr.write("".join(f"[rank {rank}] {line}\n" for line in lines))
        sys.stderr.flush()
        sys.stdout.flush()
        time.sleep(FORWARDED)
        library().COMM_WORLD.Abort(1)

    sys.excepthook = report


def operation(op: ReduceOp, dtype: np.dtype) -> Any:
    """MPI's operation for arrays of this dtype. TypeError where the two do not fit."""
    if not isinstance(op, ReduceOp):
        raise TypeError(f"op must be a ReduceOp, such as ReduceOp.SUM, but it is {op!r}")
    name, kind = _MPI_NAMES[op], dtype.kind
    if kind == "b":
        name = _OF_BOOLS.get(name, name)
    if op is ReduceOp.AVG and kind in "biu":
        raise TypeError(f"ReduceOp.AVG divides, which {dtype} cannot; use ReduceOp.SUM and divide yourself")
    if name in ("BAND", "BOR", "BXOR") and kind not in "biu":
        raise TypeError(f"ReduceOp.{op.name} works on the bits of integers, not on {dtype}")
    if kind == "c" and name in ("MIN", "MAX"):
        raise TypeError(f"complex numbers have no order, so there is no ReduceOp.{op.name} of {dtype}")
    return getattr(library(), name)


def to_reduce(array: np.ndarray) -> np.ndarray:
    """A contiguous copy that MPI can do arithmetic on."""
    wide = {"b": np.uint8}.get(array.dtype.kind, np.float32 if is_half(array.dtype) else array.dtype)
    return np.array(array, wide, order="C")


def to_move(array: np.ndarray) -> np.ndarray:
    """A contiguous array of the same bytes, in a type that MPI knows. No copy where `array` is contiguous already."""
    array = np.ascontiguousarray(array)
    return array.view(np.uint16) if is_half(array.dtype) else array


def is_half(dtype: np.dtype) -> bool:
    """float16 or bfloat16 (which NumPy has from ml_dtypes)."""
    return dtype.name in ("float16", "bfloat16")


def threads_may_call() -> bool:
    """Whether several threads may call MPI at once: mpi4py asks the library for that, and most can."""
    MPI = library()
    return MPI.Query_thread() >= MPI.THREAD_MULTIPLE


def started_by_mpiexec() -> bool:
    """Whether a launcher of MPI started this process: MPICH, Open MPI and Slurm each say so in the environment."""
    return any(
        name in os.environ for name in ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID")
    )
