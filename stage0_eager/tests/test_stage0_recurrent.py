"""RNN, LSTM and GRU against torch and against their cells; containers, nn.utils and nn.init.

Input: small float64 sequences. The torch column runs where torch is installed, with the weights moved over.
"""

import numpy as np
import pytest

from stage0_eager import Tensor, nn
from stage0_eager.functions.creation import ones, randn, zeros
from stage0_eager.nn import init, utils
from stage0_eager.tests.numeric import tensors, value

RNG = np.random.default_rng(8)
KINDS = ["RNN", "LSTM", "GRU"]


def expit(x):
    return 1 / (1 + np.exp(-x))


def test_cells_against_numpy():
    x, h, c = RNG.normal(size=(2, 3)), RNG.normal(size=(2, 4)), RNG.normal(size=(2, 4))
    for kind in KINDS:
        cell = getattr(nn, f"{kind}Cell")(3, 4).double()
        assert list(cell.state_dict()) == ["weight_ih", "weight_hh", "bias_ih", "bias_hh"]
        wi, wh, bi, bh = (p.numpy() for p in cell.state_dict().values())
        a, b = x @ wi.T + bi, h @ wh.T + bh
        if kind == "LSTM":
            i, f, g, o = np.split(a + b, 4, -1)
            new = expit(f) * c + expit(i) * np.tanh(g)
            out = cell(Tensor(x), tensors((h, c)))
            np.testing.assert_allclose(value(out[1]), new, rtol=1e-10)
            np.testing.assert_allclose(value(out[0]), expit(o) * np.tanh(new), rtol=1e-10)
        elif kind == "GRU":
            (r, z, n), (rh, zh, nh) = np.split(a, 3, -1), np.split(b, 3, -1)
            n = np.tanh(n + expit(r + rh) * nh)
            expected = (1 - expit(z + zh)) * n + expit(z + zh) * h
            np.testing.assert_allclose(value(cell(*tensors((x, h)))), expected, rtol=1e-10)
        else:
            np.testing.assert_allclose(value(cell(*tensors((x, h)))), np.tanh(a + b), rtol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_one_layer_is_its_cell_in_a_loop(kind):
    layer, cell = getattr(nn, kind)(3, 4), getattr(nn, f"{kind}Cell")(3, 4)
    cell.load_state_dict({k.removesuffix("_l0"): v for k, v in layer.state_dict().items()})
    x, state = randn(5, 2, 3), None
    out, last = layer(x)
    for t in range(5):
        state = cell(x[t], state)
        h = state[0] if kind == "LSTM" else state
        np.testing.assert_allclose(value(out[t]), value(h), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(
        value((last[0] if kind == "LSTM" else last)[0]), value(h), rtol=1e-5, atol=1e-6
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2, "bidirectional": True, "batch_first": True}, {"bias": False}]
)
def test_torch_agrees(kind, options):
    torch = pytest.importorskip("torch")
    mine, theirs = (
        getattr(nn, kind)(3, 4, **options).double(),
        getattr(torch.nn, kind)(3, 4, **options).double(),
    )
    mine.load_state_dict({k: Tensor(v.numpy()) for k, v in theirs.state_dict().items()})
    assert list(mine.state_dict()) == list(theirs.state_dict())
    x = RNG.normal(size=(2, 5, 3))
    out, last = mine(Tensor(x))
    want, final = theirs(torch.tensor(x))
    np.testing.assert_allclose(value(out), want.detach().numpy(), rtol=1e-9, atol=1e-11)
    for a, b in zip(last if kind == "LSTM" else [last], final if kind == "LSTM" else [final]):
        np.testing.assert_allclose(value(a), b.detach().numpy(), rtol=1e-9, atol=1e-11)
    out.sum().backward(), want.sum().backward()
    for p, q in zip(mine.parameters(), theirs.parameters()):
        np.testing.assert_allclose(value(p.grad), q.grad.numpy(), rtol=1e-7, atol=1e-9)


def test_recurrent_names_and_errors():
    names = list(nn.GRU(3, 4, bidirectional=True).state_dict())
    assert names[:4] == ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
    assert names[4:] == [f"{n}_reverse" for n in names[:4]]
    alone, _ = nn.LSTM(3, 4)(randn(5, 3))
    assert alone.shape == (5, 4)
    with pytest.raises(RuntimeError, match="must be equal to input_size. Expected 3, got 2"):
        nn.RNN(3, 4)(randn(5, 1, 2))
    with pytest.raises(RuntimeError, match="Expected hidden size"):
        nn.GRU(3, 4)(randn(5, 1, 3), zeros(1, 2, 4))
    with pytest.raises(ValueError, match="Unknown nonlinearity"):
        nn.RNN(3, 4, nonlinearity="sin")


def test_containers():
    table = nn.ModuleDict({"a": nn.Linear(1, 2)})
    table["b"] = nn.ReLU()
    assert list(table) == ["a", "b"] and "a" in table and len(table) == 2
    assert list(table.state_dict()) == ["a.weight", "a.bias"]
    assert isinstance(table.pop("b"), nn.ReLU) and list(table.keys()) == ["a"]
    row = nn.ParameterList([ones(2), nn.Parameter(zeros(1))]).append(ones(3))
    assert list(row.state_dict()) == ["0", "1", "2"] and all(p.requires_grad for p in row)
    assert len(row[1:]) == 2 and row[-1].shape == (3,)
    named = nn.ParameterDict({"x": ones(2)})
    assert list(dict(named.named_parameters())) == ["x"] and isinstance(named["x"], nn.Parameter)
    del named["x"]
    assert len(named) == 0


def test_gradient_clipping_and_vectors():
    layer = nn.Linear(2, 2)
    for p in layer.parameters():
        p.grad = ones(*p.shape) * 2
    assert utils.clip_grad_norm_(layer.parameters(), 1.0).item() == pytest.approx(np.sqrt(24))
    joint = np.concatenate([value(p.grad).ravel() for p in layer.parameters()])
    assert np.linalg.norm(joint) == pytest.approx(1.0, rel=1e-5)
    utils.clip_grad_value_(layer.parameters(), 0.1)
    assert all((value(p.grad) == np.float32(0.1)).all() for p in layer.parameters())
    vector = utils.parameters_to_vector(layer.parameters())
    utils.vector_to_parameters(vector.detach() * 2, layer.parameters())
    np.testing.assert_array_equal(value(utils.parameters_to_vector(layer.parameters())), value(vector) * 2)
    layer.weight.grad = layer.weight.grad * float("inf")
    with pytest.raises(RuntimeError, match="non-finite"):
        utils.clip_grad_norm_(layer.parameters(), 1.0, error_if_nonfinite=True)


def test_initial_values():
    for shape in ((4, 6), (6, 4), (3, 2, 2)):
        w = value(init.orthogonal_(zeros(*shape), 2.0)).reshape(shape[0], -1)
        gram = w @ w.T if w.shape[0] <= w.shape[1] else w.T @ w
        np.testing.assert_allclose(gram, 4 * np.eye(len(gram)), atol=1e-5)
    assert value(init.kaiming_normal_(zeros(200, 100), nonlinearity="relu")).std() == pytest.approx(
        np.sqrt(0.02), rel=0.05
    )
    assert value(init.xavier_normal_(zeros(100, 300))).std() == pytest.approx(np.sqrt(1 / 200), rel=0.05)
    cut = value(init.trunc_normal_(zeros(50, 50), 0.0, 1.0, -0.5, 1.0))
    assert cut.min() >= -0.5 and cut.max() <= 1.0 and len(np.unique(cut)) > 2000
    assert value(init.eye_(zeros(2, 3))).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert init.calculate_gain("tanh") == 5 / 3 and init.calculate_gain("leaky_relu", 1) == 1
    assert init.kaiming_uniform_(zeros(2, 0), mode="FAN_IN").shape == (2, 0)
    with pytest.raises(ValueError, match="Unsupported nonlinearity"):
        init.calculate_gain("none")
    with pytest.raises(ValueError, match="negative_slope True not a valid number"):
        init.calculate_gain("leaky_relu", True)
