"""Attention and transformer layers against NumPy and torch: masks, causal, grouped heads, gradients, names, errors.

Input: small float64 arrays. The torch column runs where torch is installed, with the weights moved over.
"""

import numpy as np
import pytest

from stage0_eager import Tensor, nn
from stage0_eager.functions.creation import randn
from stage0_eager.nn import functional as F
from stage0_eager.tests.numeric import check_gradients, tensors, value

RNG = np.random.default_rng(6)
Q, K, V = RNG.normal(size=(2, 4, 3, 5)), RNG.normal(size=(2, 4, 6, 5)), RNG.normal(size=(2, 4, 6, 2))
SEES = RNG.random((3, 6)) < 0.6
SEES[1] = False


def attention(q, k, v, sees=True, bias=0.0, scale=None):
    scores = q @ k.swapaxes(-1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale) + bias
    e = np.exp(scores) * sees
    total = e.sum(-1, keepdims=True)
    return e / np.where(total == 0, 1, total) @ v


def test_scaled_dot_product_attention():
    def run(**options):
        return value(F.scaled_dot_product_attention(*tensors((Q, K, V)), **options))

    close = dict(rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(run(), attention(Q, K, V), **close)
    np.testing.assert_allclose(run(scale=0.3), attention(Q, K, V, scale=0.3), **close)
    np.testing.assert_allclose(run(is_causal=True), attention(Q, K, V, np.tri(3, 6)), **close)
    np.testing.assert_allclose(run(attn_mask=Tensor(SEES)), attention(Q, K, V, SEES), **close)
    assert (run(attn_mask=Tensor(SEES))[:, :, 1] == 0).all()  # a row that sees nothing
    bias = RNG.normal(size=(3, 6))
    np.testing.assert_allclose(run(attn_mask=Tensor(bias)), attention(Q, K, V, bias=bias), **close)
    assert run(dropout_p=0.5).shape == (2, 4, 3, 2)
    few = [x[:, :2] for x in (K, V)]
    out = F.scaled_dot_product_attention(*tensors((Q, *few)), enable_gqa=True)
    np.testing.assert_allclose(value(out), attention(Q, *(np.repeat(x, 2, 1) for x in few)), **close)


def test_gradients():
    q, k, v = Q[:1, :2], K[:1, :2], V[:1, :2]
    for options in ({}, {"is_causal": True}, {"attn_mask": Tensor(SEES)}):
        check_gradients(F.scaled_dot_product_attention, (q, k, v), **options)
    check_gradients(F.scaled_dot_product_attention, (q, k[:, :1], v[:, :1]), enable_gqa=True)


def test_errors():
    q = randn(2, 3, 4, 5)
    with pytest.raises(RuntimeError, match="should not be set when is_causal=True"):
        F.scaled_dot_product_attention(q, q, q, randn(4, 4), is_causal=True)
    with pytest.raises(AssertionError, match="divisible by num_heads"):
        nn.MultiheadAttention(5, 2)
    attend = nn.MultiheadAttention(4, 2)
    x = randn(3, 1, 4)
    with pytest.raises(RuntimeError, match="should be one of"):
        attend(x, x, x, attn_mask=randn(2, 2))
    with pytest.raises(RuntimeError, match="Need attn_mask"):
        attend(x, x, x, is_causal=True)
    with pytest.raises(RuntimeError, match="activation should be relu/gelu"):
        nn.TransformerEncoderLayer(4, 2, activation="tan")


ATTENTION = ["in_proj_weight", "in_proj_bias", "out_proj.weight", "out_proj.bias"]
ENDS = [f"{name}.{kind}" for name in ("linear1", "linear2", "norm1", "norm2") for kind in ("weight", "bias")]


def test_state_names_are_torchs():
    assert list(nn.MultiheadAttention(4, 2).state_dict()) == ATTENTION
    layer = nn.TransformerEncoderLayer(4, 2, 8)
    assert list(layer.state_dict()) == [*(f"self_attn.{n}" for n in ATTENTION), *ENDS]
    stack = nn.TransformerEncoder(layer, 2)
    assert list(stack.state_dict())[:4] == [f"layers.0.self_attn.{n}" for n in ATTENTION]
    apart = nn.MultiheadAttention(4, 2, kdim=3, vdim=5, bias=False)
    assert list(apart.state_dict()) == ["q_proj_weight", "k_proj_weight", "v_proj_weight", "out_proj.weight"]


def moved(mine, theirs):
    mine.load_state_dict({k: Tensor(v.numpy()) for k, v in theirs.state_dict().items()})


@pytest.mark.parametrize("options", [{}, {"batch_first": True}, {"kdim": 3, "vdim": 5}, {"bias": False}])
def test_multihead_against_torch(options):
    torch = pytest.importorskip("torch")
    mine, theirs = (
        nn.MultiheadAttention(4, 2, **options).double(),
        torch.nn.MultiheadAttention(4, 2, **options).double(),
    )
    moved(mine, theirs)
    assert list(mine.state_dict()) == list(theirs.state_dict())
    widths = (4, options.get("kdim", 4), options.get("vdim", 4))
    shapes = [(2, n) if options.get("batch_first") else (n, 2) for n in (3, 6, 6)]
    q, k, v = (RNG.normal(size=(*shape, width)) for shape, width in zip(shapes, widths))
    k = v = k if widths[1] == widths[2] else k
    v = v if widths[1] == widths[2] else RNG.normal(size=(*shapes[2], widths[2]))
    padding = np.array([[False] * 6, [False] * 4 + [True] * 2])
    for given in (
        {},
        {"average_attn_weights": False},
        {"key_padding_mask": padding},
        {"attn_mask": SEES | (np.arange(3) == 1)[:, None]},
    ):
        if "attn_mask" in given:
            given = {"attn_mask": ~given["attn_mask"]}
        out, weights = mine(
            *tensors((q, k, v)),
            **{n: Tensor(a) if isinstance(a, np.ndarray) else a for n, a in given.items()},
        )
        want, shares = theirs(
            *(torch.tensor(a) for a in (q, k, v)),
            **{n: torch.tensor(a) if isinstance(a, np.ndarray) else a for n, a in given.items()},
        )
        np.testing.assert_allclose(value(out), want.detach().numpy(), rtol=1e-9, atol=1e-11)
        np.testing.assert_allclose(value(weights), shares.detach().numpy(), rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("norm_first", [False, True])
def test_transformers_against_torch(norm_first):
    torch = pytest.importorskip("torch")
    options = dict(dropout=0.0, norm_first=norm_first, batch_first=True, activation="gelu")

    def build(lib):
        encoder = lib.TransformerEncoder(
            lib.TransformerEncoderLayer(8, 2, 16, **options), 2, lib.LayerNorm(8)
        )
        decoder = lib.TransformerDecoder(lib.TransformerDecoderLayer(8, 2, 16, **options), 2)
        return encoder.double(), decoder.double()

    src, tgt = RNG.normal(size=(2, 5, 8)), RNG.normal(size=(2, 3, 8))
    causal = np.triu(np.full((3, 3), -np.inf), 1)
    (encoder, decoder), (encoder2, decoder2) = build(nn), build(torch.nn)
    moved(encoder, encoder2), moved(decoder, decoder2)
    assert list(decoder.state_dict()) == list(decoder2.state_dict())
    out = decoder(Tensor(tgt), encoder(Tensor(src)), tgt_mask=Tensor(causal))
    want = decoder2(torch.tensor(tgt), encoder2(torch.tensor(src)), tgt_mask=torch.tensor(causal))
    np.testing.assert_allclose(value(out), want.detach().numpy(), rtol=1e-8, atol=1e-10)
    out.sum().backward(), want.sum().backward()
    theirs = dict(encoder2.named_parameters())
    for name, p in encoder.named_parameters():
        np.testing.assert_allclose(
            value(p.grad), theirs[name].grad.numpy(), rtol=1e-6, atol=1e-9, err_msg=name
        )
