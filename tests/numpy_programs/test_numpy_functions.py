"""Every NumPy function that is captured, on every dtype and several layouts, against NumPy itself.

Input: numpy_programs/calls.py. Each line runs here on some dtypes, in turn; `make numpy` runs all on all.
"""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest

import cutaway
from stage0_eager import numpy_api
from tests.numpy_programs.calls import FAMILIES
from tests.numpy_programs.compare import assert_same, observe

DTYPES = tuple(d.name for d in numpy_api.ARRAY_DTYPES)
LAYOUTS = {
    "row-major": lambda x: x,
    "column-major": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, -1)[..., ::2],
}
# What has another formula than NumPy's, or (in half precision) another place to round: near, not equal.
# Products of matrices go to BLAS, which takes another way for vectors and for strided operands.
NEAR = (
    "hypot",
    "logaddexp",
    "corrcoef",
    "percentile",
    "einsum",
    "linalg.",
    "cov",
    "@",
    "dot",
    "matmul",
    "inner",
    "kron",
)
# Lines that some dtypes leave to NumPy: unsigned sums are uint64, and integers have no negative powers.
LEFT = {
    "nonzero(": DTYPES, "power(a, b)": ("bool", "uint8"), "pow(a, b)": ("bool", "uint8"), "np.around(a, -1)": ("int", "uint"), "einsum": ("bool",),
    "trapezoid": ("bool",), "quantile(": ("bool", "float16", "float32"), "percentile(": ("bool", "float16"),
    "gradient(": ("bool",), "nanvar(": ("float16",), "nanstd(": ("float16",), "polyval(": ("bool",), "sum(": ("uint8",), "prod(": ("uint8",), "trace(": ("uint8",),
}  # fmt: skip


def array(shape, dtype, seed):
    rng = np.random.default_rng(seed)
    if dtype == "bool":
        return rng.random(shape) > 0.5
    if "int" in dtype:
        return rng.integers(0 if dtype[0] == "u" else -3, 5, shape).astype(dtype)
    return (rng.standard_normal(shape) * 2).astype(dtype)


def operands(dtype, layout):
    return tuple(LAYOUTS[layout](array(s, dtype, i)) for i, s in enumerate([(3, 4), (3, 4), (4, 4), (4,)]))


def function_of(line):
    names = {"np": np}
    exec(f"def f(a, b, m, v): return {line}", names)
    return names["f"]


def check(line, dtype, layout, backend="eager"):
    """One line on one dtype. Returns whether it was captured whole."""
    function = function_of(line)
    compiled = cutaway.compile(function, backend=backend)
    want, got = observe(function, operands(dtype, layout)), observe(compiled, operands(dtype, layout))
    # NumPy adds up in the order of the memory
    folds = line in FAMILIES["reductions"] and layout != "row-major"
    exact = backend == "eager" and dtype != "float16" and not folds and not any(name in line for name in NEAR)
    if want.error:
        assert got.error.split(":")[0] == want.error.split(":")[0], f"{line} on {dtype}: {got.error}"
        return False
    assert_same(got, want, f"{line} on {dtype}, {layout}", exact)
    return not compiled.breaks


def may_be_left(line, dtype):
    return any(name in line and any(dtype.startswith(d) for d in dtypes) for name, dtypes in LEFT.items())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_function_does_what_numpy_does(family):
    warnings.simplefilter("ignore", RuntimeWarning)
    for i, line in enumerate(FAMILIES[family]):
        chosen = {("float64", "row-major"), (DTYPES[i % 9], ("column-major", "strided")[i // 9 % 2])}
        for dtype, layout in sorted(chosen):
            captured = check(line, dtype, layout)
            failed = observe(function_of(line), operands(dtype, layout)).error
            assert captured or failed or may_be_left(line, dtype), f"{line} on {dtype} is not captured"


def test_every_row_is_in_the_table():
    text = " ".join(line for lines in FAMILIES.values() for line in lines)
    methods = {row.op for name, row in numpy_api.ROWS.items() if f".{name.split('.')[-1]}(" in text}
    missing = [
        name
        for name, row in numpy_api.ROWS.items()
        if row.op not in methods and hasattr(np, name.split(".")[0])
    ]
    assert missing == []


def test_the_page_has_every_function_and_each_of_its_tables():
    site = Path(__file__).parents[2] / "site_docs"
    spec = importlib.util.spec_from_file_location("numpy_page", site / "numpy_page.py")
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    text = (site / "numpy.md").read_text(encoding="utf-8")
    for mark, make in page.TABLES.items():
        assert text.count(mark) == 1
        text = text.replace(mark, make())
    assert "<!--" not in text
    assert [name for name in numpy_api.ROWS if f"`{name}`" not in text] == []
