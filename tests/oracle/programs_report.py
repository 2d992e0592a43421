"""Ten thousand random programs, run and counted: `make programs`, or `python -m tests.oracle.programs_report [count]`.

Input: programs.py's strategy, with a seed. Output: reports/programs.txt.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections import Counter
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from stage_contracts.tests.report_heading import heading
from tests.oracle.compare import Mismatch
from tests.oracle.operations import OPERATIONS
from tests.oracle.programs import Program, check, programs
from tests.oracle.report import PEERS

SEED = 20240607
COUNT = 10_000
ROOT = Path(__file__).parents[2]


def run(count: int) -> tuple[Counter, Counter, list[str]]:
    """(how often each operation was taken, how many programs had so many steps, what failed)."""
    operations: Counter = Counter()
    lengths: Counter = Counter()
    failures: list[str] = []

    @seed(SEED)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def one(program: Program) -> None:
        operations.update(step.operation for step in program.steps)
        lengths[len(program.steps)] += 1
        try:
            check(program)
        except Exception as error:
            failures.append(
                f"{type(error).__name__}: {error}" + ("" if isinstance(error, Mismatch) else f"\n{program}")
            )

    one()
    return operations, lengths, failures


def main() -> int:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else COUNT
    warnings.simplefilter("ignore")
    start = time.monotonic()
    operations, lengths, failures = run(count)
    ran, steps = sum(lengths.values()), sum(operations.values())
    writes = sum(n for name, n in operations.items() if OPERATIONS[name].writes)
    lines = [
        heading("Random programs, eager against an interpreter in float64", "make programs", SEED, *PEERS),
        f"{ran} programs: {len(failures)} mismatches or crashes; {time.monotonic() - start:.0f} s.",
        f"{steps} steps, {steps / max(ran, 1):.1f} a program, {max(lengths)} at most; {writes} of them writes in place.",
        "",
        "How often each operation was taken:",
        *(f"{n:7d}  {name}" for name, n in sorted(operations.items())),
        *(f"{0:7d}  {name}" for name in sorted(set(OPERATIONS) - set(operations))),
        *(f"\nFAILURE\n{text}" for text in failures[:20]),
    ]
    print("\n".join(lines[:3] + (lines[3:] if failures else [])))
    if count == COUNT:
        (ROOT / "reports/programs.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
