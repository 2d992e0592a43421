"""Pairs of operators compiled by stage 2 against eager: `make pairs` keeps what this prints as pairs.txt.

Input: compiled.py's links, every operator from one tensor to one; of all pairs, a seeded sample. The argument is its size.
"""

from __future__ import annotations

import platform
import random
import sys
from datetime import UTC, datetime

import numpy as np

import tests.oracle.samples  # noqa: F401  (fills spec.ROWS)
from tests.oracle.compare import Mismatch
from tests.oracle.compiled import Refused, links, pair_is_eager

SEED = 0


def main(count: int) -> int:
    chain = links()
    pairs = [(a, b) for a in chain for b in chain]
    random.Random(SEED).shuffle(pairs)
    passed = refused = 0
    wrong: list[str] = []
    for first, second in pairs[:count]:
        try:
            pair_is_eager(first, second)
            passed += 1
        except Refused:
            refused += 1
        except Mismatch as error:
            wrong.append(f"{first.row.name}, then {second.row.name}: {str(error).splitlines()[0][:100]}")
    print(
        f"Pairs of operators, compiled forward and gradient against eager, float64. {datetime.now(UTC):%Y-%m-%d}, Python "
        f"{platform.python_version()}, NumPy {np.__version__}, seed {SEED}.\n\n{len(chain)} operators, {len(pairs)} pairs; "
        f"of {count} drawn, {passed} agree, {refused} are refused (shapes that depend on data), {len(wrong)} differ."
    )
    print("\n".join(wrong))
    return bool(wrong)


if __name__ == "__main__":
    raise SystemExit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 3000))
