"""The pages whose examples are programs: every block of Python on them runs, in the order it stands there.

Input: site_docs/*.md by name. A block's line numbers are the page's, so that a failure points into it.
"""

import re
from pathlib import Path

import pytest

PAGES = Path(__file__).resolve().parents[1] / "site_docs"
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)


@pytest.mark.parametrize("name", ["control_flow", "custom_operators", "training_step"])
def test_every_example_runs(name, capsys):
    path = PAGES / f"{name}.md"
    text = path.read_text()
    names: dict = {"__name__": f"page_{name}"}
    blocks = list(_BLOCK.finditer(text))
    assert len(blocks) >= 4
    for block in blocks:
        above = "\n" * text.count("\n", 0, block.start(1))
        exec(compile(above + block[1], str(path), "exec"), names)
