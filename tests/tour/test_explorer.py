"""The explorer: the tour's page of any compiled function, by `fn.explain_html()` and `cutaway explain`.

Input: six programs (softmax, a transformer's block, a training step, one with breaks, one with open sizes, one of
NumPy), and small scripts.
"""

import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

import numpy as np
import pytest

import cutaway
from cutaway import nn, optim
from cutaway.explorer import explain_html, side_by_side
from cutaway.page.guide import HINTS
from cutaway.page.stations import STATIONS
from tests.tour.test_tour_page import Page

ROOT = Path(__file__).parents[2]


def softmax():
    function = cutaway.compile(lambda x: (x - x.max(1, keepdim=True)[0]).exp() / 2)
    function(cutaway.randn(4, 8))
    return function


def transformer_block():
    block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    compiled = cutaway.compile(block)
    compiled(cutaway.randn(2, 3, 8)).sum().backward()
    return compiled


def training_step():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    @cutaway.compile
    def step(x, y):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    step(cutaway.randn(6, 4), cutaway.tensor([0, 1, 0, 1, 1, 0]))
    return step


def with_breaks():
    @cutaway.compile
    def breaks(x):
        y = x.sin() * 2
        print("half way")
        return (y.softmax(-1) + 1).sum()

    breaks(cutaway.randn(4, 5))
    return breaks


def open_sizes():
    @cutaway.compile(dynamic=True)
    def rows(x):
        return (x.exp() / x.exp().sum(1, keepdim=True)).sum(0)

    rows(cutaway.randn(4, 5)), rows(cutaway.randn(7, 9))
    return rows


def numpy_program():
    @cutaway.compile
    def distances(points):
        return np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))

    distances(np.arange(12.0).reshape(4, 3))
    return distances


PROGRAMS = (softmax, transformer_block, training_step, with_breaks, open_sizes, numpy_program)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda f: f.__name__)
def test_a_page_of_any_program(program, tmp_path, capsys):
    compiled = program()
    page = compiled.explain_html(tmp_path / "page.html")
    read = Page(page.read_text(encoding="utf-8"))
    assert not read.wrong and not read.open
    assert len(read.ids) == len(set(read.ids))
    assert all(load.startswith("#") for load in read.loads), "it loads nothing"
    stations = {name.partition("-")[2] for name in read.texts}
    assert {"bytecode", "guards", "graph", "core", "loops", "fusion", "cpp", "program"} <= stations
    assert ("breaks" in stations) == (program is with_breaks)


def test_each_station_says_what_to_look_at_and_its_links_lead_to_files(tmp_path):
    compiled = softmax()
    read = Page(compiled.explain_html(tmp_path / "page.html").read_text(encoding="utf-8"))
    files = {Path(unquote(urlparse(link).path)) for link in read.links if link.startswith("file:")}
    assert len(files) > 10 and all(path.is_file() for path in files)
    assert {station.key for station in STATIONS} == set(HINTS)
    for hint in HINTS.values():
        assert hint.question.endswith("?") and all((ROOT / path).is_file() for _, path in hint.files)
    explain_html(compiled, tmp_path / "site.html", site=True)
    links = Page((tmp_path / "site.html").read_text(encoding="utf-8")).links
    assert {"source/stage3_lowering/tiny/fuse.py.html", "labs/lab06_fusion/index.html"} <= set(links)


def test_fusion_speaks_in_the_users_names(tmp_path):
    read = Page(training_step().explain_html(tmp_path / "page.html").read_text(encoding="utf-8"))
    shown = read.texts["s0-fusion"]
    assert "relu + matmul" in shown and "log is read at the very index" in shown
    assert not re.search(r"(?<!\()buf\d", shown), "a buffer's number stands only beside a name that two share"


def test_two_versions_side_by_side(tmp_path):
    def scaled(x):
        return (x.sin() * 2).relu()

    plain, tiny = cutaway.compile(scaled), cutaway.compile(scaled, pipeline=cutaway.TINY_PIPELINE)
    plain(cutaway.ones(8)), tiny(cutaway.ones(8))
    page = side_by_side({"ours": plain, "tiny": tiny}, tmp_path / "both.html")
    text = page.read_text(encoding="utf-8")
    read = Page(text)
    assert not read.wrong and len(read.ids) == len(set(read.ids))
    assert ">ours: " in text and ">tiny: " in text and 'aria-pressed="true"' in text
    assert {"s0-fusion", "s1-fusion"} <= set(read.texts)
    with pytest.raises(ValueError, match="two compiled functions or more, but got 1"):
        side_by_side({"one": plain}, tmp_path / "one.html")


def test_each_frame_has_a_tab(tmp_path, capsys):
    text = with_breaks().explain_html(tmp_path / "page.html").read_text(encoding="utf-8")
    assert ">with_breaks.&lt;locals&gt;.breaks<" in text or ">breaks<" in text
    assert ", from line " in text and "a call of print" in text


def test_before_the_first_call_it_says_so(tmp_path):
    with pytest.raises(IndexError, match="call"):
        cutaway.compile(lambda x: x + 1).explain_html(tmp_path / "page.html")


SCRIPT = """
import sys
import cutaway

def scaled(x, factor):
    return x.sin() * factor

class Model(cutaway.nn.Module):
    def forward(self, x):
        return x.cos() + 1

def never(x):
    return x

faster = cutaway.compile(scaled)
if __name__ == "__main__":
    print(scaled(cutaway.ones(3), len(sys.argv)).tolist())
    Model()(cutaway.ones(3))
    faster(cutaway.ones(3), 2)
"""


def explain(tmp_path, *words):
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-m", "cutaway.cli", "explain", *words]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)


def test_the_command_shows_two_functions_side_by_side(tmp_path):
    found = explain(tmp_path, "script.py:scaled", "--beside", "script.py:faster", "--html", "page.html")
    assert found.returncode == 0, found.stderr
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert ">script.py:scaled: scaled<" in page and 'aria-pressed="true"' in page


@pytest.mark.parametrize("name", ["scaled", "Model.forward", "faster"])
def test_the_command(tmp_path, name):
    found = explain(tmp_path, f"script.py:{name}", "--html", "page.html", "one", "two")
    assert found.returncode == 0, found.stderr
    assert "2.52" in found.stdout, "the script ran with its arguments"
    assert f"The page is {tmp_path}/page.html" in found.stdout
    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert "script.py:" in page and ("cos" if name == "Model.forward" else "sin") in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["script.py"], "'script.py' names no function; expected SCRIPT.PY:FUNCTION"),
        (["nowhere.py:f"], "there is no file nowhere.py"),
        (["script.py:scale"], "has no function or compiled object 'scale'; it defines scaled, never"),
        (["script.py:never"], "never was not compiled while script.py ran"),
        (["script.py:scaled", "--html", "no/page.html"], "there is no folder"),
    ],
)
def test_a_wrong_command_is_one_clear_line(tmp_path, words, message):
    found = explain(tmp_path, *words)
    assert found.returncode == 1 and message in found.stderr, found.stderr
    assert "Traceback" not in found.stderr and not list(tmp_path.glob("*.html"))
