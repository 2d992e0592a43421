"""A backend of the script in a saved program: its text stands alone and is called by its name, or a comment says why not.

Input: functions in a module whose name is that of a script, written out, run again and compared with themselves.
"""

import types

import numpy
import pytest

from cutaway.backends import find_backend
from cutaway.debug.backend_source import imported_backend

SCRIPT = '''
import numpy as np
import torch
import torch.fx as fx
from cutaway.debug.halving import first_needed as halved

def annotated(gm: torch.fx.GraphModule, _: "list") -> fx.GraphModule:
    """What it says."""
    assert isinstance(gm, fx.GraphModule) or np.ones(2).sum() == 2 and torch.relu is not None and halved
    return gm

def outer():
    inside = 2
    def closes(gm, _):
        return inside
    def nested(gm, _):
        return gm
    return closes, nested

closes, nested = outer()
SETTING = {"a": 1}

def reads(gm, _):
    return SETTING

def annotated_again(gm, _):
    return annotated(gm, _)
'''


@pytest.fixture
def script(tmp_path):
    from cutaway.torch_api import as_torch

    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    module = types.ModuleType("__main__")
    with as_torch():
        exec(compile(SCRIPT, str(path), "exec"), vars(module))
    return module


@pytest.mark.parametrize("name", ["annotated", "nested"])
def test_what_stands_alone_is_written_and_is_the_function(script, name):
    text, called = imported_backend(find_backend(getattr(script, name)))
    assert called == name and "def " + name in text and ":" not in text.partition("(gm")[2].partition(")")[0]
    written = {}
    exec(text, written)
    assert written[called]("not a graph", []) == getattr(script, name)("not a graph", [])
    for line in ("from cutaway.torch_api import torch", "fx = torch.fx", "import numpy as np",
                 "from cutaway.debug.halving import first_needed as halved"):  # fmt: skip
        assert (line in text) is (name == "annotated"), text


@pytest.mark.parametrize("name", ["closes", "reads", "annotated_again"])
def test_what_reads_more_is_left_to_the_reader(script, name):
    text, called = imported_backend(find_backend(getattr(script, name)))
    assert text == f"\n# {name} is a backend of yours: import or define it here\n" and called == name


def test_one_of_a_module_is_imported_and_one_with_a_name_is_a_name():
    assert imported_backend(find_backend(numpy.vander)) == (
        "from numpy import vander\n", "vander")  # fmt: skip
    assert imported_backend(find_backend("aot_eager")) == ("", "'aot_eager'")
