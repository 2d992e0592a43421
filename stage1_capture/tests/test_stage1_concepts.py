"""The README's concepts: what it says capture makes of each program is what capture makes.

Input: README.md; concepts.py runs its programs.
"""

from stage1_capture.tests.concepts import BLOCK, README, written


def test_the_outputs_are_those_of_today():
    text = README.read_text(encoding="utf-8")
    programs = [body for info, body in BLOCK.findall(text) if info == "py"]
    assert len(programs) >= 25
    assert all(len(body.splitlines()) <= 9 for body in programs)
    now = written(text)
    assert now == text, (
        "run `python -m stage1_capture.tests.concepts`, and look at what it changes in the README"
    )


def test_an_output_that_is_wrong_is_seen():
    text = README.read_text(encoding="utf-8")
    wrong = text.replace("mul = cutaway.mul(x, y)", "mul = cutaway.mul(y, x)")
    assert wrong != text and written(wrong) == text
