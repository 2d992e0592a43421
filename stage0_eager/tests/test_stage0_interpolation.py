"""interpolate and upsample against formulas written out in float64 NumPy, finite differences and torch.

Input: sizes and factors that enlarge and shrink, with corners aligned or not, in every mode.
"""

from itertools import product

import numpy as np
import pytest

from stage0_eager import Tensor, nn
from stage0_eager.functions.nn.interpolation import interpolate, upsample
from stage0_eager.tests.numeric import check_gradients, value
from stage_contracts import dtype as dt

RNG = np.random.default_rng(0)


def matrix(have, want, mode, align, factor=None):
    """(want, have) weights of the elements along one dimension."""
    out = np.zeros((want, have))
    step = have / want if factor is None else 1 / factor
    for i in range(want):
        if mode == "nearest":
            out[i, min(int(np.floor(np.float32(i) * np.float32(step))), have - 1)] = 1
            continue
        if mode == "nearest-exact":
            out[i, min(int(np.floor((i + 0.5) * step)), have - 1)] = 1
            continue
        at = i * ((have - 1) / (want - 1) if want > 1 else 0) if align else (i + 0.5) * step - 0.5
        if mode == "linear":
            at = min(max(at, 0), have - 1)
            low = int(at)
            out[i, low] += 1 - (at - low)
            out[i, min(low + 1, have - 1)] += at - low
            continue
        low = int(np.floor(at))
        for k in range(low - 1, low + 3):
            d, a = abs(at - k), -0.75
            w = (a + 2) * d**3 - (a + 3) * d**2 + 1 if d <= 1 else a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
            out[i, min(max(k, 0), have - 1)] += w
    return out


def reference(x, sizes, mode, align=False, factors=None):
    one = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(mode, mode)
    for i, want in enumerate(sizes):
        weights = matrix(x.shape[2 + i], want, one, align, factors and factors[i])
        x = np.moveaxis(np.tensordot(weights, x, (1, 2 + i)), 0, 2 + i)
    return x


MODES = {1: ["nearest", "nearest-exact", "linear"], 2: ["nearest", "nearest-exact", "bilinear", "bicubic"],
         3: ["nearest", "trilinear"]}  # fmt: skip
SIZES = [
    ((5,), (8,)),
    ((5,), (3,)),
    ((4, 3), (8, 6)),
    ((5, 4), (3, 7)),
    ((1, 3), (4, 1)),
    ((2, 3, 2), (4, 2, 5)),
]
CASES = [(have, want, mode) for have, want in SIZES for mode in MODES[len(have)]]


@pytest.mark.parametrize(("have", "want", "mode"), CASES, ids=str)
def test_sizes(have, want, mode):
    x = RNG.standard_normal((2, 2, *have))
    for align in (None,) if mode.startswith("nearest") else (None, False, True):
        got = interpolate(Tensor(x), want, mode=mode, align_corners=align)
        np.testing.assert_allclose(value(got), reference(x, want, mode, align), atol=1e-12)
        check_gradients(lambda t, a=align: interpolate(t, want, mode=mode, align_corners=a), [x[:1]])


@pytest.mark.parametrize("factors", [(2, 2), (2.5, 1.5), (0.5, 3.0), (1.3, 0.7)])
def test_factors(factors):
    x = RNG.standard_normal((2, 2, 6, 5))
    sizes = tuple(int(n * f) for n, f in zip(x.shape[2:], factors, strict=True))
    for mode in MODES[2]:
        got = value(interpolate(Tensor(x), scale_factor=factors, mode=mode))
        np.testing.assert_allclose(got, reference(x, sizes, mode, False, factors), atol=1e-12, err_msg=mode)
        again = value(interpolate(Tensor(x), scale_factor=factors, mode=mode, recompute_scale_factor=True))
        np.testing.assert_allclose(again, reference(x, sizes, mode), atol=1e-12, err_msg=mode)
    blocks = value(interpolate(Tensor(x), scale_factor=0.5, mode="area"))  # 6x5 to 3x2: columns 0..2 and 2..4
    rows = x.reshape(2, 2, 3, 2, 5).mean(3)
    np.testing.assert_allclose(
        blocks, np.stack([rows[..., :3].mean(-1), rows[..., 2:].mean(-1)], -1), atol=1e-12
    )
    assert blocks.shape == (2, 2, 3, 2)


def test_one_infinity_does_not_spread():
    x = np.zeros((1, 1, 4, 4))
    x[0, 0, 0, 0] = np.inf
    for mode in ("nearest", "bilinear"):
        out = value(interpolate(Tensor(x), scale_factor=2, mode=mode))
        assert (out[0, 0, 3:, 3:] == 0).all() and out[0, 0, 0, 0] == np.inf, mode


def test_dtypes_and_layouts():
    x = (RNG.standard_normal((1, 2, 4, 4)) * 9).astype("u1")
    np.testing.assert_array_equal(value(interpolate(Tensor(x), (8, 4))), x.repeat(2, 2))
    with pytest.raises(NotImplementedError, match="bilinear"):
        interpolate(Tensor(x), (8, 8), mode="bilinear")
    half = dt.bfloat16.numpy
    y = RNG.standard_normal((1, 2, 4, 4)).astype(half)
    want = reference(y.astype("f8"), (6, 6), "bilinear").astype("f4").astype(half)
    got = interpolate(Tensor(y), (6, 6), mode="bilinear")
    assert got.dtype is dt.bfloat16
    np.testing.assert_allclose(value(got).astype("f4"), want.astype("f4"), rtol=2**-7)
    turned = RNG.standard_normal((4, 3, 2, 2)).T[::-1]
    np.testing.assert_allclose(
        value(interpolate(Tensor(turned), (5, 5), mode="bilinear")),
        reference(turned, (5, 5), "bilinear"),
        atol=1e-12,
    )


def test_errors():
    x = Tensor(np.ones((1, 2, 4, 4)))
    with pytest.raises(ValueError, match="only one of size or scale_factor"):
        interpolate(x, 3, 2)
    with pytest.raises(ValueError, match="either size or scale_factor"):
        interpolate(x)
    with pytest.raises(ValueError, match="align_corners option"):
        interpolate(x, 3, align_corners=True)
    with pytest.raises(ValueError, match="same number of spatial dimensions"):
        interpolate(x, (3, 3, 3))
    with pytest.raises(ValueError, match="not meaningful with an explicit size"):
        interpolate(x, 3, recompute_scale_factor=True)
    with pytest.raises(NotImplementedError, match="takes 3D input, got 4D"):
        interpolate(x, 3, mode="linear")
    with pytest.raises(NotImplementedError, match="unknown mode"):
        interpolate(x, 3, mode="spline")
    with pytest.raises(RuntimeError, match="greater than 0"):
        interpolate(x, 0)


def test_modules():
    x = Tensor(RNG.standard_normal((1, 2, 3, 3)))
    assert repr(nn.Upsample(scale_factor=2)) == "Upsample(scale_factor=2.0, mode='nearest')"
    assert repr(nn.Upsample(size=(3, 3), mode="bilinear")) == "Upsample(size=(3, 3), mode='bilinear')"
    np.testing.assert_array_equal(value(nn.Upsample(scale_factor=2)(x)), value(upsample(x, 6)))
    corners = value(nn.UpsamplingBilinear2d(scale_factor=2)(x))
    np.testing.assert_allclose(corners, reference(x.numpy(), (6, 6), "bilinear", True), atol=1e-12)


def test_against_torch():
    torch = pytest.importorskip("torch")
    for (have, want), name in product(SIZES, ("float32", "float64")):
        x = RNG.standard_normal((2, 2, *have)).astype(name)
        for mode in (*MODES[len(have)], "area"):
            theirs = torch.nn.functional.interpolate(torch.tensor(x), want, mode=mode).numpy()
            tolerance = 1e-12 if name == "float64" else 1e-5
            np.testing.assert_allclose(value(interpolate(Tensor(x), want, mode=mode)), theirs, atol=tolerance)
            factor = (1.7,) * len(have)
            theirs = torch.nn.functional.interpolate(torch.tensor(x), scale_factor=factor, mode=mode).numpy()
            ours = value(interpolate(Tensor(x), scale_factor=factor, mode=mode))
            np.testing.assert_allclose(ours, theirs, atol=tolerance)
