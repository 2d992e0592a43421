"""A large unit is built in pieces side by side: each kernel is in one of them, and they are linked into one library.

Input: a unit of small kernels as stage 3 writes them, cut at a few characters instead of thousands.
"""

import numpy as np
import pytest

from stage4_runtime.runtime import unit_parts
from stage4_runtime.tests.programs import cpp_unit
from stage_contracts import config, events

COUNT = 8
SHARED = """\
#include <stdint.h>
namespace cutaway {
__attribute__((visibility("hidden"), weak)) double scaled(double x) noexcept { return x * 4; }
}
#define CUTAWAY_SHARED __attribute__((noinline)) static

CUTAWAY_SHARED int64_t body_of_kernel6(double* y, int64_t size_0) {
    y[0] = size_0;
    return 0;
}
"""
KERNEL = """\
// model.py:{k}: a comment
extern "C" int64_t kernel{k}(double* y) {{
    {what}
}}
"""
PLAIN = "y[0] = cutaway::scaled({k});\n    return 0;"
RUN = """\
// ---- run: the whole graph in one call ----
extern "C" int64_t all(double* y) {{ return {}; }}
""".format(" + ".join(f"kernel{k}(y + {k})" for k in range(COUNT)))


def text_of():
    what = [PLAIN.format(k=k) for k in range(6)] + [
        "return body_of_kernel6(y, 24);",
        "return body_of_kernel6(y, 28);",
    ]
    functions = [KERNEL.format(k=k, what=w) for k, w in enumerate(what)]
    shared, mark, body = SHARED.partition("CUTAWAY_SHARED int64_t")
    return "\n".join([shared, *functions[:6], mark + body, *functions[6:], RUN])


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(unit_parts, "SMALLEST", 100)
    monkeypatch.setattr(unit_parts, "_cores", lambda: 3)


def test_each_function_is_in_one_piece(small):
    found = unit_parts.pieces_of(text_of())
    assert len(found) == 3
    for k in range(COUNT):
        assert [piece.count(f"int64_t kernel{k}(double* y) {{") for piece in found].count(1) == 1
    assert [piece.count("// ---- run: ") for piece in found] == [0, 0, 1]
    assert max(piece.count("body_of_kernel6(") for piece in found) == 3, "a body stays with what calls it"


def test_what_is_small_and_what_has_one_core_is_one_piece(small, monkeypatch):
    monkeypatch.setattr(unit_parts, "_cores", lambda: 1)
    assert unit_parts.pieces_of(text_of()) == [text_of()]
    monkeypatch.undo()
    assert unit_parts.pieces_of(text_of()) == [text_of()]
    assert unit_parts.pieces_of("int x;") == ["int x;"]


@pytest.mark.parametrize("helper", ["", "static double own(double x) { return x; }\n"])
def test_the_pieces_are_one_library(seam, small, helper):
    """What another piece cannot see makes it a build of the whole, which an event tells."""
    text = text_of()
    if helper:
        text = text.replace("// model.py:1:", helper + "// model.py:1:", 1).replace(
            "scaled(3)", "scaled(own(3))"
        )
    mark = events.EVENT_LOG.mark()
    with config.patch(cache=False):
        kernels = seam("build")(cpp_unit(text, (*(f"kernel{k}" for k in range(COUNT)), "all")))
    y = np.zeros(COUNT)
    assert kernels["all"](y.ctypes.data) == 0
    np.testing.assert_array_equal(y, 4.0 * np.arange(COUNT))
    whole = [e for e in events.EVENT_LOG.since(mark, "fallback") if e.name == "one piece"]
    assert len(whole) == (1 if helper else 0)
