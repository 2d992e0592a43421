"""The text of tensors: fixed texts that torch printed, and where torch is installed many more, to the character.

Input: arrays of every dtype, size and magnitude, with NaN, infinities and signed zeros.
"""

import math
from contextlib import contextmanager

import numpy as np
import pytest

from stage0_eager import Tensor, printing
from stage0_eager.defaults import set_default_dtype
from stage0_eager.functions.creation import tensor
from stage_contracts import dtype as dt

NAN, INF = math.nan, math.inf

TEXTS = {
    "floats": (tensor([1.0, 2.5, -3.25]), "tensor([ 1.0000,  2.5000, -3.2500])"),
    "whole floats": (tensor([1.0, 2.0, -30.0]), "tensor([  1.,   2., -30.])"),
    "a scalar": (tensor(3.14159), "tensor(3.1416)"),
    "a whole scalar": (tensor(3.0), "tensor(3.)"),
    "wide range": (tensor([1.0, 2000.5]), "tensor([1.0000e+00, 2.0005e+03])"),
    "small": (tensor([1e-5]), "tensor([1.0000e-05])"),
    "special": (tensor([NAN, INF, -INF, 0.0, -0.0]), "tensor([nan, inf, -inf, 0., -0.])"),
    "special among others": (tensor([NAN, 1.5, -INF]), "tensor([   nan, 1.5000,   -inf])"),
    "integers": (tensor([[1, -20], [300, 4]]), "tensor([[  1, -20],\n        [300,   4]])"),
    "bools": (tensor([True, False]), "tensor([ True, False])"),
    "dtype": (tensor([1], dtype="int32"), "tensor([1], dtype=cutaway.int32)"),
    "nothing": (tensor([]), "tensor([])"),
    "nothing of a shape": (Tensor(np.zeros((0, 3), np.int64)), "tensor([], size=(0, 3), dtype=cutaway.int64)"),
    "a leaf": (tensor([1.0], requires_grad=True), "tensor([1.], requires_grad=True)"),
    "a result": (tensor([1.0], requires_grad=True) * 2, "tensor([2.], grad_fn=<MulBackward0>)"),
    "edges": (Tensor(np.arange(2000)), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_texts(name):
    value, text = TEXTS[name]
    assert repr(value) == text


def test_options_change_the_text_and_a_block_puts_them_back():
    x = tensor([1.23456, 1000.0])
    before = printing.get_printoptions()
    with printing.printoptions(precision=2):
        assert repr(x) == "tensor([   1.23, 1000.00])"
    with printing.printoptions(sci_mode=True):
        assert repr(x) == "tensor([1.2346e+00, 1.0000e+03])"
    with printing.printoptions(profile="short", threshold=3):
        assert repr(tensor([1, 2, 3, 4, 5])) == "tensor([1, 2,  ..., 4, 5])"
    with printing.printoptions(linewidth=20):
        assert repr(Tensor(np.arange(6))) == "tensor([0, 1, 2, 3,\n        4, 5])"
    assert printing.get_printoptions() == before
    with pytest.raises(ValueError, match="one of default, short, full"):
        printing.set_printoptions(profile="long")


def arrays():
    rng = np.random.default_rng(0)
    shapes = [
        (),
        (1,),
        (5,),
        (40,),
        (3, 4),
        (2, 3, 4),
        (1, 1, 1, 2),
        (0,),
        (2, 0),
        (1200,),
        (40, 40),
        (7, 7, 30),
    ]
    for shape in shapes:
        for scale in (1e-6, 1e-3, 1.0, 30.0, 1e4, 1e9):
            yield np.asarray(rng.standard_normal(shape) * scale)
        yield np.asarray(np.round(rng.standard_normal(shape) * 5))
        x = np.asarray(rng.standard_normal(shape))
        for i, value in enumerate((NAN, INF, -INF, 0.0, -0.0)):
            if x.size > i:
                x.reshape(-1)[i * 7 % x.size] = value
        yield x
        yield rng.integers(-1000, 100, shape)
        yield rng.integers(0, 2, shape) > 0
    yield np.array([1e8, 1.0])
    yield from (
        np.array([v]) for v in (1e8, 1.1e8, 1e-4, 9e-5, 99999.0, 123456.5, 0.00012345, 5e-324, 1.7e308)
    )


DTYPES = ["float16", "bfloat16", "float32", "float64", "uint8", "int8", "int32", "int64", "bool"]


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("options", [{}, {"precision": 2}, {"sci_mode": True}, {"sci_mode": False}, {"linewidth": 40, "edgeitems": 2}],
                         ids=str)  # fmt: skip
def test_texts_are_torchs(name, options):
    torch = pytest.importorskip("torch")
    theirs = getattr(torch, name)
    for array in arrays():
        if not dt.DTYPES[name].is_floating_point:
            array = np.nan_to_num(array, posinf=9, neginf=-9).clip(-100, 100)
        wide = torch.from_numpy(np.asarray(array)).to(theirs)
        ours = tensor(wide.double().numpy() if wide.is_floating_point() else wide.numpy(), dtype=name)
        with printing.printoptions(**options):
            got = repr(ours)
        torch.set_printoptions(profile="default", **options)
        want = repr(wide).replace("torch.", "cutaway.")
        torch.set_printoptions(profile="default")
        # a dtype's name is longer here, so that a suffix may have to go to a line of its own
        assert got.split() == want.split() or got == want, (got, want)
        if "dtype=" not in want:
            assert got == want


@pytest.mark.parametrize("device", ["cpu", "meta"])
@pytest.mark.parametrize("default", ["float32", "float64", "float16", "bfloat16"])
def test_what_is_left_out_is_the_default(default, device):
    torch = pytest.importorskip("torch")
    values = {"none": [], "one": 1, "row": [1, 0], "columns": [[1], [0]]}
    texts = {}
    for name in [*DTYPES, "complex64", "complex128"]:
        for shape, numbers in values.items():
            with default_dtypes(torch, default):
                theirs = torch.tensor(numbers, dtype=getattr(torch, name)).to(device)
                ours = tensor(numbers, dtype=name).to(device)
                texts[name, shape] = repr(ours).split(), repr(theirs).replace("torch.", "cutaway.").split()
    assert not {name: both for name, both in texts.items() if both[0] != both[1]}


@contextmanager
def default_dtypes(torch, name):
    set_default_dtype(name)
    torch.set_default_dtype(getattr(torch, name))
    try:
        yield
    finally:
        set_default_dtype("float32")
        torch.set_default_dtype(torch.float32)
