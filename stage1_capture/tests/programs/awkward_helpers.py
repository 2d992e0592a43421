"""What the programs with breaks in awkward places share. No program is entered here.

Input: `mark` is a function that does nothing, or `print`, as the corpus says; LOG is compared with eager's.
"""

from stage1_capture.tests.programs.registry import LOG, mark

__all__ = ["LOG", "fails", "mark", "shown"]


def shown(value):
    """What it is given, after a break."""
    mark(type(value).__name__)
    return value


def fails(n, cls=ValueError):
    if n > 1:
        raise cls(f"no {n}")
    return n
