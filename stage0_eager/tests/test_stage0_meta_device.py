"""Tensors without data, and memory under another dtype: what torch does with them.

Input: a few programs by hand. That every operator gives a tensor of the same kind with and without data is a column of
the oracle (tests/oracle/columns.py, "device meta").
"""

import numpy as np
import pytest

import stage0_eager as ct
from stage0_eager import nn
from stage0_eager.defaults import get_default_device
from stage0_eager.functions.creation import arange, empty, from_numpy, tensor, zeros
from stage0_eager.storage import UntypedStorage
from stage_contracts import dtype as dt
from stage_contracts.device import Device

META = Device("meta")


def test_a_model_is_made_without_data_and_filled_later():
    with META:
        model = nn.Sequential(nn.Linear(10**5, 10**5), nn.LayerNorm(10**5))  # 40 GB, if it were there
    assert get_default_device().type == "cpu"
    assert {p.device for p in model.parameters()} == {META} and model[0].weight.is_meta
    out = model(empty(2, 10**5, device="meta"))
    assert (out.shape, out.dtype, out.device) == ((2, 10**5), dt.float32, META)
    out.sum().backward()
    assert model[0].weight.grad.shape == (10**5, 10**5)

    with META:
        small = nn.Linear(3, 2)
    weights = {"weight": tensor(np.ones((2, 3), np.float32)), "bias": zeros(2)}
    small.load_state_dict(weights, assign=True)
    assert small(zeros(1, 3)).tolist() == [[0, 0]] and small.weight.requires_grad
    with META:
        other = nn.Linear(3, 2)
    other.to_empty(device="cpu").load_state_dict(weights)
    assert other.weight.tolist() == np.ones((2, 3)).tolist()


def test_what_needs_data_says_that_there_is_none():
    x = zeros(1, device="meta")
    for read in (x.item, x.tolist, x.numpy, lambda: bool(x), x.untyped_storage):
        with pytest.raises(RuntimeError, match="cannot be called on meta tensors: they have no data"):
            read()
    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
        x.to("cpu")
    with META:
        model = nn.Linear(1, 1)
    with pytest.raises(NotImplementedError, match="to_empty"):
        model.to("cpu")
    with pytest.raises(RuntimeError, match="at least two devices, cpu and meta"):
        zeros(3) + zeros(3, device="meta")
    assert (tensor(2.0) * zeros(3, device="meta")).device == META  # a number may come from the CPU
    with pytest.raises(RuntimeError, match="expected 'cpu', 'cuda' or 'meta'"):
        zeros(1, device="mps")


def test_how_it_prints_and_where_it_begins():
    x = zeros(2, 3, device="meta", dtype=dt.float64)
    assert repr(x) == "tensor(..., device='meta', size=(2, 3), dtype=cutaway.float64)"
    assert x.data_ptr() == 0 and str(x.device) == "meta"
    x.add_(1)
    x[0] = 2
    assert x._version[0] == 2 and x[0].T.shape == (3,)


@pytest.mark.parametrize(
    "narrow, wide", [(dt.uint8, dt.float32), (dt.int8, dt.int64), (dt.bfloat16, dt.float32)]
)
def test_the_same_bytes_as_another_dtype(narrow, wide):
    x = arange(16, dtype=narrow).reshape(2, 8)
    y = x.view(wide)
    ratio = wide.itemsize // narrow.itemsize
    assert (y.shape, y.dtype) == ((2, 8 // ratio), wide)
    assert y.numpy().tobytes() == x.numpy().tobytes()
    x[0, 0] = 5  # it is the same memory
    assert y.numpy().tobytes() == x.numpy().tobytes() and y.view(dtype=narrow).tolist() == x.tolist()
    assert y._version[0] == x._version[0] > 0
    there = x.to("meta").view(wide)
    assert (there.shape, there.stride(), there.dtype) == (y.shape, y.stride(), wide)
    for wrong in (x.T, x[:, :3], zeros((), dtype=narrow)):
        with pytest.raises(RuntimeError, match=f"cannot be viewed as {wide.name}"):
            wrong.view(wide)


def test_bytes_of_a_file_are_a_storage(tmp_path):
    path = tmp_path / "bytes"
    path.write_bytes(bytes(range(12)))
    storage = UntypedStorage.from_file(str(path), nbytes=12)
    assert (len(storage), storage[3], storage[-1]) == (12, 3, 11)
    part = storage[4:8]
    assert len(part) == 4 and part[0] == 4
    from_numpy(part.as_bytes())[0] = 9  # not shared: the file stays as it is
    assert storage[4] == 9 and path.read_bytes() == bytes(range(12))
    shared = UntypedStorage.from_file(path, shared=True, nbytes=4)
    from_numpy(shared.as_bytes())[0] = 7
    assert len(UntypedStorage.from_file(path)) == 0
    with pytest.raises(RuntimeError, match="has 12 bytes, fewer than the 13 asked for"):
        UntypedStorage.from_file(path, nbytes=13)
    with pytest.raises(OSError, match="missing"):
        UntypedStorage.from_file(tmp_path / "missing", nbytes=1)
    assert ct.Tensor(storage.as_bytes()).shape == (12,)
