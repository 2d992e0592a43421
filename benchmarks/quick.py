"""`--quick`: the smallest run of a benchmark, which shows that its command works. It measures nothing.

Input: the command line of the benchmark. A quick run checks what the benchmark computes and no time, and
keeps no report.
"""

from __future__ import annotations

import sys
from typing import TypeVar

T = TypeVar("T")
QUICK = "--quick" in sys.argv[1:]


def unless_quick(usual: T, quick: T) -> T:
    """`quick` where the command line has `--quick`, else `usual`: a number of rounds, a list of rows."""
    return quick if QUICK else usual


def too_slow(missed: bool) -> bool:
    """Whether a limit on time was missed in a run that measures."""
    return missed and not QUICK
