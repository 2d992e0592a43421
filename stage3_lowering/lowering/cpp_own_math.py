"""Mathematical functions of the generated C++ that are written out: float32's exp, tanh and erf.

Input: none; this is text. A call of libmvec keeps no value in a register and loads its constants each time; these are
inlined in a loop, and the compiler makes lanes of them. The coefficients are fitted by tests/fit_polynomials.py.
"""

from __future__ import annotations

# Fused multiplication and addition is asked for, never left to the compiler: lanes and the end of a loop round alike.
# Without the instruction these functions would lose digits, and libmvec's stay.
FUSED = "defined(__FMA__) || defined(__aarch64__)"

SHARED = """\
// The smaller of x and a variable is one instruction; of x and a constant, GCC makes a comparison and a selection.
#ifdef __clang__
#define CUTAWAY_LIMIT static constexpr float
#else
#define CUTAWAY_LIMIT __attribute__((used)) static float
#endif
// The sum of x and this ends in the bits of n + 127, n the integer nearest to x: moved to where a float has its
// exponent, they are 2**n.
constexpr float whole = 0x1.8p23f + 127;
inline float power_of_two(float shifted) {
    uint32_t bits;
    __builtin_memcpy(&bits, &shifted, 4);
    bits <<= 23;
    __builtin_memcpy(&shifted, &bits, 4);
    return shifted;
}
"""

# .6 of the time of libmvec's, and of masked scores (-inf), which libmvec computes one by one, much less.
EXP = """\
// e**x = 4**n * e**r with |r| <= log(2): log(4) in two parts (Cody and Waite 1980), e**r a polynomial; at most 1.7 ulp.
// 2**n twice, so that the largest and the smallest results (which are below normal) come out right.
CUTAWAY_LIMIT exp_most = 89.0f, exp_least = -105.0f;  // what lies beyond is infinite or 0; NaN stays NaN
inline float exp(float x) {
    x = x > exp_most ? exp_most : x;
    x = x < exp_least ? exp_least : x;
    const float shifted = __builtin_fmaf(x, 0x1.715476p-1f, whole), n = shifted - whole;
    const float r = __builtin_fmaf(n, 0x1.bd0106p-12f, __builtin_fmaf(n, -0x1.63p+0f, x));
    float p = __builtin_fmaf(0x1.9ba784p-13f, r, 0x1.71c384p-10f);
    p = __builtin_fmaf(p, r, 0x1.112732p-7f);
    p = __builtin_fmaf(p, r, 0x1.5549e0p-5f);
    p = __builtin_fmaf(p, r, 0x1.555512p-3f);
    p = __builtin_fmaf(p, r, 0x1.00000cp-1f);
    p = __builtin_fmaf(p, r, 1.0f);
    const float scale = power_of_two(shifted);
    return __builtin_fmaf(p, r, 1.0f) * scale * scale;
}
"""

ONE_LESS_EXP = """\
// 1 - e**x for x <= 0, small results too: 1 - 2**n - 2**n * (e**r - 1) with |r| <= log(2) / 2. Where n is not 0, an
// error of r hardly counts: log(2) has one part.
inline float one_less_exp(float x) {
    const float shifted = __builtin_fmaf(x, 0x1.715476p+0f, whole), n = shifted - whole;
    const float r = __builtin_fmaf(n, -0x1.62e430p-1f, x);
    float p = __builtin_fmaf(0x1.6b9c66p-10f, r, 0x1.12254ap-7f);
    p = __builtin_fmaf(p, r, 0x1.5556f2p-5f);
    p = __builtin_fmaf(p, r, 0x1.5554b4p-3f);
    p = __builtin_fmaf(p, r, 0x1.fffffep-2f);
    p = __builtin_fmaf(p, r * r, r);
    const float scale = power_of_two(shifted);
    return __builtin_fmaf(-scale, p, 1.0f - scale);
}
"""

TANH = """\
// tanh |x| = t / (2 - t), t = 1 - e**-2|x|; at most 2.5 ulp.
CUTAWAY_LIMIT tanh_most = 10.0f;  // what lies beyond is 1; NaN stays NaN
inline float tanh(float x) {
    float size = __builtin_fabsf(x);
    size = size > tanh_most ? tanh_most : size;
    const float t = one_less_exp(-2.0f * size);
    return __builtin_copysignf(t / (2.0f - t), x);
}
"""

ERF = """\
// erf |x| = 1 - e**log(erfc |x|), the logarithm a polynomial; at most 1.9 ulp.
CUTAWAY_LIMIT erf_most = 4.0f;  // what lies beyond is 1; NaN stays NaN
inline float erf(float x) {
    float size = __builtin_fabsf(x);
    size = size > erf_most ? erf_most : size;
    float log = __builtin_fmaf(0x1.3b0436p-17f, size, -0x1.f28cd4p-14f);
    log = __builtin_fmaf(log, size, 0x1.4e2a76p-11f);
    log = __builtin_fmaf(log, size, -0x1.b7457ap-10f);
    log = __builtin_fmaf(log, size, 0x1.637deep-13f);
    log = __builtin_fmaf(log, size, 0x1.39b7c8p-6f);
    log = __builtin_fmaf(log, size, -0x1.a4f8c4p-4f);
    log = __builtin_fmaf(log, size, -0x1.45f300p-1f);
    log = __builtin_fmaf(log, size, -0x1.06eba8p-3f);
    log = __builtin_fmaf(log, size, -size);
    return __builtin_copysignf(one_less_exp(log), x);
}
"""

FMOD = """\
#if defined(__FMA__) && !defined(__clang__)
// The rest of x / y, exact. Rounded to nearest, a quotient's whole part is right or one too large while it is a number
// of T; the rest of either has no more digits than y. One of these lanes with another quotient sends all of them to the
// C library.
inline float fused(float x, float y, float z) { return __builtin_fmaf(x, y, z); }
inline double fused(double x, double y, double z) { return __builtin_fma(x, y, z); }
inline float rest_of(float x, float y) { return __builtin_fmodf(x, y); }
inline double rest_of(double x, double y) { return __builtin_fmod(x, y); }
template <class T, class Lanes> Lanes lanes_of_fmod(Lanes x, Lanes y) {
    constexpr int count = sizeof(Lanes) / sizeof(T);
    constexpr T whole = sizeof(T) == 4 ? T(0x1p24) : T(0x1p53), infinite = T(__builtin_inf());
    T a[count], b[count], rest[count];
    __builtin_memcpy(a, &x, sizeof x);
    __builtin_memcpy(b, &y, sizeof y);
    int far = 0;
    for (int k = 0; k < count; ++k) {
        const T size = __builtin_fabs(a[k]), by = __builtin_fabs(b[k]), turns = size / by;
        const T left = fused(-T(__builtin_trunc(turns)), by, size);
        rest[k] = __builtin_copysign(left < 0 ? left + by : left, a[k]);
        far |= turns < whole ? 0 : 1;
        far |= by < infinite ? 0 : 1;
    }
    if (far)
        for (int k = 0; k < count; ++k) rest[k] = rest_of(a[k], b[k]);
    __builtin_memcpy(&x, rest, sizeof x);
    return x;
}
#if defined(__AVX512F__)
CUTAWAY_FLOAT(fmod, fmodf, vv, float16, lanes_of_fmod<float>)
CUTAWAY_VERSION(float8, fmod, vv, "_ZGVdN8vv_cutaway_fmodf", float16, lanes_of_fmod<float>)
CUTAWAY_VERSION(float16, fmod, vv, "_ZGVeN16vv_cutaway_fmodf", float16, lanes_of_fmod<float>)
CUTAWAY_DOUBLE(fmod, fmod, vv, double8, lanes_of_fmod<double>)
CUTAWAY_VERSION(double4, fmod, vv, "_ZGVdN4vv_cutaway_fmod", double8, lanes_of_fmod<double>)
CUTAWAY_VERSION(double8, fmod, vv, "_ZGVeN8vv_cutaway_fmod", double8, lanes_of_fmod<double>)
#else
CUTAWAY_FLOAT(fmod, fmodf, vv, float8, lanes_of_fmod<float>)
CUTAWAY_VERSION(float8, fmod, vv, "_ZGVdN8vv_cutaway_fmodf", float8, lanes_of_fmod<float>)
CUTAWAY_DOUBLE(fmod, fmod, vv, double4, lanes_of_fmod<double>)
CUTAWAY_VERSION(double4, fmod, vv, "_ZGVdN4vv_cutaway_fmod", double4, lanes_of_fmod<double>)
#endif
#else
inline float fmod(float x, float y) { return __builtin_fmodf(x, y); }
inline double fmod(double x, double y) { return __builtin_fmod(x, y); }
#endif
"""
# Functions of which the compiler is given versions for lanes, as of libmvec's (cpp_math.py).
LANES = {"fmod": FMOD}

OWN = {("exp", "float"): EXP, ("tanh", "float"): TANH, ("erf", "float"): ERF}
NEEDS_ONE_LESS_EXP = {TANH, ERF}


def own_text(used: list[tuple[str, str]]) -> str:
    """What the functions of OWN among `used` share."""
    texts = {OWN[function] for function in used if function in OWN}
    parts = [SHARED] * bool(texts) + [ONE_LESS_EXP] * bool(texts & NEEDS_ONE_LESS_EXP)
    return "".join([f"#if {FUSED}\n", *parts, "#endif\n"]) if parts else ""
