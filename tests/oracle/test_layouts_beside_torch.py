"""How the elements of a result lie in memory, beside torch, in eager and compiled: a table of expressions.

Input: operands that are transposed (t), permuted (p), cut (t[1:]), repeated (e), or have their channels last (x, y, z).
Not as in torch: operands that lie in different orders give a row-major result (in torch the first of them decides), and
convolutions on a CPU and `cat` give row-major results.
"""

import numpy as np
import pytest

from cutaway.torch_api import as_torch

EXPRESSIONS = """
torch.empty_like(t) | torch.ones_like(p) | torch.zeros_like(x) | torch.rand_like(t) | torch.randint_like(t, 5)
torch.zeros_like(t[1:]) | torch.zeros_like(e) | torch.zeros_like(t, memory_format=torch.contiguous_format)
t.clone() | p.clone() | x.clone() | t[1:].clone() | e.clone() | t.double() | t[1:].double() | p.bool() | t.contiguous()
t + 1 | t[1:] + 1 | t[::2] + 1 | e + 1 | x[:, 1:3] + 1 | x[:, :, 1:3].exp() | p[1:, :, 1:].exp() | -t | t > 0
t + torch.ones(3) | torch.ones(3) + t | t * torch.ones(5, 1) | x + w.view(4, 1, 1) | w.view(1, 4, 1, 1) * x
torch.where(t > 0, t, torch.ones(3)) | torch.lerp(t, t, 0.5) | t.flip(0) | p.sum(0) | x.sum(1) | p.cumsum(0)
t.repeat(1, 2) | torch.tile(t, (2,)) | t.repeat_interleave(2, 0) | p.roll(1, 0) | t @ torch.ones(3, 2)
t.contiguous().diagonal_scatter(torch.zeros(3)) | x.contiguous().diagonal_scatter(torch.zeros(6, 8, 2))
F.softmax(t, 0) | F.log_softmax(x, 1) | F.layer_norm(t, (3,)) | F.layer_norm(x, (4, 6, 8)) | F.instance_norm(x)
F.dropout(x) | F.dropout(t) | F.dropout2d(x) | F.prelu(x, w) | F.glu(x, 1) | F.normalize(x) | F.relu(x) | F.gelu(p)
F.batch_norm(x, w, w * w, w, w) | F.batch_norm(z, None, None, training=True) | F.group_norm(x, 2, w, w)
F.max_pool2d(x, 2) | F.max_pool2d(x, 3, 2, 1) | F.max_pool2d(x, 2, return_indices=True)[1] | F.max_pool3d(z, 2)
F.avg_pool2d(x, 2) | F.avg_pool2d(x, 3, 2, 1) | F.avg_pool3d(z, 2) | F.lp_pool2d(x, 2.0, 2)
F.adaptive_avg_pool2d(x, (2, 3)) | F.adaptive_avg_pool2d(x, (5, 3)) | F.adaptive_avg_pool3d(z, 2)
F.adaptive_max_pool2d(x, (2, 3)) | F.adaptive_max_pool2d(x, (5, 3)) | F.pixel_unshuffle(x, 2)
F.interpolate(x, scale_factor=2) | F.interpolate(x, scale_factor=2, mode="bilinear") | F.interpolate(z, scale_factor=2)
F.interpolate(x, size=(3, 5), mode="bicubic") | F.interpolate(x, size=(3, 3), mode="area")
F.pad(x, (1, 1, 1, 1)) | F.pad(x, (1, 1, 1, 1), mode="reflect") | F.pad(x, (1, 1, 1, 1), mode="circular")
F.mse_loss(x, y, reduction="none") | F.binary_cross_entropy_with_logits(x, y, reduction="none") | F.cosine_similarity(x, y)
"""
ROWS = [part.strip() for line in EXPRESSIONS.strip().splitlines() for part in line.split(" | ")]


def operands(torch):
    draw = np.random.default_rng(0)
    made = lambda *shape: torch.tensor(draw.standard_normal(shape).astype("float32"))  # noqa: E731
    last, last_3d = torch.channels_last, torch.channels_last_3d
    return {
        "t": made(3, 5).t(), "p": made(2, 3, 4).permute(2, 0, 1), "e": made(3, 1).expand(3, 4), "w": made(4),
        "x": made(2, 4, 6, 8).contiguous(memory_format=last), "y": made(2, 4, 6, 8).contiguous(memory_format=last),
        "z": made(2, 4, 4, 6, 8).contiguous(memory_format=last_3d),
    }  # fmt: skip


def layout(torch, row, compiled=False):
    given = operands(torch)
    function = eval(f"lambda {', '.join(given)}: {row}", {"torch": torch, "F": torch.nn.functional})
    out = (torch.compile(function) if compiled else function)(**given)
    return tuple(out.shape), out.stride()


@pytest.mark.parametrize("row", ROWS)
def test_a_result_lies_in_memory_as_torchs(row):
    theirs = pytest.importorskip("torch")
    with as_torch():
        import torch as ours
    assert layout(ours, row) == layout(theirs, row)


@pytest.mark.parametrize("row", ROWS[::9])
def test_a_compiled_result_lies_as_eagers(row):
    with as_torch():
        import torch as ours
    assert layout(ours, row, compiled=True) == layout(ours, row)
