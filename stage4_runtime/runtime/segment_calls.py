"""A program's C++ `run` as a built-in function of Python, and the table of what it needs from this process.

Input: a Program and its loaded kernels. `run` relies on how CPython and NumPy lay out objects, and on NumPy's own BLAS.
If one of them is not as expected, there are no such functions, and launch code runs step by step.
"""

from __future__ import annotations

import ctypes
import sys
import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from stage4_runtime.runtime.arrays import address
from stage_contracts.blas import contraction
from stage_contracts.dtype import DTYPES
from stage_contracts.host_interface import HOST_BLAS, HOST_FIELDS
from stage_contracts.program import External, Program, RowBlocks
from stage_contracts.segments import Segment, segments

METH_FASTCALL = 0x80


def segment_calls(program: Program, kernels: Mapping[str, Any]) -> dict[str, Callable]:
    """The function of each segment, by name: (arrays, pools, sizes, whether to check) -> 0 or what went wrong.

    Empty where the unit has no such functions, or this process cannot give what they need.
    """
    found = [part for part in segments(program) if isinstance(part, Segment)]
    if not found or not all(part.function in kernels for part in found):
        return {}
    uses_blas = any(
        isinstance(s, RowBlocks) or (isinstance(s, External) and contraction(s, program.buffers))
        for p in found
        for s in p.steps
    )
    table = host_table(uses_blas)
    if table is None or (uses_blas and not blas()):
        return {}
    return {part.function: builtin(kernels[part.function], table) for part in found}


class _MethodDef(ctypes.Structure):
    """CPython's PyMethodDef."""

    _fields_ = [
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    ]


def builtin(function: Any, table: np.ndarray) -> Callable:
    """A C function (table, arguments, their number) -> object, as a built-in function, ten times as fast as ctypes."""
    place = ctypes.cast(function, ctypes.c_void_p).value
    assert place is not None
    definition, _ = _KEPT.setdefault(place, (_MethodDef(b"run", place, METH_FASTCALL, None), function))
    return _made(definition, table)


def _made(definition: _MethodDef, table: np.ndarray) -> Callable:
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    made: Callable = make(ctypes.addressof(definition), table, None)
    return made


# By the C function's address, for as long as the process lives: CPython keeps a pointer to a definition. Programs that
# load one unit share it.
_KEPT: dict[int, tuple[_MethodDef, Any]] = {}


def _definition(call: Callable) -> _MethodDef:
    of = ctypes.pythonapi.PyCFunction_GetFunction
    of.restype, of.argtypes = ctypes.c_void_p, [ctypes.py_object]
    return _KEPT[of(call)][0]


def stamped(call: Callable, count: int) -> tuple[Callable, np.ndarray] | None:
    """A second form of `call` that notes nanoseconds in `count` places; None where C++ has no clock. Both serve one
    call at a time. `Segment.running` says which time is which."""
    table, stamps = call.__self__.copy(), np.zeros(count, np.int64)  # type: ignore[attr-defined]
    table[HOST_FIELDS.index("stamps")] = address(stamps)
    return (_made(_definition(call), table), stamps) if table[HOST_FIELDS.index("clock_gettime")] else None


@cache
def host_table(with_blas: bool) -> np.ndarray | None:
    """The addresses that HOST_FIELDS names; None where objects do not lie in memory as generated code expects.

    BLAS is loaded and tried only for who calls it.
    """
    if not (_usual_layout(True) and _usual_layout(False)):
        return None
    python = ctypes.pythonapi
    functions = {
        "as_int64": python.PyLong_AsLongLong,
        "from_int64": python.PyLong_FromLongLong,
        "save_thread": python.PyEval_SaveThread,
        "restore_thread": python.PyEval_RestoreThread,
        **(blas() | blas_threads() if with_blas else {}),
        **({} if perf_counter_clock() is None else {"clock_gettime": ctypes.CDLL(None).clock_gettime}),
    }
    places = {name: ctypes.cast(function, ctypes.c_void_p).value for name, function in functions.items()}
    places["ndarray"] = id(np.ndarray)
    places["clock"] = perf_counter_clock() or 0
    if "set_blas_threads" in places:
        places["blas"] = address(_BLAS_IN_USE)
    places |= {f"{name}_dtype": id(dtype.numpy) for name, dtype in DTYPES.items()}
    return np.array([places.get(field, 0) for field in HOST_FIELDS], np.uint64)


def perf_counter_clock() -> int | None:
    """The clock of the C library's clock_gettime that time.perf_counter_ns reads; None where there is none."""
    for name in ("CLOCK_MONOTONIC", "CLOCK_UPTIME_RAW"):
        clock = getattr(time, name, None)
        if clock is not None:
            before, now, after = time.perf_counter_ns(), time.clock_gettime_ns(clock), time.perf_counter_ns()
            if before <= now <= after:
                return int(clock)
    return None


def _usual_layout(writeable: bool) -> bool:
    """Whether an object begins with a count and its class, and an array goes on as PyArrayObject says."""
    if sys.implementation.name != "cpython" or object.__basicsize__ != 16 or sys.maxsize < 2**62:
        return False
    probe = np.zeros((2, 3, 5), np.int16)[:, ::2]
    probe.flags.writeable = writeable
    word = [ctypes.c_size_t.from_address(id(probe) + 8 * k).value for k in range(9)]
    dims, steps = ((ctypes.c_int64 * 3).from_address(word[k]) for k in (4, 5))
    return (
        word[1] == id(np.ndarray)
        and word[2] == address(probe)
        and word[3] & 0xFFFFFFFF == 3
        and (*dims, *steps) == (*probe.shape, *probe.strides)
        and word[6] == id(probe.base)
        and word[7] == id(probe.dtype)
        and (word[8] & 0x400 != 0) == probe.flags.writeable
    )


# ---- NumPy's BLAS ------------------------------------------------------------------------------------------------

# C++'s BlasInUse. Python's lock guards it.
_BLAS_IN_USE = np.zeros(2, np.int64)

# How builds of NumPy name a BLAS with 64-bit sizes.
_SPELLINGS = ("scipy_cblas_{}64_", "cblas_{}64_")


@cache
def blas() -> dict[str, Any]:
    """NumPy's own routines by name, each tried once on a small product; empty where they cannot be reached."""
    try:
        from numpy._core import _multiarray_umath as numpy_c  # type: ignore[attr-defined]
    except ImportError:
        return {}
    try:
        library = ctypes.CDLL(numpy_c.__file__)  # a name is looked up in what it was linked with, too
    except OSError:
        return {}
    for spelling in _SPELLINGS:
        found = {name: getattr(library, spelling.format(name), None) for name in HOST_BLAS}
        if None not in found.values() and all(_computes(found, letter) for letter in "sd"):
            return found
    return {}


@cache
def blas_threads() -> dict[str, Any]:
    """How many threads NumPy's OpenBLAS takes for a product, asked and set; empty where it is another library."""
    from numpy._core import _multiarray_umath as numpy_c  # type: ignore[attr-defined]

    library = ctypes.CDLL(numpy_c.__file__)
    for spelling in ("scipy_openblas_{}_num_threads64_", "openblas_{}_num_threads64_"):
        found = {
            f"{verb}_blas_threads": getattr(library, spelling.format(verb), None) for verb in ("get", "set")
        }
        if None not in found.values():
            return found
    return {}


def _computes(found: Mapping[str, Any], letter: str) -> bool:
    """Whether a product of 2x3 by 3x4 is what it should be, with sizes of 64 bits."""
    dtype, scalar = (np.float32, ctypes.c_float) if letter == "s" else (np.float64, ctypes.c_double)
    a, b = np.arange(6, dtype=dtype).reshape(2, 3), np.arange(12, dtype=dtype).reshape(3, 4)
    c, y = np.full((2, 4), np.nan, dtype), np.full(2, np.nan, dtype)
    size, place = ctypes.c_int64, lambda array: ctypes.c_void_p(address(array))
    one, zero = scalar(1), scalar(0)
    words = [
        101,
        111,
        111,
        *map(size, (2, 4, 3)),
        one,
        place(a),
        size(3),
        place(b),
        size(4),
        zero,
        place(c),
        size(4),
    ]
    found[f"{letter}gemm"](*words)
    words = [101, 111, size(2), size(3), one, place(a), size(3), place(a), size(1), zero, place(y), size(1)]
    found[f"{letter}gemv"](*words)
    return bool((c == np.matmul(a, b)).all() and (y == np.matmul(a, a[0])).all())
