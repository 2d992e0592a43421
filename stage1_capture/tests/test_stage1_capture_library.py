"""The standard library that user functions use, name by name: compiled against eager, captured or known to break.

Input: the seam `capture` and the tables of library/. A name that a version of Python adds has no row: it is only read, or
called without arguments, and has to come out right. `python -m stage1_capture.tests.test_stage1_capture_library [word]` shows
the rows that break, and why.
"""

import contextlib
import io
import linecache
import random
import re
import sys

import pytest

from stage1_capture.capture import capture as default_capture
from stage1_capture.tests.corpus import visible
from stage1_capture.tests.driver import Compiled
from stage1_capture.tests.harness import tensor
from stage1_capture.tests.library.breaks import BREAKS
from stage1_capture.tests.library.methods import CLASSES, METHODS
from stage1_capture.tests.library.modules import MODULES, TABLES
from stage1_capture.tests.library.names import KEPT, LOG, NAMES, OWN, reset
from stage1_capture.tests.library.others import BUILTINS, OTHERS, RANDOM

ALL = {**TABLES, "builtins": BUILTINS, "random": RANDOM, "others": OTHERS}
# how a row's `v` comes in: made by the function, handed to it, made before a break
WAYS = {
    "inside": "def f(x, n):\n    v = {make}\n{body}",
    "outside": "def f(x, n, v):\n{body}",
    "broken": "def f(x, n):\n    v = {make}\n    print(1)\n{body}",
}


def rows(text):
    """(name, body) of each row: an expression stands beside its name, statements below it."""
    found = []
    for line in text.strip().splitlines():
        if line.startswith(" "):
            found[-1][1].append(line)
        else:
            name, _, expression = line.partition(" ")
            found.append((name, [f"    return x + 1, {expression.strip()}"] if expression.strip() else []))
    return [(name, "\n".join(body)) for name, body in found]


def public(owner):
    """The names a person may use; exceptions are raised everywhere else."""
    if owner is None:
        return []
    names = getattr(owner, "__all__", None) or dir(owner)  # some modules say which names are their own
    named = {name: getattr(owner, name) for name in names if not name.startswith("_")}
    return [n for n, v in named.items() if not (isinstance(v, type) and issubclass(v, BaseException))]


def cases():
    """owner -> [(row, way, source of a function)]."""
    found = {}
    for owner, (make, text) in METHODS.items():
        table = rows(text)
        known = {name.partition(":")[0] for name, _ in table}
        table += [
            (f"{n}:unknown", f"    return x + 1, caught(lambda: v.{n}())")
            for n in public(CLASSES[owner])
            if n not in known
        ]
        found[owner] = [
            (
                f"{owner}.{name}",
                way,
                source.format(make=make, body=body.replace("+ 1, ", "+ 1, (", 1) + "), v"),
            )
            for name, body in table
            for way, source in WAYS.items()
        ]
    for owner, text in ALL.items():
        table = rows(text)
        known = {name.partition(":")[0] for name, _ in table}
        table += [
            (f"{n}:unknown", f"    return x + 1, callable({owner}.{n})")
            for n in public(MODULES.get(owner))
            if n not in known
        ]
        found[owner] = [(f"{owner}.{name}", "whole", f"def f(x, n):\n{body}") for name, body in table]
    return found


CASES = cases()


def function_of(row, way, source):
    file = f"<{row} {way}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    names = dict(NAMES)
    exec(compile(source + "\n", file, "exec"), names)
    return names["f"]


def observe(function, row, way):
    """All that can be seen of one call: what comes back or is raised, the arguments, prints, logs, generators."""
    args = [tensor(3), 2]
    owner = row.partition(".")[0]
    if way == "outside":
        args.append(eval(METHODS[owner][0], dict(NAMES)))
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            outcome = ("returned", visible([function(*args), args]))
        except Exception as error:
            outcome = ("raised", type(error).__name__, str(error), visible(args))
    return [outcome, printed.getvalue(), visible([LOG, KEPT]), random.getstate(), OWN.getstate()]


def run(row, way, source, capture=default_capture):
    """Compare three calls with eager. Returns the breaks."""
    function = function_of(row, way, source)
    compiled = Compiled(function, capture=capture)
    reset()
    expected = [observe(function, row, way) for _ in range(3)]
    reset()
    got = [observe(compiled, row, way) for _ in range(3)]
    for call, (one, other) in enumerate(zip(got, expected, strict=True)):
        if one != other:
            raise AssertionError(f"{row} ({way}), call {call}: {difference(one, other)}")
    return [b for frame in compiled.counts.frames for b in frame.breaks]


def difference(one, other):
    """The first part in which two observations differ."""
    while isinstance(one, (list, tuple)) and type(one) is type(other) and len(one) == len(other):
        one, other = next((a, b) for a, b in zip(one, other, strict=True) if a != b)
    return f"compiled {one!r:.300}, eager {other!r:.300}"


@pytest.mark.parametrize("owner", CASES)
@pytest.mark.conformance("capture", tier="full")
def test_each_name_is_right_and_captured_or_known_to_break(seam, owner):
    broken = set()
    for row, way, source in CASES[owner]:
        breaks = run(row, way, source, seam("capture"))
        if len(breaks) > (way == "broken"):
            broken.add(row if way == "whole" else f"{row}/{way}")
    claimed = {row for row in broken if not {"error", "unknown"} & set(re.split("[:/]", row))}
    assert claimed == {row for row in BREAKS if row.partition(".")[0] == owner}


def test_every_public_name_of_this_version_has_a_row():
    """A later version may have more: those rows say that they are unknown."""
    if sys.version_info < (3, 14):
        assert not [row for listed in CASES.values() for row, *_ in listed if row.endswith(":unknown")]


def main(words):
    """Show what is wrong and what breaks, of the owners that are named."""
    wrong = broken = 0
    for owner, listed in CASES.items():
        if words and owner not in words:
            continue
        for row, way, source in listed:
            try:
                breaks = run(row, way, source)
            except Exception as error:
                wrong += 1
                print(f"WRONG {row} ({way}): {type(error).__name__}: {str(error)[:700]}")
                continue
            breaks = breaks[1:] if way == "broken" else breaks
            if breaks:
                broken += 1
                print(f"breaks {row} ({way}): {breaks[0].code} {breaks[0].reason}  [{len(breaks)}]")
    print(f"{sum(map(len, CASES.values()))} programs, {wrong} wrong, {broken} break")


if __name__ == "__main__":
    main(sys.argv[1:])
