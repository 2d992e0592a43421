"""The page on dynamic shapes shows what the machine prints: its marks are filled, and with open sizes.

Input: site_docs/dynamic_shapes.md and the texts that the site's hook puts in it.
"""

import importlib.util
from pathlib import Path

SITE = Path(__file__).parents[2] / "site_docs"


def test_the_texts_of_the_page_have_open_sizes():
    spec = importlib.util.spec_from_file_location("dynamic_page", SITE / "dynamic_page.py")
    page = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(page)
    written = (SITE / "dynamic_shapes.md").read_text()
    texts = {mark: make() for mark, make in page.TEXTS.items()}
    assert all(written.count(mark) == 1 for mark in texts)
    assert "float32[?, ?]" in texts["<!-- open guards -->"] and "== 64" in texts["<!-- open guards -->"]
    assert "s0 = size(x, 0)" in texts["<!-- open program -->"]
    assert "int64_t s0" in texts["<!-- open kernel -->"] and "i0 < s0" in texts["<!-- open kernel -->"]
    assert "unbacked.item(n, 'u0')" in texts["<!-- unbacked graph -->"]
    assert "torch._check(u0 > 3)" in texts["<!-- unbacked question -->"]
    assert "u0 = item(" in texts["<!-- unbacked program -->"]
