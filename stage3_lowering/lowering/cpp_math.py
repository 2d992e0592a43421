"""Mathematical functions of the generated C++: vector versions from libmvec turn a loop of exp into SIMD code.

Input: none; these are tables and text. libmvec is a part of glibc: it computes 2 to 16 lanes at once with an error of
at most 4 ulp. The build defines CUTAWAY_MVEC_<function> for each function it found; the others call the C library's
scalar function.
"""

from __future__ import annotations

import re
from collections.abc import Collection

from stage3_lowering.lowering.cpp_own_math import FUSED, LANES, OWN, own_text

UNARY = (
    "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
    "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "erf", "erfc",
)  # fmt: skip
BINARY = ("pow", "atan2")

# The compiler finds a function's vector versions by names made of the kind of register (b: SSE, d: AVX2,
# e: AVX-512), the lanes, a v per operand, and its own name. libmvec's versions round some values differently. Here
# all of them, and the scalar one that the end of a loop calls, are the widest: a value does not depend on its
# place in a loop, nor on the loop's length. Weak: a unit may be built in pieces, each with these functions.
VECTOR_MATH = """\
// Vector mathematics from libmvec, at most 4 ulp. The compiler finds the versions of a function for several lanes
// by their names. Each is made of the widest, so that the lanes and the end of a loop give the same bits.
#define CUTAWAY_FLOAT(name, f, v, wide, widest) CUTAWAY_ENTRY(float, name, f, v) \\
    CUTAWAY_VERSION(float, name, v, "cutaway_" #f, wide, widest) \\
    CUTAWAY_VERSION(float4, name, v, "_ZGVbN4" #v "_cutaway_" #f, wide, widest)
#define CUTAWAY_DOUBLE(name, f, v, wide, widest) CUTAWAY_ENTRY(double, name, f, v) \\
    CUTAWAY_VERSION(double, name, v, "cutaway_" #f, wide, widest) \\
    CUTAWAY_VERSION(double2, name, v, "_ZGVbN2" #v "_cutaway_" #f, wide, widest)
#define CUTAWAY_ENTRY(T, name, f, v) \\
    __attribute__((simd("notinbranch"), const)) T name(CUTAWAY_PARAMS_##v(T)) noexcept asm("cutaway_" #f);
#define CUTAWAY_VERSION(T, name, v, label, wide, widest) \\
    __attribute__((visibility("hidden"), weak)) T versions_of_##name(CUTAWAY_PARAMS_##v(T)) noexcept asm(label); \\
    T versions_of_##name(CUTAWAY_PARAMS_##v(T)) noexcept { return resized<T>(widest(CUTAWAY_RESIZED_##v(wide))); }
#define CUTAWAY_PARAMS_v(T) T x
#define CUTAWAY_PARAMS_vv(T) T x, T y
#define CUTAWAY_RESIZED_v(T) resized<T>(x)
#define CUTAWAY_RESIZED_vv(T) resized<T>(x), resized<T>(y)
template <class To, class From> inline To resized(From x) {  // its first lanes, or all of them repeated
    To y;
    if (sizeof y <= sizeof x) __builtin_memcpy(&y, &x, sizeof y);
    else for (unsigned at = 0; at < sizeof y; at += sizeof x) __builtin_memcpy((char*)&y + at, &x, sizeof x);
    return y;
}
typedef float float4 __attribute__((vector_size(16)));
typedef double double2 __attribute__((vector_size(16)));
#if defined(__AVX2__)
typedef float float8 __attribute__((vector_size(32)));
typedef double double4 __attribute__((vector_size(32)));
#endif
#if defined(__AVX512F__)
typedef float float16 __attribute__((vector_size(64)));
typedef double double8 __attribute__((vector_size(64)));
#define CUTAWAY_VECTOR_float(name, f, v) \\
    extern "C" float16 _ZGVeN16##v##_##f(CUTAWAY_PARAMS_##v(float16)); \\
    CUTAWAY_FLOAT(name, f, v, float16, _ZGVeN16##v##_##f) \\
    CUTAWAY_VERSION(float8, name, v, "_ZGVdN8" #v "_cutaway_" #f, float16, _ZGVeN16##v##_##f) \\
    CUTAWAY_VERSION(float16, name, v, "_ZGVeN16" #v "_cutaway_" #f, float16, _ZGVeN16##v##_##f)
#define CUTAWAY_VECTOR_double(name, f, v) \\
    extern "C" double8 _ZGVeN8##v##_##f(CUTAWAY_PARAMS_##v(double8)); \\
    CUTAWAY_DOUBLE(name, f, v, double8, _ZGVeN8##v##_##f) \\
    CUTAWAY_VERSION(double4, name, v, "_ZGVdN4" #v "_cutaway_" #f, double8, _ZGVeN8##v##_##f) \\
    CUTAWAY_VERSION(double8, name, v, "_ZGVeN8" #v "_cutaway_" #f, double8, _ZGVeN8##v##_##f)
#elif defined(__AVX2__)
#define CUTAWAY_VECTOR_float(name, f, v) \\
    extern "C" float8 _ZGVdN8##v##_##f(CUTAWAY_PARAMS_##v(float8)); \\
    CUTAWAY_FLOAT(name, f, v, float8, _ZGVdN8##v##_##f) \\
    CUTAWAY_VERSION(float8, name, v, "_ZGVdN8" #v "_cutaway_" #f, float8, _ZGVdN8##v##_##f)
#define CUTAWAY_VECTOR_double(name, f, v) \\
    extern "C" double4 _ZGVdN4##v##_##f(CUTAWAY_PARAMS_##v(double4)); \\
    CUTAWAY_DOUBLE(name, f, v, double4, _ZGVdN4##v##_##f) \\
    CUTAWAY_VERSION(double4, name, v, "_ZGVdN4" #v "_cutaway_" #f, double4, _ZGVdN4##v##_##f)
#else
#define CUTAWAY_VECTOR_float(name, f, v) \\
    extern "C" float4 _ZGVbN4##v##_##f(CUTAWAY_PARAMS_##v(float4)); \\
    CUTAWAY_FLOAT(name, f, v, float4, _ZGVbN4##v##_##f)
#define CUTAWAY_VECTOR_double(name, f, v) \\
    extern "C" double2 _ZGVbN2##v##_##f(CUTAWAY_PARAMS_##v(double2)); \\
    CUTAWAY_DOUBLE(name, f, v, double2, _ZGVbN2##v##_##f)
#endif
"""


def math_text(code: str, types: Collection[str] = ("float", "double")) -> str:
    """What `code` needs in the namespace `cutaway` to call its functions: `cutaway::exp(x)`, of these types. A function
    of the other type is deleted: a call of it would be refused, and not take a value of fewer digits."""
    called = set(re.findall(r"\b(?:cutaway::)?(\w+)\(", code))
    used = [(name, of) for name in (*UNARY, *BINARY) if name in called for of in ("float", "double")]
    text = own_text([(name, of) for name, of in used if of in types])
    text += "".join(_function(name, of, of in types) for name, of in used)
    text += "".join(LANES[name] for name in LANES if name in called)
    return VECTOR_MATH + text if text else ""


def _function(name: str, of: str, wanted: bool) -> str:
    v, params, args = ("vv", f"{of} x, {of} y", "x, y") if name in BINARY else ("v", f"{of} x", "x")
    if not wanted:
        return f"{of} {name}({params}) = delete;\n"
    c_name = name + "f" * (of == "float")
    vector = f"#ifdef CUTAWAY_MVEC_{c_name}"
    if (name, of) in OWN:
        vector = f"#if {FUSED}\n{OWN[name, of]}#elif defined(CUTAWAY_MVEC_{c_name})"
    return f"""\
{vector}
CUTAWAY_VECTOR_{of}({name}, {c_name}, {v})
#else
inline {of} {name}({params}) {{ return __builtin_{c_name}({args}); }}
#endif
"""
