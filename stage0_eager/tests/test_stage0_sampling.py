"""unfold and fold, grid_sample and affine_grid: against their definitions in float64 NumPy, differences and torch.

Input: kernels and strides in combination; places inside, on the edge and outside of images.
"""

import numpy as np
import pytest

from stage0_eager import Tensor, nn
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.nn import functional as F
from stage0_eager.tests.numeric import check_gradients, value

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape)


def columns(x, kernel, dilation, padding, stride):
    x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    down, across = (
        range(0, n - d * (k - 1), s) for n, k, d, s in zip(x.shape[2:], kernel, dilation, stride, strict=True)
    )
    blocks = [
        x[:, :, i : i + dilation[0] * (kernel[0] - 1) + 1 : dilation[0],
          j : j + dilation[1] * (kernel[1] - 1) + 1 : dilation[1]].reshape(len(x), -1)
        for i in down for j in across
    ]  # fmt: skip
    return np.stack(blocks, -1)


CASES = [((2, 3), (1, 1), (0, 0), (1, 1)), ((3, 2), (1, 2), (1, 0), (2, 1)), ((2, 2), (2, 1), (1, 1), (3, 2))]


@pytest.mark.parametrize(("kernel", "dilation", "padding", "stride"), CASES)
def test_unfold_and_fold_are_adjoint(kernel, dilation, padding, stride):
    options = {"dilation": dilation, "padding": padding, "stride": stride}
    x = normal(2, 3, 6, 5)
    want = columns(x, kernel, dilation, padding, stride)
    np.testing.assert_array_equal(value(F.unfold(Tensor(x), kernel, **options)), want)
    np.testing.assert_array_equal(value(F.unfold(Tensor(x[0]), kernel, **options)), want[0])
    y = normal(*want.shape)
    folded = value(F.fold(Tensor(y), (6, 5), kernel, **options))
    assert folded.shape == x.shape
    # <fold(y), x> = <y, unfold(x)>
    np.testing.assert_allclose((folded * x).sum(), (want * y).sum(), rtol=1e-12)
    check_gradients(lambda t: F.unfold(t, kernel, **options), [x[:1]])
    check_gradients(lambda t: F.fold(t, (6, 5), kernel, **options), [y[:1]])


def test_modules_and_errors_of_blocks():
    x = Tensor(normal(1, 2, 4, 4))
    unfold, fold = nn.Unfold(2, stride=2), nn.Fold((4, 4), 2, stride=2)
    np.testing.assert_array_equal(value(fold(unfold(x))), x.numpy())  # blocks side by side
    assert repr(unfold) == "Unfold(kernel_size=2, dilation=1, padding=0, stride=2)"
    assert repr(fold) == "Fold(output_size=(4, 4), kernel_size=2, dilation=1, padding=0, stride=2)"
    for call, message in [
        (lambda: F.unfold(x, 5), "components must be at least one"),
        (lambda: F.unfold(Tensor(normal(4, 4)), 2), "Expected 3D or 4D"),
        (lambda: F.fold(Tensor(normal(1, 5, 4)), 3, 2), "divisible by the product of kernel_size"),
        (lambda: F.fold(Tensor(normal(1, 8, 5)), 3, 2), "sliding blocks 2 \\* 2 = 4, but got"),
        (lambda: F.unfold(x, 2, stride=0), "stride should be greater than zero"),
    ]:
        with pytest.raises(RuntimeError, match=message):
            call()


def read(image, y, x, mode):
    """One channel at one place, zeros outside, by the definition."""
    at = lambda i, j: image[i, j] if 0 <= i < image.shape[0] and 0 <= j < image.shape[1] else 0.0  # noqa: E731
    if mode == "nearest":
        return at(int(np.rint(y)), int(np.rint(x)))
    i, j = int(np.floor(y)), int(np.floor(x))
    u, v = y - i, x - j
    return (at(i, j) * (1 - v) + at(i, j + 1) * v) * (1 - u) + (
        at(i + 1, j) * (1 - v) + at(i + 1, j + 1) * v
    ) * u


@pytest.mark.parametrize("align", [False, True])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_sample_is_its_definition(mode, align):
    x, grid = normal(2, 2, 4, 3), RNG.uniform(-1.6, 1.6, (2, 3, 2, 2))
    got = value(F.grid_sample(Tensor(x), Tensor(grid), mode, "zeros", align))
    assert got.shape == (2, 2, 3, 2)
    for n, c, i, j in np.ndindex(got.shape):
        places = []
        for size, g in zip((4, 3), grid[n, i, j, ::-1], strict=True):
            places.append((g + 1) / 2 * (size - 1) if align else ((g + 1) * size - 1) / 2)
        np.testing.assert_allclose(got[n, c, i, j], read(x[n, c], *places, mode), atol=1e-12)


@pytest.mark.parametrize("border", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
def test_grid_sample_gradients(mode, border):
    x, grid = normal(1, 2, 4, 3), RNG.uniform(-1.4, 1.4, (1, 2, 3, 2))
    check_gradients(lambda a, b: F.grid_sample(a, b, mode, border, False), [x, grid])


def test_the_identity_grid_reads_the_image():
    theta = np.eye(2, 3)[None].repeat(2, 0)
    for align in (True, False):
        grid = F.affine_grid(Tensor(theta), (2, 3, 5, 4), align)
        x = normal(2, 3, 5, 4)
        for border in ("zeros", "border", "reflection"):
            np.testing.assert_allclose(
                value(F.grid_sample(Tensor(x), grid, "bicubic", border, align)), x, atol=1e-12
            )
    solid = np.eye(3, 4)[None]
    x = normal(1, 2, 3, 4, 2)
    grid = F.affine_grid(Tensor(solid), x.shape, False)
    assert grid.shape == (1, 3, 4, 2, 3)
    np.testing.assert_allclose(value(F.grid_sample(Tensor(x), grid, align_corners=False)), x, atol=1e-12)
    check_gradients(lambda t: F.affine_grid(t, (2, 1, 2, 3)), [theta + 0.1])


def test_places_outside():
    x, grid = Tensor(np.arange(4.0).reshape(1, 1, 1, 4)), np.zeros((1, 1, 3, 2))
    grid[..., 0] = [-3.0, 1.25, 9.0]  # elements -4.5, 4, 19.5
    sample = lambda border: value(F.grid_sample(x, Tensor(grid), "bilinear", border, False)).ravel().tolist()  # noqa: E731
    assert (
        sample("zeros") == [0, 0, 0] and sample("border") == [0, 3, 3] and sample("reflection") == [3, 3, 3]
    )


def test_errors_of_grids():
    x, grid = Tensor(normal(1, 2, 4, 4)), Tensor(normal(1, 3, 3, 2))
    with pytest.raises(ValueError, match="expected mode to be"):
        F.grid_sample(x, grid, "cubic")
    with pytest.raises(ValueError, match="expected padding_mode to be"):
        F.grid_sample(x, grid, padding_mode="wrap")
    with pytest.raises(RuntimeError, match="same batch size"):
        F.grid_sample(x, Tensor(normal(2, 3, 3, 2)))
    with pytest.raises(RuntimeError, match="size 2 in last dimension"):
        F.grid_sample(x, Tensor(normal(1, 3, 3, 3)))
    with pytest.raises(RuntimeError, match="only supports 4D"):
        F.grid_sample(Tensor(normal(1, 2, 4, 4, 4)), Tensor(normal(1, 3, 3, 3, 3)), "bicubic")
    with pytest.raises(ValueError, match="2D affine matrices of shape Nx2x3"):
        F.affine_grid(Tensor(normal(1, 2, 2)), (1, 2, 4, 4))
    with pytest.raises(NotImplementedError, match="4D and 5D sizes"):
        F.affine_grid(Tensor(normal(1, 2, 3)), (1, 2, 4))


def test_against_torch():
    torch = pytest.importorskip("torch")
    T, pick = torch.nn.functional, np.random.default_rng(2)
    for rank, mode in [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")]:
        for border in ("zeros", "border", "reflection"):
            for align in (False, True):
                x, grid = (
                    normal(2, 2, *(5, 1, 4)[:rank]),
                    pick.uniform(-1.7, 1.7, (2, *(3, 2, 4)[:rank], rank)),
                )
                theirs = [torch.tensor(a, requires_grad=True) for a in (x, grid)]
                ours = [Tensor(a.copy(), True) for a in (x, grid)]
                want, got = (
                    T.grid_sample(*theirs, mode, border, align),
                    F.grid_sample(*ours, mode, border, align),
                )
                np.testing.assert_allclose(value(got), want.detach().numpy(), atol=1e-10)
                g = normal(*got.shape)
                want.backward(torch.tensor(g))
                found = grad([got], ours, [Tensor(g)], allow_unused=True)
                for a, b in zip(found, theirs, strict=True):
                    np.testing.assert_allclose(0 if a is None else a.numpy(), b.grad.numpy(), atol=1e-9)
