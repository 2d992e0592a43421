"""The stubs that editors complete from are those that the package would write now.

Input: cutaway/stubs.py, which reads the operator table and the Tensor class. It runs in a process of its own, because
other tests add operators to the table.
"""

import subprocess
import sys

SAY = "from cutaway import stubs; print(*(path.name for path in stubs.stale()))"


def test_the_stubs_are_not_stale():
    found = subprocess.run([sys.executable, "-c", SAY], capture_output=True, text=True, check=True)
    assert not found.stdout.split(), f"{found.stdout.strip()}: run `make stubs`"
