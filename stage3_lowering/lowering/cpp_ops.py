"""C++ for each loop op: an expression template per category of operand, and the helper functions they call.

Input: none; these are tables. In a template `{0}`, `{1}`, ... are the operands, `{T}` is their C++ type, and `{f}` is
an f for float. Helpers are in the namespace `cutaway`, so a value may be called `sign`; a unit contains only the
helpers it uses.
"""

from __future__ import annotations

from stage3_lowering.lowering.cpp_halves import HALF_HELPERS
from stage3_lowering.lowering.cpp_math import UNARY
from stage3_lowering.lowering.cpp_random import RANDOM_HELPERS
from stage_contracts.dtype import BOOL, FLOATING, INTEGER

CPP_TYPES = {
    "bool": "bool", "uint8": "uint8_t", "int8": "int8_t", "int16": "int16_t", "int32": "int32_t",
    "int64": "int64_t", "float32": "float", "float64": "double",
    "float16": "uint16_t", "bfloat16": "uint16_t",  # their bits
}  # fmt: skip

# Of an element of an array. Compilers make no lanes of what loads a bool.
MEMORY_TYPES = CPP_TYPES | {"bool": "uint8_t"}

_EXACT = ["sqrt", "floor", "ceil", "trunc"]  # one instruction each
_COMPARE = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

_FLOAT: dict[str, str] = {name: f"cutaway::{name}({{0}})" for name in UNARY} | {
    **{name: f"__builtin_{name}{{f}}({{0}})" for name in _EXACT},
    "round": "__builtin_nearbyint{f}({0})",  # ties to even, as the default rounding mode does
    "rsqrt": "1 / __builtin_sqrt{f}({0})",
    "reciprocal": "1 / {0}",
    "sigmoid": "cutaway::sigmoid({0})",
    "abs": "__builtin_fabs{f}({0})",
    "neg": "-{0}",
    "isnan": "{0} != {0}",
    "isinf": "__builtin_isinf({0})",
    "add": "{0} + {1}",
    "sub": "{0} - {1}",
    "mul": "{0} * {1}",
    "div": "{0} / {1}",
    "floor_divide": "cutaway::floor_divide<{T}>({0}, {1})",
    "remainder": "cutaway::remainder<{T}>({0}, {1})",
    "fmod": "cutaway::fmod({0}, {1})",
    "pow": "cutaway::pow({0}, {1})",
    "atan2": "cutaway::atan2({0}, {1})",
    "copysign": "__builtin_copysign{f}({0}, {1})",
}
# Signed overflow is undefined in C++ but wraps in eager, so integer arithmetic goes through helpers.
_INTEGER: dict[str, str] = {
    "abs": "cutaway::wrap_abs<{T}>({0})",
    "neg": "cutaway::wrap_sub<{T}>(0, {0})",
    "bitwise_not": "{T}(~{0})",
    "add": "cutaway::wrap_add<{T}>({0}, {1})",
    "sub": "cutaway::wrap_sub<{T}>({0}, {1})",
    "mul": "cutaway::wrap_mul<{T}>({0}, {1})",
    "floor_divide": "cutaway::int_floor_divide<{T}>({0}, {1})",
    "remainder": "cutaway::int_remainder<{T}>({0}, {1})",
    "fmod": "cutaway::int_fmod<{T}>({0}, {1})",
    "pow": "cutaway::int_pow<{T}>({0}, {1})",
    "bitwise_and": "{T}({0} & {1})",
    "bitwise_or": "{T}({0} | {1})",
    "bitwise_xor": "{T}({0} ^ {1})",
    "bitwise_left_shift": "cutaway::shift_left<{T}>({0}, {1})",
    "bitwise_right_shift": "cutaway::shift_right<{T}>({0}, {1})",
}
_NUMBER: dict[str, str] = {
    "maximum": "cutaway::maximum<{T}>({0}, {1})",
    "minimum": "cutaway::minimum<{T}>({0}, {1})",
    "sign": "cutaway::sign<{T}>({0})",
    "logical_not": "{0} == 0",
    "logical_and": "({0} != 0) & ({1} != 0)",
    "logical_or": "({0} != 0) | ({1} != 0)",
    "logical_xor": "({0} != 0) != ({1} != 0)",
}
_BOOL: dict[str, str] = {
    **dict.fromkeys(("logical_not", "bitwise_not"), "!{0}"),
    **dict.fromkeys(("add", "maximum", "logical_or", "bitwise_or"), "{0} | {1}"),
    **dict.fromkeys(("mul", "minimum", "logical_and", "bitwise_and"), "{0} & {1}"),
    **dict.fromkeys(("logical_xor", "bitwise_xor"), "{0} != {1}"),
    "where": "({0} & {1}) | (!{0} & {2})",  # a selection of bools has no lanes
}
_ANY: dict[str, str] = {op: f"{{0}} {sign} {{1}}" for op, sign in _COMPARE.items()} | {
    "where": "{0} ? {1} : {2}"
}

CPP_OPS: dict[int, dict[str, str]] = {
    FLOATING: {**_ANY, **_NUMBER, **_FLOAT},
    INTEGER: {**_ANY, **_NUMBER, **_INTEGER},
    BOOL: {**_ANY, **_BOOL},
}

# What one element costs, in additions; everything else costs 1. Decides only whether threads are worth
# starting.
COSTS = dict.fromkeys(("sqrt", "div", "reciprocal", "rsqrt"), 4) | dict.fromkeys(
    (*UNARY, "sigmoid", "pow", "atan2", "fmod", "remainder", "floor_divide", "random_bits"),
    20,
)

LANES = 16  # of a row of open length: its vectors are as wide on every machine, so that its sums are the same numbers

# Numbers that no literal names.
NUMBERS = {"NAN": '__builtin_nanf("")', "INFINITY": "__builtin_inff()"}

HELPERS: dict[str, str] = {
    "maximum": """\
template <class T> T maximum(T a, T b) {  // NaN if either is NaN; two selections, as one with || is a branch
    T number = a > b ? a : b;
    return a != a ? a : number;
}""",
    "minimum": """\
template <class T> T minimum(T a, T b) {  // NaN if either is NaN; two selections, as one with || is a branch
    T number = a < b ? a : b;
    return a != a ? a : number;
}""",
    "Sum": "struct Sum { template <class T> T operator()(T a, T b) const { return a + b; } };",
    "Product": "struct Product { template <class T> T operator()(T a, T b) const { return a * b; } };",
    "Largest": """\
struct Largest { template <class T> T operator()(T a, T b) const { return cutaway::maximum(a, b); } };""",
    "Smallest": """\
struct Smallest { template <class T> T operator()(T a, T b) const { return cutaway::minimum(a, b); } };""",
    "sign": """\
template <class T> T sign(T x) { return T((x > 0) - (x < 0)); }""",
    "sigmoid": """\
template <class T> T sigmoid(T x) {  // e^-|x| never overflows; of NaN it is NaN
    T e = exp(T(-__builtin_fabs(x)));
    return (x >= 0 ? T(1) : e) / (1 + e);
}""",
    "floor_divide": """\
template <class T> T floor_divide(T a, T b) {  // as Python's //, from the exact remainder
    T rest = fmod(a, b), quotient = (a - rest) / b;
    quotient -= T((rest != 0) & ((b < 0) != (rest < 0)));
    T whole = T(__builtin_floor(quotient));
    whole += T(quotient - whole > T(0.5));
    whole = quotient == 0 ? T(__builtin_copysign(T(0), a)) * T(__builtin_copysign(T(1), b)) : whole;
    return b == 0 ? a / b : whole;
}""",
    "remainder": """\
template <class T> T remainder(T a, T b) {  // the sign of b, as Python's %
    T rest = fmod(a, b), other = (b < 0) != (rest < 0) ? rest + b : rest;
    other = rest == 0 ? T(__builtin_copysign(T(0), b)) : other;
    return b == 0 ? rest : other;
}""",
    "wrap_add": "template <class T> T wrap_add(T a, T b) { return T(uint64_t(a) + uint64_t(b)); }",
    "wrap_sub": "template <class T> T wrap_sub(T a, T b) { return T(uint64_t(a) - uint64_t(b)); }",
    "wrap_mul": "template <class T> T wrap_mul(T a, T b) { return T(uint64_t(a) * uint64_t(b)); }",
    "wrap_abs": "template <class T> T wrap_abs(T a) { return a < 0 ? T(0 - uint64_t(a)) : a; }",
    "int_floor_divide": """\
template <class T> T int_floor_divide(T a, T b) {  // the smallest integer // -1 wraps instead of trapping
    if (b == 0) return 0;
    if (T(-1) < T(0) && b == T(-1)) return T(0 - uint64_t(a));
    return T(a / b - (a % b != 0 && (a < 0) != (b < 0)));
}""",
    "int_remainder": """\
template <class T> T int_remainder(T a, T b) {  // the sign of b, as Python's %
    if (b == 0 || (T(-1) < T(0) && b == T(-1))) return 0;
    T rest = T(a % b);
    return rest != 0 && (rest < 0) != (b < 0) ? T(rest + b) : rest;
}""",
    "int_fmod": """\
template <class T> T int_fmod(T a, T b) {
    return b == 0 || (T(-1) < T(0) && b == T(-1)) ? T(0) : T(a % b);
}""",
    "int_pow": """\
template <class T> T int_pow(T x, T y) {  // by squaring; 1 / x**|y| truncated for a negative exponent
    if (y < 0) return x == 1 ? T(1) : x == T(-1) ? T(y % 2 ? -1 : 1) : T(0);
    uint64_t result = 1, square = uint64_t(x);
    for (auto left = uint64_t(y); left; left >>= 1, square *= square)
        if (left & 1) result *= square;
    return T(result);
}""",
    "shift_left": """\
template <class T> T shift_left(T a, T b) {
    return b < 0 || b >= T(8 * sizeof(T)) ? T(0) : T(uint64_t(a) << b);
}""",
    "shift_right": """\
template <class T> T shift_right(T a, T b) {
    return T(a >> (b < 0 || b >= T(8 * sizeof(T)) ? T(8 * sizeof(T) - 1) : b));
}""",
    "to_integer": """\
template <class T, class F> T to_integer(F x) {  // truncated; NaN and what does not fit: the smallest integer
    constexpr F low = sizeof(T) == 8 ? F(INT64_MIN) : F(INT32_MIN);
    F fits = (x >= low) & (x < -low) ? x : low;  // && is a branch
    T whole = sizeof(T) == 8 ? T(int64_t(fits)) : T(int32_t(fits));
    // Not the cast alone: g++ 12 makes trunc of a cast there and back, -0.0 of -0.5. Two comparisons are a branch.
    return __builtin_fabs(fits) < 1 ? T(0) : whole;
}""",
    **HALF_HELPERS,
    "bitcast": """\
template <class T, class F> T bitcast(F x) {  // the same bits as another type
    static_assert(sizeof(T) == sizeof(F));
    T out;
    __builtin_memcpy(&out, &x, sizeof(T));
    return out;
}""",
    "wrap_index": """\
inline int64_t wrap_index(int64_t index, int64_t size, int64_t& bad) {  // negatives count from the end
    index += size & (index >> 63);
    int64_t outside = uint64_t(index) >= uint64_t(size);  // in operations of lanes: two selections may be a branch
    bad |= outside;
    return index & (outside - 1);
}""",
    "Gathered": """\
template <class T, int most> struct Gathered {  // up to `most` elements from places, loaded one by one: not in lanes
    T elements[most];
    Gathered(const T* from, const int64_t* places, int64_t left) {
#pragma GCC unroll 8
        for (int64_t at = 0; at < (left < most ? left : most); ++at) {
            elements[at] = from[places[at]];
            asm volatile("");  // the CPU's own gather is slower
        }
    }
    T operator[](int64_t place) const { return elements[place]; }
};""",
    "Turned": """\
template <int n, int... k> struct Zip : Zip<n - 1, n - 1, k...> {};  // a[0], b[0], a[1], b[1], ...
template <int... k> struct Zip<0, k...> {
    template <class Lanes> static void halves(Lanes a, Lanes b, Lanes& low, Lanes& high) {  // one instruction each
        constexpr int half = sizeof...(k) / 2;
        low = Lanes{(k % 2 ? b[k / 2] : a[k / 2])...};
        high = Lanes{(k % 2 ? b[half + k / 2] : a[half + k / 2])...};
    }
};
template <class T, int rows, int columns> struct Turned {  // a tile of a matrix: elements[i][j] is from[j * apart + i]
    typedef T Lanes __attribute__((vector_size(16)));
    static constexpr int lanes = 16 / sizeof(T), line = 64 / sizeof(T);
    T elements[rows][columns];
    Turned(const T* from, int64_t apart, int64_t high, int64_t wide) {  // the matrix ends after `high` and `wide`
        high = high < rows ? high : rows, wide = wide < columns ? wide : columns;
        const int64_t even = high - high % lanes;
        for (int64_t column = 0; column < wide; column += lanes, from += lanes * apart) {
            const int64_t left = wide - column < lanes ? wide - column : lanes;
            for (int64_t next = lanes; next < 2 * lanes; ++next)  // a wish: past the end of memory it does nothing
                for (int64_t row = 0; row < even; row += line) __builtin_prefetch(from + next * apart + row);
            for (int64_t row = 0; left == lanes && row < even; row += lanes) turn(from + row, apart, row, column);
            for (int64_t row = left == lanes ? even : 0; row < high; ++row)
                for (int64_t next = 0; next < left; ++next) elements[row][column + next] = from[next * apart + row];
        }
    }
    void turn(const T* from, int64_t apart, int64_t row, int64_t column) {  // as many rows as a register has lanes
        Lanes given[lanes], zipped[lanes];
        for (int k = 0; k < lanes; ++k) __builtin_memcpy(&given[k], from + k * apart, 16);
        for (int step = 1; step < lanes; step *= 2) {  // a register of the first half with one of the second
            for (int k = 0; k < lanes / 2; ++k)
                Zip<lanes>::halves(given[k], given[k + lanes / 2], zipped[2 * k], zipped[2 * k + 1]);
            for (int k = 0; k < lanes; ++k) given[k] = zipped[k];
        }
        for (int k = 0; k < lanes; ++k) __builtin_memcpy(&elements[row + k][column], &given[k], 16);
    }
};""",
    "Row": """\
template <class T> struct Row {  // memory of a thread's own, for a row too long for its stack
    void* const memory;
    T* const start;  // where a cache line begins
    explicit Row(int64_t length)
        : memory(__builtin_malloc(sizeof(T) * length + 64)), start((T*)((uintptr_t(memory) + 63) / 64 * 64)) {}
    ~Row() { __builtin_free(memory); }
    T& operator[](int64_t place) { return start[place]; }
};""",
    "in_lanes": """\
struct AllLanes {
    constexpr bool operator[](int) const { return true; }
    template <class T> T kept(int, T value) const { return value; }
};
struct SomeLanes {
    const int32_t* set;  // all bits of a lane that is active, none of another
    bool operator[](int lane) const { return set[lane]; }
    static int kept(int, int value) { return value; }  // of a bool
    float kept(int lane, float value) const {  // 0 in the other lanes, whatever they hold
        int32_t bits;
        __builtin_memcpy(&bits, &value, 4);
        bits &= set[lane];
        __builtin_memcpy(&value, &bits, 4);
        return value;
    }
};
template <class Body> void in_lanes(int64_t first, int64_t last, Body body) {  // 16 elements at a time, then the rest
    static const int32_t sets[32] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};  // and 16 zeros
    for (; first + 16 <= last; first += 16) body(first, AllLanes{});
    if (first >= last) return;
    int64_t left = last - first;
    asm("" : "+r"(left));  // a compiler that knows which lanes are active writes them one by one
    body(first, SomeLanes{sets + 16 - left});
}""",
    "Halves": """\
#if defined(__AVX512F__)
#define CUTAWAY_REGISTER 64
#elif defined(__AVX__)
#define CUTAWAY_REGISTER 32
#else
#define CUTAWAY_REGISTER 16
#endif
template <int half, int... k> struct Halves : Halves<half - 1, half - 1, k...> {};  // of a register
template <int... k> struct Halves<0, k...> {  // in registers, not an array: what is written by parts is read late
    template <class T, class Register, class Combine> static T reduced(Register lanes, Combine combine) {
        constexpr int half = sizeof...(k);
        typedef T Half __attribute__((vector_size(half * sizeof(T))));
        if constexpr (half == 2) return combine(combine(lanes[0], lanes[2]), combine(lanes[1], lanes[3]));
        else return Halves<half / 2>::template reduced<T>(
            combine(Half{lanes[k]...}, Half{lanes[half + k]...}), combine);
    }
};""",
    "Lanes": """\
template <class T> struct Lanes {  // a value of each of 16 lanes: in registers between vectors, an array within one
    typedef T Register __attribute__((vector_size(CUTAWAY_REGISTER)));
    static constexpr int size = CUTAWAY_REGISTER / sizeof(T), count = 16 / size;
    Register registers[count];
    explicit Lanes(T start) {
        for (Register& lanes : registers) lanes = start - Register{};
    }
    void to(T (&lanes)[16]) const {
        for (int k = 0; k < count; ++k) __builtin_memcpy(lanes + k * size, &registers[k], sizeof(Register));
    }
    void from(const T (&lanes)[16]) {
        for (int k = 0; k < count; ++k) __builtin_memcpy(&registers[k], lanes + k * size, sizeof(Register));
    }
    template <class Combine> T reduced(Combine combine) const {  // the upper half into the lower, until one is left
        Register left[count];
        for (int k = 0; k < count; ++k) left[k] = registers[k];
        for (int half = count / 2; half; half /= 2)
            for (int k = 0; k < half; ++k) left[k] = combine(left[k], left[k + half]);
        return cutaway::Halves<size / 2>::template reduced<T>(left[0], combine);
    }
};""",
    "Accumulators": """\
template <class T> struct Accumulators {  // one for each of 32 elements side by side
    T lanes[32];
    explicit Accumulators(T start) {
        for (T& lane : lanes) lane = start;
    }
    T& operator[](int64_t lane) { return lanes[lane]; }
    template <class Combine> T reduced(Combine combine) const {  // the upper half into the lower, until one is left
        typedef T Register __attribute__((vector_size(CUTAWAY_REGISTER)));
        constexpr int size = CUTAWAY_REGISTER / sizeof(T), count = 32 / size;
        Register left[count];
        __builtin_memcpy(left, lanes, sizeof lanes);
        for (int half = count / 2; half; half /= 2)
            for (int k = 0; k < half; ++k) left[k] = combine(left[k], left[k + half]);
        return cutaway::Halves<size / 2>::template reduced<T>(left[0], combine);
    }
};""",
    "Positions": """\
template <class T> struct Positions {  // the best for each of 32 elements side by side, and its place
    T best[32];
    int32_t place[32] = {};
    explicit Positions(T start) {
        for (T& lane : best) lane = start;
    }
    int64_t first(bool (*better)(T, T)) {  // of the best of all lanes: the upper half into the lower, until one is left
        for (int half = 16; half; half /= 2) {
            #pragma omp simd
            for (int k = 0; k < half; ++k) {
                bool beats = better(best[half + k], best[k]), beaten = better(best[k], best[half + k]);
                bool earlier = place[half + k] < place[k];
                bool taken = beats | (!beaten & earlier);
                best[k] = taken ? best[half + k] : best[k];
                place[k] = taken ? place[half + k] : place[k];
            }
        }
        return place[0];
    }
};""",
    "prefetch": """\
template <class T> void prefetch(const T* from, int64_t count) {  // a wish: past the end of memory it does nothing
    for (int64_t at = 0; at < count; at += 64 / sizeof(T)) __builtin_prefetch(from + at, 0, 2);
}""",
    "stream": """\
#if defined(__clang__)
#define CUTAWAY_STREAM(to, lanes) __builtin_nontemporal_store(lanes, to)
#elif defined(__AVX__)
#define CUTAWAY_STREAM(to, lanes) __builtin_ia32_movntps256((float*)to, lanes)
#else
#define CUTAWAY_STREAM(to, lanes) *to = lanes
#endif
template <class T, int most> void stream(T* to, const T (&from)[most], int64_t left) {  // past the caches, by lines
    typedef float Lanes __attribute__((vector_size(32), may_alias));
    constexpr int64_t lanes = 32 / sizeof(T);
    const int64_t count = left < most ? left : most, lines = uintptr_t(to) % 64 ? 0 : count - count % (2 * lanes);
    for (int64_t at = 0; at < lines; at += lanes) {
        Lanes given;
        __builtin_memcpy(&given, from + at, 32);
        CUTAWAY_STREAM((Lanes*)(to + at), given);
    }
    for (int64_t at = lines; at < count; ++at) to[at] = from[at];
}""",
    "stream_lines": """\
#if defined(__AVX512F__)
#define CUTAWAY_WIDEST 64
#define CUTAWAY_PAST_CACHES(to, lanes) __builtin_ia32_movntps512((float*)to, lanes)
#elif defined(__AVX__)
#define CUTAWAY_WIDEST 32
#define CUTAWAY_PAST_CACHES(to, lanes) __builtin_ia32_movntps256((float*)to, lanes)
#else
#define CUTAWAY_WIDEST 16
#define CUTAWAY_PAST_CACHES(to, lanes) *to = lanes
#endif
#if defined(__clang__)
#undef CUTAWAY_PAST_CACHES
#define CUTAWAY_PAST_CACHES(to, lanes) __builtin_nontemporal_store(lanes, to)
#endif
template <class T, int n> void stream_lines(T* to, const T (&from)[n]) {  // whole lines past the caches, from registers
    typedef float Lanes __attribute__((vector_size(CUTAWAY_WIDEST), may_alias));
    constexpr int lanes = CUTAWAY_WIDEST / sizeof(T), count = n / lanes;
    Lanes given[count];
    for (int k = 0; k < count; ++k) __builtin_memcpy(&given[k], from + k * lanes, sizeof(Lanes));
    if (uintptr_t(to) % 64) {
        for (int k = 0; k < count; ++k) __builtin_memcpy(to + k * lanes, &given[k], sizeof(Lanes));
    } else {
        for (int k = 0; k < count; ++k) CUTAWAY_PAST_CACHES((Lanes*)(to + k * lanes), given[k]);
    }
}""",
    "streamed": """\
inline void streamed() {  // other threads see all that this one wrote past the caches
#if defined(__SSE__)
    __builtin_ia32_sfence();
#else
    __sync_synchronize();
#endif
}""",
    "larger": """\
template <class T> bool larger(T a, T b) { return (a > b || a != a) && b == b; }  // the first NaN wins""",
    "smaller": """\
template <class T> bool smaller(T a, T b) { return (a < b || a != a) && b == b; }  // the first NaN wins""",
    "larger_so_far": """\
template <class T> T larger_so_far(T value, T& best, bool& missing) {  // NaN from the first NaN on
    if (value > best) best = value;  // GCC: one instruction, where a selection is four
    missing |= value != value;
    return missing ? T(__builtin_nanf("")) : best;
}""",
    "smaller_so_far": """\
template <class T> T smaller_so_far(T value, T& best, bool& missing) {  // NaN from the first NaN on
    if (value < best) best = value;
    missing |= value != value;
    return missing ? T(__builtin_nanf("")) : best;
}""",
    "keep_larger": """\
template <class T, class I> void keep_larger(T a, I at, T& best, I& place) {  // in selections, for lanes
    const T so_far = best, value = a <= so_far ? so_far : a;
    const I there = place, from = a <= so_far ? there : at;
    best = so_far != so_far ? so_far : value;
    place = so_far != so_far ? there : from;
}""",
    "keep_smaller": """\
template <class T, class I> void keep_smaller(T a, I at, T& best, I& place) {  // in selections, for lanes
    const T so_far = best, value = a >= so_far ? so_far : a;
    const I there = place, from = a >= so_far ? there : at;
    best = so_far != so_far ? so_far : value;
    place = so_far != so_far ? there : from;
}""",
    **RANDOM_HELPERS,
}

# kind: (the reduction as a statement, the accumulator's start, OpenMP's name for the reduction)
REDUCTIONS: dict[str, tuple[str, str, str]] = {
    "sum": ("{acc} += {value};", "0", "+"),
    "prod": ("{acc} *= {value};", "1", "*"),
    "amax": ("{acc} = cutaway::maximum<{T}>({value}, {acc});", "{lowest}", "nan_max"),
    "amin": ("{acc} = cutaway::minimum<{T}>({value}, {acc});", "{highest}", "nan_min"),
    "any": ("{acc} |= {value} ? 1 : 0;", "0", "|"),
    "all": ("{acc} &= {value} ? 1 : 0;", "1", "&"),
}
# (kind, type of the result): that of the accumulator, where it is another. Sums of float32 are made in double, those of
# integers may wrap; compilers make no lanes of a bool that changes from step to step.
ACCUMULATED = {
    **{(kind, "int64_t"): "uint64_t" for kind in ("sum", "prod")},
    **{(kind, "bool"): "uint8_t" for kind in ("any", "all")},
    ("sum", "float"): "double",
}
# The same of a position: with the largest so far and its place. The first of what equals the start is at place 0.
POSITIONS = {
    "argmax": ("cutaway::keep_larger<{T}>({value}, {at}, {best}, {place});", "{lowest}"),
    "argmin": ("cutaway::keep_smaller<{T}>({value}, {at}, {best}, {place});", "{highest}"),
}
# Those of floats at each point of a row, where each waits for the one before. Whether there was NaN is kept apart.
EXTREMA_SO_FAR = {
    "amax": "cutaway::larger_so_far<{T}>({value}, {best}, {missing})",
    "amin": "cutaway::smaller_so_far<{T}>({value}, {best}, {missing})",
}
# OpenMP reductions of our own: + and || it knows, a maximum that keeps NaN it does not.
OPENMP_FOLDS = {
    "nan_max": "omp_out = cutaway::maximum(omp_out, omp_in)",
    "nan_min": "omp_out = cutaway::minimum(omp_out, omp_in)",
}
