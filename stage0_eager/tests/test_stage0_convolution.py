"""Convolutions against sums written out in float64 NumPy, against finite differences, and against torch.

Input: sizes, strides, paddings, dilations and groups in combination; layouts; arguments that are wrong.
"""

import math
from itertools import product

import numpy as np
import pytest

from stage0_eager import Tensor, nn
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.functions.nn import convolution as C
from stage0_eager.table.core import core
from stage0_eager.tests.numeric import check_gradients, value
from stage_contracts import convolution_metas
from stage_contracts import dtype as dt
from stage_contracts.symbolic import ShapeEnv
from stage_contracts.tensor_meta import TensorMeta

RNG = np.random.default_rng(0)
FORWARD = {1: C.conv1d, 2: C.conv2d, 3: C.conv3d}
BACK = {1: C.conv_transpose1d, 2: C.conv_transpose2d, 3: C.conv_transpose3d}


def normal(*shape):
    return RNG.standard_normal(shape)


def reference(x, w, stride, padding, dilation, groups):
    """The definition: one output element after another."""
    rank = x.ndim - 2
    x = np.pad(x, ((0, 0), (0, 0), *((p, p) for p in padding)))
    sizes = [(x.shape[2 + i] - dilation[i] * (w.shape[2 + i] - 1) - 1) // stride[i] + 1 for i in range(rank)]
    out = np.zeros((x.shape[0], w.shape[0], *sizes))
    inner, outer = w.shape[1], w.shape[0] // groups
    for o, at in product(range(w.shape[0]), product(*map(range, sizes))):
        first = o // outer * inner
        window = tuple(
            slice(a * s, a * s + d * (k - 1) + 1, d)
            for a, s, d, k in zip(at, stride, dilation, w.shape[2:], strict=True)
        )
        seen = x[(slice(None), slice(first, first + inner), *window)]
        out[(slice(None), o, *at)] = (seen * w[o]).sum(tuple(range(1, x.ndim)))
    return out


def adjoint(y, w, stride, padding, dilation, extra, groups):
    """The transposed convolution by its definition: the matrix of the convolution, transposed."""
    sizes = [
        (n - 1) * s - 2 * p + d * (k - 1) + 1 + e
        for n, s, p, d, k, e in zip(y.shape[2:], stride, padding, dilation, w.shape[2:], extra, strict=True)
    ]
    shape = (w.shape[1] * groups, *sizes)
    columns = np.eye(int(np.prod(shape))).reshape(-1, *shape)
    windows = reference(columns, w, stride, padding, dilation, groups)
    windows = windows[(slice(None), slice(None), *(slice(0, n) for n in y.shape[2:]))]
    return (y.reshape(len(y), math.prod(y.shape[1:])) @ windows.reshape(len(columns), -1).T).reshape(
        len(y), *shape
    )


CASES = [  # rank, batch, channels per group in and out, groups, sizes, kernel, stride, padding, dilation
    (1, 2, 3, 2, 1, (7,), (3,), (2,), (1,), (1,)),
    (1, 1, 1, 1, 4, (5,), (2,), (1,), (0,), (2,)),
    (2, 2, 2, 3, 2, (6, 5), (3, 2), (2, 1), (1, 0), (1, 2)),
    (2, 3, 4, 4, 1, (4, 4), (1, 1), (1, 1), (0, 0), (1, 1)),
    (2, 1, 3, 2, 1, (5, 5), (1, 1), (2, 2), (0, 0), (1, 1)),
    (2, 2, 1, 2, 3, (5, 4), (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 1, 2, 2, 1, (12, 12), (3, 3), (1, 1), (1, 1), (1, 1)),
    (2, 0, 2, 2, 1, (4, 4), (3, 3), (1, 1), (1, 1), (1, 1)),
    (3, 2, 2, 2, 1, (3, 4, 3), (2, 2, 2), (1, 2, 1), (0, 1, 0), (1, 1, 2)),
]
IDS = ["1d", "1d grouped", "2d grouped", "1x1", "1x1 stride 2", "depthwise", "large", "empty batch", "3d"]


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_forward_and_transposed_are_their_definitions(case):
    rank, n, ci, co, groups, sizes, kernel, stride, padding, dilation = case
    w = normal(co * groups, ci, *kernel)
    x = normal(n, ci * groups, *sizes)
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    got = value(FORWARD[rank](Tensor(x), Tensor(w), **options))
    np.testing.assert_allclose(got, reference(x, w, stride, padding, dilation, groups), atol=1e-12)
    y = normal(n, co * groups, *got.shape[2:])
    extra = tuple(max(s, d) - 1 for s, d in zip(stride, dilation, strict=True))
    back = value(BACK[rank](Tensor(y), Tensor(w), output_padding=extra, **options))
    np.testing.assert_allclose(back, adjoint(y, w, stride, padding, dilation, extra, groups), atol=1e-12)


@pytest.mark.parametrize("case", [c for c in CASES if c[1] in (1, 2) and max(c[5]) < 12], ids=str)
def test_gradients_are_finite_differences(case):
    rank, n, ci, co, groups, sizes, kernel, stride, padding, dilation = case
    options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    x, w, b = normal(n, ci * groups, *sizes), normal(co * groups, ci, *kernel), normal(co * groups)
    check_gradients(FORWARD[rank], [x, w, b], **options)
    extra = tuple(max(s, d) - 1 for s, d in zip(stride, dilation, strict=True))
    small = FORWARD[rank](Tensor(x), Tensor(w), **options).shape[2:]
    y, b = normal(n, co * groups, *small), normal(ci * groups)
    check_gradients(BACK[rank], [y, w, b], output_padding=extra, **options)


def test_gradients_of_gradients():
    x, w = Tensor(normal(2, 2, 6), True), Tensor(normal(4, 1, 3), True)

    def slope(a, b):
        out = C.conv1d(a, b, None, 2, 1, 1, 2)
        return grad([(out * out).sum()], [a, b], create_graph=True)

    gx, gw = slope(x, w)
    first = grad([(gx * gx).sum() + (gw * gw).sum()], [x, w])
    for i, t in enumerate((x, w)):
        for at in [(0, 0, 1), (1, 0, 2)]:
            moved = [x.detach().clone(), w.detach().clone()]
            values = []
            for step in (1e-6, -1e-6):
                arrays = [m.numpy().copy() for m in moved]
                arrays[i][at] += step
                a, b = slope(*(Tensor(v, True) for v in arrays))
                values.append(float((value(a) ** 2).sum() + (value(b) ** 2).sum()))
            assert abs((values[0] - values[1]) / 2e-6 - first[i].numpy()[at]) < 1e-3 * (1 + abs(values[0])), (
                t.shape
            )


def test_padding_by_name_and_one_image():
    x, w = normal(3, 7, 6), normal(2, 3, 4, 3)
    same = value(C.conv2d(Tensor(x), Tensor(w), padding="same", dilation=(1, 2)))
    padded = np.pad(x[None], ((0, 0), (0, 0), (1, 2), (2, 2)))
    np.testing.assert_allclose(same, reference(padded, w, (1, 1), (0, 0), (1, 2), 1)[0], atol=1e-12)
    assert same.shape == (2, 7, 6)
    valid = C.conv2d(Tensor(x), Tensor(w), padding="valid")
    assert valid.shape == (2, 4, 4)
    assert C.conv_transpose2d(valid, Tensor(w)).shape == (3, 7, 6)


@pytest.mark.parametrize("turn", ["transposed", "sliced", "backwards", "broadcast"])
def test_layouts_change_no_value(turn):
    def laid(a):
        if turn == "transposed":
            return np.asfortranarray(a)
        if turn == "sliced":
            wide = np.zeros((*a.shape[:-1], 2 * a.shape[-1]))
            wide[..., ::2] = a
            return wide[..., ::2]
        if turn == "backwards":
            return a[..., ::-1].copy()[..., ::-1]
        return np.broadcast_to(a[:1], a.shape)

    x, w = laid(normal(2, 4, 9, 8)), laid(normal(4, 2, 3, 3))
    g = laid(normal(2, 4, 9, 8))
    tensors, plain = [Tensor(x, True), Tensor(w, True)], [Tensor(x.copy(), True), Tensor(w.copy(), True)]
    outs = [C.conv2d(a, b, None, 1, 1, 1, 2) for a, b in (tensors, plain)]
    assert outs[0].meta == outs[1].meta and outs[0].meta.is_contiguous
    np.testing.assert_allclose(value(outs[0]), value(outs[1]), atol=1e-12)
    one, two = grad([outs[0]], tensors, [Tensor(g)]), grad([outs[1]], plain, [Tensor(g.copy())])
    for a, b in zip(one, two, strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)


def test_many_images_are_done_in_parts(monkeypatch):
    from stage0_eager.kernels import convolution as convolution_kernels

    x, w = Tensor(normal(5, 2, 6, 6), True), Tensor(normal(3, 2, 3, 3), True)

    def results():
        out = C.conv2d(x, w, padding=1)
        up = C.conv_transpose2d(out, w, stride=2)
        return [value(t) for t in (out, up, *grad([(out * out).sum(), (up * up).sum()], [x, w]))]

    whole = results()
    monkeypatch.setattr(convolution_kernels, "_HELD", 6000)  # one or two images
    for a, b in zip(results(), whole, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_half_precision_rounds_once(name):
    half = dt.DTYPES[name]
    x, w = (normal(*s).astype(half.numpy) for s in ((2, 64, 5, 5), (3, 64, 3, 3)))
    got = C.conv2d(Tensor(x), Tensor(w))
    exact = reference(x.astype("f8"), w.astype("f8"), (1, 1), (0, 0), (1, 1), 1)
    assert got.dtype is half
    np.testing.assert_array_equal(got.numpy(), exact.astype("f4").astype(half.numpy))


ERRORS = [
    ((1, 2, 8, 8), (4, 3, 3, 3), {}, "to have 3 channels, but got 2 channels instead"),
    ((1, 3, 8, 8), (4, 1, 3, 3), {"groups": 3}, "expected weight to be divisible by 3 at dimension 0"),
    ((1, 2, 8, 8), (1, 1, 3, 3), {"groups": 2}, "expected weight to be at least 2 at dimension 0"),
    ((3,), (4, 3, 3, 3), {}, "Expected 3D (unbatched) or 4D (batched) input to conv2d"),
    ((1, 3, 2, 2), (4, 3, 3, 3), {}, "Calculated padded input size per channel: (2 x 2). Kernel size: (3 x 3)"),
    ((1, 3, 8, 8), (4, 3, 3, 3), {"stride": 0}, "non-positive stride is not supported"),
    ((1, 3, 8, 8), (4, 3, 3, 3), {"padding": -1}, "negative padding is not supported"),
    ((1, 3, 8, 8), (4, 3, 3, 3), {"dilation": 0}, "dilation should be greater than zero, but got [0, 0]"),
    ((1, 3, 8, 8), (4, 3, 3, 3), {"groups": 0}, "non-positive groups is not supported"),
    ((1, 3, 8, 8), (4, 3, 3, 3), {"padding": "half"}, "Invalid padding string: 'half'"),
    ((1, 3, 8, 8), (4, 3, 3, 3), {"padding": "same", "stride": 2}, "padding='same' is not supported for strided"),
    ((1, 3, 8, 8), (4, 3, 3, 3), {"stride": (1, 1, 1)}, "expected stride to be a single integer value or a list of 2"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "weight", "options", "message"), ERRORS, ids=[e[3][:30] for e in ERRORS])
def test_errors(shape, weight, options, message):
    with pytest.raises(RuntimeError) as seen:
        C.conv2d(Tensor(np.ones(shape, "f4")), Tensor(np.ones(weight, "f4")), **options)
    assert message in str(seen.value)


def test_errors_of_other_arguments():
    x, w = Tensor(np.ones((1, 4, 4, 4), "f4")), Tensor(np.ones((4, 3, 3, 3), "f4"))
    with pytest.raises(RuntimeError, match="output padding must be smaller than either stride or dilation"):
        C.conv_transpose2d(x, w, output_padding=1)
    with pytest.raises(RuntimeError, match="Output size is too small"):
        C.conv_transpose2d(x, w, padding=4)
    with pytest.raises(RuntimeError, match="expected bias to be 1-dimensional with 3 elements"):
        C.conv_transpose2d(x, w, Tensor(np.ones(4, "f4")))
    with pytest.raises(TypeError, match="must be tuple of ints, not str"):
        C.conv_transpose2d(x, w, padding="same")
    with pytest.raises(RuntimeError, match="should be the same"):
        C.conv2d(x, Tensor(np.ones((2, 4, 3, 3))))
    with pytest.raises(RuntimeError, match="bias type"):
        C.conv2d(x, Tensor(np.ones((2, 4, 3, 3), "f4")), Tensor(np.ones(2)))
    with pytest.raises(NotImplementedError, match="bool"):
        C.conv2d(Tensor(np.ones((1, 2, 4, 4), bool)), Tensor(np.ones((1, 2, 2, 2), bool)))


def test_metas_keep_symbolic_sizes():
    env = ShapeEnv()
    n, h = env.dimension("n", 6), env.dimension("h", 8)
    x, w = TensorMeta((n, 3, h), dt.float32), TensorMeta((4, 3, 3), dt.float32)
    out = convolution_metas.convolution(x, w, (1,), (1,), (1,), False, (0,), 1)
    assert str(out) == "float32[n, 4, h]"
    back = convolution_metas.convolution(out, w, (2,), (0,), (1,), True, (1,), 1)
    assert str(back) == "float32[n, 3, 2*h + 2]"
    assert convolution_metas.convolution_weight_gradient(x, out, (3,), (1,), (1,), (1,), 1).shape == (4, 3, 3)


def test_modules_print_start_and_pad_as_torchs():
    conv = nn.Conv2d(
        3, 6, 3, stride=(2, 1), padding=1, dilation=2, groups=3, bias=False, padding_mode="reflect"
    )
    assert repr(conv) == (
        "Conv2d(3, 6, kernel_size=(3, 3), stride=(2, 1), padding=(1, 1), dilation=(2, 2), groups=3, bias=False, "
        "padding_mode=reflect)"
    )
    assert conv.weight.shape == (6, 1, 3, 3) and conv.bias is None
    up = nn.ConvTranspose2d(4, 2, 3, stride=2, output_padding=1)
    assert repr(up) == "ConvTranspose2d(4, 2, kernel_size=(3, 3), stride=(2, 2), output_padding=(1, 1))"
    assert up.weight.shape == (4, 2, 3, 3) and float(abs(value(up.weight)).max()) <= 1 / np.sqrt(2 * 9)
    x = normal(1, 2, 5).astype("f4")
    for mode, of_numpy in (
        ("zeros", "constant"),
        ("reflect", "reflect"),
        ("replicate", "edge"),
        ("circular", "wrap"),
    ):
        one = nn.Conv1d(2, 2, 3, padding=2, padding_mode=mode)
        padded = np.pad(x, ((0, 0), (0, 0), (2, 2)), mode=of_numpy).astype("f8")
        want = reference(padded, value(one.weight).astype("f8"), (1,), (0,), (1,), 1)
        got = value(one(Tensor(x))) - value(one.bias)[None, :, None]
        np.testing.assert_allclose(got, want, atol=1e-5, err_msg=mode)
    assert nn.ConvTranspose1d(2, 3, 3, stride=3)(Tensor(x), output_size=(17,)).shape == (1, 3, 17)
    with pytest.raises(ValueError, match="valid sizes range from"):
        nn.ConvTranspose1d(2, 3, 3, stride=3)(Tensor(x), output_size=(18,))
    with pytest.raises(ValueError, match="in_channels must be divisible by groups"):
        nn.Conv2d(3, 4, 3, groups=2)


def test_random_arguments_against_torch():
    torch = pytest.importorskip("torch")
    pick = np.random.default_rng(4)
    for _ in range(60):
        rank, groups, back = int(pick.integers(1, 4)), int(pick.choice([1, 2, 3])), bool(pick.integers(2))
        options = ((1, 2, 3), (1, 2, 3), (0, 1, 2), (1, 2), (6, 7, 9))
        kernel, stride, padding, dilation, sizes = (tuple(pick.choice(o, rank).tolist()) for o in options)
        infinite = back and bool(pick.integers(2))  # by which nothing is multiplied that is not there
        stride = (1,) * rank if infinite else stride
        n = int(pick.integers(0, 4))
        ci, co = groups * int(pick.integers(1, 3)), groups * int(pick.integers(1, 4))
        options = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        if back:
            options["output_padding"] = tuple(
                int(pick.integers(0, max(s, d))) for s, d in zip(stride, dilation, strict=True)
            )
        w = normal(*((ci, co // groups) if back else (co, ci // groups)), *kernel)
        if infinite:
            w.flat[0] = math.inf
        args = [normal(n, ci, *sizes), w, normal(co)]
        name = f"conv_transpose{rank}d" if back else f"conv{rank}d"
        theirs = [torch.tensor(a, requires_grad=True) for a in args]
        ours = [Tensor(a.copy(), True) for a in args]
        want, got = getattr(torch.nn.functional, name)(*theirs, **options), getattr(C, name)(*ours, **options)
        g = normal(*got.shape)
        np.testing.assert_allclose(value(got), want.detach().numpy(), atol=1e-10, err_msg=f"{name} {options}")
        want.backward(torch.tensor(g))
        for a, b in zip(grad([got], ours, [Tensor(g)]), theirs, strict=True):
            np.testing.assert_allclose(a.numpy(), b.grad.numpy(), atol=1e-9, err_msg=f"{name} {options}")


def test_the_weight_gradient_refuses_what_does_not_fit():
    x = Tensor(np.ones((2, 4, 5)))
    with pytest.raises(RuntimeError, match="larger than the convolution's output"):
        core.convolution_weight_gradient(x, Tensor(np.ones((2, 2, 9))), (2,), (1,), (0,), (1,), 1)
    with pytest.raises(RuntimeError, match="divisible by groups"):
        core.convolution_weight_gradient(x, Tensor(np.ones((2, 3, 2))), (2,), (1,), (0,), (1,), 2)
