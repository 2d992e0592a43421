"""The functions of torch that are made of others: captured whole, and with right derivatives.

Input: cutaway/torch_api/composed.py. That their values are torch's is decided by their samples on the page of names.
"""

import pytest

import cutaway
from cutaway.torch_api import modules
from cutaway.torch_api.composed import SPECIAL
from stage0_eager.autograd.gradcheck import gradcheck

torch = modules()["torch"]
F = torch.nn.functional


def drawn(*shape):
    return (
        cutaway.rand(*shape, generator=cutaway.Generator().manual_seed(0), dtype=cutaway.float64) * 0.8 + 0.1
    )


INDEX = cutaway.tensor([2, 0])
# what it is called, the function of one tensor, the shape of that tensor
CALLS = {
    "channel_shuffle": (lambda x: torch.channel_shuffle(x, 2), (2, 4, 3)),
    "F.channel_shuffle": (lambda x: F.channel_shuffle(x, 4), (1, 4, 3)),
    "index_reduce prod": (lambda x: torch.index_reduce(x, 0, INDEX, x[:2] + 1, "prod"), (3, 4)),
    "index_reduce mean": (lambda x: torch.index_reduce(x, 1, INDEX, x[:, :2] + 1, "mean"), (3, 4)),
    "index_reduce amax": (lambda x: torch.index_reduce(x, 0, INDEX, x[:2] * 2, "amax"), (3, 4)),
    "upsample_bilinear": (lambda x: F.upsample_bilinear(x, scale_factor=2), (1, 2, 3, 3)),
    "max_pool2d_with_indices": (lambda x: F.max_pool2d_with_indices(x, 2)[0], (1, 2, 4, 4)),
    "transpose_copy": (lambda x: torch.transpose_copy(x, 0, 1) * 2, (3, 4)),
    "unbind_copy": (lambda x: torch.unbind_copy(x)[1] * 2, (3, 4)),
    "Tensor.where": (lambda x: x.where(x > 0.5, x * 3), (3, 4)),
    "Tensor.where number": (lambda x: x.where(x > 0.5, 0.0), (3, 4)),
    **{name: (lambda x, f=f: f(x, 4), (3, 4)) for name, f in SPECIAL.items() if "polynomial" in name},
    "spherical_bessel_j0": (SPECIAL["spherical_bessel_j0"], (3, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_it_is_captured_whole(name):
    function, shape = CALLS[name]
    x = drawn(*shape)
    compiled = cutaway.compile(function, backend="aot_eager", fullgraph=True)
    assert cutaway.allclose(compiled(x), function(x))


@pytest.mark.parametrize("name", CALLS)
def test_its_derivative_is_right(name):
    function, shape = CALLS[name]
    assert gradcheck(function, (drawn(*shape).requires_grad_(),))


def test_what_they_refuse():
    x = drawn(2, 4)
    with pytest.raises(RuntimeError, match="4 channels cannot be divided into 3 groups"):
        torch.channel_shuffle(x, 3)
    with pytest.raises(RuntimeError, match="reduce must be prod, mean, amax or amin, but got 'sum'"):
        torch.index_reduce(x, 0, INDEX, x, "sum")
    with pytest.raises(RuntimeError, match="more than one value is ambiguous"):
        torch.is_nonzero(x)
    with pytest.raises(RuntimeError, match="must order the 2 dimensions"):
        torch.empty_permuted((2, 3), (0, 0))
    with pytest.raises(ValueError, match="can't alias"):
        torch.asarray([1.0], copy=False)


def test_asarray_and_frombuffer_share_memory():
    data = bytearray(8)
    read = torch.frombuffer(data, dtype=torch.int32)
    read[0] = 7
    assert data[0] == 7
    x = drawn(3)
    assert torch.asarray(x).data_ptr() == x.data_ptr() != torch.asarray(x, copy=True).data_ptr()
