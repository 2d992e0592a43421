"""A family of random tensor programs: how a seed becomes one, how it is compiled, and what differs made smaller.

Input: a Family, declared beside its grammar. `fuzzer` makes it one of stage_contracts/tests/many_programs.py, which has the
command line.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from stage_contracts import events
from stage_contracts.tests.many_programs import Fuzzer, TooLong, at_most
from tests.tensor_programs.compare import Differs
from tests.tensor_programs.grammar import TensorProgram

Way = tuple[str, dict[str, Any]]


def backend_of(way: Way) -> str:
    return way[0]


@dataclass(frozen=True)
class Family:
    """`ways`: how the program of a seed is compiled, one after the other. `check` raises Differs, or counts what it saw.
    `label`: what a way is called in the report."""

    title: str
    command: str
    write: Callable[[int], TensorProgram]
    ways: Callable[[int, TensorProgram], Sequence[Way]]
    check: Callable[[TensorProgram, Way], Counter]
    labels: tuple[str, ...]
    calls: str
    label: Callable[[Way], str] = backend_of


def problem_of(family: Family, program: TensorProgram, way: Way) -> tuple[str, Counter]:
    """What differs ("" if nothing), and what check counts."""
    try:
        with at_most(120), events.no_internal_errors():
            return "", family.check(program, way)
    except Differs as found:
        return str(found), Counter()
    except (Exception, TooLong) as error:
        return f"the compiler fails: {type(error).__name__}: {error}", Counter()


# ---- smaller --------------------------------------------------------------------------------------------------


def kind_of(problem: str) -> str:
    return problem.split("\n")[0].split(":")[0].strip("0123456789 ")


def smaller(program: TensorProgram) -> Iterator[TensorProgram]:
    """Programs with one thing less."""
    if program.other:
        yield replace(program, other=())
    for part in ("body", "after", "inputs", "other"):
        lines = getattr(program, part)
        for i in reversed(range(len(lines))):
            yield replace(program, **{part: lines[:i] + lines[i + 1 :]})
            head, *block = lines[i].split("\n")
            for j in range(len(block)):
                yield replace(program, **{part: (*lines[:i], block[j].strip(), *lines[i + 1 :])})
                if len(block) > 1:
                    left = "\n".join([head, *block[:j], *block[j + 1 :]])
                    yield replace(program, **{part: (*lines[:i], left, *lines[i + 1 :])})
    for i in reversed(range(len(program.arguments))):
        if len(program.arguments) > 1:
            yield replace(program, arguments=program.arguments[:i] + program.arguments[i + 1 :])
    for i in reversed(range(len(program.results))):
        if len(program.results) > 1:
            used = tuple(u - (u > i) for u in program.used if u != i)
            yield replace(program, results=program.results[:i] + program.results[i + 1 :], used=used)
    for i in range(len(program.used)):
        yield replace(program, used=program.used[:i] + program.used[i + 1 :])
    if program.backwards > 1:
        yield replace(program, backwards=1)


def minimised(family: Family, program: TensorProgram, way: Way, problem: str) -> tuple[TensorProgram, str]:
    """The smallest program found in a minute that differs in the same way."""
    again, end = True, time.monotonic() + 60
    while again and time.monotonic() < end:
        again = False
        for candidate in smaller(program):
            found, _ = problem_of(family, candidate, way)
            if found and kind_of(found) == kind_of(problem) and "NameError" not in found:
                program, problem, again = candidate, found, True
                break
    return program, problem


# ---- a seed ---------------------------------------------------------------------------------------------------


def run(family: Family, seed: int) -> tuple[Counter, str]:
    """The program of a seed in every way, until one differs."""
    program, counts = family.write(seed), Counter()
    counts["statements"] += len(program.body)
    for way in family.ways(seed, program):
        problem, seen = problem_of(family, program, way)
        counts[family.label(way)] += 1
        counts += seen
        if problem:
            least, problem = minimised(family, program, way, problem)
            ends = f"loss of {least.used}, {least.backwards} backward"
            return counts, f"{way}: {problem}\n{least.source()}{ends}"
    return counts, ""


def reasons_in(counts: Counter) -> list[str]:
    """Why graphs broke or ran eagerly, the most frequent first: what check counts as `break CODE` and `eagerly: WHY`."""
    texts: Counter = Counter()
    for key, count in counts.items():
        if key.startswith(("break ", "eagerly: ")):
            texts[re.sub(r"inputs \d+ and \d+", "inputs", key)] += count
    return [f"{count:7} {text}" for text, count in texts.most_common(15)]


def lines(family: Family, counts: Counter) -> list[str]:
    ways, done = ", ".join(f"{counts[name]} with {name}" for name in family.labels), counts["programs"]
    return [
        f"{done} programs of {counts['statements'] / max(done, 1):.1f} statements; {family.calls}: {ways}",
        f"{counts['refused']} end in an error of eager's; {counts['breaks']} graph breaks, {counts['fallbacks']} graphs run "
        f"eagerly; {counts['rounded']} comparisons were left to eager's own roundings",
        *reasons_in(counts),
    ]


def fuzzer(family: Family) -> Fuzzer:
    return Fuzzer(family.title, family.command, partial(run, family), partial(lines, family))
