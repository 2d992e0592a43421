"""Tagged sources: what a starter and a reference are, and which tags are errors.

Input: a short source in this file.
"""

import pytest

from labs.tagged import regions, solution, starter

SOURCE = '''def f(x):
    """Doc."""
    # lab: begin f
    y = x

    return y
    # lab: end


def g():
    # lab: begin g
    return 1
    # lab: end
'''


def test_the_reference_has_no_tags():
    assert (
        solution(SOURCE)
        == 'def f(x):\n    """Doc."""\n    y = x\n\n    return y\n\n\ndef g():\n    return 1\n'
    )
    assert regions(SOURCE)["g"] == "    return 1\n"


def test_the_starter_has_an_error_in_the_place_of_each_wanted_body():
    names = {}
    text = starter(SOURCE, 4, {"f": 'say "so"'})
    exec(text, names)
    assert names["g"]() == 1 and names["f"].__doc__ == "Doc."
    with pytest.raises(NotImplementedError, match="lab 4: f: say 'so'"):
        names["f"](1)


@pytest.mark.parametrize(
    "text, says",
    [
        ("# lab: begin a\n", "never ends"),
        ("# lab: end\n", "no region has begun"),
        ("# lab: begin a\n# lab: begin b\n", "has not ended"),
        ("# lab: begin a\n# lab: end\n# lab: begin a\n# lab: end\n", "used before"),
    ],
)
def test_a_wrong_tag_is_an_error_with_its_line(text, says):
    with pytest.raises(ValueError, match=says):
        regions(text)


def test_a_region_that_is_not_there():
    with pytest.raises(ValueError, match="no region h"):
        starter(SOURCE, 4, {"h": ""})
