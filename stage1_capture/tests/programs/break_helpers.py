"""What the programs of breaks_in_*.py share. No program is entered here.

Input: `mark` is a function that does nothing, or `print`, as the corpus says; LOG is compared with eager's.
"""

from stage1_capture.tests.programs.registry import LOG, mark

__all__ = ["LOG", "Answers", "fails", "mark", "noted", "shown"]


def shown(value):
    """What it is given, after a break."""
    mark(type(value).__name__)
    return value


def fails(n, cls=ValueError):
    if n > 1:
        raise cls(f"no {n}")
    return n


def noted(name, value):
    mark(name)
    return value


class Answers:
    """Every method gives what it was made with under that name."""

    def __init__(self, **answers):
        self.answers = answers

    def __bool__(self):
        return noted("bool", self.answers["bool"])

    def __len__(self):
        return noted("len", self.answers["len"])

    def __index__(self):
        return noted("index", self.answers["index"])

    def __int__(self):
        return noted("int", self.answers["int"])

    def __float__(self):
        return noted("float", self.answers["float"])

    def __complex__(self):
        return noted("complex", self.answers["complex"])

    def __bytes__(self):
        return noted("bytes", self.answers["bytes"])

    def __hash__(self):
        return noted("hash", self.answers["hash"])

    def __str__(self):
        return noted("str", self.answers["str"])

    def __repr__(self):
        return noted("repr", self.answers["repr"])

    def __format__(self, spec):
        return noted(f"format {spec}", self.answers["format"])

    def __iter__(self):
        return noted("iter", self.answers["iter"])

    def __reversed__(self):
        return noted("reversed", self.answers["reversed"])

    def __contains__(self, item):
        return noted("contains", self.answers["contains"])

    def __round__(self, digits=None):
        return noted(f"round {digits}", self.answers["round"])

    def __length_hint__(self):
        return noted("hint", 3)
