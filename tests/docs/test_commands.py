"""Every command that a README or CONTRIBUTING shows works: CI runs it, or a test here does, but for what needs a GPU.

Input: indented lines and inline code of the pages that begin as a command does. `yours` provides the modules that stand
for the reader's own code; LARGE and SMALL_TARGETS make the numbers of a command smaller.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.beside_torch import BESIDE_TORCH

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("*/README.md")),
    ROOT / "tests/oracle/README.md",
]
COMMAND = re.compile(
    r"(?:^ {4}|`)((?:[A-Z_]+=\S+ )*(?:(?:make|\.venv/bin/python -m|python -m|pytest|cutaway)\b [^`#\n]+|lint-imports(?=`)))",
    re.M,
)
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.M))
CI = (ROOT / ".ci/run").read_text(encoding="utf-8")
# `make test` runs all of these
SUITE = re.compile(r"(?:[A-Z_]+=\S+ )?(?:\.venv/bin/python -m )?pytest (\S+)$")
# The conformance tests of these take minutes: the swapped function is found, and its tests are collected.
COLLECTED = re.compile(r"-m pytest stage[134]_\w+ --swap")
# What CI runs itself, beside the commands in .ci/run: `make test` and `make tour` make their environment first.
# `make labs` is a part of `make test`.
CI_RUNS = {
    "make tour",
    "make test",
    "make install",
    "make site",
    "make fuzz-capture",
    "make labs",
    "lint-imports",
}
# The recipes of these targets run here, with these variables. Reports go to a temporary folder.
SMALL_TARGETS = {
    "fuzz-attributes": "ATTRIBUTE_PROGRAMS=3",
    "fuzz-autograd": "AUTOGRAD_PROGRAMS=3",
    "fuzz-rewrites": "REWRITE_PROGRAMS=3",
    "pairs": "PAIRS=3",
    "programs": "PROGRAMS=20",
    "stubs": "",
    "capture-identity": "QUICK=1",
    "numpy": "QUICK=1",
    "loops": "QUICK=1",
    "partition-times": "QUICK=1",
    "profiler-cost": "QUICK=1",
    "regions": "QUICK=1",
    "memory-peak": "QUICK=1",
    "kept-memory": "QUICK=1",
    "open-sizes": "QUICK=1",
    "random-bits": "QUICK=1 JOBS=1",
    "distributed": "QUICK=1",
}
# What no test and no step of CI runs. Its recipe is printed, and the files in it are there.
NOT_RUN = {
    "make gpu": "needs a GPU", "make gpu-speed": "needs a GPU", "make gpu-distributed": "needs two GPUs",
    "make gpu-losses": "needs a GPU",
    "make lab-walk": "labs/tests/test_walk.py and the tests of the tiers take its walks",
    "make libraries": "installs three libraries, and compiles each model twice",
}  # fmt: skip
LARGE = {
    "--programs 20000": "--programs 5",
    "--jobs 16": "--jobs 1",
    "ulp_table": "ulp_table --values 100 --values64 2",
}
YOURS = """
from stage1_capture.capture import capture as my_capture
from stage1_capture.frame.interpret import interpret as my_interpret
from stage2_autograd.partition import recompute_pointwise as my_partition
from stage3_lowering.lowering.fuse import fuse as my_fuse
from stage4_runtime.runtime.plan_memory import plan_memory as my_plan_memory
"""
SCRIPT = """
import cutaway

@cutaway.compile
def function(x):
    return (x.sin() * 2).sum()

print(function(cutaway.ones(8)))
"""


def commands_of(text):
    return [" ".join(found.split()).rstrip(" .") for found in COMMAND.findall(text)]


COMMANDS = sorted({command for page in PAGES for command in commands_of(page.read_text(encoding="utf-8"))})
MADE = [command for command in COMMANDS if command.startswith("make ")]
SUITES = [command for command in COMMANDS if SUITE.match(command)]
RUN = [command for command in COMMANDS if command not in [*MADE, *SUITES, *CI_RUNS]]
# One needs another: labs/tests/test_command.py runs them in order, in a learner's folder.
# The playground serves until it is ended: tests/tour/test_playground.py.
RUN = [command for command in RUN if not command.startswith(("cutaway lab ", "cutaway playground"))]


@pytest.fixture(scope="module")
def yours(tmp_path_factory):
    folder = tmp_path_factory.mktemp("yours")
    (folder / "my_module.py").write_text(YOURS)
    (folder / "script.py").write_text(SCRIPT)
    return folder


def test_the_pages_show_commands():
    assert len(MADE) > 20 and len(SUITES) > 5 and len(RUN) > 8
    assert {"make tour", "make test"} <= set(MADE)


def recipe(target, *variables):
    found = subprocess.run(["make", "-n", target, *variables], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    return found.stdout.replace("\\\n", "")


@pytest.mark.parametrize("command", MADE)
def test_make_knows_the_target_and_its_files_are_there(command):
    target = shlex.split(command)[1]
    assert target in TARGETS, f"the Makefile has no target {target}"
    lines = recipe(target)
    modules = [name.replace(".", "/") for name in re.findall(r"python -m ([a-z]\w*\.[\w.]+)", lines)]
    files = re.findall(r" (benchmarks/\w+\.py|\.ci/[\w-]+)", lines)
    assert all(any((ROOT / f"{name}{end}").is_file() for end in (".py", "/__main__.py")) for name in modules)
    assert all((ROOT / name).is_file() for name in files)


@pytest.mark.parametrize("command", ["make tour", "make test", "make site", "make fuzz-capture"])
def test_ci_runs_what_the_first_page_shows(command):
    assert re.search(rf"^{command}\b", CI, re.M)


def test_a_command_is_run_or_says_why_not():
    made = {command for command in MADE if shlex.split(command)[1] not in SMALL_TARGETS | BESIDE_TORCH}
    assert made - CI_RUNS == set(NOT_RUN)
    assert {f"make {name}" for name in SMALL_TARGETS | BESIDE_TORCH} <= set(MADE)


@pytest.mark.parametrize("target", SMALL_TARGETS)
def test_the_recipe_of_a_target_runs(target, tmp_path):
    run_recipe(target, SMALL_TARGETS[target], tmp_path)


def run_recipe(target, variables, tmp_path):
    lines = [line for line in recipe(target, *shlex.split(variables)).splitlines() if " -m " in line]
    (line,) = [line for line in lines if " pip " not in line and " venv " not in line]
    line = line.split(" > build/")[0].replace("reports/", f"{tmp_path}/")
    line = line.replace("-m cutaway.stubs", "-m cutaway.stubs --check")  # it would write into the tree
    line = line.replace("build/", f"{tmp_path}/")
    run(re.sub(r"\S*bin/python -m", "python -m", line), [ROOT])


@pytest.mark.parametrize("command", SUITES)
def test_a_suite_is_one_that_ci_runs(command, pytestconfig):
    path = SUITE.match(command)[1]
    assert path.split("/")[0] in pytestconfig.getini("testpaths") and (ROOT / path).is_dir()


def run(words, path, folder=ROOT):
    """A shell command in a folder, on this Python."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path)), "OMP_NUM_THREADS": "1"}
    words = words.replace("python -m", f"{shlex.quote(sys.executable)} -m")
    found = subprocess.run(words, shell=True, cwd=folder, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, f"{words}\n{found.stdout[-2000:]}{found.stderr[-2000:]}"


@pytest.mark.parametrize("command", RUN)
def test_the_command_runs(command, yours, tmp_path):
    words = command.replace(".venv/bin/python", "python")
    words = re.sub(r"(^| )pytest ", r"\1python -m pytest ", words.replace("python -m pytest", "pytest"))
    for large, small in LARGE.items():
        words = words.replace(large, small)
    words = words.replace("--report fuzz.txt", f"--report {tmp_path}/fuzz.txt")
    if "-m pytest" in words:
        words += " -q -p no:cacheprovider" + (
            " --collect-only" if COLLECTED.search(words) else " --tier core"
        )
    words = re.sub(r"(^| )cutaway ", r"\1python -m cutaway.cli ", words)
    run(words, [yours, ROOT], yours if "script.py" in words else ROOT)
