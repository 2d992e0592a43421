"""Entries that are damaged, or say something else, are a miss; another process uses those that are whole."""

import json
import os
import subprocess
import sys

import pytest

from cutaway import aot_cache
from cutaway.tests.aot_cache.observing import one_grad, stage_two_ran, twice

# ---- damage ------------------------------------------------------------------------------------------------------


def stage_two_entries(tmp_path):
    found = list((tmp_path / "cache").rglob("stage2.json"))
    assert found
    return found


def flipped(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


DAMAGE = {
    "cut": lambda path: path.write_bytes(path.read_bytes()[:-9]),
    "empty": lambda path: path.write_bytes(b""),
    "a byte flipped": flipped,
    "gone": lambda path: path.unlink(),
    "no JSON": lambda path: path.write_bytes(b"\0" * 64),
    "its record": lambda path: flipped(path.parent / "entry.json"),
    "without a record": lambda path: (path.parent / "entry.json").unlink(),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_entry_is_a_miss(name, tmp_path):
    assert stage_two_ran(twice, one_grad)
    for path in stage_two_entries(tmp_path):
        DAMAGE[name](path)
    assert stage_two_ran(twice, one_grad)
    assert not stage_two_ran(twice, one_grad)  # it was replaced


@pytest.mark.parametrize("name", ["cut", "a byte flipped", "gone"])
def test_a_damaged_program_is_a_miss(name, tmp_path):
    assert stage_two_ran(twice, one_grad)
    for path in (tmp_path / "cache").rglob("program.json"):
        DAMAGE[name](path)
    assert stage_two_ran(twice, one_grad)
    assert not stage_two_ran(twice, one_grad)


RECORDS = {
    "an unknown operator": lambda r: r["functional"].__setitem__(3, [["input", 0, [["core.nothing", []]]]]),
    "a part missing": lambda r: r.pop("wanted"),
    "a part of another kind": lambda r: r.__setitem__("programs", 7),
    "no list": lambda r: r.__setitem__("saving", "text"),
}


@pytest.mark.parametrize("name", RECORDS)
def test_an_entry_that_says_something_else_is_a_miss(name, monkeypatch):
    """Its digests hold: it was written so, by a fault of this program."""
    original = aot_cache.record_of

    def wrong(*args):
        record = json.loads(original(*args))
        RECORDS[name](record)
        return json.dumps(record).encode()

    monkeypatch.setattr(aot_cache, "record_of", wrong)
    assert stage_two_ran(twice, one_grad)
    monkeypatch.undo()
    assert stage_two_ran(twice, one_grad)


# ---- another process ---------------------------------------------------------------------------------------------

PROGRAM = """
import json, sys
import cutaway
from cutaway.nn import functional as F
from stage_contracts import config, events

def step(x, w, b):
    y = F.gelu(x @ w + b)
    b.data.add_(1)
    return (y * F.dropout(y, 0.3)).sum(), y[1:]

cutaway.manual_seed(1)
x, w, b = cutaway.randn(5, 4), cutaway.randn(4, 3, requires_grad=True), cutaway.zeros(3)
compiled = cutaway.compile(step)
loss, part = compiled(x, w, b)
(loss + part.sum()).backward()
ran = [e.name for e in events.EVENT_LOG.since(0, "pass") if e.name in ("functionalize", "partition", "lower")]
print(json.dumps([ran, loss.item(), part.tolist(), w.grad.tolist(), b.tolist()]))
"""


def test_another_process(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "CUTAWAY_RUNTIME_CACHE_DIR": str(tmp_path / "shared")}

    def run():
        done = subprocess.run([sys.executable, str(tmp_path / "program.py")], env=environment, capture_output=True,
                              text=True, check=True)  # fmt: skip
        return json.loads(done.stdout)

    (ran, *first), (ran_again, *second) = run(), run()
    assert ran and not ran_again
    assert first == second
