"""The default dtype and device: what they change eagerly and compiled, and that compiled code notices a change.

Input: small programs, compiled by the backends that run graphs as captured, ahead of time, and through every stage.
"""

import numpy as np
import pytest

import cutaway
from cutaway import compiler
from cutaway.torch_api import torch


@pytest.fixture(autouse=True)
def float32_again():
    yield
    cutaway.set_default_dtype(cutaway.float32)
    cutaway.set_default_device(None)


def test_what_the_default_dtype_decides():
    whole = cutaway.arange(3)
    for dtype in (cutaway.float64, cutaway.float32, cutaway.bfloat16):
        cutaway.set_default_dtype(dtype)
        assert cutaway.get_default_dtype() is dtype
        made = [cutaway.zeros(2), cutaway.tensor([1.5]), cutaway.eye(2), cutaway.rand(2), cutaway.linspace(0, 1, 3),
                cutaway.full((2,), 0.5), cutaway.arange(0.0, 1.0, 0.5), cutaway.scalar_tensor(1.0),
                cutaway.nn.Linear(2, 2).weight, cutaway.nn.LSTM(2, 2).weight_hh_l0, cutaway.nn.BatchNorm1d(2).bias,
                cutaway.nn.TransformerEncoderLayer(4, 2, 8).norm1.weight, cutaway.hann_window(4)]  # fmt: skip
        assert {t.dtype for t in made} == {dtype}
        assert {t.dtype for t in (whole * 1.5, whole / 2, cutaway.sin(whole), whole.exp(), whole + 0.5)} == {
            dtype
        }
        assert (cutaway.ones(2, dtype=cutaway.float16) * 2.0).dtype is cutaway.float16
        assert cutaway.result_type(whole, 1.0) is dtype and cutaway.finfo().dtype == dtype.name


def test_wrong_defaults():
    with pytest.raises(TypeError, match="only floating-point types are supported as the default type"):
        cutaway.set_default_dtype(cutaway.int64)
    with pytest.raises(RuntimeError, match="device 'tpu' is unknown"):
        cutaway.set_default_device("tpu")


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_change_of_the_default_dtype_recompiles(backend):
    def f(n):
        return n * 1.5 + cutaway.ones(3) * cutaway.sin(n)

    compiled = cutaway.compile(f, backend=backend, fullgraph=True)
    n = cutaway.arange(3)
    for dtype in (cutaway.float32, cutaway.float64) * 2:
        cutaway.set_default_dtype(dtype)
        got, want = compiled(n), f(n)
        assert got.dtype is want.dtype is dtype
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
    assert len(compiled.entries) == 2
    cutaway.set_default_dtype(cutaway.float16)
    assert "default_dtype" in compiled.why_new((n,), {})


def test_a_default_device_is_a_guard_and_blocks_nest():
    counter = compiler.CompileCounter()
    compiled = cutaway.compile(lambda x: x + cutaway.ones(2), backend=counter)
    x = cutaway.ones(2)
    compiled(x)
    with cutaway.device("cpu") as here:
        assert here == cutaway.get_default_device()
        compiled(x)
        with torch.device("cuda"):
            assert str(cutaway.get_default_device()) == "cuda:0"
        assert str(cutaway.get_default_device()) == "cpu"
    compiled(x)
    assert counter.frame_count == 2
    with pytest.raises(KeyError), cutaway.device("cuda:1"):
        raise KeyError
    assert str(cutaway.get_default_device()) == "cpu"


def test_a_default_device_of_this_thread():
    cutaway.set_default_device("cuda:1")
    assert str(cutaway.get_default_device()) == "cuda:1"
    assert cutaway.ones(2, device="cpu").tolist() == [1.0, 1.0]
    cutaway.set_default_device(None)
    assert cutaway.ones(2).device == cutaway.device("cpu")


FROM_DATA = {
    "as_tensor of numbers": lambda x, a: cutaway.as_tensor([1.0, 2.0]),
    "as_tensor of an array": lambda x, a: cutaway.as_tensor(a),
    "as_tensor of a tensor": lambda x, a: cutaway.as_tensor(x),
    "tensor of an array": lambda x, a: cutaway.tensor(a),
    "wrap_numpy": lambda x, a: compiler.wrap_numpy(lambda array: array + 1)(x),
    "wrap_numpy of a scalar": lambda x, a: compiler.wrap_numpy(lambda array: array.sum())(x),
}


@pytest.mark.parametrize("backend", [None, "eager", "inductor"])
@pytest.mark.parametrize("name", FROM_DATA)
def test_what_is_made_of_data_is_on_the_default_device(name, backend):
    function = FROM_DATA[name]
    made = function if backend is None else cutaway.compile(function, backend=backend)
    x, array = cutaway.ones(2), np.ones(2, "float32")
    assert made(x, array).device.type == "cpu"
    with cutaway.device("meta"):
        assert made(x, array).device.type == "meta"
        assert cutaway.from_numpy(array).device.type == "cpu"
    assert made(x, array).tolist() == function(x, array).tolist()
