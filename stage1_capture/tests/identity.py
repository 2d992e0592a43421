"""Whether a change of capture left everything it makes as it was: a digest of guards, graphs and residual code.

Input: the corpus, the library's rows, and random programs of both grammars. `python -m stage1_capture.tests.identity`
compares each with identity.txt and names those that differ; `--write` makes the file anew, for a change that is meant to
change what capture makes; `--only WORD` takes those whose names begin so, `--every N` each Nth; `--show NAME` prints
what a program's digest is of. Codes and messages of breaks are left out.
"""

import argparse
import contextlib
import hashlib
import re
import sys
from functools import partial
from pathlib import Path

import numpy as np

from stage1_capture.capture import capture as default_capture
from stage1_capture.tests import corpus, fuzz, fuzz_attributes
from stage1_capture.tests import test_stage1_capture_library as library

DIGESTS = Path(__file__).with_name("identity.txt")
VERSION = corpus.VERSION
RANDOM_PROGRAMS, ATTRIBUTE_PROGRAMS = 400, 300
SURROUNDINGS = (
    "others.os.",
    "others.sys.",
    "others.warnings.",
    "functools.recursive_repr",  # its text has an address: an object at the same one compiles no new frame
)  # rows whose guards hold what this process is


def subjects():
    """name -> a function that runs the program with the `capture` it is given, in the order of the file."""
    found = {f"{name}:{variant}": partial(corpus.run, name, variant) for name, variant in corpus.cases()}
    for rows in library.CASES.values():
        found |= {f"{row}:{way}": partial(library.run, row, way, source) for row, way, source in rows}
    found = {name: run for name, run in found.items() if not name.startswith(SURROUNDINGS)}
    found |= {f"random:{seed}": partial(fuzz.check, seed) for seed in range(RANDOM_PROGRAMS)}
    return found | {f"attributes:{n}": partial(fuzz_attributes.check, n) for n in range(ATTRIBUTE_PROGRAMS)}


def text_of(run, capture=default_capture):
    """All that capture made while the program ran, as text that is the same in each process."""
    frames = []

    def recording(*call):
        frames.append(capture(*call))
        return frames[-1]

    with contextlib.suppress(Exception), np.errstate(all="ignore"):
        run(recording)
    return steady("\n\n".join(map(frame_text, frames)))


def frame_text(frame):
    """A frame: one line for each guard, its graph, its residual code, and what that names."""
    guards = [f"{g.expression()}  # {g.origin and g.origin.text} {g.under_epoch}" for g in frame.guards]
    graph = re.sub(r"# \S+:\d+", "#", str(frame.graph))  # a line of the corpus may move
    inputs = [source.expression() for source in frame.inputs]
    # a number of the register, which its code has under a name, is said by the residual source already
    told = lambda v: type(v) is int and f"registered({v})" in frame.residual_source  # noqa: E731
    words = {name: value for name, value in frame.residual_globals.items() if not told(value)}
    names = [f"{name} = {named(value)}" for name, value in words.items()]
    facts = [frame.graph_grad_mode, len(frame.breaks), len(frame.resumes), *frame.drawn, *frame.closed]
    parts = [frame.function_name, *guards, graph, *inputs, frame.residual_source, *names, facts]
    return "\n".join(map(str, parts))


def named(value):
    plain = value is None or isinstance(value, (bool, int, float, str, bytes))
    return repr(value) if plain else f"{type(value).__name__} {getattr(value, '__qualname__', '')}"


def steady(text):
    """Without addresses; what is registered by its address is numbered as it comes."""
    order = {}
    number = lambda m: f"registered{m[1]}{order.setdefault(m[2], len(order))}"  # noqa: E731
    return re.sub(r"0x[0-9a-f]+", "0x", re.sub(r"registered([(_])(\d+)", number, text))


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def recorded():
    """(name, version) -> digest. A version has lines of its own where it differs from 3.11."""
    lines = DIGESTS.read_text().splitlines() if DIGESTS.exists() else []
    return dict(reversed(line.split(" ", 1)) for line in lines)


def expected(table, name):
    return table.get(f"{name}@{VERSION}", table.get(name))


def write(found):
    """What was found replaces what was expected; programs that are no longer there go."""
    known = subjects()
    table = {name: value for name, value in recorded().items() if name.partition("@")[0] in known}
    for name, value in found.items():
        table.pop(f"{name}@{VERSION}", None)
        if VERSION == "3.11":
            table[name] = value
        elif table.get(name) != value:
            table[f"{name}@{VERSION}"] = value
    DIGESTS.write_text("".join(f"{value} {name}\n" for name, value in table.items()))


def main():
    parser = argparse.ArgumentParser(description="Does capture make what it made before?")
    parser.add_argument(
        "--write", action="store_true", help="what is made now is what is expected from now on"
    )
    parser.add_argument("--show", help="print what the digest of this program is of")
    parser.add_argument("--only", default="", help="the programs whose names begin so")
    parser.add_argument("--every", type=int, default=1, help="each Nth program")
    asked = parser.parse_args()
    programs = subjects()
    if asked.show:
        print(text_of(programs[asked.show]))
        return 0
    chosen = [name for name in programs if name.startswith(asked.only)][:: asked.every]
    found = {name: digest(text_of(programs[name])) for name in chosen}
    if asked.write:
        write(found)
    table = recorded()
    differ = [name for name, value in found.items() if expected(table, name) != value]
    print(
        f"Python {VERSION}: {len(found)} programs, {len(differ)} differ from {DIGESTS.name}",
        *differ[:40],
        sep="\n  ",
    )
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
