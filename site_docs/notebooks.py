"""Each lab as a Jupyter notebook: its page, its starter in a cell to fill in, and the check.

Input: the lab's page and starter, as `cutaway lab start` writes them. A notebook is made when the site is built, and
kept nowhere: there is nothing to edit twice.
"""

import json
import re

_CODE = re.compile(r"^```python\n(.*?)^```\n?", re.M | re.S)


def notebook(title, page, file, starter, number):
    """The notebook as text."""
    cells = [_code(f"!cutaway lab start {number}\n%cd cutaway-labs")]
    for part, text in enumerate(_CODE.split(page)):
        if text.strip():
            cells.append(_code(text) if part % 2 else _words(text))
    cells.append(
        _words(
            f"## Your turn\n\nWrite the bodies that are missing in the next cell. It is saved as `{file}`."
        )
    )
    cells.append(_code(f"%%writefile {file}\n{starter}"))
    cells.append(_code(f"!cutaway lab check {number}"))
    made = {
        "cells": [{**cell, "id": f"{number}-{k}"} for k, cell in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "title": title,
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(made, indent=1, ensure_ascii=False) + "\n"


def _lines(text):
    return text.strip("\n").splitlines(keepends=True)


def _words(text):
    return {"cell_type": "markdown", "metadata": {}, "source": _lines(text)}


def _code(text):
    return {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": _lines(text),
    }
