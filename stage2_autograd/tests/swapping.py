"""Stage 2's core conformance tests, run in another process with seams swapped.

Input: `seam=target` words, as pytest's --swap takes them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def run_swapped(*swaps: str, stop: bool = True) -> subprocess.CompletedProcess:
    """The finished run; `stop` ends it at the first failure."""
    options = [part for swap in swaps for part in ("--swap", swap)] + ["-x"] * stop
    command = [
        sys.executable,
        "-m",
        "pytest",
        "stage2_autograd",
        "-q",
        "-p",
        "no:cacheprovider",
        "--tier",
        "core",
    ]
    return subprocess.run([*command, *options], cwd=ROOT, capture_output=True, text=True, timeout=110)
