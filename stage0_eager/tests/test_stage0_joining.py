"""Taking apart, stacking, repeating, turning, windows and borders, against NumPy; views, writes and gradients.

Input: one array in several layouts. What torch gives as a view must share storage here.
"""

import numpy as np
import pytest

from stage0_eager import Tensor
from stage0_eager.functions import joining as j
from stage0_eager.functions import slicing
from stage0_eager.functions import strided_windows as w
from stage0_eager.functions.creation import tensor
from stage0_eager.functions.nn import padding

BASE = np.arange(24.0).reshape(2, 3, 4)
LAYOUTS = {
    "row-major": BASE,
    "column-major": np.asfortranarray(BASE),
    "sliced": np.repeat(BASE, 2, 2)[..., ::2],
}
SLIDING = np.lib.stride_tricks.sliding_window_view

VIEWS = {
    "unbind": (lambda x: slicing.unbind(x, 1)[2], BASE[:, 2]),
    "tensor_split": (lambda x: slicing.tensor_split(x, 3, 2)[0], np.array_split(BASE, 3, 2)[0]),
    "tensor_split at": (lambda x: slicing.tensor_split(x, [1, 3], 2)[1], np.split(BASE, [1, 3], 2)[1]),
    "diagonal": (lambda x: x.diagonal(1, 1, 2), BASE.diagonal(1, 1, 2)),
    "diagonal below": (lambda x: x.diagonal(-1, 2, 0), BASE.diagonal(-1, 2, 0)),
    "movedim": (lambda x: x.movedim((0, 1), (-1, 0)), np.moveaxis(BASE, (0, 1), (-1, 0))),
    "swapaxes": (lambda x: x.swapaxes(0, 2), BASE.swapaxes(0, 2)),
    "unfold": (lambda x: x.unfold(2, 2, 2), SLIDING(BASE, 2, 2)[:, :, ::2]),
    "unfold 1": (lambda x: x.unfold(1, 2, 1), SLIDING(BASE, 2, 1)),
    "expand_as": (lambda x: x[:1].expand_as(x), np.broadcast_to(BASE[:1], BASE.shape)),
}
COPIES = {
    "repeat": (lambda x: x.repeat(2, 1, 1, 3), np.tile(BASE, (2, 1, 1, 3))),
    "tile": (lambda x: x.tile(2), np.tile(BASE, 2)),
    "repeat_interleave": (lambda x: x.repeat_interleave(2, 1), np.repeat(BASE, 2, 1)),
    "counts": (lambda x: x.repeat_interleave(tensor([0, 2, 1]), 1), np.repeat(BASE, [0, 2, 1], 1)),
    "roll": (lambda x: x.roll((1, -2), (0, 2)), np.roll(BASE, (1, -2), (0, 2))),
    "roll all": (lambda x: x.roll(5), np.roll(BASE, 5)),
    **{f"rot90 {k}": (lambda x, k=k: x.rot90(k, (1, 2)), np.rot90(BASE, k, (1, 2))) for k in range(-1, 4)},
    "fliplr": (lambda x: x.fliplr(), np.fliplr(BASE)),
    "flipud": (lambda x: x.flipud(), np.flipud(BASE)),
    "hstack": (lambda x: j.hstack([x, x]), np.hstack([BASE, BASE])),
    "vstack": (lambda x: j.vstack([x, x]), np.vstack([BASE, BASE])),
    "dstack": (lambda x: j.dstack([x[0], x[1]]), np.dstack([BASE[0], BASE[1]])),
    "column_stack": (lambda x: j.column_stack([x[0, 0], x[0, 1]]), np.column_stack([BASE[0, 0], BASE[0, 1]])),
    "diag_embed": (lambda x: slicing.diag_embed(x[0, 0], 1), np.diag(BASE[0, 0], 1)),
    "diag": (lambda x: x[0].diag(), np.diag(BASE[0])),
    "unflatten": (lambda x: x.unflatten(2, (2, -1)), BASE.reshape(2, 3, 2, 2)),
    "ravel": (lambda x: x.ravel(), BASE.ravel()),
    "crop": (lambda x: padding.pad(x, (-1, 2, 1, 0), value=9), np.pad(BASE[..., 1:], ((0, 0), (1, 0), (0, 2)), constant_values=9)),
    **{
        mode: (lambda x, mode=mode: padding.pad(x, (1, 3, 2, 0), mode), np.pad(BASE, ((0, 0), (2, 0), (1, 3)), how))
        for mode, how in {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}.items()
    },
}  # fmt: skip


@pytest.mark.parametrize("name", [*VIEWS, *COPIES])
def test_against_numpy(name):
    function, want = {**VIEWS, **COPIES}[name]
    for base in LAYOUTS.values():
        out = function(Tensor(base))
        assert out.shape == want.shape and out.tolist() == want.tolist()
        assert name not in VIEWS or np.shares_memory(out.numpy(), base)


@pytest.mark.parametrize("name", [*VIEWS, *COPIES])
def test_gradients_are_those_of_a_linear_map(name):
    function = {**VIEWS, **COPIES}[name][0]
    x = Tensor(BASE.copy(), True)
    out = function(x)
    weights = np.random.default_rng(0).standard_normal(out.shape)
    (out * Tensor(weights)).sum().backward()
    step = np.random.default_rng(1).standard_normal(BASE.shape)
    moved = function(Tensor(BASE + step)).numpy() - function(Tensor(BASE)).numpy()
    np.testing.assert_allclose((x.grad.numpy() * step).sum(), (moved * weights).sum())


def test_writes_through_views_are_seen():
    x = Tensor(BASE.copy())
    x.diagonal(0, 1, 2).fill_(-1.0)
    x.unfold(2, 2, 2)[0, 0, 1] = tensor([8.0, 9.0])
    w.as_strided(x, (2,), (12,), 4)[0] = 5.0
    assert x[0, 1, 1].item() == -1 and x[0, 0].tolist() == [-1, 1, 8, 9] and x[0, 1, 0].item() == 5
    leaf = Tensor(np.ones((3, 3)), True)
    y, v = leaf * 2, Tensor(np.zeros(3), True)
    y.diagonal().copy_(v)
    y.sum().backward()
    assert leaf.grad.tolist() == (2 - 2 * np.eye(3)).tolist() and v.grad.tolist() == [1, 1, 1]


WRONG = {
    "outside": (lambda x: w.as_strided(x, (5,), (6,), 0), RuntimeError),
    "turned": (lambda x: w.as_strided(x.mT, (2,), (1,)), RuntimeError),
    "window": (lambda x: x.unfold(2, 5, 1), RuntimeError),
    "step": (lambda x: x.unfold(2, 1, 0), RuntimeError),
    "plane": (lambda x: x.diagonal(0, 1, 1), RuntimeError),
    "reflect": (lambda x: padding.pad(x, (4, 0), "reflect"), RuntimeError),
    "mode": (lambda x: padding.pad(x, (1, 0), "mirror"), NotImplementedError),
    "odd": (lambda x: padding.pad(x, (1,)), RuntimeError),
    "repeat": (lambda x: x.repeat(2), RuntimeError),
    "movedim": (lambda x: x.movedim((0, 0), (0, 1)), RuntimeError),
    "sections": (lambda x: x.tensor_split(0), RuntimeError),
    "unflatten": (lambda x: x.unflatten(2, (3, 2)), RuntimeError),
    "dim": (lambda x: x.unbind(3), IndexError),
}


@pytest.mark.parametrize("name", WRONG)
def test_refused(name):
    action, kind = WRONG[name]
    with pytest.raises(kind):
        action(Tensor(BASE))
