"""Every command that a README or CONTRIBUTING shows works: it is run, or it is a target of make, or what CI runs.

Input: indented lines and inline code of the pages that begin as a command does. Names that stand for the reader's own
code are given by `yours`; LARGE says which numbers are made smaller, and why a command is not run to its end.
"""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(ROOT.glob("*/README.md")),
    ROOT / "tests/oracle/README.md",
]
COMMAND = re.compile(
    r"(?:^ {4}|`)((?:[A-Z_]+=\S+ )*(?:make|\.venv/bin/python -m|python -m|pytest)\b [^`#\n]+)", re.M
)
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
TARGETS = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.M))
CI = (ROOT / ".ci/run").read_text(encoding="utf-8")
# `make test` runs all of these
SUITE = re.compile(r"(?:[A-Z_]+=\S+ )?(?:\.venv/bin/python -m )?pytest (\S+)$")
# The conformance tests of these take minutes: the swapped function is found, and its tests are collected.
COLLECTED = re.compile(r"-m pytest stage[134]_\w+ --swap")
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


def commands_of(text):
    return [" ".join(found.split()).rstrip(" .") for found in COMMAND.findall(text)]


COMMANDS = sorted({command for page in PAGES for command in commands_of(page.read_text(encoding="utf-8"))})
MADE = [command for command in COMMANDS if command.startswith("make ")]
SUITES = [command for command in COMMANDS if SUITE.match(command)]
RUN = [command for command in COMMANDS if command not in MADE + SUITES]


@pytest.fixture(scope="module")
def yours(tmp_path_factory):
    folder = tmp_path_factory.mktemp("yours")
    (folder / "my_module.py").write_text(YOURS)
    return folder


def test_the_pages_show_commands():
    assert len(MADE) > 20 and len(SUITES) > 5 and len(RUN) > 8
    assert {"make tour", "make test"} <= set(MADE)


@pytest.mark.parametrize("command", MADE)
def test_make_knows_the_target(command):
    target = shlex.split(command)[1]
    assert target in TARGETS, f"the Makefile has no target {target}"
    found = subprocess.run(["make", "-n", target], cwd=ROOT, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr


@pytest.mark.parametrize("command", ["make tour", "make test"])
def test_ci_runs_what_the_first_page_shows(command):
    assert re.search(rf"^{command}$", CI, re.M)


@pytest.mark.parametrize("command", SUITES)
def test_a_suite_is_one_that_ci_runs(command, pytestconfig):
    path = SUITE.match(command)[1]
    assert path.split("/")[0] in pytestconfig.getini("testpaths") and (ROOT / path).is_dir()


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
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(yours), str(ROOT)]),
        "OMP_NUM_THREADS": "1",
    }
    words = words.replace("python -m", f"{shlex.quote(sys.executable)} -m")
    found = subprocess.run(words, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, f"{words}\n{found.stdout[-2000:]}{found.stderr[-2000:]}"
