"""That a tensor is checked by what is kept of the last one as by its meta, alone and in a row, after every change.

Input: rows of eight tensors, one of which changes in a way that a caller can change a tensor.
"""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from stage0_eager.functions.creation import ones, zeros
from stage0_eager.nn import Parameter
from stage0_eager.tensor_checks import check_tensor, check_tensors
from stage_contracts.dtype import float64
from stage_contracts.guards import TensorOf, TensorRow
from stage_contracts.guards import check_tensor as check_by_meta


def row_of(tensors):
    return TensorRow(tuple(TensorOf(type(t), t.meta) for t in tensors))


def tensors():
    return [ones(2, 3) for _ in range(7)] + [Parameter(ones(2, 3))]


def in_place(change):
    def changed(t):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            change(t._data)
        return t

    return changed


CHANGES = {
    "nothing": lambda t: t,
    "a tensor alike": lambda t: zeros(2, 3),
    "another class": Parameter,
    "no tensor": lambda t: 1.0,
    "None": lambda t: None,
    "shape": lambda t: ones(3, 2),
    "fewer dimensions": lambda t: ones(6),
    "strides": lambda t: ones(3, 2).t(),
    "a view": lambda t: ones(3, 2, 3)[1],
    "a view that gets a gradient": lambda t: (ones(2, 3, requires_grad=True) * 2)[:],
    "dtype": lambda t: ones(2, 3, dtype=float64),
    "requires_grad": lambda t: ones(2, 3, requires_grad=True),
    "requires_grad in place": lambda t: t.requires_grad_(),
    "another storage": lambda t: setattr(t, "data", ones(4)) or t,
    "shape in place": in_place(lambda array: setattr(array, "shape", (3, 2))),
    "dtype in place": in_place(lambda array: setattr(array, "dtype", "int32")),
}


@pytest.mark.parametrize("place", [0, 3, 7])
@pytest.mark.parametrize("change", CHANGES)
def test_a_row_is_checked_as_each_alone(change, place):
    now = tensors()
    row = row_of(now)
    for _ in range(2):  # the first time by each meta, then by what is kept
        assert check_tensors(tuple(now), row)
    before = now[place]
    now[place] = CHANGES[change](before)
    alone = [check_by_meta(*pair) for pair in zip(now, row.wanted, strict=True)]
    for _ in range(2):
        assert check_tensors(tuple(now), row) is all(alone)
        assert [check_tensor(*pair) for pair in zip(now, row.wanted, strict=True)] == alone
    if place != 7:  # a plain tensor's
        assert all(alone) is (change in ("nothing", "a tensor alike", "a view"))


def test_a_row_with_views_is_asked_each_time():
    now = [ones(4, 2, 3)[0], *tensors()]
    row = row_of(now)
    assert check_tensors(tuple(now), row) and check_tensors(tuple(now), row) and not row.wanted[0].facts
    assert not check_tensors((now[0].t(), *now[1:]), row)


class OnAGpu:
    """As much of an array of CuPy as a meta is made of; it counts how often it was asked."""

    def __init__(self, array, index=0):
        self.shape, self.strides, self.dtype, self.asked = array.shape, array.strides, array.dtype, 0
        self.index = index

    __cuda_array_interface__ = {"version": 3}

    @property
    def data(self):
        self.asked += 1
        return SimpleNamespace(device_id=self.index)


def on_gpus(*indices):
    made = [ones(2, 3) for _ in indices]
    for tensor, index in zip(made, indices, strict=True):
        tensor._data = OnAGpu(np.ones((2, 3), np.float32), index)
    return made


def test_a_row_on_a_gpu_is_checked_by_facts_too(monkeypatch):
    now = on_gpus(0, 0, 0)
    row = row_of(now)
    assert check_tensors(tuple(now), row) and all(w.facts for w in row.wanted)
    monkeypatch.setattr("stage0_eager.tensor_checks.check_by_meta", None)  # from now on it would be an error
    assert check_tensors(tuple(now), row)


@pytest.mark.parametrize("change", ["device", "shape", "dtype", "a CPU's"])
def test_a_row_on_a_gpu_sees_what_changes(change):
    now = on_gpus(0, 0, 0)
    row = row_of(now)
    assert check_tensors(tuple(now), row)
    other = {
        "device": lambda: on_gpus(1)[0],
        "shape": lambda: setattr(now[1]._data, "shape", (3, 2)) or now[1],
        "dtype": lambda: setattr(now[1]._data, "dtype", np.dtype("int32")) or now[1],
        "a CPU's": lambda: ones(2, 3),
    }[change]()
    assert not check_tensors((now[0], other, now[2]), row)
