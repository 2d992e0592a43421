"""The page of names says what is true: what it calls the same is here, and a slice of its samples is run beside torch.

Input: site_docs/torch_names.txt, which `make names` writes.
"""

import importlib.util
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

from cutaway.torch_api import modules
from cutaway.torch_api.absent import Absent
from tests.torch_names.name_samples import LAYOUT, PATHS, difference, home, run, verdict

SITE = Path(__file__).parents[2] / "site_docs"
EVERY = 25  # the slice: one name of so many


def page():
    spec = importlib.util.spec_from_file_location("names_page", SITE / "names_page.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ROWS = page().rows()
SAME = [(name, note) for name, word, note in ROWS if word == "same"]


def test_what_the_page_calls_the_same_is_here():
    ours = modules()["torch"]
    missing = []
    for name, word, _ in ROWS:
        path, _, last = name.rpartition(".")
        if word in ("same", LAYOUT) and not hasattr(home(ours, path), last):
            missing.append(name)
    assert not missing


def test_what_the_page_calls_missing_is_missing():
    ours = modules()["torch"]
    here = []
    for name, word, _ in ROWS:
        path, _, last = name.rpartition(".")
        found = getattr(home(ours, path), last, None)
        if word == "not here" and found is not None and not isinstance(found, Absent):
            here.append(name)
    assert not here, "these have been added: run `make names`"


def test_the_sums_are_those_of_the_table():
    counted = Counter(word for _, word, _ in ROWS if word != "apart")
    sums = page().TEXTS["<!-- torch names sums -->"]()
    assert f"same: {counted['same']} of {sum(counted.values())}," in sums
    assert {name.rpartition(".")[0] for name, *_ in ROWS} == set(PATHS)


def test_the_page_has_every_name():
    tables = page().TEXTS["<!-- torch names tables -->"]()
    assert all(f"`{name.rpartition('.')[2]}`" in tables for name, *_ in ROWS)


@pytest.mark.parametrize("name, note", SAME[::EVERY], ids=lambda value: value if "(" not in value else "")
def test_a_slice_of_the_samples_is_the_same(name, note):
    torch = pytest.importorskip("torch")
    path, _, last = name.rpartition(".")
    samples = [note.rpartition("other ones: ")[2]] if "other ones: " in note else note.split("; ")
    found = verdict(torch, modules()["torch"], path, last, samples)
    assert found.word == "same", found.line()


def test_a_wrong_function_is_found():
    torch = pytest.importorskip("torch")
    ours = modules()["torch"]
    wrong = SimpleNamespace(**{**vars(ours), "add": ours.sub})
    assert verdict(torch, wrong, "torch", "add", ["torch.add(x, y)"]).note == "torch.add(x, y): values"
    wanted, _ = run(torch, "x.t()")
    assert difference(wanted, run(ours, "x.t().contiguous()")[0]).startswith("strides")
    assert difference(wanted, run(ours, "x.t().double()")[0]).startswith("dtype")
    assert (
        difference(run(torch, "x.sum() * 0, x.neg_()")[0], run(ours, "x.sum() * 0, x.neg()")[0]) == "values"
    )
