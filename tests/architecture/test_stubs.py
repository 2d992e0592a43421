"""The stubs that editors complete from are those that the package would write now.

Input: cutaway/stubs.py, which reads the operator table and the Tensor class.
"""

from cutaway import stubs


def test_the_stubs_are_not_stale():
    names = [path.name for path in stubs.stale()]
    assert not names, f"{', '.join(names)}: run `make stubs`"
