"""cutaway.distributed in two and four processes: results beside NumPy and one process, and faults that end.

Input: the scripts in programs/, started by `cutaway run --nproc`. Each checks itself on every rank.
"""

import re
import subprocess
import sys
import time

import pytest

from tests.distributed.programs_run import FAULTS, MISMATCHES, ROOT, SAYS, graph_fault, start, start_several

pytest.importorskip("mpi4py", exc_type=ImportError)
LIMIT = 10  # seconds until all ranks of a faulty run have ended, beside what their start takes


def test_two_processes(tmp_path):
    """Several scripts in one start: results are NumPy's, trained models those of one process. More: make distributed."""
    scripts = [
        ("collectives.py",),
        ("random_programs.py", 20, 0),
        ("graph_programs.py", 4, 0),
        ("data_parallel.py", "mpi", "perceptron"),
        ("hooks_and_casts.py",),
        ("models.py", 2, "float64", "small", "few"),
        ("sharded.py", tmp_path / "saved"),
        ("mixed_precision.py",),
        ("together.py", tmp_path / "cache"),
    ]
    assert not (wrong := start_several(scripts, 2)), wrong


def test_four_processes(tmp_path):
    scripts = [
        ("collectives.py", "mpi", "float32", "bfloat16", "int64", "bool"),
        ("random_programs.py", 20, 100),
        ("graph_programs.py", 2, 100, "aot_eager"),
        ("models.py", 2, "float32", "small", "eager"),
        ("sharded.py", tmp_path, "groups"),
    ]
    assert not (wrong := start_several(scripts, 4)), wrong


@pytest.mark.parametrize("seed", [5, 7])  # a dtype, and a kill while a part is written; 40: make distributed
def test_a_fault_in_a_compiled_loop_is_named_and_leaves_whole_checkpoints(seed, tmp_path):
    problem, fault, taken = graph_fault(seed, tmp_path)
    assert not problem and taken < 3 * LIMIT, (fault, problem, taken)


@pytest.mark.parametrize(("fault", "where"), [("raises", "in backward"), ("killed", "in a graph")])
def test_a_fault_ends_every_rank_and_is_named(fault, where):
    began = time.monotonic()
    done = start("faults.py", fault, where)
    assert done.returncode != 0 and "ended well" not in done.stdout, done.stdout + done.stderr
    assert re.search(SAYS[fault], done.stdout + done.stderr, re.S), done.stdout + done.stderr
    assert time.monotonic() - began < 6 * LIMIT  # CI's machines are busy


def test_ranks_that_disagree_are_named_at_every_place_and_a_wait_ends():
    """Each is seen by all ranks, which go on with a new group; the last one is a rank that never comes."""
    pairs = [pair for pair in FAULTS if pair[0] in MISMATCHES]
    words = [word for pair in [*pairs, ("never calls", "after some")] for word in pair]
    done = start("faults.py", "mismatches", *words)
    said = done.stdout + done.stderr
    assert f"{len(pairs)} mismatches named" in said, said
    assert done.returncode != 0 and "ended well" not in said and re.search(SAYS["never calls"], said), said


def test_one_process_without_mpiexec(monkeypatch):
    """Nothing of MPI is imported, several processes are refused, and NCCL says what is missing."""
    words = """if True:
        import sys, cutaway
        assert not {'mpi4py', 'cutaway.distributed'} & sys.modules.keys()
        from cutaway import distributed as d
        for backend in 'gloo', 'nccl':
            try:
                d.init_process_group(backend)
            except RuntimeError as error:
                print(error)
    """
    monkeypatch.setenv("WORLD_SIZE", "4")
    done = subprocess.run([sys.executable, "-c", words], cwd=ROOT, capture_output=True, text=True)
    told = done.stdout.splitlines()
    assert len(told) == 2 and "cutaway run --nproc 4 script.py" in told[0], done.stdout + done.stderr
    assert re.match(r"backend \"nccl\" needs CuPy.*pip install cutaway\[cuda\]", told[1]), told
