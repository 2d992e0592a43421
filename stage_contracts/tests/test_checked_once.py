"""What passed its check is not checked again; what failed fails again, and a changed copy has to pass itself."""

from dataclasses import dataclass, replace

import pytest

from stage_contracts.checked_once import checked_once


@dataclass(frozen=True)
class Part:
    size: int
    checks: list

    @checked_once
    def verify(self):
        self.checks.append(self.size)
        if self.size < 0:
            raise ValueError(f"the size is {self.size}")
        return self


def test_it_is_made_once():
    part = Part(1, [])
    assert part.verify().verify() is part and part.checks == [1]
    assert part == Part(1, [1]), "the mark is no field"


def test_a_failure_is_told_each_time():
    part = Part(-1, [])
    for _ in range(2):
        with pytest.raises(ValueError, match="the size is -1"):
            part.verify()


def test_a_changed_copy_is_checked():
    part = Part(1, []).verify()
    with pytest.raises(ValueError, match="the size is -2"):
        replace(part, size=-2).verify()
