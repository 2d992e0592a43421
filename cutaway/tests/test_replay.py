"""replay_record_enabled and replay: a frame comes back from its file with its values, layouts, code and error.

Input: programs in files that are gone when the frame is replayed. Eager's result before it was recorded is the oracle.
"""

import importlib
import json
import sys

import numpy as np
import pytest

import cutaway
from cutaway import config
from cutaway.debug.replay import RecordError, read, replay
from cutaway.debug.replay.record import write_record
from cutaway.torch_api import torch
from stage0_eager.serialization import load_metadata, save
from stage_contracts.errors import BackendFailed
from tests.errors.message_examples import a_faulty_pass

SETTINGS = {"backend": "aot_eager", "fullgraph": False, "dynamic": None}
HELPERS = "def shift(y):\n    return deep(y) - 1\n\ndef deep(y):\n    return y.abs()\n"
PROGRAM = '''
from __future__ import annotations

import enum
import functools
import math
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

import cutaway
import replay_helpers
from cutaway import nn
from cutaway.nn import functional as F

SCALE = 2.0


class Kind(enum.Enum):
    SUM = 1
    MEAN = 2


class Pair(NamedTuple):
    x: object
    y: object


@dataclass
class Settings:
    width: int = 4
    act: object = F.relu
    names: list[str] = field(default_factory=list)


class Block(nn.Module):
    factor = 3

    def __init__(self, settings):
        super().__init__()
        self.settings = settings
        self.lin = nn.Linear(settings.width, settings.width)
        self.register_buffer("b", cutaway.ones(4))

    def forward(self, x):
        self.text = """two
lines"""
        return self.settings.act(self.lin(x)) * self.factor + self.b * len(self.text)


class Model(Block):
    def forward(self, x, scale=1.0):
        return helper(super().forward(x), scale) + replay_helpers.shift(x)


def helper(y, k):
    def inner(z):
        return z * k * SCALE + math.pi if k else inner(z)

    return inner(y)


def closures():
    c = cutaway.arange(4.0)
    f, g = lambda x: x + c, lambda x, y=(lambda q: q): y(x) * c

    def fn(x, m, kind, *, pair):
        total = f(g(m(x, scale=0.5)))
        return total.sum() if kind is Kind.SUM else total.mean() + pair.x * pair.y[1:3].sum()

    return fn, (cutaway.randn(4, 3).t(), Model(Settings(names=["a"])), Kind.MEAN), {"pair": Pair(2, cutaway.ones(4))}


def containers():
    def fn(d, o, a, s, part, deep):
        x = d["x"] * d[3] + o["first"] + cutaway.from_numpy(a * 2)[0]
        return part(x[s]), deep[0][1] is deep, x.dtype is d["dtype"], float(a[0, 0])

    d = {"x": cutaway.randn(3), 3: 1.5, "dtype": cutaway.float32}
    deep = [[0]]
    deep[0].append(deep)
    import numpy as np
    return fn, (d, OrderedDict(first=cutaway.ones(3)), np.ones((2, 3), np.float32)[:, ::-1], slice(0, 2),
                functools.partial(cutaway.add, other=1), deep), {}


def weights():
    def fn(x, w, v):
        (x * w).sum().backward()
        return w.grad, v.requires_grad, v.is_leaf, x.stride()

    w = cutaway.randn(3, requires_grad=True)
    return fn, (cutaway.randn(5, 3)[::2], w, w * 2), {}
'''


@pytest.fixture
def program(tmp_path, monkeypatch):
    """The module, imported; `gone()` removes it and its files."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "replay_program.py").write_text(PROGRAM)
    (tmp_path / "replay_helpers.py").write_text(HELPERS)
    module = importlib.import_module("replay_program")

    def gone():
        for name in ("replay_program", "replay_helpers"):
            sys.modules.pop(name, None)
            (tmp_path / f"{name}.py").unlink(missing_ok=True)

    module.gone = gone
    yield module
    gone()


def plain(value):
    return value.detach().numpy() if isinstance(value, cutaway.Tensor) else value


@pytest.mark.parametrize("name", ["closures", "containers", "weights"])
def test_a_frame_gives_the_same_where_its_files_are_gone(program, tmp_path, name):
    cutaway.manual_seed(0)
    fn, args, kwargs = getattr(program, name)()
    assert write_record(tmp_path / "frame.rec", fn, args, kwargs, SETTINGS, "no error") == []
    expected = fn(*args, **kwargs)
    program.gone()
    found = replay(tmp_path / "frame.rec")
    expected, found = [x if isinstance(x, tuple) else (x,) for x in (expected, found)]
    for a, b in zip(expected, found, strict=True):
        np.testing.assert_allclose(plain(a), plain(b), rtol=1e-6)


def test_a_failing_frame_fails_again_with_the_user_s_line(program, tmp_path):
    fn, args, kwargs = program.closures()

    def refuses(graph, inputs):
        raise RuntimeError("no pair here")

    with config.patch({}):
        torch._dynamo.config.replay_record_enabled = True
        try:
            with pytest.raises(BackendFailed) as raised:
                cutaway.compile(fn, backend=refuses)(*args, **kwargs)
        finally:
            torch._dynamo.config.replay_record_enabled = False
    (path,) = (tmp_path / "cutaway_repro").glob("*.rec")
    assert "torch._dynamo.replay(" in raised.value.__notes__[0]
    program.gone()
    with pytest.raises(type(raised.value), match="no pair here"):
        torch._dynamo.replay(path)
    assert "return helper(super().forward(x), scale)" in str(read(path))


@pytest.mark.internal_errors
@pytest.mark.filterwarnings("ignore")
def test_a_fault_of_the_compiler_that_is_not_raised_is_recorded_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with a_faulty_pass(), config.patch({"capture.replay_record_enabled": True}):
        assert cutaway.compile(lambda x: x + 1)(cutaway.ones(2)).tolist() == [2.0, 2.0]
    (path,) = (tmp_path / "cutaway_repro").glob("*.rec")
    assert "torch._dynamo.replay(" in capsys.readouterr().err
    with a_faulty_pass(), pytest.raises(Exception, match="planted|fault|pass"):
        replay(path)
    assert replay(path).tolist() == [2.0, 2.0]


def test_what_is_no_data_is_left_out_by_name_and_named_where_it_is_used(tmp_path):
    numbers = (n for n in range(3))

    def fn(x):
        return x + next(numbers)

    (said,) = write_record(tmp_path / "frame.rec", fn, (cutaway.ones(2),), {}, SETTINGS, "")
    assert said.startswith("numbers of ")
    with pytest.raises(Exception, match="numbers of"):
        replay(tmp_path / "frame.rec")


def test_reading_a_file_runs_nothing(tmp_path):
    def fn(x):
        return x

    path, mark = tmp_path / "frame.rec", tmp_path / "ran"
    write_record(path, fn, (cutaway.ones(2),), {}, SETTINGS, "")
    frame = json.loads(load_metadata(path)["frame"])
    place = frame["fn"]["see"]
    frame["values"][place]["source"]["text"] = f" def fn(x):\n  open({str(mark)!r}, 'w')\n  return x\n"
    save({}, path, {"frame": json.dumps(frame)})
    assert "open(" in str(read(path))
    assert not mark.exists()


def _changed(change):
    def made(path):
        write_record(path, lambda x: x, (cutaway.ones(2),), {}, SETTINGS, "")
        frame = json.loads(load_metadata(path)["frame"])
        change(frame)
        save({}, path, {"frame": json.dumps(frame)})

    return made


def _calls_a_class(frame):
    frame["values"] += [
        {"is": "name", "module": "subprocess", "path": "Popen"},
        {"is": "object", "class": {"see": len(frame["values"])}, "new": False, "args": ["true"],
         "state": None, "items": [], "pairs": []},
    ]  # fmt: skip
    frame["args"] = [{"see": len(frame["values"]) - 1}]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b"\x80\x04pickle"), "expected at least the 8|expects a file"),
        (lambda path: save({}, path), "no record of a frame"),
        (lambda path: save({}, path, {"frame": "[]"}), "expected the format"),
        (_changed(lambda frame: frame.pop("values")), "'values' is missing"),
        (_changed(lambda frame: frame["values"].append({"is": "pickle"})), "unknown kind: pickle"),
        (_changed(_calls_a_class), "its objects are made without a call"),
        (_changed(lambda frame: frame["args"].append({"see": 99})), "cannot be made again: KeyError"),
    ],
)
def test_a_damaged_file_says_what_is_wrong(tmp_path, damage, message):
    damage(tmp_path / "frame.rec")
    with pytest.raises(RecordError, match=message):
        replay(tmp_path / "frame.rec")
