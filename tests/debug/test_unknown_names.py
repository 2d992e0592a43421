"""Whatever name is written in a variable or in its value, the answer is a line, soon, and never a traceback.

Input: generated names: mistyped ones (a letter lost, doubled, swapped or changed, another case, a word more) of every
variable that is known, every prefix with words of the trade behind it, and values of every kind for those that act.
A letter lost within the prefix (TORCH_LOG, TORCHDYNMO_VERBOSE, CUTWAY_LOGS) was not answered before these tests.
"""

import random
import re
import string
import time
import warnings

import pytest

from cutaway.debug import logs, requests
from stage_contracts import config
from tests.debug.test_requests import run

WORDS = (
    "DEBUG LOG CACHE DIR FUSION DYNAMIC SHAPES VERBOSE REPRO LEVEL GUARD GRAPH AUTOTUNE MEMORY X 1".split()
)
VALUES = [
    "",
    "1",
    "0",
    "maybe",
    "-1",
    "1e9",
    "nan",
    "a,b,,c",
    "+",
    "-",
    "/no/such/folder",
    "é",
    "[x",
    "%s%n",
    "a" * 2000,
    "*",
]
KNOWN = [v for f in config.field_types() for v in config.variables_of(f)]


def mistyped(draw, name):
    at = draw.randrange(1, len(name) - 1)
    letter = draw.choice(string.ascii_uppercase + "_")
    return draw.choice(
        [
            name[:at] + name[at + 1 :],
            name[:at] + name[at] + name[at:],
            name[: at - 1] + name[at] + name[at - 1] + name[at + 1 :],
            name[:at] + letter + name[at + 1 :],
            f"{name}_{draw.choice(WORDS)}",
        ]
    )


def names(count, seed):
    """Names that begin as a variable about compiling does, or are nearly one, and do not act."""
    draw = random.Random(seed)
    found = set()
    while len(found) < count:
        if draw.random() < 0.6:
            name = mistyped(draw, draw.choice(KNOWN))
        else:
            tail = "_".join(draw.choice(WORDS) for _ in range(draw.randrange(0, 4)))
            name = draw.choice([*requests.PREFIXES, "CUTAWAY_"]).rstrip("_") + "_" + tail
        if name.startswith(("CUTAWAY_", *requests.PREFIXES)) and name not in (
            *KNOWN,
            *config.OTHER_VARIABLES,
        ):
            found.add(name)
    return sorted(found)


def test_every_name_is_answered_in_one_line():
    """400 names: torch's get an answer with something to do, ours a warning with the nearest names."""
    asked = dict.fromkeys(names(400, seed=0), "1")
    began = time.perf_counter()
    lines = requests.answers(asked)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        config.environment_in_words(asked)
    taken = time.perf_counter() - began
    told = [*lines, *(str(warning.message) for warning in said)]
    assert len(told) == len(asked)
    for name in asked:
        (line,) = [text for text in told if re.search(rf"(?<!\w){name}(?!\w)", text.partition(";")[0])] or [
            ""
        ]
        assert (
            line
            and "\n" not in line
            and ("did you mean" in line or "nearest: " in line or "there are" in line)
        )
    assert taken < 8, (
        f"{taken:.1f} s for all of them: a process with a few has its answers within its first second"
    )


def test_every_value_is_answered_and_the_program_runs():
    """Values in the variables that act: each is taken or is a warning that names the variable."""
    draw = random.Random(1)
    for _ in range(300):
        chosen = {name: draw.choice(VALUES) for name in draw.sample(KNOWN, 5)}
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            made = config.environment_in_words(chosen)
        assert isinstance(made, config.Config)
        assert all(any(name in str(w.message) for name in chosen) for w in said)


def test_every_name_of_a_log_is_answered(monkeypatch):
    draw = random.Random(2)
    known = [*logs.ARTIFACTS, *logs.SETS, *logs.OTHER_NAMES]
    try:
        for _ in range(500):
            name = mistyped(draw, draw.choice(known)).lower() if draw.random() < 0.7 else draw.choice(VALUES)
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                logs.logs_of_environment(draw.choice("+- ").strip() + name)
            assert all("there is no log named" in str(warning.message) for warning in said)
            wanted = {word.lstrip("+-").strip() for word in name.split(",")} - {""}
            unknown = [
                w for w in wanted if w not in (*known, *logs.NOTHING_HERE, "all", "help") and "." not in w
            ]
            assert len(said) >= len(unknown)
    finally:
        logs.set_logs()


@pytest.mark.parametrize("seed", range(3))
def test_a_process_with_forty_of_them_starts_and_says_each(seed):
    draw = random.Random(seed)
    asked = {name: draw.choice(VALUES) for name in names(40, seed=10 + seed)}
    began = time.perf_counter()
    plain = run("import cutaway")
    middle = time.perf_counter()
    result = run("import cutaway", *(["-W", "error"] if seed % 2 else []), **asked)
    taken = (time.perf_counter() - middle) - (middle - began)
    assert result.returncode == 0 and not plain.stderr and "Traceback" not in result.stderr, result.stderr
    assert [name for name in asked if name not in result.stderr] == []
    assert taken < 1
