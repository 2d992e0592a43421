"""A lab as a Jupyter notebook: its page, cell by cell, then the file to complete and a cell that checks it.

Input: the lab's page.md and its tagged source. `cutaway lab start` writes it, so it is never kept, and cannot be old.
"""

from __future__ import annotations

import json
import re
from typing import Any

from .catalogue import Lab
from .tagged import starter

PIECES = re.compile(r"```python\n(?P<code>.*?)```\n(?:\n```text\n(?P<output>.*?)```\n)?", re.S)
PATH = "import sys\n\nsys.path.insert(0, '..')  # your labs are beside this one\n"


def notebook(lab: Lab) -> str:
    """The text of an .ipynb file, format 4.5."""
    cells = [code(PATH), *of_page(lab.page.read_text(encoding="utf-8"))]
    text = starter(lab.source_text, lab.number, lab.regions)
    cells += [
        markdown(
            f"## Your file\n\nComplete the bodies here. Running this cell writes `{lab.file}`. A file that you have "
            "written in an editor would be lost: then leave this cell out."
        ),
        code(f"%%writefile {lab.file}\n{text}"),
        code(f"!cutaway lab check {lab.number} --folder .."),
        code(f"!cutaway lab hint {lab.number} --folder .."),
    ]
    made = {
        "cells": [{"id": f"cell-{k}", **cell} for k, cell in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(made, indent=1) + "\n"


def of_page(text: str) -> list[dict[str, Any]]:
    """The page's cells: text, and the Python blocks with what they print."""
    cells, at = [], 0
    for found in PIECES.finditer(text):
        cells += [markdown(text[at : found.start()]), code(found["code"], found["output"] or "")]
        at = found.end()
    return [cell for cell in [*cells, markdown(text[at:])] if cell["source"]]


def markdown(text: str) -> dict[str, Any]:
    return {"cell_type": "markdown", "metadata": {}, "source": text.strip().splitlines(keepends=True)}


def code(text: str, output: str = "") -> dict[str, Any]:
    stream = {"output_type": "stream", "name": "stdout", "text": output.splitlines(keepends=True)}
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [stream] if output else [],
        "source": text.strip("\n").splitlines(keepends=True),
    }
