"""The oracle's columns of stages 3 and 4: each row's loop nests, its C++, and its Triton kernels, against eager.

Input: cases.py's cases, through stage 2 as compiled.py traces them. `make oracle-kernels` walks all rows:
    python -m tests.oracle.kernel_columns [row ...] [--jobs 4] [--every 20] [--report reports/oracle-kernels.txt]
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.artifacts import HalfArtifacts
from cutaway.inductor import lower_and_build
from cutaway.pipelines import default_pipeline
from stage0_eager.core_interpreter import interpreter
from stage3_lowering.interpret import interpret_lowered
from stage3_lowering.triton_interpreter import compile_to_ptx, run_in_interpreter
from stage_contracts import config, events
from stage_contracts.device import CPU
from stage_contracts.graph import Graph
from stage_contracts.program import Target
from stage_contracts.tests.report_heading import heading
from tests.oracle import cases as c
from tests.oracle import compiled as stage2
from tests.oracle import samples  # noqa: F401  (fills ROWS)
from tests.oracle.cases import SEED, Case
from tests.oracle.columns import Column, NotHere, Outcome, check
from tests.oracle.spec import ROWS, Row

TRITON = Target("triton")


def lowered(core: Graph) -> Callable[..., tuple]:
    """Loop nests, run by the interpreter on NumPy."""
    found = HalfArtifacts(core, default_pipeline(), Target("cpp")).lowered
    return lambda *arrays: interpret_lowered(found, arrays)


def in_cpp(core: Graph) -> Callable[..., tuple]:
    """Generated C++, built and run as a user's is."""
    half = lower_and_build(core, CPU, default_pipeline())()
    assert half.run is not None
    return half.run


def triton_program(core: Graph) -> tuple[Any, dict[str, Any]]:
    half = HalfArtifacts(core, default_pipeline(), TRITON)
    return default_pipeline().emit(half.planned, TRITON), dict(half.lowered.constants)


def in_triton(core: Graph) -> Callable[..., tuple]:
    """Triton kernels, run by Triton's interpreter with every access checked."""
    program, constants = triton_program(core)
    return lambda *arrays: run_in_interpreter(program, arrays, constants=constants)


def to_ptx(core: Graph) -> Callable[..., tuple]:
    """Each Triton kernel compiles to PTX for sm_90; what runs is the graph itself."""
    for kernel in compile_to_ptx(triton_program(core)[0]).values():
        assert ".entry" in kernel["ptx"]
    return interpreter(core)


def column(
    name: str, half: Callable[[Graph], Callable], cases: Callable[[Row, bool], Iterator[Case]]
) -> Column:
    def agrees(case: Case) -> None:
        try:
            with events.no_internal_errors():
                stage2.stage2_is_eager(case, half)
        except stage2.Refused as error:
            raise NotHere(str(error)) from error

    agrees.__doc__ = half.__doc__
    return Column(name, agrees, cases)


def first_case(row: Row, full: bool) -> Iterator[Case]:
    return c.plain_cases(row, False)


KERNEL_COLUMNS = (
    column("lowered", lowered, c.plain_cases),
    column("C++", in_cpp, c.plain_cases),
    column("Triton", in_triton, c.plain_cases),
    column("PTX", to_ptx, first_case),
)
# (row, column): why it does not take part
EXCEPTIONS: dict[tuple[str, str], str] = {}


def walk(name: str, full: bool = True) -> dict[str, Outcome]:
    """Every column on one row; kernels are not kept on disk."""
    found = {}
    with config.patch({"cache": False}), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for one in KERNEL_COLUMNS:
            if (name, one.name) in EXCEPTIONS:
                continue
            np.random.seed(SEED)
            found[one.name] = check(one, ROWS[name], full)
    return found


def report(found: dict[str, dict[str, Outcome]], took: str) -> str:
    lines = [
        heading(
            "Every operator as loop nests, C++ and Triton", "make oracle-kernels", SEED, "triton", more=took
        ),
        "results, layouts and gradients of each sample against eager; PTX: the first sample of each, compiled for sm_90",
        "",
        f"{'':10}{'passed':>8}{'failed':>8}{'rows':>6}{'excepted':>10}",
    ]
    for name in (one.name for one in KERNEL_COLUMNS):
        of = [row[name] for row in found.values() if name in row]
        excepted = sum(column == name and row in found for row, column in EXCEPTIONS)
        failed = sum(len(o.failures) for o in of)
        rows = sum(bool(o.passed) for o in of)
        lines.append(f"{name:10}{sum(o.passed for o in of):>8}{failed:>8}{rows:>6}{excepted:>10}")
    lines += ["", "Not here, and why:"]
    reasons: dict[str, list[str]] = {}
    for row, outcomes in found.items():
        said = {note for outcome in outcomes.values() for note in outcome.notes}
        said |= {f"{column}: {why}" for (name, column), why in EXCEPTIONS.items() if name == row}
        for note in sorted(said):
            reasons.setdefault(note, []).append(row)
    lines += [f"  {note}: {', '.join(rows)}" for note, rows in reasons.items()]
    lines += [
        f"FAILED {row}, {name}: {text}"
        for row, outcomes in found.items()
        for name, outcome in outcomes.items()
        for text in outcome.failures[:1]
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", help="rows to walk (all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--every", type=int, default=1, help="of all rows only each n-th")
    parser.add_argument("--report", type=Path)
    options = parser.parse_args(arguments)
    rows, begun = options.rows or list(ROWS)[:: options.every], time.monotonic()
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        found = {}
        for name, outcomes in zip(rows, pool.imap(walk, rows)):
            found[name] = outcomes
            for column_name, outcome in outcomes.items():
                for text in outcome.failures[:1]:
                    print(f"FAILED {name}, {column_name}: {text}", file=sys.stderr, flush=True)
    text = report(
        found, f"{len(found)} rows run in {time.monotonic() - begun:.0f} s, {options.jobs} processes"
    )
    print(text)
    if options.report:
        options.report.write_text(text, encoding="utf-8")
    return int(any(o.failures for row in found.values() for o in row.values()))


if __name__ == "__main__":
    sys.exit(main())
