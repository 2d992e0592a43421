"""Which vector functions of libmvec this machine has, as compiler flags; a missing function stays scalar.

Input: the text of a unit, which tests `#ifdef CUTAWAY_MVEC_expf` for each function it calls. libmvec is a part of glibc
since 2.22 (exp, log, sin, cos, pow) or 2.35 (the rest), on x86-64.
"""

from __future__ import annotations

import ctypes
import re
from functools import cache

from stage_contracts import events

# Widest first: the letters and lanes of libmvec's names, for float and for double.
VERSIONS = ("e", 16, 8), ("d", 8, 4), ("b", 4, 2)
BINARY = ("powf", "pow", "atan2f", "atan2")
# Each function is computed at the widest. GCC tunes some CPUs with AVX-512 for loops of half that width: a loop would
# pass each call half a vector through memory, five times slower. Without AVX-512 the flag changes nothing.
WIDEST_LOOPS = "-mprefer-vector-width=512"
# The same for loops that hand whole registers on, and for halves.
WIDE = ("from_bfloat16", "through_bfloat16", "to_bfloat16", "Lanes", "stream_lines")
# GCC moves a call whose result a select may not take into a branch, and makes two selects of one condition a branch
# (elu has such). In a branch there are no lanes: where(x > 0, exp(x), x) took twenty times as long as exp(x).
NO_BRANCHES = ("-fno-tree-sink", "-fno-thread-jumps")
_ASKED = re.compile(r"#(?:ifdef |elif defined\()CUTAWAY_MVEC_(\w+)")


def vector_math_flags(text: str, compiler: str = "g++") -> tuple[str, ...]:
    """A -D for each vector function that `text` asks for and this machine has. clang has a switch of its own."""
    wanted = sorted(set(_ASKED.findall(text)))
    if wanted and "clang" in compiler:
        return ("-fveclib=libmvec",)
    found = tuple(f"-DCUTAWAY_MVEC_{name}" for name in wanted if has_vector_version(name))
    if len(found) < len(wanted):
        _say_once(tuple(name for name in wanted if not has_vector_version(name)))
    own = "lanes_of_" in text  # functions of ours, with versions as libmvec's have
    wide = (WIDEST_LOOPS,) if found or own or any(f"cutaway::{name}" in text for name in WIDE) else ()
    return (*found, *wide, *(NO_BRANCHES if found or own else ()))


@cache
def has_vector_version(function: str) -> bool:
    """Whether the dynamic linker finds every width of it."""
    library = _libmvec()
    double = not function.endswith("f") or function == "erf"
    operands = "vv" if function in BINARY else "v"
    return library is not None and all(
        hasattr(library, f"_ZGV{letter}N{lanes[double]}{operands}_{function}") for letter, *lanes in VERSIONS
    )


@cache
def _libmvec() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL("libmvec.so.1")
    except OSError:
        return None


@cache
def _say_once(missing: tuple[str, ...]) -> None:
    events.record("fallback", "vector_math", missing=", ".join(missing))
