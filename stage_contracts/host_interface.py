"""What a program's C++ function `run` knows about its process: the memory layout of arrays, and a table of addresses.

Input: none; both sides read this file. The emitter puts HOST_CPP into the unit; the launcher fills the table in the
order of HOST_FIELDS. `run` is an ordinary built-in function of Python (METH_FASTCALL). It is built without Python's
headers, which would cost a fifth of a second per unit.
"""

from __future__ import annotations

from stage_contracts.dtype import DTYPES

# The entries of the table in order. Each is one address.
HOST_DTYPES = tuple(f"{name}_dtype" for name in DTYPES)
HOST_BLAS = ("sgemm", "dgemm", "sgemv", "dgemv")
HOST_THREADS = ("get_blas_threads", "set_blas_threads", "blas")  # all three, or none
HOST_STAMPS = ("stamps", "clock", "clock_gettime")  # the first is null unless a profiler records
HOST_FIELDS = (
    "as_int64",
    "from_int64",
    "save_thread",
    "restore_thread",
    "ndarray",
    *HOST_DTYPES,
    *HOST_BLAS,
    *HOST_THREADS,
    *HOST_STAMPS,
)

# The result of `run`: 0, or the number (from 1) of the kernel that found an index out of range, or this.
NOT_AS_COMPILED = -1

HOST_CPP = f"""\
// ---- run: the whole graph in one call ------------------------------------------------------------

// What every object begins with, and NumPy's array, as they lie in memory (PyObject, PyArrayObject).
struct Object {{ int64_t references; const void* type; }};
struct Array : Object {{
    char* data;
    int ndim;
    const int64_t *shape, *strides;  // strides in bytes
    const Object *base, *dtype;
    int flags;
    bool writeable() const {{ return flags & 0x400; }}  // NPY_ARRAY_WRITEABLE
}};

// NumPy's BLAS. Row-major: 101; a matrix as it lies or transposed: 111, 112.
enum {{ RowMajor = 101, AsIs = 111, Transposed = 112 }};
// Shared by all programs of the process: how many run products now, and how many threads BLAS had before the first.
struct BlasInUse {{ int64_t programs, threads; }};
template <class T> using Gemm = void (*)(
    int order, int a_lies, int b_lies, int64_t m, int64_t n, int64_t k,
    T alpha, const T* a, int64_t a_row, const T* b, int64_t b_row, T beta, T* c, int64_t c_row);
template <class T> using Gemv = void (*)(
    int order, int a_lies, int64_t m, int64_t n,
    T alpha, const T* a, int64_t a_row, const T* x, int64_t x_step, T beta, T* y, int64_t y_step);

// What run needs of the process that calls it: Python's functions, NumPy's objects and BLAS.
struct Host {{
    int64_t (*as_int64)(const Object*);
    Object* (*from_int64)(int64_t);
    void* (*save_thread)();
    void (*restore_thread)(void*);
    const void* ndarray;
    const Object {", ".join(f"*{name}" for name in HOST_DTYPES)};
    Gemm<float> sgemm;
    Gemm<double> dgemm;
    Gemv<float> sgemv;
    Gemv<double> dgemv;
    int (*get_blas_threads)();  // these three may be missing
    void (*set_blas_threads)(int);
    BlasInUse* blas;
    int64_t* stamps;  // for a profiler: when each step began, in nanoseconds, and when the last one ended
    int64_t clock;
    int (*clock_gettime)(int, int64_t*);
    void stamp(int step) const {{
        if (__builtin_expect(!stamps, 1)) return;
        int64_t now[2];
        clock_gettime(int(clock), now);
        stamps[step] = now[0] * 1000000000 + now[1];
    }}
}};

static inline int64_t at_least_one(int64_t size) {{ return size < 1 ? 1 : size; }}

// What the kernels were compiled for: an input's dtype and layout, strides in bytes, and whether it is written.
template <int most> struct Layout {{
    const Object* Host::*dtype;
    int itemsize;
    bool written;
    int ndim;
    int64_t shape[most], strides[most];
}};
template <int most> static bool fits(const Host& host, const Array* array, const Layout<most>& layout) {{
    if (array->type != host.ndarray || array->dtype != host.*layout.dtype || array->ndim != layout.ndim) return false;
    for (int k = 0; k < layout.ndim; ++k) {{
        if (array->shape[k] != layout.shape[k]) return false;
        if (array->strides[k] != layout.strides[k] && layout.shape[k] != 1) return false;
    }}
    return int64_t(array->data) % layout.itemsize == 0 && (!layout.written || array->writeable());
}}

// For a function that only calls others: to optimise hundreds of calls took half of the compiler's time.
#ifdef __clang__
#define CUTAWAY_AS_WRITTEN __attribute__((optnone))
#else
#define CUTAWAY_AS_WRITTEN __attribute__((optimize("O0")))
#endif
"""

# The additional text of a unit with products that a team shares.
BLAS_TEAM_CPP = """\
#ifdef _OPENMP
extern "C" int omp_get_max_threads();
#else
static inline int omp_get_max_threads() { return 1; }
#endif
// While a program runs, a product runs in the thread that asks for it: the team's threads do one each. (BLAS's own
// threads look for more work for some 20 ms after each product, and take the cores from the team.) It begins and ends
// where the thread holds Python's lock, which guards the count. Without a team BLAS keeps its threads.
struct OneBlasThread {
    const Host& host;
    explicit OneBlasThread(const Host& host) : host(host) {
#ifdef _OPENMP
        if (!host.set_blas_threads || host.blas->programs++) return;
        host.blas->threads = host.get_blas_threads();
        if (host.blas->threads > 1) host.set_blas_threads(1);
#endif
    }
    ~OneBlasThread() {
#ifdef _OPENMP
        if (!host.set_blas_threads || --host.blas->programs || host.blas->threads == 1) return;
        if (host.get_blas_threads() == 1) host.set_blas_threads(int(host.blas->threads));  // else somebody else set it
#endif
    }
};

// Into how many parts to cut each of `points` equal tasks, at least `least`: as few as leave the last round of the
// threads at most a tenth empty.
static inline int64_t shares(int64_t points, int64_t threads, int64_t least) {
    int64_t each = least;
    for (int64_t parts; each < least + threads; ++each) {
        parts = points * each;
        if (10 * ((parts + threads - 1) / threads * threads) <= 11 * parts) return each;
    }
    return least;
}
// The size of each of `parts` of some rows or columns: whole tiles of BLAS's registers.
static inline int64_t part(int64_t size, int64_t parts, int64_t tile) {
    const int64_t even = (size + parts - 1) / parts, tiles = (even + tile - 1) / tile * tile;
    return parts == 1 || tiles > size ? size : tiles;
}

// How a team shares products of one size: each is cut into `count` pieces of `rows` by `columns`, `along` of them side
// by side.
struct Pieces {
    int64_t m, n, rows, columns, along = 1, count = 1;
    bool shared = false;
    Pieces(const Host& host, int64_t points, int64_t m, int64_t n, int64_t k) : m(m), n(n), rows(m), columns(n) {
        // Multiplications that are worth a thread: it may have to wake up first. A vector's also wait for memory.
        const double least = m == 1 || n == 1 ? 1 << 17 : 1 << 19;
        const double worth = double(points) * double(m) * double(n) * double(k) / least;
        int64_t threads = host.set_blas_threads ? omp_get_max_threads() : 1;
        if (worth < double(threads)) threads = int64_t(worth);
        if (threads < 2) return;
        const int64_t each = shares(points, threads, 1);
        // BLAS copies a piece's rows of a and columns of b: of all ways to cut, that with the fewest.
        double fewest = 0;
        for (int64_t cut = 1; cut <= each; ++cut) {
            if (each % cut) continue;
            const int64_t high = part(m, cut, 4), wide = part(n, each / cut, 16);
            const double rounds = double((m + high - 1) / high) * double((n + wide - 1) / wide);
            const double cost = (double(high) + double(wide)) * (rounds < double(each) ? 1e6 : 1);
            if (fewest == 0 || cost < fewest) fewest = cost, rows = high, columns = wide;
        }
        along = (n + columns - 1) / columns;
        count = (m + rows - 1) / rows * along;
        shared = points * count > 1;
    }
};
struct Piece {
    const int64_t row, column, rows, columns;
    Piece(const Pieces& of, int64_t number)
        : row(number / of.along * of.rows), column(number % of.along * of.columns),
          rows(row + of.rows < of.m ? of.rows : of.m - row),
          columns(column + of.columns < of.n ? of.columns : of.n - column) {}
};

// How many rows a block has, at most `most`: as many as leave all threads equal shares. BLAS lays the other operand out
// anew for each block, so a share is one block if it can be.
static inline int64_t shared_rows(int64_t count, int64_t points, int64_t most) {
    const int64_t threads = omp_get_max_threads();
    if (threads == 1 || count < 1) return most;
    const int64_t even = part(count, shares(points, threads, (count + most - 1) / most), 4);
    const int64_t rows = even < 32 ? 32 : even;
    return rows < most ? rows : most;
}
// How many rows a block has, at most `most`: as many as the cache holds.
static inline int64_t cached_rows(int64_t bytes_of_row, int64_t cache, int64_t most) {
    const int64_t fit = cache / at_least_one(bytes_of_row) / 32 * 32, rows = fit < 32 ? 32 : fit;
    return rows < most ? rows : most;
}
"""
