"""The bisector and ablation: halving finds the one thing, each kind of fault gets its name, a script's crash is seen.

Input: faults planted in a small program; planted_faults.py has those in models.
"""

import math
import sys

import pytest
from click.testing import CliRunner

import cutaway
from cutaway.cli import main
from cutaway.debug.bisect import bisect_function
from cutaway.debug.halving import first_needed
from tests.debug.test_verify import inputs, layer, twice


@pytest.mark.parametrize("wrong", range(37))
def test_halving_finds_each_thing_in_few_runs(wrong):
    things, runs = list(range(37)), []

    def works(left_out):
        runs.append(left_out)
        return wrong in left_out

    assert first_needed(things, works) == wrong
    assert len(runs) <= math.ceil(math.log2(len(things))) + 1


def test_halving_says_when_no_thing_is_to_blame():
    assert first_needed([1, 2, 3], lambda left_out: False) is None
    assert first_needed([], lambda left_out: True) is None


def close(eager, found):
    return cutaway.allclose(eager, found)


def test_a_wrong_lowering_is_named_by_its_operator_and_line():
    found = bisect_function(lambda: cutaway.compile(layer, pipeline=twice("core.exp"))(*inputs()), close)
    assert (found.kind, found.name) == ("operator", "exp = core.exp")
    assert "z = y.exp()" in found.detail
    assert "CUTAWAY_DEBUG_BACKEND=aot_eager" in str(found)


def test_what_works_and_what_fails_by_itself_is_said():
    assert bisect_function(lambda: cutaway.compile(layer)(*inputs()), close).kind == "nothing:"
    assert bisect_function(lambda: 1 / 0).kind == "the program itself:"


SCRIPT = """
import os, signal, dataclasses, cutaway
ours = cutaway.DEFAULT_PIPELINE
def build(unit):
    os.kill(os.getpid(), signal.SIGSEGV)
f = cutaway.compile(lambda x: x.sin().exp(), pipeline=dataclasses.replace(ours, build=build))
print(f(cutaway.ones(3)))
"""


@pytest.mark.timeout(300)  # some fifteen processes, one after another
def test_a_script_that_crashes_is_bisected_to_a_level_and_ablated_to_a_table(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    run = CliRunner().invoke(main, ["bisect", "--", sys.executable, str(script)])
    assert run.exit_code == 0, run.output
    assert (
        "level inductor (lowering, kernels or the runtime); avoid it with CUTAWAY_DEBUG_BACKEND=aot_eager"
        in run.output
    )
    table = CliRunner().invoke(main, ["ablate", str(script)]).output.splitlines()
    rows = {line[:30].strip(): line for line in table}
    assert rows["inductor"].split()[1] == "no"
    assert "killed by SIGSEGV" in rows["inductor"]
    assert rows["aot_eager"].split()[1:3] == ["yes", "no"]


def test_a_command_that_is_not_there_is_one_line():
    run = CliRunner().invoke(main, ["bisect", "--", "no-such-command"])
    assert run.exit_code == 1
    assert run.output.startswith("Error: no-such-command cannot be run")
