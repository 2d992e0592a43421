"""Random programs compared with themselves: `python -m stage1_capture.tests.fuzz 20000` prints a report.

Input: how many programs, the first seed, and how many seconds at most. Each runs compiled twice (the second time on
what the first compiled) and eager twice, on equal arguments: results, what is left in the arguments, printed output,
the log, exceptions.
"""

import contextlib
import copy
import datetime
import io
import platform
import sys
import time

import numpy as np

from stage0_eager import is_grad_enabled
from stage1_capture.capture import capture as default_capture
from stage1_capture.tests.driver import Compiled
from stage1_capture.tests.grammar import LOG, function_of, write_program
from stage1_capture.tests.harness import described, sharing, tensor

KWARGS = ({}, {"m": 2}, {"m": 0.5}, {"n": 1})


def arguments(seed):
    """Two tensors (the same one in a fifth of the programs, on the tape in another), a list and a dict of them."""
    grad = seed % 5 == 1
    a = tensor(3, 3, requires_grad=grad)
    b = a if seed % 5 == 0 else tensor(3, 3, seed=1)
    items = [a, b]
    return a, b, items, {"k": b, 1: 2}


def observe(function, seed):
    """All that can be seen of one call."""
    args = arguments(seed)
    LOG.clear()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            result = function(*args, **KWARGS[seed % 4])
            seen = ["returned", described(result), sharing(result, args)]
        except RecursionError:
            raise
        except Exception as error:
            cause, context = error.__cause__, error.__context__
            seen = ["raised", type(error), str(error), repr(cause), type(context)]
    return [*seen, described(args), printed.getvalue(), copy.copy(LOG), is_grad_enabled()]


def check(seed, capture=default_capture):
    """(None or what differs, the compiled function)."""
    function = function_of(seed)
    compiled = Compiled(function, capture=capture)
    with np.errstate(all="ignore"):
        for call in ("first", "second"):
            expected = observe(function, seed)
            got = observe(compiled, seed)
            if got != expected:
                return f"{call} call\n  got      {got}\n  expected {expected}", compiled
    return None, compiled


def main(count=20_000, start=0, seconds=0):
    """Run `count` programs, or those that fit into `seconds`, and print the report."""
    graphs = breaks = done = 0
    wrong = []
    begun = time.monotonic()
    for seed in range(start, start + count):
        if seconds and time.monotonic() - begun > seconds:
            break
        done += 1
        try:
            problem, compiled = check(seed)
        except Exception as error:
            problem = f"the capturer fails: {type(error).__name__}: {error}"
        else:
            graphs, breaks = graphs + compiled.counts.graphs, breaks + compiled.counts.breaks
        if problem:
            wrong.append(seed)
            print(f"seed {seed}: {problem}\n{write_program(seed)}", file=sys.stderr)
    print(f"Random programs of stage1_capture/tests/grammar.py, {datetime.date.today()}")
    print(
        f"Python {platform.python_version()}, NumPy {np.__version__}, {done} programs, seeds {start} to {start + done - 1}"
    )
    print(
        f"{graphs} graphs, {breaks} breaks, {len(wrong)} mismatches{': ' if wrong else ''}{wrong[:20] or ''}"
    )
    return len(wrong)


if __name__ == "__main__":
    sys.exit(bool(main(*map(int, sys.argv[1:]))))
