"""The doctor finds planted faults of an installation, and following its advice fixes each.

Input: PLANTED, a table: how to plant a fault (shell lines, in a fresh folder), the check that has to see it, and words of
what it says. The command that the finding prints is run, and then the check has no problem left.
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from cutaway.cli import main
from cutaway.debug import doctor, self_test
from cutaway.debug.doctor_checks import CHECKS
from cutaway.debug.finding import Finding

ROOT = Path(__file__).parents[2]

# A compiler in front of the real one, for what it refuses.
REFUSES = """printf '#!/bin/sh\\ncase "$*" in *{word}*) echo "error: {says}" >&2; exit 1;; esac\\nexec /usr/bin/g++ "$@"\\n' > cxx
chmod +x cxx; export CUTAWAY_RUNTIME_CXX=$PWD/cxx"""

PLANTED = {
    "no compiler": ("mkdir empty; export PATH=$PWD/empty", "compiler", "none of g\\+\\+, clang\\+\\+, c\\+\\+ is on the path"),
    "a compiler that is not there": ("export CXX=/no/such/cxx", "compiler", "'/no/such/cxx' was not found"),
    "a compiler that does not run": (
        "printf '#!/bin/sh\\nexit 3\\n' > cxx; chmod +x cxx; export CXX=$PWD/cxx", "compiler", "--version fails"),
    "a compiler without its library": (
        REFUSES.format(word="-shared", says="cannot find -lstdc++"), "compiler", "cannot find -lstdc\\+\\+"),
    "broken OpenMP": (REFUSES.format(word="-fopenmp", says="cannot find -lgomp"), "openmp", "no OpenMP: .*cannot find -lgomp"),
    "flags that change values": ("export CUTAWAY_RUNTIME_CXX_FLAGS='-O2 -ffast-math'", "flags", "-ffast-math lets"),
    "a cache folder that cannot be written": ("export CUTAWAY_RUNTIME_CACHE_DIR=/proc/nothing", "cache", "no disk cache: "),
    "a cache folder that others can write": (
        "mkdir -m 777 cache; chmod 777 cache; export CUTAWAY_RUNTIME_CACHE_DIR=$PWD/cache", "cache", "others may write"),
    "a cache folder that is a file": ("touch cache; export TORCHINDUCTOR_CACHE_DIR=$PWD/cache", "cache", "no disk cache: "),
    "two BLAS": (
        "echo 'int mkl_nothing;' | /usr/bin/g++ -x c++ -shared -fPIC -o libmkl_rt.so -; export LD_PRELOAD=$PWD/libmkl_rt.so",
        "blas", "MKL and OpenBLAS are both loaded"),
    "threads that are no number": ("export OMP_NUM_THREADS=four", "threads", "OMP_NUM_THREADS='four' is no number"),
    "more threads than cores": ("export OPENBLAS_NUM_THREADS=5000", "threads", "OPENBLAS_NUM_THREADS=5000, but"),
    "a temporary folder that is gone": ("export TMPDIR=$PWD/gone", "temporary", "TMPDIR=.* is no folder"),
    "a GPU compiler that interprets": ("export TRITON_INTERPRET=1", "triton", "TRITON_INTERPRET is set"),
    "a package that is broken": (
        "mkdir mpi4py; echo 'raise ImportError(\"libmpi.so: cannot open\")' > mpi4py/__init__.py; "
        "export PYTHONPATH=$PWD:$PYTHONPATH", "mpi", "installed and cannot be imported: ImportError: libmpi.so"),
    "a variable that means nothing": ("export CUTAWAY_CACHE=0", "variables", "CUTAWAY_CACHE means nothing"),
    "a value of the wrong type": (
        "export CUTAWAY_CAPTURE_RECOMPILE_LIMIT=many", "variables", "CUTAWAY_CAPTURE_RECOMPILE_LIMIT='many': expected int"),
}  # fmt: skip
BY_HAND = {"a package that is broken"}  # what the advice says would change the environment of these tests


def examined(lines, check, folder):
    """(status, output) of one check of the doctor, after these lines of the shell."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("CUTAWAY_", "TORCH"))}
    plain |= {
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "HOME": str(folder),
    }
    words = "\n".join([*lines, f"exec {sys.executable} -W ignore -m cutaway.cli doctor --only {check}"])
    run = subprocess.run(
        ["/bin/bash", "-c", words], cwd=folder, env=plain, capture_output=True, text=True, timeout=110
    )
    assert "Traceback" not in run.stdout + run.stderr
    return run.returncode, run.stdout


@pytest.mark.skipif(
    not Path("/usr/bin/g++").exists(), reason="the planted compilers stand in front of /usr/bin/g++"
)
@pytest.mark.parametrize("fault", PLANTED)
def test_a_planted_fault_is_found_and_its_advice_mends_it(fault, tmp_path):
    plant, check, seen = PLANTED[fault]
    status, said = examined([plant], check, tmp_path)
    assert status == 1 and re.search(f"PROBLEM +{check} +.*{seen}", said), said
    fix = re.search(r"^ +\$ (.*)$", said, re.M)
    assert fix, f"a problem without a command that fixes it:\n{said}"
    assert said.splitlines()[-1].startswith("1 problem, ")
    if fault in BY_HAND:
        assert "pip uninstall -y mpi4py" in fix[1]
        fix = re.match("(.*)", "rm -r mpi4py")
    again = re.sub(
        r"mkdir -m 777 cache; chmod 777 cache; |mkdir \w+;|touch cache;", "", plant
    )  # it is there already
    status, said = examined([again, fix[1]], check, tmp_path)
    assert status == 0 and "PROBLEM" not in said, f"after {fix[1]}:\n{said}"


def test_a_sound_installation_has_no_problem_and_a_report_no_private_paths(monkeypatch, tmp_path):
    monkeypatch.setattr(doctor, "tested", lambda: iter([Finding("self-test", "ok", "skipped here")]))
    result = CliRunner().invoke(main, ["doctor"])
    lines = result.output.splitlines()
    assert {line[8:22].strip() for line in lines[:-1] if line[:8].strip()} >= CHECKS.keys() | {"self-test"}
    assert "programs compile and run here" in lines[-1] or result.exit_code == 1
    found = [
        Finding(
            "cache",
            "problem",
            f"no disk cache: {Path.home()}/secret/projects/cache",
            "",
            "chmod 700 /data/anna/c",
        )
    ]
    monkeypatch.setattr(doctor.platform, "node", lambda: "annas-machine")
    found.append(Finding("blas", "note", "on annas-machine: /srv/anna/lib/libmkl_rt.so, /usr/lib/libblas.so"))
    text = doctor.report(found)
    assert (
        str(Path.home()) not in text
        and "annas-machine" not in text
        and "/srv" not in text
        and "/data" not in text
    )
    assert "~/secret" not in text or "<folder>" in text
    assert "libmkl_rt.so" in text and "/usr/lib/libblas.so" in text and text.startswith("Cutaway ")


def test_the_self_test_goes_through_every_stage_and_sees_wrong_values(monkeypatch):
    assert self_test.outcome("aot_eager")["status"] == "ok"
    right = self_test._run
    results = iter([0.0, 1.0])
    monkeypatch.setattr(self_test, "_run", lambda *a: [value + next(results) for value in right(*a)[:1]])
    wrong = self_test.outcome("eager")
    assert wrong["status"] == "problem" and "differs from eager by 1" in wrong["seen"]


def test_a_self_test_that_crashes_is_a_finding(monkeypatch):
    monkeypatch.setattr(doctor.sys, "executable", "/bin/false")
    (finding,) = doctor.tested()
    assert finding.status == "problem" and "it ended with status 1" in finding.seen


def test_a_check_that_fails_is_a_finding_and_an_unknown_one_is_refused(monkeypatch):
    monkeypatch.setitem(doctor.CHECKS, "python", lambda: 1 / 0)
    (finding,) = doctor.examine(only=["python"])
    assert finding.status == "problem" and "ZeroDivisionError" in finding.seen
    result = CliRunner().invoke(main, ["doctor", "--only", "liver"])
    assert result.exit_code == 1 and "there is no check 'liver'; there are python, " in result.output
