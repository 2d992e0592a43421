"""Capture makes what it made before: the digests of a fixed slice of the programs. `make capture-identity` takes all.

Input: identity.txt. A change that is meant to change guards, graphs or residual code writes it anew.
"""

import pytest

from stage1_capture.tests.identity import VERSION, digest, expected, recorded, subjects, text_of

EVERY = 40


def test_what_capture_makes_has_not_changed():
    table, programs = recorded(), subjects()
    if VERSION != "3.11" and not any(name.endswith(f"@{VERSION}") for name in table):
        pytest.skip(f"no digests of Python {VERSION} are recorded")
    chosen = list(programs)[::EVERY]
    assert len(chosen) > 90
    differ = [name for name in chosen if digest(text_of(programs[name])) != expected(table, name)]
    assert not differ, f"{differ}: look with `python -m stage1_capture.tests.identity --show NAME`"


def test_a_digest_tells_programs_apart():
    """The random programs differ from each other, so what is digested says something."""
    digests = [value for name, value in recorded().items() if name.startswith("random:") and "@" not in name]
    assert len(digests) == len(set(digests)) > 300
