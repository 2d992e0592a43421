"""The corpus of small programs, run compiled against eager, with and without breaks; and the counts it expects.

Input: the modules of programs/. `python -m stage1_capture.tests.corpus` runs all of them and writes counts.json:
[graphs, breaks] of each program, as it is and with breaks; versions of Python that differ have an entry of their own.
"""

import contextlib
import dataclasses
import importlib
import io
import json
import pkgutil
import sys
from collections import deque
from pathlib import Path

import numpy as np

from stage0_eager import is_grad_enabled
from stage0_eager.state import modes
from stage0_eager.tensor import UNTRACKED, Tensor
from stage1_capture.capture import capture as default_capture
from stage1_capture.tests import programs
from stage1_capture.tests.driver import Compiled
from stage1_capture.tests.harness import tensor
from stage1_capture.tests.programs.registry import LOG, PROGRAMS, mark

COUNTS = Path(__file__).with_name("counts.json")
VERSION = "{}.{}".format(*sys.version_info)
VARIANTS = {"whole": mark, "broken": print}

MODULES = [
    importlib.import_module(f"{programs.__name__}.{found.name}")
    for found in pkgutil.iter_modules(programs.__path__)
    if found.name != "registry"
]


def cases():
    """(program, variant) of all programs: those that do not say mark() have one variant only."""
    found = []
    for name in PROGRAMS:
        says = name.startswith("breaks_in_") or {"mark", "shown"} & everything_named(
            PROGRAMS[name][0].__code__
        )
        found += [(name, variant) for variant in (VARIANTS if says else ("whole",))]
    return found


def everything_named(code):
    inner = [everything_named(c) for c in code.co_consts if hasattr(c, "co_names")]
    return {*code.co_names, *(name for names in inner for name in names)}


def arguments(name):
    _, make, _, grad = PROGRAMS[name]
    return tuple(
        tensor(*m, seed=i, requires_grad=grad)
        if isinstance(m, tuple) and all(type(n) is int for n in m) and m and i == 0
        else m()
        if callable(m)
        else m
        for i, m in enumerate(make)
    )


def visible(value, seen=None):
    """A value as plain data that compares: types, contents, and which objects inside are the same one."""
    seen = {} if seen is None else seen
    if id(value) in seen:
        return ("again", seen[id(value)])
    if isinstance(value, (Tensor, list, dict, deque, set)) or hasattr(value, "__dict__"):
        seen[id(value)] = len(seen)
    kind = type(value).__name__
    match value:
        case Tensor():
            data = repr(value._data.tolist())
            flags = value.requires_grad, value._version is UNTRACKED
            return (kind, value.dtype.name, value._data.shape, flags, data)
        case (
            np.ndarray() | np.generic()
        ):  # a scalar is an array without dimensions: compiled code returns that
            return ("array", value.dtype.name, value.shape, repr(value.tolist()))
        case dict():
            stored = [(name, visible(v, seen)) for name, v in getattr(value, "__dict__", {}).items()]
            return (kind, [(visible(k, seen), visible(v, seen)) for k, v in value.items()], stored)
        case list() | tuple() | deque():
            return (kind, [visible(v, seen) for v in value])
        case set() | frozenset():
            return (kind, sorted(map(repr, value)))
        case BaseException():
            return (kind, visible(value.args, seen))
        case type() if "<locals>" not in value.__qualname__:
            return ("class", value.__qualname__)
        case type():
            seen[id(value)] = len(seen)
            described = (
                value.__name__,
                value.__qualname__,
                value.__module__,
                value.__doc__,
                list(vars(value)),
            )
            held = (
                vars(value).get("__annotations__"),
                value.__bases__,
                [*map(describe_member, vars(value).values())],
            )
            return ("class", described, visible(held, seen))
    if callable(value) and hasattr(value, "__qualname__"):
        return ("function", value.__qualname__)
    if dataclasses.is_dataclass(value) or hasattr(value, "__dict__"):
        return (kind, [(name, visible(v, seen)) for name, v in sorted(vars(value).items())])
    if hasattr(value, "__slots__"):
        return (kind, [(n, visible(getattr(value, n), seen)) for n in value.__slots__ if hasattr(value, n)])
    if hasattr(value, "__next__"):
        return ("iterator", [visible(v, seen) for v in value])
    return (kind, repr(value))


def describe_member(value):
    """What a class made by the program holds, as far as it compares: functions with their free variables."""
    function = getattr(value, "__func__", getattr(value, "fget", value))
    cells = getattr(function, "__closure__", None) or ()
    held = value if isinstance(value, (type, Tensor, int, float, str, list, dict, tuple)) else None
    named = type(value).__name__, getattr(function, "__qualname__", None), getattr(function, "__doc__", None)
    return [named, held, [cell.cell_contents for cell in cells], getattr(function, "__defaults__", None)]


def observe(function, name):
    """All that can be seen of one call."""
    args, kwargs = arguments(name), PROGRAMS[name][2]
    LOG.clear()
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            outcome = ("returned", visible([args, function(*args, **kwargs), args]))
        except Exception as error:
            chain = visible([error.__cause__, error.__context__])
            outcome = ("raised", type(error).__name__, str(error), chain, visible([args]))
    return [outcome, printed.getvalue(), visible(LOG), is_grad_enabled(), modes()]


def run(name, variant, capture=default_capture):
    """Compare two calls with eager. Returns [graphs, breaks]."""
    function = PROGRAMS[name][0]
    for module in MODULES:
        module.mark = VARIANTS[variant]
    reset_all()
    compiled = Compiled(function, capture=capture)
    expected = [observe(function, name) for _ in range(2)]
    reset_all()
    got = [observe(compiled, name) for _ in range(2)]
    reset_all()
    for call, (one, other) in enumerate(zip(got, expected, strict=True)):
        assert one == other, f"{name} ({variant}), call {call}\n  compiled {one}\n  eager    {other}"
    return [compiled.counts.graphs, compiled.counts.breaks]


def reset_all():
    """Programs that keep state between calls begin anew."""
    for module in MODULES:
        getattr(module, "reset", lambda: None)()


def expected_counts(name, variant):
    table = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    return table.get(f"{name}:{variant}@{VERSION}", table.get(f"{name}:{variant}"))


def record():
    """Write the counts of this version: where they differ from those of 3.11, under its own name."""
    table = json.loads(COUNTS.read_text()) if COUNTS.exists() else {}
    if VERSION == "3.11":
        table = {}
    failed = 0
    for name, variant in cases():
        try:
            counts = run(name, variant)
        except Exception as error:
            failed += 1
            print(f"{name} ({variant}): {type(error).__name__}: {error}")
            continue
        key = f"{name}:{variant}"
        table.pop(f"{key}@{VERSION}", None)
        if VERSION == "3.11":
            table[key] = counts
        elif table.get(key) != counts:
            table[f"{key}@{VERSION}"] = counts
    lines = ",\n".join(f'  "{key}": {json.dumps(table[key])}' for key in sorted(table))
    COUNTS.write_text(f"{{\n{lines}\n}}\n")
    print(f"{len(cases())} programs, {failed} failed")


if __name__ == "__main__":
    record()
