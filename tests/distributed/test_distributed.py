"""cutaway.distributed in two and four processes: results beside NumPy and one process, and faults that end.

Input: the scripts in programs/, started by `cutaway run --nproc`. Each checks itself on every rank.
"""

import re
import subprocess
import sys
import time

import pytest

from tests.distributed.programs_run import ROOT, SAYS, graph_fault, start

pytest.importorskip("mpi4py", exc_type=ImportError)
LIMIT = 10  # seconds until all ranks of a faulty run have ended, beside what their start takes

IN_CI = [
    ("raises", "in backward"),
    ("killed", "after some"),
    ("never calls", "at once"),
    ("shape", "at once"),
    ("another graph", "in a graph"),
    ("killed", "in a graph"),
]


@pytest.mark.parametrize("processes", [2, 4])
def test_collectives_are_numpys(processes):
    done = start("collectives.py", processes=processes)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"rank \d: \d{3,} results equal", done.stdout)) == processes


@pytest.mark.parametrize("processes", [2, 3])
def test_random_programs_are_numpys(processes):
    done = start("random_programs.py", "20", "0", processes=processes)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"20 programs equal", done.stdout)) == processes


@pytest.mark.parametrize("processes", [2])
def test_collectives_in_graphs_are_eagers_in_one_order(processes):
    done = start("graph_programs.py", "4", "0", processes=processes)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"4 programs equal", done.stdout)) == processes


@pytest.mark.parametrize("processes", [2])
def test_data_parallel_training_is_training_on_the_joined_batch(processes):
    done = start("data_parallel.py", processes=processes)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"equal to one process", done.stdout)) == processes


def test_sharded_training_and_checkpoints_at_another_world_size(tmp_path):
    done = start("sharded.py", tmp_path, processes=2)
    assert len(re.findall(r"equal to one process", done.stdout)) == 2, done.stdout + done.stderr
    done = start("sharded.py", tmp_path, "load", processes=3)
    assert len(re.findall(r"loaded", done.stdout)) == 3, done.stdout + done.stderr


@pytest.mark.parametrize(("processes", "dtype"), [(2, "float64"), (4, "float32")])
def test_models_with_synchronized_statistics_train_as_one_process(processes, dtype):
    """The other ways, steps, dtypes and numbers of ranks: `make distributed`."""
    words = ("eager",) if processes == 4 else ("few",)
    done = start("models.py", "2", dtype, *words, processes=processes)
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(re.findall(r"equal to one process", done.stdout)) == processes


def test_hooks_autocast_and_clipping_as_in_one_process():
    done = start("hooks_and_casts.py")
    assert len(re.findall(r"equal to one process", done.stdout)) == 2, done.stdout + done.stderr


def test_one_rank_builds_and_rank_0_decides(tmp_path):
    done = start("together.py", tmp_path)
    assert len(re.findall(r"rank \d: together", done.stdout)) == 2, done.stdout + done.stderr


@pytest.mark.parametrize("seed", [5, 7])  # a dtype, and a kill while a part is written; 40: make distributed
def test_a_fault_in_a_compiled_loop_is_named_and_leaves_whole_checkpoints(seed, tmp_path):
    problem, fault, taken = graph_fault(seed, tmp_path)
    assert not problem and taken < 3 * LIMIT, (fault, problem, taken)


@pytest.mark.parametrize(("fault", "where"), IN_CI)
def test_a_fault_ends_every_rank_and_is_named(fault, where):
    began = time.monotonic()
    done = start("faults.py", fault, where)
    assert done.returncode != 0 and "ended well" not in done.stdout, done.stdout + done.stderr
    assert re.search(SAYS[fault], done.stdout + done.stderr, re.S), done.stdout + done.stderr
    assert time.monotonic() - began < 6 * LIMIT  # CI's machines are busy


def test_import_cutaway_does_not_import_mpi():
    words = "import sys, cutaway; assert not {'mpi4py', 'cutaway.distributed'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", words], cwd=ROOT, check=True)


def test_without_mpiexec_several_processes_are_refused(monkeypatch):
    words = "from cutaway import distributed as d; d.init_process_group('gloo')"
    monkeypatch.setenv("WORLD_SIZE", "4")
    done = subprocess.run([sys.executable, "-c", words], cwd=ROOT, capture_output=True, text=True)
    assert "cutaway run --nproc 4 script.py" in done.stderr
