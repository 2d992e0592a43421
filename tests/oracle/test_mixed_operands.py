"""Operands of two dtypes, numbers and tensors without dimensions in one expression: torch's dtypes, values and writes.

Input: EXPRESSIONS of tensors a, b of two dtypes, z without dimensions of a third, a mask m and places i; WRITES into x, a
copy of a. The dtypes go by turns. Each line runs here and in torch, and then all of a turn together, compiled. Where torch
refuses there is nothing to compare; signs of zeros are not compared, which torch's vectors lose.
"""

import os

import numpy as np
import pytest

import cutaway
from cutaway.torch_api import torch as here
from stage_contracts import events

DTYPES = "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 bool complex64".split()
NUMBERS = ("2", "-3", "2.5", "True")
SIGNS = ("+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>", "==", "<", ">=")
EXPRESSIONS = (
    *(f"{left} {sign} {right}" for sign in SIGNS for left, right in (("a", "b"), ("z", "a"), ("a", "z"))),
    *(f"a {sign} {number}" for sign in SIGNS for number in NUMBERS),
    *(f"{number} {sign} a" for sign in SIGNS for number in NUMBERS),
    "a != 0.5 + 1j", "a ** -1", "t.square(a)", "t.add(a, b, alpha=2)", "t.add(z, a, alpha=2)", "t.add(a, 2.5, alpha=2)",
    "t.sub(a, 3, alpha=2)", "t.addcmul(a, b, b)", "t.addcmul(a, b, z, value=2)", "t.xlogy(a, b)", "t.xlogy(z, a)",
    "t.xlogy(a, 2.5)", "t.clamp(a, max=300)", "t.clamp(a, 0.5)", "t.clamp(a, b)", "t.maximum(a, b)", "t.fmod(a, b)",
    "t.where(m, a, b)", "t.where(m, a, 2.5)", "t.where(m, 1, a)", "a.masked_fill(m, z)", "t.cat([a, b])", "t.isin(a, b)",
    "t.isin(a, -1.5)", "t.div(a, b, rounding_mode='floor')", "t.div(a, b, rounding_mode='trunc')", "t.lerp(a, a, 0.3)",
    "t.atan2(a, b)", "t.hypot(a, b)", "t.copysign(a, b)", "t.float_power(a, 2)", "t.nonzero(z)", "t.argwhere(z)",
    *(f"a.{fold}({dtype})" for fold in ("sum", "prod", "cumsum", "cumprod")
      for dtype in ("0", "0, dtype=t.int8", "0, dtype=t.int32", "0, dtype=t.float32", "0, dtype=t.bool")),
    "t.trapz(a)", "a.mean(0, dtype=t.float64)", "a.all()", "a.max()", "a.sort(stable=True)[1]", "t.result_type(a, z)",
)  # fmt: skip
WRITES = (
    *(f"x {sign}= {right}" for sign in SIGNS[:12] for right in ("b", "z", "2", "2.5", "True")),
    "x[1:3] = b[:2]", "x[m] = 2.7", "x[0] = z", "x.copy_(b)", "x.copy_(2.5)", "x.fill_(3.9)", "x.masked_fill_(m, z)",
    "x.add_(b, alpha=2)", "x.add_(2, alpha=3)", "x.addcmul_(b, b)", "x.clamp_(0, 2)", "x.eq_(b)", "x.index_add_(0, i, b)",
)  # fmt: skip
OF_COMPLEX = (
    "a ** b",
    "z ** a",
    "a ** z",
    "x **= b",
    "x **= z",
)  # 0 to the 0 is NaN in torch's, with complex numbers
TURNS = range(11) if os.environ.get("CUTAWAY_TEST_ALL") == "1" else (1, 5)
BY = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-5, "complex64": 2e-5}  # how far rounding goes


def values(dtype, seed, finite):
    """Beside a complex number nothing is infinite: what torch makes of that is a matter of its order."""
    rng = np.random.default_rng(seed)
    kinds = {
        "b": (0, 1),
        "u": (250, 3, 0, 7, 1),
        "i": (100, -7, 3, 0, 1, -128),
        "f": (1.5, -2.5, 0.0, 7.25, np.inf, np.nan, 3.0),
    }
    kind = "b" if dtype == "bool" else "u" if dtype == "uint8" else "i" if dtype.startswith("int") else "f"
    return [kinds[kind][k] for k in rng.integers(0, 4 if finite and kind == "f" else len(kinds[kind]), 4)]


def operands(torch, dtypes, turn):
    a, b, z = (
        torch.tensor(values(d, [turn, k], "complex64" in dtypes), dtype=getattr(torch, d))
        for k, d in enumerate(dtypes)
    )
    mask, places = torch.tensor([True, False, True, True]), torch.tensor([2, 0, 3, 1])
    return a, b, z[0].clone(), mask, places


def function_of(lines, torch):
    body = [
        f"    x = a.clone(); alias = x\n    {line}\n    r.append(alias)"
        if line in WRITES
        else f"    r.append({line})"
        for line in lines
    ]
    names = {"t": torch}
    exec("\n".join(["def program(a, b, z, m, i):", "    r = []", *body, "    return r"]), names)
    return names["program"]


def run(function, arguments):
    try:
        with np.errstate(all="ignore"):
            return [seen(r) for r in function(*arguments)]
    except Exception as error:
        return error


def seen(result):
    """The name of a dtype, with the values and their shape where it is a tensor's."""
    if not hasattr(result, "shape"):
        return str(result).split(".")[-1], None
    dtype = str(result.dtype).split(".")[-1]
    return dtype, np.asarray((result.double() if dtype == "bfloat16" else result).numpy())


def same(got, want):
    (dtype, a), (expected, b) = got, want
    if dtype != expected or a is None or a.shape != b.shape:
        return dtype == expected and a is b
    with np.errstate(all="ignore"):
        return np.allclose(a, b, rtol=BY.get(dtype, 1e-12), atol=BY.get(dtype, 1e-12), equal_nan=True)


def dtypes_of(turn):
    return [DTYPES[(turn * step + step) % len(DTYPES)] for step in (1, 3, 4)]


@pytest.mark.parametrize("turn", TURNS)
def test_as_torch_and_compiled(turn):
    torch = pytest.importorskip("torch")
    dtypes, agreed, differ = dtypes_of(turn), [], []
    for line in (*EXPRESSIONS, *WRITES):
        if line in OF_COMPLEX and "complex64" in dtypes:
            continue
        want = run(function_of([line], torch), operands(torch, dtypes, turn))
        got = run(function_of([line], here), operands(here, dtypes, turn))
        if isinstance(got, Exception):
            if not isinstance(want, Exception) and "not implemented for bool" not in str(got):
                differ.append((line, got, want))
            continue
        agreed.append(line)
        if not isinstance(want, Exception) and not same(got[0], want[0]):
            differ.append((line, got, want))
    assert not differ, "\n".join(map(str, differ))
    mark = events.EVENT_LOG.mark()
    expected = run(function_of(agreed, here), operands(here, dtypes, turn))
    for options in ({"backend": "aot_eager"}, {"options": {"runtime.cxx": "/nowhere/g++"}}):
        compiled = cutaway.compile(function_of(agreed, here), **options)
        found = run(compiled, operands(here, dtypes, turn))
        wrong = [each for each in zip(agreed, found, expected, strict=True) if not same(*each[1:])]
        assert not wrong, "\n".join(map(str, wrong))
    assert not list(events.EVENT_LOG.since(mark, "internal_error"))
