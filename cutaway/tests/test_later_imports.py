"""Modules imported under as_torch() and scripts under `cutaway run` import Cutaway as torch later, too.

Input: small modules and scripts, written into a folder. A real torch, if it is installed, is what a test must not get.
"""

import importlib
import subprocess
import sys

import cutaway
from cutaway.torch_api import as_torch

LATER = """
import textwrap  # another module: it keeps its builtins or gets ours, and works as before

def top():
    import torch
    return torch

def inner():
    from torch.nn import functional as F
    import torch.nn.functional
    return F, torch

def relative():
    from . import sibling
    return sibling.NAME

def missing():
    import torch.no_such_module

def double(x):
    import torch
    return torch.mul(x, 2)
"""
SCRIPT = """
import atexit, sys, threading
import later_package.later as later
found = []
thread = threading.Thread(target=lambda: found.append(later.top().__version__))
thread.start()
thread.join()
print(found[0], later.inner()[0].relu(later.top().ones(1)).item(), sys.argv[1:])
atexit.register(lambda: print("at exit", later.top().__version__))
"""


def make(folder):
    package = folder / "later_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "sibling.py").write_text("NAME = 'sibling'\n")
    (package / "later.py").write_text(LATER)


def test_functions_of_a_module_import_cutaway_after_the_block(tmp_path, monkeypatch):
    make(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = {name for name in sys.modules if name.partition(".")[0] == "torch"}
    with as_torch() as torch:
        later = importlib.import_module("later_package.later")
    assert later.top() is torch and later.inner()[1] is torch
    assert later.inner()[0] is torch.nn.functional and later.relative() == "sibling"
    assert {name for name in sys.modules if name.partition(".")[0] == "torch"} == before
    try:
        later.missing()
    except ModuleNotFoundError as error:
        assert "Cutaway" in str(error)
    compiled = cutaway.compile(later.double, backend="eager", fullgraph=True)  # no break at the import
    assert compiled(cutaway.ones(2)).tolist() == [2, 2]
    with as_torch():
        assert compiled(cutaway.ones(2)).tolist() == [2, 2] and len(compiled.entries) == 1


def test_a_block_inside_a_block(tmp_path, monkeypatch):
    """Two blocks are two places of one finder, which asked itself for ever."""
    (tmp_path / "nested_blocks.py").write_text("import torch\n")
    monkeypatch.syspath_prepend(tmp_path)
    with as_torch() as torch, as_torch():
        assert importlib.import_module("nested_blocks").torch is torch


def test_a_script_has_cutaway_until_the_process_ends(tmp_path):
    make(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    words = [sys.executable, "-m", "cutaway.run_worker", str(tmp_path / "script.py"), "a", "b"]
    done = subprocess.run(words, capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr, done.stderr
    assert done.stdout.splitlines() == ["2.13.0+cutaway 1.0 ['a', 'b']", "at exit 2.13.0+cutaway"]
