"""Products on a GPU by cuBLAS: one prepared call a product, on the stream of the moment, with a workspace of its own.

Input: a `matmul` step whose sizes are known. CuPy refuses cuBLAS while a stream is captured, because cuBLAS might then
allocate memory; with a workspace given it does not. cuBLAS is column-major, so the product is asked for as b' a'.
"""

from __future__ import annotations

import ctypes
import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from stage_contracts import config
from stage_contracts.blas import Contraction, Matrix, contraction
from stage_contracts.errors import DeviceError
from stage_contracts.program import External, Program
from stage_contracts.size_vars import is_open

WORKSPACE = 32 << 20  # bytes for each stream: what NVIDIA recommends for Hopper
MOST_CALLS = 64  # of one product, where batch strides do not follow one another

FAST_TF32 = 77  # the cublasComputeType of float32 where TF32 is allowed
# dtype -> (cudaDataType, cublasComputeType, the type of alpha and beta): halves add up in float32
TYPES: dict[str, tuple[int, int, Any]] = {
    "float16": (2, 68, ctypes.c_float),
    "bfloat16": (14, 68, ctypes.c_float),
    "float32": (0, 68, ctypes.c_float),
    "float64": (1, 70, ctypes.c_double),
}
_DEFAULT_ALGORITHM = -1
_INT, _LONG, _POINTER = ctypes.c_int, ctypes.c_longlong, ctypes.c_void_p
_OPERAND: list[Any] = [_POINTER, _INT, _INT, _LONG]
_GEMM: list[Any] = [_POINTER, *[_INT] * 5, _POINTER, *_OPERAND, *_OPERAND, _POINTER, *_OPERAND, *[_INT] * 3]


@dataclass(frozen=True)
class Plan:
    """What is fixed of a product: the arguments between the pointers, and where each call begins, in bytes."""

    sizes: tuple[int, int, int, int, int]  # op of b, op of a, n, m, k
    b: tuple[int, int, int]  # type, leading dimension, batch stride
    a: tuple[int, int, int]
    c: tuple[int, int, int]
    count: int
    compute: int
    starts: tuple[tuple[int, int, int], ...]  # of a, b and c, for each call


def plan_of(product: Contraction, dtype: str, itemsize: int) -> Plan | None:
    """None where it would take too many calls."""
    kind, compute, _ = TYPES[dtype]
    if dtype == "float32" and config.current().runtime.matmul_allow_tf32:
        compute = FAST_TF32
    (count, *inner), outer = _batches(product)
    begin = product.a.offset, product.b.offset, product.c.offset
    starts = tuple(
        tuple(
            itemsize * (begin[which] + sum(i * loop[1 + which] for i, loop in zip(at, outer, strict=True)))
            for which in range(3)
        )
        for at in itertools.product(*(range(loop[0]) for loop in outer))
    )
    if len(starts) > MOST_CALLS:
        return None
    a, b, c = (
        (kind, int(x.row), step) for x, step in zip((product.a, product.b, product.c), inner, strict=True)
    )
    sizes = (
        int(product.b.transposed),
        int(product.a.transposed),
        int(product.n),
        int(product.m),
        int(product.k),
    )
    return Plan(sizes, b, a, c, count, compute, starts)


Loop = tuple[int, int, int, int]  # size, and the strides of a, b and c


def _batches(product: Contraction) -> tuple[Loop, list[Loop]]:
    """The batch loop that one call does, and those around it."""
    matrices: tuple[Matrix, ...] = (product.a, product.b, product.c)
    loops: list[Loop] = []
    for k, size in enumerate(product.batch):
        a, b, c = (int(x.batch[k]) for x in matrices)
        strides = a, b, c
        if size == 1:
            continue
        if loops and all(outer == size * inner for outer, inner in zip(loops[-1][1:], strides, strict=True)):
            loops[-1] = (loops[-1][0] * size, *strides)
        else:
            loops.append((int(size), *strides))
    if not loops:
        return (1, 0, 0, 0), []
    longest = max(range(len(loops)), key=lambda k: loops[k][0])
    return loops[longest], loops[:longest] + loops[longest + 1 :]


def product_call(step: External, program: Program, cp: Any) -> Callable[..., Any] | None:
    """`call(stream, a, b, c)`, all addresses, for what cuBLAS can do; None where the operator's eager kernel has to."""
    found = contraction(replace(step, into=True), program.buffers, dict.fromkeys(TYPES, "x"))
    if found is None or any(map(is_open, (*found.batch, found.m, found.n, found.k))):
        return None
    dtype = program.buffers[step.outputs[0]].meta.dtype
    plan, library = plan_of(found, dtype.name, dtype.itemsize), cublas()
    if plan is None or library is None:
        return None
    return _bound(cp, library, plan, TYPES[dtype.name][2])


def _bound(cp: Any, library: Any, plan: Plan, scalar: Any) -> Callable[..., Any]:
    one, zero = scalar(1), scalar(0)
    alpha, beta = ctypes.addressof(one), ctypes.addressof(zero)
    gemm, of_stream, starts = library.cublasGemmStridedBatchedEx, Handles(cp, library).on, plan.starts
    tail = (plan.count, plan.compute, _DEFAULT_ALGORITHM)

    def call(stream: int, a: int, b: int, c: int, _kept: tuple = (one, zero)) -> None:
        handle = of_stream(stream)
        for da, db, dc in starts:
            status = gemm(
                handle, *plan.sizes, alpha, b + db, *plan.b, a + da, *plan.a, beta, c + dc, *plan.c, *tail
            )
            if status:
                raise DeviceError(f"cuBLAS refused a product of {plan.sizes[2:]} (n, m, k): status {status}")

    return call


class Handles:
    """A cuBLAS handle for each thread and stream, with its workspace. The run before a capture makes it."""

    def __init__(self, cp: Any, library: Any) -> None:
        self.cp, self.library = cp, library

    def on(self, stream: int) -> int:
        return self._of(stream)[0]

    def workspace(self, stream: int) -> int:
        """The address of the memory that products on this stream work in, one after the other."""
        return int(self._of(stream)[1].ptr)

    def _of(self, stream: int) -> tuple[int, Any]:
        known = vars(_THREAD).setdefault("handles", {})
        key = self.cp.cuda.runtime.getDevice(), stream
        return known.get(key) or self._made(known, key)

    def _made(self, known: dict, key: tuple[int, int]) -> tuple[int, Any]:
        if len(known) >= _MOST_HANDLES:
            del known[next(iter(known))]  # the oldest
        handle = ctypes.c_void_p()
        memory = self.cp.cuda.Memory(WORKSPACE)  # not of a pool, which a graph's capture may own
        library = self.library
        for name, args in (
            ("cublasCreate_v2", (ctypes.byref(handle),)),
            ("cublasSetStream_v2", (handle, ctypes.c_void_p(key[1]))),
            ("cublasSetWorkspace_v2", (handle, ctypes.c_void_p(memory.ptr), ctypes.c_size_t(WORKSPACE))),
        ):
            if status := getattr(library, name)(*args):
                raise RuntimeError(f"{name} failed with status {status}")
        known[key] = int(handle.value or 0), memory
        return known[key]


def workspaces(stream: int) -> list[Any]:
    """The memory that this thread's products on a stream work in. A captured graph keeps it, for replays."""
    known: dict[tuple[int, int], tuple[int, Any]] = vars(_THREAD).get("handles", {})
    return [memory for (_, of), (_, memory) in known.items() if of == stream]


_THREAD = threading.local()
_MOST_HANDLES = 16


@cache
def cublas() -> Any:
    """The library that CuPy has loaded, for CuPy has no call that works during a capture; None where there is none."""
    try:
        from cupy_backends.cuda.libs import cublas as loaded  # noqa: F401
    except ImportError:
        return None
    library = library_beside("libcublas")
    if library is not None:
        library.cublasGemmStridedBatchedEx.argtypes = _GEMM
    return library


def library_beside(name: str) -> Any:
    """The library of this name that the process has loaded, or else the newest known; None where there is none."""
    path = next((line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines()
                 if f"/{name}.so" in line), f"{name}.so.13")  # fmt: skip
    try:
        return ctypes.CDLL(path)
    except OSError:
        return None
