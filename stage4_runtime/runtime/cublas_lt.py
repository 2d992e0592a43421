"""Products with a row added to each row of theirs, by cuBLASLt: added before the result is rounded and written once.

Input: a `matmul_add_row` step (stage 3's product_bias.py). cuBLASLt is column-major, so the product is asked for as
b' a', and the row is a column there: its "bias". The algorithm is its heuristic's first, chosen before the first call.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from stage4_runtime.runtime.cublas import WORKSPACE, Handles, Plan, cublas, library_beside, plan_of
from stage_contracts.blas import Contraction, contraction
from stage_contracts.errors import DeviceError
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import External, Program
from stage_contracts.size_vars import is_open

MULTIPLIED = ("float16", "bfloat16", "float32")  # by tensor cores; float32 where the program allows tf32
ALIGNMENT = 16  # bytes: what is promised of every pointer
# numbers of cublasLt.h
_TRANSPOSES, _EPILOGUE, _BIAS = (
    (3, 4),
    7,
    8,
)  # attributes of a product: of its operands, what is done after it
_BIAS_EPILOGUE = 4
_WORKSPACE_BYTES, _ALIGNMENTS = 1, (5, 6, 7, 8)  # attributes of a preference
_FLOAT = 0
_SOMEWHERE = 1 << 20
_P, _I32, _I64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64


class Heuristic(ctypes.Structure):
    """cublasLtMatmulHeuristicResult_t: an algorithm, and what it needs."""

    _fields_ = [
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace", ctypes.c_size_t),
        ("state", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    ]


@dataclass
class Prepared:
    """A product as cuBLASLt has it: descriptors of it and of its matrices, and an algorithm."""

    product: int
    b: int
    a: int
    c: int
    found: Heuristic


def product_with_row_call(step: External, program: Program, cp: Any) -> Callable[..., Any] | None:
    """`call(stream, a, b, row, c)`, all addresses; None where the operators' eager kernels have to."""
    plan, library = _plan(step, program), cublas_lt()
    if plan is None or library is None:
        return None
    with cp.cuda.Device(program.device.index):
        prepared = _prepared(library, plan, program.device.index)
    if prepared is None:
        return None
    row = step.args[2]
    begin = row.offset * program.buffers[row.name].meta.dtype.itemsize
    return _bound(
        library, _handle_of(library, program.device.index), Handles(cp, cublas()), plan, prepared, begin
    )


def _plan(step: External, program: Program) -> Plan | None:
    """The product of two matrices, by one call."""
    *operands, row = step.args
    plain = replace(step, target="matmul", args=tuple(operands), into=True)
    found = contraction(plain, program.buffers, dict.fromkeys(MULTIPLIED, "x"))
    if found is None or not isinstance(row, BufferRef):
        return None
    if any(map(is_open, (*found.batch, found.m, found.n, found.k, row.offset))):
        return None
    found = _of_two_matrices(found)
    dtype = program.buffers[step.outputs[0]].meta.dtype
    plan = plan_of(found, dtype.name, dtype.itemsize)
    return plan if plan is not None and plan.count == len(plan.starts) == 1 else None


def _of_two_matrices(product: Contraction) -> Contraction:
    """The product with the rows of all batches as one matrix, where they follow one another."""
    a, b, c = product.a, product.b, product.c
    down = 1 if a.transposed else a.row
    while product.batch and (a.batch[-1], b.batch[-1], c.batch[-1]) == (
        product.m * down,
        0,
        product.m * c.row,
    ):
        a, b, c = (replace(x, batch=x.batch[:-1]) for x in (a, b, c))
        m = product.m * product.batch[-1]
        product = replace(product, a=a, b=b, c=c, m=m, batch=product.batch[:-1])
    return product


def _prepared(library: Any, plan: Plan, device: int) -> Prepared | None:
    """The descriptors and an algorithm; None if cuBLASLt has none. Products that are alike have one algorithm: to ask
    for it takes 10 ms, and a model's layers ask for the same ones."""
    kind, compute = plan.c[0], plan.compute
    turned_b, turned_a, n, m, k = plan.sizes
    product = ctypes.c_void_p()
    _ask(library, "cublasLtMatmulDescCreate", ctypes.byref(product), compute, _FLOAT)
    for attribute, value in zip((*_TRANSPOSES, _EPILOGUE), (turned_b, turned_a, _BIAS_EPILOGUE), strict=True):
        _set(library, "cublasLtMatmulDescSetAttribute", product, attribute, _I32(value))
    # no call's: an algorithm is chosen for a product that has a row
    _set(library, "cublasLtMatmulDescSetAttribute", product, _BIAS, ctypes.c_void_p(_SOMEWHERE))
    b = _layout(library, kind, (k, n) if turned_b else (n, k), plan.b[1])
    a = _layout(library, kind, (m, k) if turned_a else (k, m), plan.a[1])
    c = _layout(library, kind, (n, m), plan.c[1])
    key = library, device, compute, plan.sizes, plan.a, plan.b, plan.c
    if key not in _ALGORITHMS:
        _ALGORITHMS[key] = _algorithm(library, device, product, b, a, c)
    found = _ALGORITHMS[key]
    if found is None:
        return None
    return Prepared(product.value or 0, b.value or 0, a.value or 0, c.value or 0, found)


_ALGORITHMS: dict[tuple[Any, ...], Heuristic | None] = {}


def _algorithm(
    library: Any,
    device: int,
    product: ctypes.c_void_p,
    b: ctypes.c_void_p,
    a: ctypes.c_void_p,
    c: ctypes.c_void_p,
) -> Heuristic | None:
    """The first of cuBLASLt's heuristic for these descriptors."""
    preference = ctypes.c_void_p()
    _ask(library, "cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
    _set(
        library,
        "cublasLtMatmulPreferenceSetAttribute",
        preference,
        _WORKSPACE_BYTES,
        ctypes.c_uint64(WORKSPACE),
    )
    for attribute in _ALIGNMENTS:
        _set(
            library, "cublasLtMatmulPreferenceSetAttribute", preference, attribute, ctypes.c_uint32(ALIGNMENT)
        )
    found, count = Heuristic(), ctypes.c_int()
    status = library.cublasLtMatmulAlgoGetHeuristic(
        _handle_of(library, device),
        product,
        b,
        a,
        c,
        c,
        preference,
        1,
        ctypes.byref(found),
        ctypes.byref(count),
    )
    library.cublasLtMatmulPreferenceDestroy(preference)
    return None if status or not count.value or found.state else found


def _layout(library: Any, kind: int, sizes: tuple[int, int], leading: int) -> ctypes.c_void_p:
    made = ctypes.c_void_p()
    rows, columns = sizes
    _ask(library, "cublasLtMatrixLayoutCreate", ctypes.byref(made), kind, ctypes.c_uint64(rows),
         ctypes.c_uint64(columns), _I64(leading))  # fmt: skip
    return made


def _set(library: Any, name: str, what: ctypes.c_void_p, attribute: int, value: Any) -> None:
    _ask(library, name, what, attribute, ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))


def _ask(library: Any, name: str, *args: Any) -> None:
    if status := getattr(library, name)(*args):
        raise DeviceError(f"{name} failed with status {status}")


def _bound(
    library: Any, handle: int, handles: Handles, plan: Plan, prepared: Prepared, begin: int
) -> Callable[..., Any]:
    one, zero, column = ctypes.c_float(1), ctypes.c_float(0), ctypes.c_void_p()
    alpha, beta = ctypes.addressof(one), ctypes.addressof(zero)
    ((da, db, dc),) = plan.starts
    lock = threading.Lock()
    product, b_layout, a_layout, layout = prepared.product, prepared.b, prepared.a, prepared.c
    algorithm, matmul = ctypes.addressof(prepared.found), library.cublasLtMatmul
    change, at, size = library.cublasLtMatmulDescSetAttribute, ctypes.byref(column), ctypes.c_size_t(8)

    def call(stream: int, a: int, b: int, row: int, c: int, _kept: tuple = (one, zero, prepared)) -> None:
        memory = handles.workspace(stream)
        with lock:  # the row's address is part of the descriptor
            column.value = row + begin
            status = change(product, _BIAS, at, size) or matmul(
                handle, product, alpha, b + db, b_layout, a + da, a_layout, beta, c + dc, layout, c + dc, layout,
                algorithm, memory, WORKSPACE, stream,
            )  # fmt: skip
        if status:
            raise DeviceError(f"cuBLASLt refused a product of {plan.sizes[2:]} (n, m, k): status {status}")

    return call


@cache
def cublas_lt() -> Any:
    """The library beside CuPy's cuBLAS; None where there is none."""
    if cublas() is None or (library := library_beside("libcublasLt")) is None:
        return None
    library.cublasLtMatmul.argtypes = [*[_P] * 14, ctypes.c_size_t, _P]
    library.cublasLtMatmulAlgoGetHeuristic.argtypes = [*[_P] * 7, ctypes.c_int, _P, _P]
    library.cublasLtMatmulDescSetAttribute.argtypes = [_P, ctypes.c_int, _P, ctypes.c_size_t]
    library.cublasLtMatmulPreferenceDestroy.argtypes = [_P]
    return library


@cache
def _handle_of(library: Any, device: int) -> int:
    handle = ctypes.c_void_p()
    _ask(library, "cublasLtCreate", ctypes.byref(handle))
    return handle.value or 0
