"""A grammar of stage 1 as a fuzzer: what a program counts, and what is said when it differs or capture fails.

Input: `write(seed)`, the program's text, and `check(seed)`, which is (None or what differs, the compiled function). The
command line is that of stage_contracts/tests/many_programs.py.
"""

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

from stage_contracts import events
from stage_contracts.tests.many_programs import Fuzzer, TooLong, at_most


def run(write, check, seed):
    try:
        with at_most(60), events.no_internal_errors():
            problem, compiled = check(seed)
    except (Exception, TooLong) as error:
        return Counter(), f"the capturer fails: {type(error).__name__}: {error}\n{write(seed)}"
    seen = compiled.counts
    counts = Counter(graphs=seen.graphs, breaks=seen.breaks, broken=seen.breaks > 0)
    return counts, f"{problem}\n{write(seed)}" if problem else ""


def lines(calls, counts):
    done, graphs = counts["programs"], counts["graphs"]
    return [
        f"{done} programs, {counts['broken']} with breaks; {calls}",
        f"{graphs} graphs ({graphs / max(done, 1):.2f} per program), {counts['breaks']} breaks",
    ]


def fuzzer(
    title: str,
    command: str,
    write: Callable[[int], str],
    check: Callable[[int], tuple[str | None, Any]],
    calls: str,
) -> Fuzzer:
    return Fuzzer(title, command, partial(run, write, check), partial(lines, calls))
