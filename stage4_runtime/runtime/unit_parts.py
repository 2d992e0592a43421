"""Cuts a large C++ unit into pieces that compilers can build side by side, to be linked into one library.

Input: the text of a unit as stage 3 writes it: what all functions share, the kernels, and last what runs them. Each
piece has the first part, some of the kernels, and the last piece what runs them, with a declaration of the others.

It reads the text alone, so that it serves any `emit`, and a text that was edited or loaded; a list of places beside the
text could be wrong about it. What cannot be cut so is refused by the compiler, and built as one piece.
"""

from __future__ import annotations

import os
import re

SMALLEST = 12_000  # characters of code in a piece: 0.2 s of g++, five times what one more piece costs
LIGHT = 8  # so many characters of what runs the kernels take as long as one of a kernel: it is not optimised

_KERNEL = re.compile(r'(?m)^(?=(?://[^\n]*\n)*(?:extern "C" int64_t|CUTAWAY_SHARED int64_t) \w+\()')
_HEADER = re.compile(r'(?m)^extern "C" int64_t \w+\([^)]*\)')
_BODY = re.compile(r"\bbody_of_\w+")
_RUN = "// ---- run: "


def pieces_of(text: str) -> list[str]:
    """The unit as at least one text of its own; more where it is large and this process may use several cores."""
    kernels, mark, run = text.partition(_RUN)
    shared, *functions = _KERNEL.split(kernels)
    groups = _together(functions)
    most = min(_cores(), len(groups), sum(map(_work, groups)) // SMALLEST)
    if most < 2:
        return [text]
    pieces: list[list[int]] = [[] for _ in range(most)]
    loads = [0] * (most - 1) + [len(run) // LIGHT]
    # the longest first, to the least loaded
    for k in sorted(range(len(groups)), key=lambda k: -_work(groups[k])):
        least = loads.index(min(loads))
        pieces[least].append(k)
        loads[least] += _work(groups[k])
    codes = ["\n".join(groups[k] for k in sorted(piece)) for piece in pieces]
    elsewhere = "".join(f"{header};\n" for code in codes[:-1] for header in _HEADER.findall(code))
    return [*(f"{shared}{code}" for code in codes[:-1]), f"{shared}{elsewhere}\n{codes[-1]}{mark}{run}"]


def _together(functions: list[str]) -> list[str]:
    """Functions that share a body stay with it."""
    groups: dict[str, str] = {}
    for k, function in enumerate(functions):
        body = _BODY.search(function)
        name = body[0] if body else str(k)
        groups[name] = groups.get(name, "") + function
    return list(groups.values())


def _work(code: str) -> int:
    return len(code) - sum(map(len, re.findall(r"//[^\n]*|^ +", code, re.MULTILINE)))


def _cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
