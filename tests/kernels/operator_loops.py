"""Every operator as loops: of which did GCC make no lanes, and why?

Input: the calls of the oracle's table, with operands GROWN times as large, in one dtype: each becomes C++ and is
compiled, not run. A loop without lanes must be one of REASONS. `make loops` walks all calls:
    python -m tests.kernels.operator_loops [row ...] [--dtypes float32 bool] [--every 100]
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from cutaway.artifacts import HalfArtifacts
from cutaway.pipelines import default_pipeline
from stage0_eager.tensor import Tensor
from stage2_autograd.decompose import decompose
from stage2_autograd.differentiate import differentiate
from stage2_autograd.functionalize import functionalize
from stage2_autograd.partition import partition
from stage_contracts import config
from stage_contracts.program import Target
from stage_contracts.tests.report_heading import heading
from tests.kernels.lanes import loops_of
from tests.oracle import samples  # noqa: F401  (fills ROWS)
from tests.oracle.cases import Case, leaves, map_leaves
from tests.oracle.compiled import call_of, traced
from tests.oracle.spec import ROWS, Operand, Row, Sample

DTYPES = ("float32", "int64", "int32", "uint8", "bool", "float64", "bfloat16", "float16")
GROWN, GROWN_LAST = (
    4,
    64,
)  # each dimension, and the last one, where it is not 1: a row is many vectors of bytes
MOST = 4_000_000  # elements of an operand

# What a loop without lanes contains, in the first that fits: why it has none.
REASONS = {
    "few steps, which are unrolled": r"= 0; \w+ < 1?\d; ",
    "an element from a place that is computed": r"\bwrap_index\(|_places?\b|_tile\[",
    "a place with a quotient": r"\[[^\]\n]*[/%][^\]\n]*\]",
    "every n-th element": r"^ *for \(\w+ (\w+) [\s\S]*\[[^\]\n]*\d\*\1\b",
    "the same element for all lanes, in some": r"inside\w* \? \w+\[",
    "random bits in a row, a word at a time": r"\brandom_word\(",
    "no division of integers": r"\bint_(?:floor_divide|remainder|fmod)<",
    "GCC 12 shifts no constant by lanes": r"\bshift_(?:left|right)<\w+>\((?:\(-)?\d",
}
# (row, dtype): why its loop has none, where no other loop may have the same reason.
EXCEPTIONS = {
    ("xlogy", "bool"): "a logarithm of two numbers: GCC makes branches of them",
    ("isclose", "bool"): "a difference of two bools: GCC makes branches of them",
    ("histc", "float32"): "where the value is a constant, GCC skips the tests of its cast",
    ("histc", "float64"): "where the value is a constant, GCC skips the tests of its cast",
    ("vander", "float32"): "a counter as the exponent of a call: not understood",
    ("vander", "float64"): "a counter as the exponent of a call: not understood",
    ("cosine_similarity", "float16"): "float16 beside sums in float64: GCC 12 lacks a conversion",
    ("cumsum", "float16"): "float16 beside sums in float64: GCC 12 lacks a conversion",
    ("cumprod", "float16"): "float16 beside products in an array: GCC makes no lanes of both",
}


def larger(operand: Operand) -> Operand:
    *outer, last = operand.shape or (1,)
    shape = (*(d * GROWN if d > 1 else d for d in outer), last * GROWN_LAST if last > 1 else last)
    return replace(operand, shape=shape if operand.shape else ())


def calls(row: Row) -> Iterator[Row]:
    """The row with one call at a time, of larger operands."""
    for sample in row.samples:
        operands = leaves((sample.args, sample.kwargs), Operand)
        drawn = all(o.values is None and 0 not in o.shape for o in operands) and any(
            o.shape for o in operands
        )
        if drawn and all(np.prod(larger(o).shape) <= MOST for o in operands):
            yield replace(row, samples=(Sample(*map_leaves((sample.args, sample.kwargs), larger, Operand)),))


def unit(row: Row, dtype: str) -> str:
    """The C++ of the row's first call; "" where none is written, or the call does not take larger operands."""
    try:
        call, flat = call_of(Case(row, 0, dtype))
        graph, _ = traced(call, [Tensor(a) for a in flat])
        joint = differentiate(functionalize(graph))
    except Exception:  # a size among its arguments, or a break: told elsewhere
        return ""
    joint = replace(joint, graph=decompose(joint.graph)).verify()
    half = HalfArtifacts(partition(joint).verify().forward, default_pipeline(), Target("cpp"))
    return "\n".join(unit.text for unit in default_pipeline().emit(half.planned, half.target).units)


def cases(names: list[str], dtypes: list[str]) -> Iterator[tuple[Row, str]]:
    for name in names:
        row = ROWS[name]
        if not (row.alias_of or row.in_place_of):
            yield from ((call, dtype) for dtype in dtypes if dtype in row.dtypes for call in calls(row))


def reason(loop: str) -> str:
    """Why it has no lanes; "" where nothing says so."""
    return next((why for why, text in REASONS.items() if re.search(text, loop)), "")


def walk(chosen: list[tuple[Row, str]]) -> tuple[Counter[str], list[str]]:
    """How many loops have lanes, or a reason to have none; and each of the others, with its call."""
    counts, failures, seen = Counter[str](), [], set[str]()
    with (
        tempfile.TemporaryDirectory() as folder,
        config.patch({"cache": False}),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        for row, dtype in chosen:
            text = unit(row, dtype)
            if not text or text in seen:
                continue
            seen.add(text)
            for loop, has_lanes in loops_of(text, Path(folder)).items():
                known = reason(loop) or EXCEPTIONS.get((row.name, dtype), "")
                counts[why := "lanes" if has_lanes else known] += 1
                if not why:
                    failures.append(f"{row.name}{row.samples[0]}, {dtype}:\n{loop}")
    return counts, failures


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="rows to walk (all)")
    parser.add_argument("--dtypes", nargs="*", default=DTYPES)
    parser.add_argument("--every", type=int, default=1, help="one call in so many")
    options = parser.parse_args(arguments)
    chosen = [*cases(options.rows or [*ROWS], options.dtypes)][:: options.every]
    counts, failures = walk(chosen)
    lines = [
        heading("Loops of every operator, asked of GCC: has each lanes?", "make loops", 0),
        "",
        f"{len(chosen)} calls",
    ]
    lines += [f"{count:>7}  {why or 'NO LANES, AND NO REASON'}" for why, count in counts.most_common()]
    print("\n".join([*lines, *failures]))
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
