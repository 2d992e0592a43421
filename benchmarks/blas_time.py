"""How much of a compiled call's time NumPy's BLAS takes: the generated C++ gets functions that look at the clock.

Input: the table of addresses that every `run` is given (stage 4's segment_calls.py). For one thread: the times of a
team would be added up.
"""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stage4_runtime.runtime.segment_calls import host_table
from stage_contracts.host_interface import HOST_BLAS, HOST_FIELDS

COUNTED = """#include <stdint.h>
#include <time.h>
static int64_t spent;
static int64_t now() {
    timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}
template <class T> struct Blas {
    typedef void (*Gemm)(int, int, int, int64_t, int64_t, int64_t, T, const T*, int64_t, const T*, int64_t, T, T*,
                         int64_t);
    typedef void (*Gemv)(int, int, int64_t, int64_t, T, const T*, int64_t, const T*, int64_t, T, T*, int64_t);
    static Gemm gemm;
    static Gemv gemv;
};
template <class T> typename Blas<T>::Gemm Blas<T>::gemm;
template <class T> typename Blas<T>::Gemv Blas<T>::gemv;
#define COUNTED(T, s) \\
    extern "C" void s##gemm(int o, int ta, int tb, int64_t m, int64_t n, int64_t k, T alpha, const T* a, int64_t lda, \\
                            const T* b, int64_t ldb, T beta, T* c, int64_t ldc) { \\
        const int64_t begun = now(); \\
        Blas<T>::gemm(o, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc); \\
        spent += now() - begun; \\
    } \\
    extern "C" void s##gemv(int o, int ta, int64_t m, int64_t n, T alpha, const T* a, int64_t lda, const T* x, \\
                            int64_t incx, T beta, T* y, int64_t incy) { \\
        const int64_t begun = now(); \\
        Blas<T>::gemv(o, ta, m, n, alpha, a, lda, x, incx, beta, y, incy); \\
        spent += now() - begun; \\
    } \\
    extern "C" void use_##s##gemm(void* f) { Blas<T>::gemm = (typename Blas<T>::Gemm)f; } \\
    extern "C" void use_##s##gemv(void* f) { Blas<T>::gemv = (typename Blas<T>::Gemv)f; }
COUNTED(float, s)
COUNTED(double, d)
extern "C" int64_t taken() {
    const int64_t all = spent;
    spent = 0;
    return all;
}
"""


def blas_counter() -> Callable[[Callable[[], Any], int], float]:
    """From now on calls of BLAS are timed. What is returned runs a function so often, and gives the part of its time
    that BLAS took."""
    with tempfile.TemporaryDirectory() as folder:
        source, made = Path(folder) / "counted.cpp", Path(folder) / "counted.so"
        source.write_text(COUNTED)
        subprocess.run(["c++", "-O2", "-shared", "-fPIC", str(source), "-o", str(made)], check=True)
        library = ctypes.CDLL(str(made))
    table = host_table(True)
    assert table is not None, "generated code calls no BLAS on this machine"
    for name in HOST_BLAS:
        place = HOST_FIELDS.index(name)
        getattr(library, f"use_{name}")(ctypes.c_void_p(int(table[place])))
        table[place] = ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    library.taken.restype = ctypes.c_int64

    def share(call: Callable[[], Any], count: int) -> float:
        library.taken()
        started = time.perf_counter()
        for _ in range(count):
            call()
        return float(library.taken()) / 1e9 / (time.perf_counter() - started)

    return share
