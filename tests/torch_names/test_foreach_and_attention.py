"""torch._foreach_* and flex_attention, beside torch where it is installed, and compiled.

Input: lists of small tensors; queries, keys and values with score and mask functions.
"""

import math
import operator

import numpy as np
import pytest

from cutaway.torch_api import as_torch
from cutaway.torch_api import torch as ours
from cutaway.torch_api.foreach import PAIRS, SINGLE


def tensors(language, seed=0, positive=True):
    random = np.random.default_rng(seed)
    arrays = [random.uniform(0.2, 0.9, size=shape).astype(np.float32) for shape in ((2,), (3, 2), ())]
    return [language.from_numpy(np.array(array)) for array in arrays]


def calls(language):
    """Every function of the table, on lists that each call may write to."""
    other = tensors(language, 1)
    for name in SINGLE:
        yield name, (), {}
        if name not in ("clone", "zero_"):
            yield f"{name}_", (), {}
    for name in PAIRS:
        for end in ("", "_"):
            for operand in (other, 0.5, [0.25, 0.5, 2.0]):
                yield name + end, (operand,), {}
    yield "add", (other,), {"alpha": 2}
    for name in ("addcmul", "addcdiv", "addcmul_", "addcdiv_"):
        for factors in ((), (0.5,), ([0.25, 0.5, 2.0],)):
            yield name, (other, tensors(language, 2), *factors), {}
    for name in ("lerp", "lerp_"):
        yield name, (other, 0.25), {}
    yield "norm", (), {}
    yield "copy_", (other,), {}
    yield "max", (), {}


def test_each_is_torchs():
    torch = pytest.importorskip("torch")
    for (name, args, options), (_, mine, _) in zip(calls(torch), calls(ours), strict=True):
        results = []
        for language, words in ((torch, args), (ours, mine)):
            lists = tensors(language)
            found = getattr(language, f"_foreach_{name}")(lists, *words, **options)
            assert not name.endswith("_") or all(map(operator.is_, found, lists)), name
            results.append([t.numpy() for t in found])
        for got, expected in zip(results[1], results[0], strict=True):
            assert np.allclose(got, expected, rtol=2e-5), name


def test_lists_of_tensors_are_compiled_and_checked():
    def update(weights, gradients):
        ours._foreach_mul_(weights, 0.9)
        ours._foreach_addcdiv_(weights, gradients, ours._foreach_add(gradients, 1.0), -0.5)
        return ours._foreach_norm(weights)

    found = []
    for run in (update, ours.compile(update, fullgraph=True)):
        weights = tensors(ours)
        found.append([*run(weights, tensors(ours, 1)), *weights])
    assert all(ours.allclose(a, b) for a, b in zip(*found, strict=True))
    with pytest.raises(RuntimeError, match="same number of tensors, got 3 and 2"):
        ours._foreach_add(tensors(ours), tensors(ours)[:2])


# ---- flex_attention ------------------------------------------------------------------------------------------------


def variants(language, flex):
    """Score and mask functions of published code."""
    slopes = language.tensor([0.5, 0.25])
    documents = language.tensor([0] * 5 + [1] * 7)

    def causal(b, h, q, kv):
        return q >= kv

    def window(b, h, q, kv):
        return q - kv <= 3

    yield "plain", {}
    yield "alibi", {"score_mod": lambda score, b, h, q, kv: score + slopes[h] * (kv - q)}
    yield "soft cap", {"score_mod": lambda score, b, h, q, kv: 2 * language.tanh(score / 2), "scale": 0.3}
    yield (
        "relative",
        {"score_mod": lambda score, b, h, q, kv: language.where(q >= kv, score + (q - kv), -float("inf"))},
    )
    masks = {
        "causal": causal, "sliding": flex.and_masks(causal, window), "either": flex.or_masks(causal, window),
        "documents": lambda b, h, q, kv: documents[q] == documents[kv], "nothing": lambda b, h, q, kv: (q < 4) & (kv < 2),
    }  # fmt: skip
    for name, mask in masks.items():
        yield (
            name,
            {"block_mask": flex.create_block_mask(mask, None, None, 12, 12, device="cpu", BLOCK_SIZE=4)},
        )
    yield "grouped", {"enable_gqa": True}


def qkv(language, grouped):
    random = np.random.default_rng(0)
    heads = [4 if grouped else 2, 2, 2]
    return [language.from_numpy(random.normal(size=(2, n, 12, 8)).astype(np.float32)) for n in heads]


with as_torch():
    import torch.nn.attention.flex_attention as flex


def by_elements(q, k, v, score_mod=None, block_mask=None, scale=None, enable_gqa=False):
    """(result, log of each row's sum), with score_mod and mask_mod called for one score after the other."""
    q, k, v = (x.numpy().astype(np.float64) for x in (q, k, v))
    k, v = (np.repeat(x, q.shape[1] // k.shape[1], 1) for x in (k, v))
    scores = q @ k.swapaxes(-2, -1) * (scale or 1 / math.sqrt(q.shape[-1]))
    for place in np.ndindex(scores.shape):
        indices = [ours.tensor(i) for i in place]
        if score_mod is not None:
            scores[place] = score_mod(ours.tensor(scores[place]), *indices).item()
        if block_mask is not None and not block_mask.mask_mod(*indices).item():
            scores[place] = -math.inf
    with np.errstate(divide="ignore"):
        exp = np.exp(scores)
        total = exp.sum(-1, keepdims=True)
        return exp / np.where(total == 0, 1, total) @ v, np.log(total[..., 0])


@pytest.mark.parametrize(
    "name, options", [*variants(ours, flex)], ids=lambda part: part if isinstance(part, str) else ""
)
def test_it_is_what_each_element_says(name, options):
    inputs = qkv(ours, name == "grouped")
    out, lse = flex.flex_attention(*inputs, return_lse=True, **options)
    wanted = by_elements(*inputs, **options)
    assert np.allclose(out.numpy(), wanted[0], atol=2e-6) and np.allclose(lse.numpy(), wanted[1], atol=2e-6)
    if mask := options.get("block_mask"):
        dense = flex.create_mask(mask.mask_mod, 1, 1, 12, 12).numpy().reshape(3, 4, 3, 4).any((1, 3))
        assert np.array_equal(mask.to_dense().numpy()[0, 0], dense)
        assert mask.sparsity() == pytest.approx(100 * (1 - dense.mean()), abs=1e-4)


def test_it_is_compiled_and_differentiated():
    for name, options in list(variants(ours, flex))[1:-1:3]:
        found = []
        for run in (
            flex.flex_attention,
            ours.compile(flex.flex_attention, fullgraph=True, backend="aot_eager"),
        ):
            inputs = [x.requires_grad_() for x in qkv(ours, name == "grouped")]
            out = run(*inputs, **options)
            (out * out).sum().backward()
            found.append([out, *(x.grad for x in inputs)])
        assert all(ours.allclose(a, b, atol=1e-5) for a, b in zip(*found, strict=True)), name


def test_blocks_say_what_is_kept():
    counts, columns = ours.tensor([[[1, 2]]]), ours.tensor([[[[0, 1], [0, 1]]]])
    mask = flex.BlockMask.from_kv_blocks(counts, columns, BLOCK_SIZE=4)
    assert (
        mask.to_dense().tolist() == [[[[1, 0], [1, 1]]]]
        and mask.sparsity() == 25
        and mask.shape == (1, 1, 8, 8)
    )
    q = ours.randn(1, 1, 8, 4)
    rows = ours.arange(8)
    dense = (rows[:, None] // 4) >= (rows[None] // 4)
    wanted = ours.nn.functional.scaled_dot_product_attention(q, q, q, attn_mask=dense)
    assert ours.allclose(flex.flex_attention(q, q, q, block_mask=mask), wanted, atol=1e-6)
    with pytest.raises(ValueError, match="block_mask was created for"):
        flex.flex_attention(*[ours.randn(1, 1, 9, 4)] * 3, block_mask=mask)
    with pytest.raises(ValueError, match="Try setting enable_gqa=True"):
        flex.flex_attention(ours.randn(1, 2, 8, 4), q, q)
    from_mask = flex.create_mask(lambda b, h, i, j: i >= j, None, None, 3, 3, device="cpu")
    assert from_mask.tolist() == [[[[True, False, False], [True, True, False], [True, True, True]]]]
    with ours.nn.attention.sdpa_kernel([ours.nn.attention.SDPBackend.MATH]):
        pass
    with (
        pytest.raises(AssertionError, match="must be an instance of SDPBackend"),
        ours.nn.attention.sdpa_kernel(["m"]),
    ):
        pass
