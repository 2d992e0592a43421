"""A NumPy number as an argument is the Python number that it is: `x.sum(np.int64(0))`, `conv2d(..., stride=np.int32(2))`.

Input: the samples of every row; each Python number among their arguments, and in their tuples, in turn becomes NumPy's.
Before, 128 rows raised an AttributeError about a memoryview, or a TypeError, and `arange` took a float32 for an integer.
"""

import re
import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import cutaway as ct
from stage0_eager.tensor import Tensor
from tests.oracle import samples  # noqa: F401  (declares the rows)
from tests.oracle.cases import Case, call, leaves
from tests.oracle.spec import ROWS

MODULES = """
Conv1d(4, 6, 3, 2, 1)                               2 4 8
Conv2d(4, 6, 3, stride=2, padding=(1, 0), groups=2) 2 4 8 8
ConvTranspose2d(4, 6, 3, 2, output_padding=1)       2 4 8 8
MaxPool2d(2, 1, 1)                                  2 4 8 8
AvgPool1d(2)                                        2 4 8
MaxPool1d(2, return_indices=True)                   2 4 8
AdaptiveAvgPool2d(2)                                2 4 8 8
BatchNorm1d(4, 0.5, 0.25)                           2 4 8
GroupNorm(2, 4)                                     2 4 8
LayerNorm(8)                                        2 4 8
RMSNorm(8)                                          2 4 8
ConstantPad1d(1, 2.0)                               2 4 8
ReflectionPad1d((1, 2))                             2 4 8
Linear(8, 3)                                        2 4 8
Upsample(size=16)                                   2 4 8
Unflatten(2, (2, 4))                                2 4 8
PixelShuffle(2)                                     2 4 8 8
LSTM(8, 5, num_layers=2, bidirectional=True)        2 4 8
TransformerEncoderLayer(8, 2, 16, 0.0)              2 4 8
"""
KINDS = {int: (np.int64, np.int32), float: (np.float64, np.float32)}


def replaced(tree, make):
    """The tree with each number of a type in turn replaced; `make` gives what stands there now."""
    if isinstance(tree, (tuple, list)):
        for i, part in enumerate(tree):
            yield from (type(tree)((*tree[:i], new, *tree[i + 1 :])) for new in replaced(part, make))
    elif isinstance(tree, dict):
        for key, part in tree.items():
            yield from ({**tree, key: new} for new in replaced(part, make))
    elif type(tree) in KINDS:
        yield from make(tree)


def _numpys(kind, value):
    return [KINDS[type(value)][kind](value)]


def _pythons(kind, value):
    return [KINDS[type(value)][kind](value).item()]


def numbers_of(row):
    """(the sample with NumPy's number, the sample with Python's of the same value)."""
    for sample in row.samples:
        for kind in (0, 1):
            changed = [
                [
                    replace(sample, args=args, kwargs=kwargs)
                    for args, kwargs in replaced((sample.args, sample.kwargs), make)
                ]
                for make in (partial(_numpys, kind), partial(_pythons, kind))
            ]
            yield from zip(*changed, strict=True)


def result(row, sample):
    ct.manual_seed(0)
    args, kwargs = Case(replace(row, samples=(sample,)), 0, row.dtypes[0]).arrays()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(row.name, args, kwargs)


def same(found, wanted):
    if not isinstance(wanted, Tensor):
        return found == wanted
    values = (x.detach().numpy() for x in (found, wanted))
    return found.dtype is wanted.dtype and np.array_equal(*values, equal_nan=True)


ROWS_WITH_NUMBERS = [
    name for name, row in ROWS.items() if not row.alias_of and any(True for _ in numbers_of(row))
]


@pytest.mark.parametrize("name", ROWS_WITH_NUMBERS)
def test_a_numpy_number_is_pythons(name):
    row = ROWS[name]
    for numpys, pythons in numbers_of(row):
        try:
            wanted = leaves(result(row, pythons))
        except (RuntimeError, NotImplementedError):
            continue  # of float32(0.1), say, which is no momentum; an in-place form that would grow
        found = leaves(result(row, numpys))
        assert len(found) == len(wanted), numpys
        assert all(map(same, found, wanted)), numpys


@pytest.mark.parametrize("number", [np.float32, ct.tensor], ids=["NumPy", "a tensor"])
def test_the_dtype_of_a_number_decides(number):
    for step in (0.25, 1):
        assert ct.equal(ct.arange(0, 2, number(step)), ct.arange(0, 2, type(number(step).item())(step)))
    assert ct.full((2,), number(7.0)).dtype is ct.float32


@pytest.mark.parametrize("line", MODULES.strip().splitlines(), ids=lambda line: line.partition("(")[0])
def test_a_module_of_numpy_numbers_is_the_same(line):
    code, shape = re.split(r"(?<=\)) +(?=\d)", line)
    numpys = re.sub(
        r"(?<![\w.])(\d+(\.\d+)?)", lambda m: f"np.{'float32' if m[2] else 'int64'}({m[1]})", code
    )
    found = []
    for text in (code, numpys):
        ct.manual_seed(0)
        module = eval(text, {**vars(ct.nn), "np": np})
        found.append(leaves(module(ct.randn(*map(int, shape.split()))), Tensor))
    assert all(map(same, *found))
