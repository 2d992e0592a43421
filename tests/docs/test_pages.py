"""Every block of Python on the pages runs, in the order it stands there.

Input: README.md and site_docs/*.md by name. A block's line numbers are the page's, so that a failure points into it.
"""

import re
import sys
from pathlib import Path

import pytest

import cutaway

ROOT = Path(__file__).resolve().parents[2]
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.S | re.M)


def functions(**more):
    """What a page may leave to its reader: the package, a function, an implementation of a seam, a program of torch's."""
    return {"cutaway": cutaway, "f": cutaway.sin, "my_partition": cutaway.TINY_PIPELINE.partition, **more}


# How many blocks a page has at least, and what they use that it does not say.
PAGES = {
    "README.md": (3, dict),
    "site_docs/control_flow.md": (4, dict),
    "site_docs/custom_operators.md": (4, dict),
    "site_docs/dynamic_shapes.md": (1, dict),
    "site_docs/architecture.md": (1, functions),
    "site_docs/index.md": (1, functions),
    "site_docs/numpy.md": (3, dict),
    "site_docs/platforms.md": (1, dict),
    "site_docs/profiling.md": (4, dict),
    "site_docs/training_step.md": (4, dict),
}


@pytest.mark.parametrize("name", PAGES)
def test_every_example_runs(name, capsys, monkeypatch, tmp_path):
    (tmp_path / "model.py").write_text("import torch\n\nassert torch.ones(2).sum().item() == 2\n")
    monkeypatch.chdir(tmp_path)  # where a page's files go
    monkeypatch.syspath_prepend(tmp_path)  # README's `import model`
    monkeypatch.delitem(sys.modules, "model", raising=False)
    least, given = PAGES[name]
    path = ROOT / name
    text = path.read_text(encoding="utf-8")
    names: dict = {"__name__": f"page_{path.stem}", **given()}
    blocks = list(_BLOCK.finditer(text))
    assert len(blocks) >= least
    before = cutaway.config.current()
    with cutaway.config.patch():  # what a page sets for good is for its reader, not for the tests after it
        for block in blocks:
            above = "\n" * text.count("\n", 0, block.start(1))
            exec(compile(above + block[1], str(path), "exec"), names)
    assert cutaway.config.current() == before


def test_no_page_with_blocks_is_left_out():
    found = [ROOT / "README.md", *(ROOT / "site_docs").glob("*.md"), *ROOT.glob("stage*/README.md")]
    found.remove(ROOT / "site_docs/start.md")  # files that a reader makes: test_start_page.py makes them
    with_blocks = {
        p.relative_to(ROOT).as_posix() for p in found if _BLOCK.search(p.read_text(encoding="utf-8"))
    }
    assert with_blocks == set(PAGES)


def test_every_link_of_a_readme_leads_somewhere():
    broken = []
    for page in [
        ROOT / "README.md",
        ROOT / "CONTRIBUTING.md",
        *ROOT.glob("*/README.md"),
        *ROOT.glob("tests/*/README.md"),
    ]:
        for target in re.findall(
            r"(?<!\w)\[[^\]]+\]\((?!https?:|#)([^)#]+)", page.read_text(encoding="utf-8")
        ):
            if not (page.parent / target).exists():
                broken.append(f"{page.relative_to(ROOT)}: {target}")
    assert not broken, "\n".join(broken)
