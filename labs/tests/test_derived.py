"""What is derived from a lab: its notebook, its hidden cases, and the files that are given and must stay as they are.

Input: the labs' folders.
"""

import json
import re
from pathlib import Path

import pytest

from labs import hidden
from labs.catalogue import all_labs
from labs.grade import grade
from labs.lab17_ladders import ladders, roofline
from labs.notebook import notebook
from labs.pages import importable
from labs.tagged import solution
from labs.workspace import Workspace

LABS = pytest.mark.parametrize("lab", all_labs(), ids=lambda lab: lab.package)
GIVEN = [lab for lab in all_labs() if lab.given]


@LABS
def test_a_notebook_has_the_page_the_starter_and_a_check(lab, tmp_path):
    Workspace(tmp_path).start(lab)
    made = json.loads((tmp_path / lab.package / "notebook.ipynb").read_text(encoding="utf-8"))
    assert (made["nbformat"], made["nbformat_minor"]) == (4, 5)
    assert all(cell["id"] and isinstance(cell["source"], list) for cell in made["cells"])
    texts = ["".join(cell["source"]) for cell in made["cells"] if cell["cell_type"] == "code"]
    (written,) = [text for text in texts if text.startswith("%%writefile")]
    starter = (tmp_path / lab.package / lab.file).read_text(encoding="utf-8")
    assert written == f"%%writefile {lab.file}\n{starter}".strip("\n")
    assert f"!cutaway lab check {lab.number} --folder .." in texts


@pytest.mark.parametrize("lab", all_labs()[-1:], ids=lambda lab: lab.package)
def test_the_cells_of_a_notebook_run(lab):
    """All but the commands of the shell, in order, as Jupyter would."""
    cells = [c for c in json.loads(notebook(lab))["cells"] if c["cell_type"] == "code"]
    names = {}
    with importable():
        for cell in cells:
            text = "".join(cell["source"])
            if not text.startswith(("%", "!")):
                exec(compile(text, "cell", "exec"), names)
    assert len(cells) >= 4


def test_a_hidden_case_is_of_integers_and_text():
    assert hidden.digest("salt", [1, (True, "x")]) == hidden.digest("salt", (1, [True, "x"]))
    assert hidden.digest("salt", (1,)) != hidden.digest("pepper", (1,))
    with pytest.raises(TypeError, match="expected integers, shapes or text"):
        hidden.digest("salt", 0.1)


@pytest.mark.parametrize("lab", GIVEN, ids=lambda lab: lab.package)
def test_a_given_file_that_has_changed_is_refused(lab, tmp_path):
    Workspace(tmp_path).start(lab)
    (tmp_path / lab.package / lab.file).write_text(solution(lab.source_text), encoding="utf-8")
    path = tmp_path / lab.package / lab.given[0]
    path.write_text(path.read_text(encoding="utf-8") + "\n# mine\n", encoding="utf-8")
    assert f"{lab.given[0]} has changed" in grade(tmp_path, lab).refused


def test_the_measured_drawing_is_made_of_the_times_in_it():
    """A drawing that was changed by hand, or whose ladder has another rung now, is found."""
    drawing = Path(ladders.__file__).with_name("roofline.svg").read_text(encoding="utf-8")
    moved = re.sub(r'(<circle cx=")[\d.]+', r"\g<1>1", drawing, count=1)
    assert moved != drawing and roofline.redrawn(moved, ladders) == drawing
    with pytest.raises(ValueError, match="measure anew"):
        roofline.redrawn(drawing.replace('["softmax", 6, ', '["softmax", 7, '), ladders)
