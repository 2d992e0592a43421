"""Builds a rung of ladders.py with stage 4, twice: as a kernel that is fast, and as one that counts.

Input: the C++ text of a body. Counted, an array notes each load and store, and a simulated cache of 64 lines says which
of them go to memory. A number knows how many operations in a row led to it. `python -m lab17_ladders.kernels` measures
the rungs on your machine, and draws them under the roofline.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from stage4_runtime.runtime.build import build
from stage_contracts import config
from stage_contracts.program import SourceUnit, Target

LINES = 64  # of the simulated cache, 64 bytes each
# The parameters of each ladder: arrays that are read, arrays that are written, sizes.
PARAMETERS = {
    "softmax": (("x",), ("y",), ("n", "d")),
    "matmul": (("a", "b"), ("c",), ("n", "m", "k")),
    "attention": (("q", "k", "v"), ("o", "s"), ("n", "d")),
}

LOCAL = """template <class T> struct Local {
    T* p;
    Local(long size) : p((T*)std::calloc(size + 1, sizeof(T))) {}
    Local(const Local&) = delete;
    ~Local() { std::free(p); }
    T& operator[](long at) { return p[at]; }
};
"""
FAST = (
    """
#include <cmath>
#include <cstdint>
#include <cstdlib>
typedef float num;
static inline num exp_(num x) { return std::exp(x); }
static inline num sqrt_(num x) { return std::sqrt(x); }
static inline num abs_(num x) { return std::fabs(x); }
static inline num max_(num a, num b) { return a > b || a != a ? a : b; }
static inline long min_(long a, long b) { return a < b ? a : b; }
"""
    + LOCAL
)

COUNTED = """
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
struct Counts {
    int64_t loads[5], stores[5], distinct[5], operations, divisions, exponentials, misses, depth, outside, place;
};
static Counts counts;
static int64_t recent[LINES], used;  // the lines in the cache, the last one used first
static void touch(int id, long at) {
    int64_t line = id * (int64_t(1) << 40) + at / 16, k = 0;
    while (k < used && recent[k] != line) k++;
    if (k == used) { counts.misses++; if (used < LINES) used++; else k--; }
    std::memmove(recent + 1, recent, k * sizeof(int64_t));
    recent[0] = line;
}
struct num {
    float v; int64_t depth;
    num(float v = 0, int64_t depth = 0) : v(v), depth(depth) {}
};
static num made(float v, int64_t depth) {
    counts.operations++;
    if (depth + 1 > counts.depth) counts.depth = depth + 1;
    return num(v, depth + 1);
}
static int64_t later(num a, num b) { return a.depth > b.depth ? a.depth : b.depth; }
static num operator+(num a, num b) { return made(a.v + b.v, later(a, b)); }
static num operator-(num a, num b) { return made(a.v - b.v, later(a, b)); }
static num operator*(num a, num b) { return made(a.v * b.v, later(a, b)); }
static num operator/(num a, num b) { counts.divisions++; return made(a.v / b.v, later(a, b)); }
static num operator-(num a) { return num(-a.v, a.depth); }
static bool operator>(num a, num b) { return a.v > b.v; }
static bool operator<(num a, num b) { return a.v < b.v; }
static num exp_(num a) { counts.exponentials++; return made(std::exp(a.v), a.depth); }
static num sqrt_(num a) { return made(std::sqrt(a.v), a.depth); }
static num abs_(num a) { return num(std::fabs(a.v), a.depth); }
static num max_(num a, num b) { return made(a.v > b.v || a.v != a.v ? a.v : b.v, later(a, b)); }
static long min_(long a, long b) { return a < b ? a : b; }
struct Place {
    int id; float* p; int64_t* depths; char* seen; long at;
    void see() const { touch(id, at); if (!seen[at]) counts.distinct[id]++; seen[at] = 1; }
    operator num() const { see(); counts.loads[id]++; return num(p[at], depths[at]); }
    void operator=(num x) { see(); counts.stores[id]++; p[at] = x.v; depths[at] = x.depth; }
    void operator=(const Place& other) { *this = num(other); }
};
static num operator+(Place a, num b) { return num(a) + b; }
static num operator+(num a, Place b) { return a + num(b); }
static num operator-(Place a, num b) { return num(a) - b; }
static num operator*(Place a, num b) { return num(a) * b; }
static num operator*(num a, Place b) { return a * num(b); }
static num operator*(Place a, Place b) { return num(a) * num(b); }
static num operator/(Place a, num b) { return num(a) / b; }
static num operator-(Place a, Place b) { return num(a) - num(b); }
static num operator+(Place a, Place b) { return num(a) + num(b); }
static num& operator+=(num& a, num b) { a = a + b; return a; }
static num& operator-=(num& a, num b) { a = a - b; return a; }
static num& operator*=(num& a, num b) { a = a * b; return a; }
static num& operator/=(num& a, num b) { a = a / b; return a; }
static void operator+=(Place a, num b) { a = num(a) + b; }
static void operator-=(Place a, num b) { a = num(a) - b; }
static void operator*=(Place a, num b) { a = num(a) * b; }
static void operator/=(Place a, num b) { a = num(a) / b; }
struct Array {
    int id; float* p; int64_t size; Local<int64_t> depths; Local<char> seen;
    Array(int id, float* p, int64_t size) : id(id), p(p), size(size), depths(size), seen(size) {}
    Place operator[](long at) {
        if (at < 0 || at >= size) { counts.outside = id + 1; counts.place = at; at = 0; }
        return Place{id, p, depths.p, seen.p, at};
    }
};
"""


@dataclass(frozen=True)
class Counts:
    """What a kernel did, per array in the order of its parameters: loads, stores, distinct elements that it touched.

    operations: arithmetic in all. misses: lines of 64 bytes that were not in the cache of 64 lines. depth: the longest
    chain of operations that wait for each other. outside: 1 + the number of an array that was used beyond its end, at
    place.
    """

    loads: tuple[int, ...]
    stores: tuple[int, ...]
    distinct: tuple[int, ...]
    operations: int
    divisions: int
    exponentials: int
    misses: int
    depth: int
    outside: int
    place: int


def source(ladder: str, body: str, counted: bool = False) -> str:
    """The whole text of a kernel."""
    read, written, sizes = PARAMETERS[ladder]
    whole = [f"int64_t {name}" for name in sizes]
    if not counted:
        arrays = [f"const float* __restrict {name}" for name in read]
        arrays += [f"float* __restrict {name}" for name in written]
        return f'{FAST}\nextern "C" int64_t run({", ".join(arrays + whole)}) {{{body}    return 0;\n}}\n'
    arrays = [f"float* {name}_" for name in (*read, *written)]
    lengths = [f"int64_t {name}_size" for name in (*read, *written)]
    made = [f"    Array {name}({at}, {name}_, {name}_size);" for at, name in enumerate((*read, *written))]
    header = ", ".join([*arrays, *lengths, *whole, "int64_t* told"])
    prelude = COUNTED.replace("struct num {", f"{LOCAL}struct num {{", 1)
    return "\n".join([
        f"#define LINES {LINES}{prelude}", f'extern "C" int64_t run({header}) {{',
        "    std::memset(&counts, 0, sizeof(counts)); used = 0;", *made, body,
        "    std::memcpy(told, &counts, sizeof(counts));", "    return 0;", "}", "",
    ])  # fmt: skip


def built(ladder: str, body: str, counted: bool = False) -> Callable[..., Any]:
    """The loaded kernel. Stage 4's builder compiles it, and keeps it in its cache."""
    text = source(ladder, body, counted)
    flags = "-O1 -ffp-contract=off" if counted else "-O3 -march=native -fopenmp -ffp-contract=off"
    with config.patch({"runtime.cxx_flags": flags}):
        unit = SourceUnit(f"lab17_{ladder}", "cpp", text, ("run",), Target("cpp"))
        kernel = build(unit)["run"]
    kernel.argtypes = None  # addresses and sizes, as run() gives them
    return kernel


def results_of(ladder: str, arrays: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    """Arrays for what a kernel writes; NaN, so that what is forgotten shows."""
    rows = arrays[0].shape[0]
    if ladder == "matmul":
        return [np.full((rows, arrays[1].shape[1]), np.nan, np.float32)]
    made = [np.full(arrays[0].shape, np.nan, np.float32)]
    return made + [np.full((rows, rows), np.nan, np.float32)] * (ladder == "attention")


def sizes_of(ladder: str, arrays: tuple[np.ndarray, ...]) -> tuple[int, ...]:
    first = arrays[0].shape
    return (first[0], arrays[1].shape[1], first[1]) if ladder == "matmul" else first


def run(ladder: str, body: str, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
    """What the fast kernel computes."""
    return prepared(ladder, body, arrays)()


def prepared(ladder: str, body: str, arrays: tuple[np.ndarray, ...]) -> Callable[[], np.ndarray]:
    """A call of the fast kernel."""
    kernel, out = built(ladder, body), results_of(ladder, arrays)
    words = [ctypes.c_void_p(array.ctypes.data) for array in (*arrays, *out)]
    words += [ctypes.c_int64(size) for size in sizes_of(ladder, arrays)]  # type: ignore[misc]

    def call() -> np.ndarray:
        kernel(*words)
        return out[0]

    return call


def count(ladder: str, body: str, arrays: tuple[np.ndarray, ...]) -> Counts:
    """What the kernel does, counted."""
    return traced(ladder, body, arrays)[1]


def traced(ladder: str, body: str, arrays: tuple[np.ndarray, ...]) -> tuple[np.ndarray, Counts]:
    """What the counting kernel computes, and what it does."""
    kernel, out = built(ladder, body, counted=True), results_of(ladder, arrays)
    every = (*arrays, *out)
    told = np.zeros(22, np.int64)
    words: list[Any] = [ctypes.c_void_p(array.ctypes.data) for array in every]
    words += [ctypes.c_int64(array.size) for array in every]
    words += [ctypes.c_int64(size) for size in sizes_of(ladder, arrays)]
    kernel(*words, ctypes.c_void_p(told.ctypes.data))
    loads, stores, distinct = (tuple(map(int, told[k : k + len(every)])) for k in (0, 5, 10))
    return out[0], Counts(loads, stores, distinct, *map(int, told[15:]))


def oracle(ladder: str, arrays: tuple[np.ndarray, ...]) -> np.ndarray:
    """What NumPy computes, in float64."""
    x = [a.astype(np.float64) for a in arrays]
    if ladder == "matmul":
        return x[0] @ x[1]
    with np.errstate(all="ignore"):
        scores = x[0] @ x[1].T / np.sqrt(x[0].shape[1]) if ladder == "attention" else x[0]
        e = np.exp(scores - scores.max(1, keepdims=True)) if scores.size else scores
        weights = e / e.sum(1, keepdims=True)
    return weights @ x[2] if ladder == "attention" else weights


if __name__ == "__main__":
    from . import ladders
    from .roofline import main

    main(ladders)
