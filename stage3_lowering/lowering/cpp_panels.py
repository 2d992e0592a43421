"""C++ for products by registers: a matrix laid into panels once, by which many blocks of rows are then multiplied.

Input: none; emit_cpp_run.py puts the text into a unit whose blocks of rows have such products (register_products.py
chooses them). The shape of the kernel is that of BLIS (Van Zee and van de Geijn, ACM TOMS 2015).
"""

from __future__ import annotations

PANELS_CPP = """\
// A product of a block's rows with b. BLAS would lay b into panels anew for each block; here they serve all blocks of a
// batch point. Without fused multiply-add it is BLAS after all.
#if defined(__FMA__) || defined(__aarch64__)
#if defined(__AVX512F__)
#define CUTAWAY_VECTOR 64  // bytes
#elif defined(__FMA__)
#define CUTAWAY_VECTOR 32
#else
#define CUTAWAY_VECTOR 16
#endif
#ifdef __clang__
#define CUTAWAY_FUSED _Pragma("clang fp contract(fast)")
#define CUTAWAY_FUSED_FUNCTION
#define CUTAWAY_BUILT_QUICKLY __attribute__((noinline))
#define CUTAWAY_MIX(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define CUTAWAY_FUSED
#define CUTAWAY_FUSED_FUNCTION __attribute__((optimize("fp-contract=fast"), noinline))
#define CUTAWAY_BUILT_QUICKLY __attribute__((optimize("O1"), noinline))  // once per batch point: a sixth of g++'s time
#define CUTAWAY_MIX(a, b, ...) __builtin_shuffle(a, b, decltype(a < b){__VA_ARGS__})
#endif
// Six rows of c, one panel wide, which stay in registers while b's panel goes by. As in BLAS, a product and its
// addition round once.
template <class T> CUTAWAY_FUSED_FUNCTION static void multiply_panel(
    int64_t k, const T* a, int64_t a_row, const T* panel, T* c, int64_t c_row, bool more) {
    CUTAWAY_FUSED
    typedef T Vector __attribute__((vector_size(CUTAWAY_VECTOR)));
    typedef T Unaligned __attribute__((vector_size(CUTAWAY_VECTOR), aligned(sizeof(T)), may_alias));
    constexpr int rows = 6, lanes = CUTAWAY_VECTOR / sizeof(T);
    Vector left[rows] = {}, right[rows] = {};
    for (int64_t p = 0; p < k; ++p) {
        const Vector b_left = *(const Vector*)(panel + 2 * lanes * p);
        const Vector b_right = *(const Vector*)(panel + 2 * lanes * p + lanes);
        #pragma GCC unroll 6
        for (int i = 0; i < rows; ++i) {
            const T x = a[i * a_row + p];
            left[i] += x * b_left;
            right[i] += x * b_right;
        }
    }
    if (more) {
        #pragma GCC unroll 6
        for (int i = 0; i < rows; ++i) {
            left[i] += *(Unaligned*)(c + i * c_row);
            right[i] += *(Unaligned*)(c + i * c_row + lanes);
        }
    }
    #pragma GCC unroll 6
    for (int i = 0; i < rows; ++i) {
        *(Unaligned*)(c + i * c_row) = left[i];
        *(Unaligned*)(c + i * c_row + lanes) = right[i];
    }
}
// A square of `from`, as wide as 16 bytes, rows for columns.
static inline void turn(const float* from, int64_t from_row, float* to, int64_t to_row) {
    typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
    const Four a = *(Four*)from, b = *(Four*)(from + from_row);
    const Four c = *(Four*)(from + 2 * from_row), d = *(Four*)(from + 3 * from_row);
    const Four ab = CUTAWAY_MIX(a, b, 0, 4, 1, 5), cd = CUTAWAY_MIX(c, d, 0, 4, 1, 5);
    const Four ab_next = CUTAWAY_MIX(a, b, 2, 6, 3, 7), cd_next = CUTAWAY_MIX(c, d, 2, 6, 3, 7);
    *(Four*)to = CUTAWAY_MIX(ab, cd, 0, 1, 4, 5);
    *(Four*)(to + to_row) = CUTAWAY_MIX(ab, cd, 2, 3, 6, 7);
    *(Four*)(to + 2 * to_row) = CUTAWAY_MIX(ab_next, cd_next, 0, 1, 4, 5);
    *(Four*)(to + 3 * to_row) = CUTAWAY_MIX(ab_next, cd_next, 2, 3, 6, 7);
}
static inline void turn(const double* from, int64_t from_row, double* to, int64_t to_row) {
    typedef double Two __attribute__((vector_size(16), aligned(8), may_alias));
    const Two a = *(Two*)from, b = *(Two*)(from + from_row);
    *(Two*)to = CUTAWAY_MIX(a, b, 0, 2);
    *(Two*)(to + to_row) = CUTAWAY_MIX(a, b, 1, 3);
}
template <class T> struct Panels {
    static constexpr int64_t width = 2 * CUTAWAY_VECTOR / sizeof(T);
    const int64_t k, n;
    cutaway::Row<T> memory;
    int64_t held = -1;  // the batch point
    Panels(const Host&, int64_t k, int64_t n) : k(k), n(n), memory((n + width - 1) / width * width * k) {}
    CUTAWAY_BUILT_QUICKLY void hold(int64_t point, const T* b, int64_t down, int64_t along) {
        if (held == point) return;
        held = point;
        for (int64_t j = 0; j < n; j += width) {
            const int64_t columns = n - j < width ? n - j : width;
            T* const panel = memory.start + j * k;
            constexpr int64_t square = 16 / sizeof(T);
            int64_t p = 0;
            if (down == 1 && columns >= width)
                for (; p + square <= k; p += square)
                    for (int64_t i = 0; i < width; i += square)
                        turn(b + p + (j + i) * along, along, panel + p * width + i, width);
            for (; p < k; ++p) {
                T* const at = panel + p * width;
                const T* const row = b + p * down + j * along;
                if (columns < width) for (int64_t i = 0; i < width; ++i) at[i] = i < columns ? row[i * along] : 0;
                else if (along == 1) __builtin_memcpy(at, row, width * sizeof(T));
                else for (int64_t i = 0; i < width; ++i) at[i] = row[i * along];
            }
        }
    }
    void multiply(int64_t rows, const T* a, int64_t a_row, T* c, int64_t c_row) const {
        for (int64_t j = 0; j < n; j += width) {
            int64_t i = 0;
            for (; i + 6 <= rows; i += 6) multiply_rows(6, j, a + i * a_row, a_row, c + i * c_row, c_row);
            if (i < rows && rows > 6) {  // the last six: some were there before, with the same results
                i = rows - 6;
                multiply_rows(6, j, a + i * a_row, a_row, c + i * c_row, c_row);
            } else for (; i < rows; ++i) multiply_rows(1, j, a + i * a_row, a_row, c + i * c_row, c_row);
        }
    }
    // Each element adds up in the order of k, in parts of 256, however many rows there are: the bits are the same.
    // One row is multiplied six times, and kept once: few blocks have so few, and each function more takes g++ time.
    void multiply_rows(int64_t rows, int64_t j, const T* a, int64_t a_row, T* c, int64_t c_row) const {
        T edge[6 * width];
        const int64_t columns = n - j < width ? n - j : width;
        const bool whole = rows == 6 && columns == width;
        T* const to = whole ? c + j : edge;
        const int64_t to_row = whole ? c_row : width, step = rows == 6 ? a_row : 0;
        for (int64_t p = 0; p == 0 || p < k; p += 256)
            multiply_panel(k - p < 256 ? k - p : 256, a + p, step, memory.start + j * k + p * width, to, to_row, p > 0);
        for (int64_t i = 0; !whole && i < rows; ++i)
            for (int64_t at = 0; at < columns; ++at) c[i * c_row + j + at] = edge[i * width + at];
    }
};
#else
static inline Gemm<float> gemm(const Host& host, float) { return host.sgemm; }
static inline Gemm<double> gemm(const Host& host, double) { return host.dgemm; }
template <class T> struct Panels {
    const Host& host;
    int64_t k, n, down, along;
    const T* b;
    Panels(const Host& host, int64_t k, int64_t n) : host(host), k(k), n(n) {}
    void hold(int64_t, const T* at, int64_t down_, int64_t along_) { b = at; down = down_; along = along_; }
    void multiply(int64_t rows, const T* a, int64_t a_row, T* c, int64_t c_row) const {
        const int64_t least = along == 1 ? n : k, step = along == 1 ? down : along, row = step < least ? least : step;
        gemm(host, T())(RowMajor, AsIs, along == 1 ? AsIs : Transposed, rows, n, k,
            T(1), a, at_least_one(a_row), b, at_least_one(row), T(0), c, at_least_one(c_row));
    }
};
#endif
"""
