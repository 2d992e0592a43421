"""Python numbers that a half cannot hold, beside halves: too large, too small, and between two of them.

Input: the rows of samples/. `cases()` puts each such number in the place of each number that a row takes, beside small,
usual and large tensors; `without_numbers()` has tensors of many sizes alone, where a half overflows in between.
`python -m tests.oracle.half_numbers [row ...]` compares all of them with torch and, with --kernels, eager with loop
nests, C++ and Triton, which is interpreted.
"""

from __future__ import annotations

import argparse
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np

from stage0_eager.table.number_operands import FLOATS, TAKEN
from stage_contracts import config
from tests.oracle import cases as c
from tests.oracle import samples  # noqa: F401  (fills ROWS)
from tests.oracle import torch_side as other
from tests.oracle.cases import Case, function_of, map_leaves
from tests.oracle.columns import NotHere, outcome, scale_of, settled, values
from tests.oracle.compare import Mismatch, same
from tests.oracle.spec import ROWS, Operand, Row, Sample

# What each dtype rounds to infinity, to 0, by much, and by a little.
NUMBERS: dict[str, dict[str, float]] = {
    "float16": {
        "larger than all": 70_001.0,
        "smaller than all": 1e-9,
        "just above the smallest": 8.7e-8,
        "between two": 1.00047,
        "between two below 0": -0.33341,
        "a whole number between two": 4099,
    },
    "bfloat16": {
        "larger than all": 3.4e38,
        "smaller than all": 4e-41,
        "between two": 1.0037,
        "between two below 0": -0.3344,
        "a whole number between two": 515,
    },
}
SIZES = {"small": 2.0**-9, "usual": 1.0, "large": 2.0**12}  # by which the operands' values are multiplied
MANY_SIZES = (2.0**-9, 4.0, 8.0, 64.0, 2.0**8, 2.0**13)
UNITS = 0.75  # roundings of a half that a row of one rounding may differ from torch: one, and a little
# Rows that are one operator in both: not a bit may differ.
EXACT = ("mul", "add", "sub", "rsub", "floor_divide", "remainder", "fmod", "where", "masked_fill")
EXACT += ("eq", "ne", "lt", "le", "gt", "ge", "deg2rad", "rad2deg", "leaky_relu")
EXACT += ("lerp", "addcmul", "addcdiv", "hardswish", "hardsigmoid", "elu", "celu")


# (row, parameter or ""): why it is not compared with torch.
EXCEPTIONS: dict[tuple[str, str], str] = {
    ("cross_entropy", "label_smoothing"): "less than 0 has no meaning, and is no smoothing here",
    ("triplet_margin_loss", "eps"): "the difference of two large distances",
    ("hardtanh_", "min_val"): "refused above max_val; torch refuses it in hardtanh",
    ("trapezoid", "dx"): "of terms that are infinities, the order of the sum makes NaN",
    ("scaled_dot_product_attention", "scale"): "scores are halves in between, unless one kernel does it all",
    ("scaled_dot_product_attention", ""): "scores are halves in between, unless one kernel does it all",
    ("matrix_power", ""): "products in between are halves; of infinities, the order makes NaN",
    ("local_response_norm", ""): "the squares of the input are halves, in torch's average pooling not",
    ("ldexp", ""): "2 ** x is a half in torch; here its two factors are, and less is lost",
}


@dataclass(frozen=True)
class Place:
    """A number of a row: the parameter that takes it."""

    row: Row
    sample: int
    parameter: str


def parameters(name: str) -> list[str]:
    function = function_of(name)
    found = getattr(function, "params", None)
    return list(found or inspect.signature(function).parameters)


def places(row: Row) -> Iterator[Place]:
    """Where a row takes a number: it is known to, or a sample has a float there."""
    if "float16" not in row.dtypes or row.alias_of or "torch" in row.exceptions:
        return
    names = parameters(row.name)
    known = (*TAKEN.get(row.name, ()), *FLOATS.get(row.name, ()))
    seen: set[str] = set()
    for i, sample in enumerate(row.samples):
        given = dict(zip(names, sample.args)) | sample.kwargs
        floats = [name for name, value in given.items() if type(value) is float]
        for name in (*known, *floats):
            if name in names[1:] and name not in seen:
                seen.add(name)
                yield Place(row, i, name)


def sized(row: Row, sample: Sample, size: float) -> Row:
    """The row with one sample, whose operands are `size` times as large."""

    def scaled(operand: Operand) -> Operand:
        if operand.dtype is not None or operand.law is not None or operand.values is not None:
            return operand
        return replace(operand, low=operand.low * size, high=operand.high * size)

    args, kwargs = map_leaves((sample.args, sample.kwargs), scaled, Operand)
    return replace(row, samples=(Sample(args, kwargs),), layouts=())


def with_number(place: Place, number: float, size: float) -> Row:
    """The row with one sample: that of the place, with the number, and operands `size` times as large."""
    sample, names = place.row.samples[place.sample], parameters(place.row.name)
    args, kwargs = list(sample.args), dict(sample.kwargs)
    at = names.index(place.parameter)
    if at < len(args):
        args[at] = number
    else:
        kwargs[place.parameter] = number
    return sized(place.row, Sample(tuple(args), kwargs), size)


def cases(row: Row) -> Iterator[tuple[str, Case]]:
    """(what it is, the case) for each place, dtype, number and size."""
    for place in places(row):
        if (row.name, place.parameter) in EXCEPTIONS:
            continue
        for dtype, numbers in NUMBERS.items():
            for kind, number in numbers.items():
                for size, factor in SIZES.items():
                    text = f"{row.name}, {place.parameter}={number:g} ({kind}), {size} {dtype}"
                    yield text, Case(with_number(place, number, factor), 0, dtype)


def without_numbers(row: Row) -> Iterator[tuple[str, Case]]:
    """The first samples of a row as they are, in halves, with operands from small to so large that sums overflow."""
    left_out = row.alias_of or row.in_place_of or "torch" in row.exceptions or (row.name, "") in EXCEPTIONS
    for dtype in () if left_out else (d for d in NUMBERS if d in row.dtypes):
        for i, sample in enumerate(row.samples[:2]):
            for size in MANY_SIZES:
                yield (
                    f"{row.name} of {dtype}, sample {i}, times {size:g}",
                    Case(sized(row, sample, size), 0, dtype),
                )


def eager_is_torch(case: Case) -> None:
    """Values beside torch's. What torch refuses, as too large for a half, is not compared, nor is a NaN that torch makes of
    infinities in between."""
    want = outcome(lambda: other.run(case, case.arrays()))
    if isinstance(want, Exception):
        raise NotHere
    got = values(c.call(case.row.name, *case.arrays()))
    name = case.row.name.removesuffix("_")
    exact = name in EXACT
    scale = scale_of(case, case.arrays(), want)
    for mine, theirs in zip(settled(case, got), settled(case, want), strict=True):
        theirs = np.where(np.isnan(theirs), mine, theirs) if mine.dtype.kind in "fV" else theirs
        if exact and not np.array_equal(mine, theirs, equal_nan=mine.dtype.kind in "fV"):
            raise Mismatch(f"not torch's bits: {mine.ravel()[:4]}, expected {theirs.ravel()[:4]}")
        same(mine, theirs, UNITS if case.row.elementwise else max(UNITS, case.row.units / 4), scale)


def accepted(check: Callable[[Case], Any]) -> Callable[[Case], Any]:
    """`check` on the cases that eager does not refuse: a number may be no probability, or no bound."""

    def checked(case: Case) -> Any:
        if isinstance(outcome(lambda: c.call(case.row.name, *case.arrays())), Exception):
            raise NotHere
        return check(case)

    return checked


def failures(
    name: str, check: Callable[[Case], Any] = eager_is_torch, which: Callable = cases
) -> tuple[int, list[str]]:
    """(how many cases there are, what those that fail say) of a row."""
    count, wrong = 0, []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for text, case in which(ROWS[name]):
            count += 1
            try:
                check(case)
            except NotHere:
                count -= 1
            except Exception as error:  # a crash is a failure of that case
                wrong.append(f"{text}: {type(error).__name__}: {error}"[:300])
    return count, wrong


def main(arguments: list[str] | None = None) -> int:
    from tests.oracle.kernel_columns import KERNEL_COLUMNS

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="rows to walk (all)")
    parser.add_argument("--kernels", action="store_true", help="eager against what is compiled")
    options = parser.parse_args(arguments)
    checks: dict[str, tuple] = {one.name: (accepted(one.check), cases) for one in KERNEL_COLUMNS[:3]}
    if not options.kernels:
        checks = {"numbers": (eager_is_torch, cases), "sizes": (eager_is_torch, without_numbers)}
    total = bad = 0
    with config.patch({"cache": False}):
        for name, (what, (check, which)) in product(options.rows or ROWS, checks.items()):
            count, wrong = failures(name, check, which)
            total, bad = total + count, bad + len(wrong)
            if wrong:
                print(f"{what}: {name}: {len(wrong)} of {count} fail; {wrong[0]}", flush=True)
    print(f"{total} cases, {bad} fail")
    return int(bad > 0)


if __name__ == "__main__":
    sys.exit(main())
