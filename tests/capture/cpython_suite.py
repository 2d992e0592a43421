"""Methods of CPython's own test suite (Lib/test), each followed inside a captured function and run as plain Python.

Input: the `test` package of the running interpreter, where it is installed. A method runs between two lines that
compute with a tensor, so that capture has to follow it. `python -m tests.capture.cpython_suite` writes what became of
each into cpython_suite.json: "whole", or the code and the reason of the first break.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import re
import sys
import types
import unittest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from cutaway.torch_api import torch

FILE = Path(__file__).with_name("cpython_suite.json")
STRIDE = 3  # every third method, in the order of their names
# file of Lib/test -> its classes of tests
CLASSES = {
    "test_contextlib": "ContextManagerTestCase ClosingTestCase NullcontextTestCase TestContextDecorator",
    "test_dict": "DictTest",
    "test_exceptions": "ExceptionTests",
    "test_generators": "GeneratorTest ExceptionTest",
    "test_itertools": "TestBasicOps TestPurePythonRoughEquivalents TestVariousIteratorArgs LengthTransparency",
    "test_list": "ListTest",
    "test_operator": "PyOperatorTestCase COperatorTestCase",
    "test_ordered_dict": "PurePythonOrderedDictTests CPythonOrderedDictTests",
    "test_patma": "TestPatma TestInheritance",
    "test_range": "RangeTest",
    "test_set": "TestSet TestFrozenSet TestBinaryOps TestSubsets",
    "test_tuple": "TupleTest",
}
# They ask for the collector, the recursion limit, other processes, gigabytes, or minutes.
LEFT_OUT = re.compile(
    r"bigmem|gc|free_after|leak|recurs|pickl|copy_free|track|memory|overflow|deepcopy|weakref|sizeof|repr_deep|"
    r"huge|big|thread|subprocess|encode|codec|warn|unraisable|badisinstance|attributes|mutating|crash|stress|"
    r"permutations|combinations|combinatorics|product|free_list|hash$|hash_effect|cProfile|MemoryError"
)


class Plain(unittest.TestCase):
    """unittest's assertions as few lines: what is tested is the method, not unittest."""

    def assertEqual(self, first, second, msg=None):
        if not first == second:
            raise AssertionError(msg or f"{first!r} != {second!r}")

    assertListEqual = assertTupleEqual = assertSetEqual = assertDictEqual = assertSequenceEqual = assertEqual

    def assertNotEqual(self, first, second, msg=None):
        if not first != second:
            raise AssertionError(msg or f"{first!r} == {second!r}")

    def assertTrue(self, expr, msg=None):
        if not expr:
            raise AssertionError(msg or "not true")

    def assertFalse(self, expr, msg=None):
        if expr:
            raise AssertionError(msg or "not false")

    def assertIs(self, first, second, msg=None):
        if first is not second:
            raise AssertionError(msg or "not the same object")

    def assertIsNot(self, first, second, msg=None):
        if first is second:
            raise AssertionError(msg or "the same object")

    def assertIsNone(self, value, msg=None):
        if value is not None:
            raise AssertionError(msg or "not None")

    def assertIsInstance(self, value, cls, msg=None):
        if not isinstance(value, cls):
            raise AssertionError(msg or "another class")

    def assertIn(self, member, container, msg=None):
        if member not in container:
            raise AssertionError(msg or "not in it")

    def assertNotIn(self, member, container, msg=None):
        if member in container:
            raise AssertionError(msg or "in it")

    def assertRaises(self, expected, function=None, *args, **kwargs):
        if function is None:
            return Expected(expected)
        try:
            function(*args, **kwargs)
        except expected:
            return None
        raise AssertionError("nothing was raised")


class Expected:
    """What `with self.assertRaises(error) as cm` is."""

    def __init__(self, expected):
        self.expected, self.exception = expected, None

    def __enter__(self):
        return self

    def __exit__(self, kind, value, traceback):
        if kind is None:
            raise AssertionError("nothing was raised")
        if not issubclass(kind, self.expected):
            return False
        self.exception = value
        return True


def cases(stride: int = STRIDE) -> Iterator[tuple[str, Callable[[], unittest.TestCase], str]]:
    """(name, makes an instance, the method's name) of each method of the sample."""
    for module_name, classes in CLASSES.items():
        module = importlib.import_module(f"test.{module_name}")
        for class_name in classes.split():
            cls = getattr(module, class_name, None)
            if cls is None:
                continue
            made = type(class_name, (Plain, cls), {"__module__": module.__name__})
            names = sorted(n for n in dir(cls) if n.startswith("test") and not LEFT_OUT.search(n))
            for name in [n for n in names if isinstance(getattr(cls, n), types.FunctionType)][::stride]:
                yield f"{module_name}.{class_name}.{name}", made, name


def run(case: unittest.TestCase, call: Callable[[Any], Any]) -> str:
    """ "passes", or what the method raised. `call` runs it on a tensor."""
    with contextlib.redirect_stdout(io.StringIO()):
        case.setUp()
        try:
            found = call(torch.ones(2))
        except unittest.SkipTest:
            return "skipped"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        finally:
            case.tearDown()
    return "passes" if found.tolist() == [4.0, 4.0] else f"gave {found.tolist()}"


def program(made: Callable[..., Any], name: str) -> tuple[unittest.TestCase, Callable[[Any], Any]]:
    case = made(name)

    def between(x):
        y = x + 1
        getattr(case, name)()
        return y * 2

    return case, between


def outcome(made: Callable[..., Any], name: str) -> tuple[str, str, str]:
    """What plain Python says, what the compiled function says, and what became of its capture."""
    torch._dynamo.reset()
    case, between = program(made, name)
    plain = run(case, between)
    if plain != "passes":
        return plain, plain, "not run"
    case, between = program(made, name)
    compiled = torch.compile(between, backend="eager")
    found = run(case, compiled)
    breaks = compiled.artifacts[0].frame.breaks if compiled.artifacts else ()
    made_whole = "whole" if compiled.artifacts and not breaks else "no graph"
    return plain, found, f"{breaks[0].code} {breaks[0].reason}" if breaks else made_whole


def main() -> None:
    statuses = {}
    for name, made, method in cases():
        plain, found, status = outcome(made, method)
        if status == "not run":
            continue
        statuses[name] = status if found == plain else f"DIFFERS {found} ({status})"
        print(name, statuses[name], file=sys.stderr)
    FILE.write_text(json.dumps(statuses, indent=1, sort_keys=True) + "\n")
    whole = sum(status == "whole" for status in statuses.values())
    print(f"{len(statuses)} methods, {whole} whole")


if __name__ == "__main__":
    main()
