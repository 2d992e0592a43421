"""Keeps the labs' pages true: an output block is what the Python block above it prints, and drawings are drawn anew.

Input: the labs' page.md and the function `draw` of a lab's drawing.py, if it has one. `python -m labs.pages` writes
what has changed; a test compares.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import linecache
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from . import hidden
from .catalogue import HERE, Lab, all_labs

BLOCK = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?", re.S)


def with_outputs(text: str) -> str:
    """The page with the output of each Python block in the text block that follows it. The blocks share their names."""
    names: dict[str, Any] = {"__name__": "page"}
    linecache.cache["page.md"] = len(text), None, text.splitlines(keepends=True), "page.md"  # origins show it

    def run(found: re.Match[str]) -> str:
        said = io.StringIO()
        before = text.count("\n", 0, found.start("code"))  # lines count from the top of the page
        with contextlib.redirect_stdout(said):
            exec(compile("\n" * before + found["code"], "page.md", "exec"), names)
        if found["output"] is None:
            return found.group()
        return f"```python\n{found['code']}```\n\n```text\n{said.getvalue().rstrip()}\n```\n"

    return BLOCK.sub(run, text)


@contextlib.contextmanager
def importable() -> Iterator[None]:
    """A page imports from `labNN_name`, as in the learner's folder; here that is the reference."""
    sys.path.insert(0, str(HERE))
    try:
        yield
    finally:
        sys.path.remove(str(HERE))
        for name in [n for n in sys.modules if n.partition(".")[0] in {lab.package for lab in all_labs()}]:
            del sys.modules[name]


def derived(lab: Lab) -> dict[Path, str]:
    """What a lab's generated files should hold now."""
    with importable():
        page = with_outputs(lab.page.read_text(encoding="utf-8"))
        # Twice: an output moves the lines below it, which outputs may name.
        files = {lab.page: with_outputs(page)}
    files |= hidden.derived(lab)
    if (lab.folder / "drawing.py").is_file():
        drawings = importlib.import_module(f"{__package__}.{lab.package}.drawing").draw()
        files |= {lab.folder / name: text for name, text in drawings.items()}
    return files


def write() -> None:
    for lab in all_labs():
        for path, text in derived(lab).items():
            if not path.is_file() or path.read_text(encoding="utf-8") != text:
                path.write_text(text, encoding="utf-8")
                print(f"wrote {path}")


if __name__ == "__main__":
    write()
