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


DRAWS, DRAWS3 = drawn(1, 2, 2), drawn(1, 2, 3)
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
    "bessel_j0": (lambda x: torch.special.bessel_j0(x * 6), (2, 2)),
    "airy_ai": (lambda x: torch.special.airy_ai(x - 0.5), (2, 2)),
    "put": (lambda x: torch.put(x, INDEX, x[0, :2] * 3), (3, 4)),
    "put accumulate": (lambda x: x.put(INDEX, x[0, :2] * 3, accumulate=True), (3, 4)),
    "as_strided_scatter": (lambda x: torch.as_strided_scatter(x, x[:2, :2] * 2, (2, 2), (4, 1)), (3, 4)),
    "renorm_": (lambda x: (x * 2).renorm_(2, 0, 0.5), (3, 4)),
    "index_reduce_": (lambda x: (x * 2).index_reduce_(0, INDEX, x[:2] + 1, "prod"), (3, 4)),
    "histogram": (lambda x: torch.histogram(x, torch.tensor([0.0, 0.5, 1.0]).double(), weight=x * 2)[0], (3, 4)),
    "slice_copy": (lambda x: torch.slice_copy(x, 1, 1, 4, 2) * 2, (3, 4)),
    "conv_tbc": (lambda x: torch.conv_tbc(x, x[:2, :, :].permute(0, 2, 1), x[0, :, 0]), (4, 2, 3)),
    "linalg.lu": (lambda x: torch.linalg.lu(x + torch.eye(4)[:3] * 3)[1:], (3, 4)),
    "linalg.lu_factor_ex": (lambda x: torch.linalg.lu_factor_ex(x)[0], (2, 3, 3)),
    "lu_solve": (lambda x: torch.linalg.lu_solve(*torch.linalg.lu_factor_ex(x + torch.eye(3))[:2], x, adjoint=True), (3, 3)),
    "geqrf": (lambda x: torch.geqrf(x)[0].triu(), (4, 3)),
    "ormqr": (lambda x: torch.ormqr(*torch.geqrf(x), x), (3, 3)),
    "fractional_max_pool2d": (lambda x: F.fractional_max_pool2d(x, 2, 2, _random_samples=DRAWS), (1, 2, 4, 5)),
    "fractional_max_pool3d": (lambda x: F.fractional_max_pool3d(x, 2, 2, _random_samples=DRAWS3), (1, 2, 4, 4, 5)),
    "multi_head_attention_forward": (lambda x: F.multi_head_attention_forward(
        x, x, x, 4, 2, torch.ones(12, 4).double() * x[0, 0, 0], None, x[:1, :1], x[:1, :1], True, 0.0, x[0] @ x[0].mT, None)[0], (2, 4, 4)),
    "linear_cross_entropy": (lambda x: F.linear_cross_entropy(x, x[:2] * 2, torch.tensor([0, 1, 1])), (3, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_it_is_captured_whole(name):
    function, shape = CALLS[name]
    x = drawn(*shape)
    compiled = cutaway.compile(function, backend="aot_eager", fullgraph=True)
    made, wanted = compiled(x), function(x)
    pairs = [(made, wanted)] if isinstance(wanted, cutaway.Tensor) else zip(made, wanted)
    assert all(cutaway.allclose(a, b) for a, b in pairs)


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


def test_what_save_writes_is_what_load_reads(tmp_path):
    x = drawn(2, 3)
    saved = {
        "epoch": 3,
        "lr": [1e-3, None],
        "model": {"w": torch.nn.Parameter(x)},
        "pair": (x[0], "text"),
        5: True,
    }
    torch.save(saved, tmp_path / "file")
    read = torch.load(tmp_path / "file", weights_only=True)
    assert list(read) == list(saved) and read["epoch"] == 3 and read["lr"] == [1e-3, None] and read[5] is True
    assert isinstance(read["model"]["w"], torch.nn.Parameter) and torch.equal(read["model"]["w"], x)
    assert torch.equal(read["pair"][0], x[0]) and read["pair"][1] == "text"
    cutaway.save({"w": x}, tmp_path / "named")  # safetensors
    assert torch.equal(torch.load(tmp_path / "named")["w"], x)
    with pytest.raises(TypeError, match=r"Linear; save the state_dict\(\)"):
        torch.save([torch.nn.Linear(2, 3)], tmp_path / "module")


def test_a_lazy_layer_trains_with_an_optimizer_made_before_its_first_call():
    layer = torch.nn.LazyLinear(2)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.5)
    with pytest.raises(RuntimeError, match="shape of an uninitialized"):
        layer.weight.shape  # noqa: B018
    x = drawn(3, 4).float()
    layer(x)
    assert type(layer) is torch.nn.Linear and layer.in_features == 4 and layer.weight.shape == (2, 4)
    before = layer.weight.detach().clone()
    layer(x).sum().backward()
    optimizer.step()
    assert torch.allclose(layer.weight, before - 0.5 * x.sum(0))
    assert cutaway.compile(layer, backend="aot_eager", fullgraph=True)(x).shape == (3, 2)


def test_a_buffer_is_registered_when_it_is_assigned():
    module = torch.nn.Module()
    module.kept, module.hidden = torch.nn.Buffer(drawn(2)), torch.nn.Buffer(drawn(3), persistent=False)
    assert [name for name, _ in module.named_buffers()] == ["kept", "hidden"] and list(
        module.state_dict()
    ) == ["kept"]
