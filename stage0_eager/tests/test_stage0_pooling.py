"""Pooling against windows written out in float64 NumPy, against finite differences, and against torch.

Input: kernels, strides, paddings, dilations, ceil_mode; ties, infinities and NaN; sizes that do not divide.
"""

from itertools import product

import numpy as np
import pytest

from stage0_eager import Tensor, nn
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.functions.nn import adaptive_pooling as A
from stage0_eager.functions.nn import pooling as P
from stage0_eager.tests.numeric import check_gradients, value
from stage_contracts import dtype as dt

RNG = np.random.default_rng(0)
MAX = {r: getattr(P, f"max_pool{r}d") for r in (1, 2, 3)}
AVG = {r: getattr(P, f"avg_pool{r}d") for r in (1, 2, 3)}


def normal(*shape):
    return RNG.standard_normal(shape)


def windows(sizes, kernel, stride, padding, dilation, ceil_mode):
    """For each window in row-major order: (place in the result, its places inside the input, its size when padded)."""
    counts = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        reach = d * (k - 1) - (s if ceil_mode else 0)  # with ceil_mode the window before must leave something
        counts.append([a for a in range(-p, n, s) if a + reach < n + p - ceil_mode])
    for at in product(*map(range, map(len, counts))):
        spans = [[counts[i][a] + j * dilation[i] for j in range(kernel[i])] for i, a in enumerate(at)]
        inside = list(
            product(*([v for v in span if 0 <= v < n] for span, n in zip(spans, sizes, strict=True)))
        )
        padded = np.prod([sum(v < n + p for v in s) for s, n, p in zip(spans, sizes, padding, strict=True)])
        yield at, inside, padded


CASES = [  # sizes, kernel, stride, padding, dilation, ceil_mode
    ((7,), (3,), (2,), (1,), (1,), False),
    ((7,), (2,), (2,), (0,), (2,), True),
    ((6, 5), (3, 2), (2, 1), (1, 0), (1, 2), False),
    ((6, 5), (3, 3), (2, 2), (1, 1), (1, 1), True),
    ((4, 4), (2, 2), (2, 2), (0, 0), (1, 1), False),
    ((8, 8), (4, 4), (4, 4), (0, 0), (1, 1), False),
    ((3, 3), (1, 1), (2, 2), (0, 0), (1, 1), False),
    ((3, 4, 3), (2, 2, 2), (1, 2, 1), (1, 0, 1), (1, 1, 1), True),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_max_pool_is_its_definition(case):
    sizes, *numbers = case
    x = np.round(normal(2, 3, *sizes))  # whole numbers: with ties
    kernel, stride, padding, dilation, ceil_mode = numbers
    options = {"stride": stride, "padding": padding, "dilation": dilation, "ceil_mode": ceil_mode}
    out, places = MAX[len(sizes)](Tensor(x), kernel, return_indices=True, **options)
    alone = MAX[len(sizes)](Tensor(x), kernel, **options)
    np.testing.assert_array_equal(value(alone), value(out))
    seen = 0
    for at, inside, _ in windows(sizes, *numbers):
        parts = np.stack([x[(..., *i)] for i in inside], -1)
        first = np.ravel_multi_index(np.array(inside).T, sizes)[parts.argmax(-1)]
        np.testing.assert_array_equal(value(out)[(..., *at)], parts.max(-1))
        np.testing.assert_array_equal(value(places)[(..., *at)], first)
        seen += 1
    assert seen == np.prod(out.shape[2:])


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("case", [c for c in CASES if set(c[4]) == {1}], ids=str)
def test_avg_pool_is_its_definition(case, include):
    sizes, kernel, stride, padding, dilation, ceil_mode = case
    x = normal(2, 3, *sizes)
    out = value(AVG[len(sizes)](Tensor(x), kernel, stride, padding, ceil_mode, include))
    for at, inside, padded in windows(sizes, kernel, stride, padding, dilation, ceil_mode):
        total = sum(x[(..., *i)] for i in inside)
        want = total / (padded if include else len(inside))
        np.testing.assert_allclose(out[(..., *at)], want, atol=1e-12)
    if len(sizes) > 1:
        summed = AVG[len(sizes)](Tensor(x), kernel, stride, padding, ceil_mode, include, 1)
        uneven = value(AVG[len(sizes)](Tensor(x), kernel, stride, padding, ceil_mode, include, 4))
        np.testing.assert_allclose(uneven * 4, value(summed), atol=1e-12)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_are_finite_differences(case):
    sizes, kernel, stride, padding, dilation, ceil_mode = case
    rank = len(sizes)
    x = RNG.permutation(np.arange(2 * np.prod(sizes))).reshape(1, 2, *sizes) / 7.0  # no ties, far apart
    check_gradients(MAX[rank], [x], 1e-6, kernel_size=kernel, stride=stride, padding=padding, dilation=dilation,
                    ceil_mode=ceil_mode)  # fmt: skip
    if set(dilation) == {1}:
        check_gradients(AVG[rank], [x], kernel_size=kernel, stride=stride, padding=padding, ceil_mode=ceil_mode,
                        count_include_pad=False)  # fmt: skip


def test_the_gradient_goes_to_the_first_largest():
    x = Tensor(np.array([[[1.0, 1.0, 0.0], [1.0, 0.0, 2.0], [0.0, 2.0, 2.0]]]), True)
    out = P.max_pool2d(x, 2, 1)
    assert grad([out.sum()], [x], retain_graph=True)[0].tolist() == [[[1, 0, 0], [0, 0, 2], [0, 1, 0]]]
    first = grad([(out * out).sum()], [x], create_graph=True)[0]
    assert grad([(first * first).sum()], [x])[0].tolist() == [[[8, 0, 0], [0, 0, 64], [0, 16, 0]]]


def test_nan_and_minus_infinity():
    nan, low = np.nan, -np.inf
    x = Tensor(np.array([[[1.0, nan, nan, 3.0, low, low, low, low]]]), True)
    out, places = P.max_pool1d(x, 4, return_indices=True)
    assert np.isnan(value(out)[0, 0, 0]) and value(out)[0, 0, 1] == low and places.tolist() == [[[2, 4]]]
    rows = Tensor(np.full((1, 1, 3, 3), low))
    assert P.max_pool2d(rows, 3, 2, 1, return_indices=True)[1].tolist() == [[[[0, 1], [3, 4]]]]
    g = grad([P.max_pool1d(x, 4)], [x], [Tensor(np.ones((1, 1, 2)))])[0]
    assert g.tolist() == [[[0, 0, 1, 0, 1, 0, 0, 0]]]


def adaptive(x, counts, reduce):
    out = np.zeros((*x.shape[: x.ndim - len(counts)], *counts))
    sizes = x.shape[x.ndim - len(counts) :]
    for at in product(*map(range, counts)):
        part = tuple(
            slice(a * n // c, -(-(a + 1) * n // c)) for a, n, c in zip(at, sizes, counts, strict=True)
        )
        out[(..., *at)] = reduce(x[(..., *part)], axis=tuple(range(x.ndim - len(counts), x.ndim)))
    return out


@pytest.mark.parametrize(
    ("sizes", "counts"),
    [
        ((7,), (3,)),
        ((3,), (5,)),
        ((6, 5), (3, 2)),
        ((6, 4), (3, 2)),
        ((4, 4), (1, 1)),
        ((3, 5, 4), (2, 3, 4)),
    ],
)
def test_adaptive_pools_are_their_definition(sizes, counts):
    rank = len(sizes)
    average, largest = getattr(A, f"adaptive_avg_pool{rank}d"), getattr(A, f"adaptive_max_pool{rank}d")
    x = normal(2, 2, *sizes)
    np.testing.assert_allclose(value(average(Tensor(x), counts)), adaptive(x, counts, np.mean), atol=1e-12)
    out, places = largest(Tensor(x), counts, True)
    np.testing.assert_array_equal(value(out), adaptive(x, counts, np.max))
    flat = x.reshape(2, 2, -1)
    picked = np.take_along_axis(flat, value(places).reshape(2, 2, -1), 2).reshape(out.shape)
    np.testing.assert_array_equal(picked, value(out))
    check_gradients(average, [x], output_size=counts)
    check_gradients(lambda t: largest(t, counts), [RNG.permutation(x.size).reshape(x.shape) / 7.0])


def test_adaptive_sizes_may_be_kept():
    x = Tensor(normal(3, 4, 5))
    assert A.adaptive_avg_pool2d(x, (None, 2)).shape == (3, 4, 2)
    assert A.adaptive_avg_pool2d(x, None).shape == (3, 4, 5) and A.adaptive_max_pool2d(x, 2).shape == (
        3,
        2,
        2,
    )
    with pytest.raises(RuntimeError, match="Expected 3D or 4D"):
        A.adaptive_avg_pool2d(Tensor(normal(4, 4)), 2)
    with pytest.raises(RuntimeError, match="greater than or equal to 0"):
        A.adaptive_avg_pool2d(x, -1)
    with pytest.raises(RuntimeError, match="non-zero size"):
        A.adaptive_avg_pool2d(Tensor(normal(1, 2, 0, 4)), 2)


def test_lp_pool_and_max_unpool():
    x = np.abs(normal(2, 2, 6)) + 0.1
    want = (x.reshape(2, 2, 2, 3) ** 3).sum(-1) ** (1 / 3)
    np.testing.assert_allclose(value(P.lp_pool1d(Tensor(x), 3, 3)), want, rtol=1e-12)
    check_gradients(lambda t: P.lp_pool1d(t, 3.0, 3), [x])
    image = RNG.permutation(72).reshape(1, 2, 6, 6) / 7.0
    out, places = P.max_pool2d(Tensor(image), 2, return_indices=True)
    back = value(P.max_unpool2d(out, places, 2))
    assert back.shape == image.shape and ((back == 0) | (back == image)).all()
    assert sorted(back[back > 0]) == sorted(value(out)[value(out) > 0])
    assert P.max_unpool2d(out, places, 2, output_size=(7, 7)).shape == (1, 2, 7, 7)
    check_gradients(lambda t: P.max_unpool2d(t, places, 2), [value(out).copy()])


@pytest.mark.parametrize("name", ["float16", "bfloat16", "int32"])
def test_dtypes(name):
    dtype = dt.DTYPES[name]
    x = Tensor((normal(1, 2, 6, 6) * 9).astype(dtype.numpy))
    largest = P.max_pool2d(x, 3, 2, 1)
    assert largest.dtype is dtype and value(largest)[0, 0, 0, 0] == x.numpy()[0, 0, :2, :2].max()
    if dtype.is_floating_point:
        exact = value(P.avg_pool2d(Tensor(x.numpy().astype("f4")), 3)).astype(dtype.numpy)
        np.testing.assert_array_equal(value(P.avg_pool2d(x, 3)), exact)


@pytest.mark.parametrize(
    "turn", [lambda a: a.T, lambda a: a[..., ::-1], lambda a: np.broadcast_to(a[:1], a.shape)]
)
def test_layouts_change_no_value(turn):
    x = turn(normal(3, 4, 5, 6))
    for op in (P.max_pool2d, P.avg_pool2d):
        one, other = op(Tensor(x), 2, 1, 1), op(Tensor(x.copy()), 2, 1, 1)
        np.testing.assert_allclose(value(one), value(other), atol=1e-12)
    assert P.max_pool2d(Tensor(np.ones((0, 2, 4, 4))), 2).shape == (0, 2, 2, 2)


ERRORS = [
    (P.max_pool2d, (4, 4), (3,), {"padding": 2}, "Expected 3D or 4D"),
    (P.max_pool2d, (1, 4, 4, 4), (3,), {"padding": 2}, "pad should be at most half of effective kernel size"),
    (P.max_pool2d, (1, 4, 2, 2), (3,), {}, "Calculated output size: (4x0x0). Output size is too small"),
    (P.max_pool2d, (1, 4, 4, 4), (2,), {"stride": 0}, "stride should be greater than zero"),
    (P.max_pool2d, (1, 4, 4, 4), (2,), {"dilation": 0}, "dilation should be greater than zero"),
    (P.max_pool2d, (1, 4, 4, 4), ((2, 2, 2),), {}, "must either be a single int, or a tuple of 2 ints"),
    (P.avg_pool2d, (1, 4, 4, 4), (2,), {"divisor_override": 0}, "divisor must be not zero"),
    (P.avg_pool1d, (4,), (2,), {}, "Expected 2D or 3D"),
    (P.avg_pool3d, (1, 1, 1, 4, 4), (2,), {"padding": 1}, "smaller than kernel size"),
]


@pytest.mark.parametrize(
    ("op", "shape", "args", "options", "message"), ERRORS, ids=[e[4][:28] for e in ERRORS]
)
def test_errors(op, shape, args, options, message):
    with pytest.raises(RuntimeError) as seen:
        op(Tensor(np.ones(shape, "f4")), *args, **options)
    assert message in str(seen.value)


def test_modules_print_as_torchs():
    shown = {
        nn.MaxPool2d(2): "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)",
        nn.AvgPool2d(3, stride=2, padding=1): "AvgPool2d(kernel_size=3, stride=2, padding=1)",
        nn.AvgPool1d(3): "AvgPool1d(kernel_size=(3,), stride=(3,), padding=(0,))",
        nn.AdaptiveAvgPool2d((1, 1)): "AdaptiveAvgPool2d(output_size=(1, 1))",
        nn.LPPool2d(2, 3): "LPPool2d(norm_type=2, kernel_size=3, stride=None, ceil_mode=False)",
        nn.MaxUnpool2d(2): "MaxUnpool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))",
    }
    assert [repr(m) for m in shown] == list(shown.values())
    x = Tensor(normal(1, 2, 6, 6))
    for module in shown:
        if module.__class__ not in (nn.MaxUnpool2d, nn.AvgPool1d):
            assert module(x).shape[:2] == (1, 2)
    largest, places = nn.MaxPool2d(2, return_indices=True)(x)
    assert nn.MaxUnpool2d(2)(largest, places).shape == x.shape


def test_random_arguments_against_torch():
    torch = pytest.importorskip("torch")
    F, pick = torch.nn.functional, np.random.default_rng(6)
    for _ in range(60):
        rank = int(pick.integers(1, 4))
        sizes, kernel, stride, padding, dilation = (
            tuple(pick.choice(o, rank).tolist()) for o in ((5, 6, 9), (1, 2, 3), (1, 2, 3), (0, 1), (1, 2))
        )
        padding = tuple(p if k > 1 else 0 for p, k in zip(padding, kernel, strict=True))
        ceil_mode, x = bool(pick.integers(2)), np.round(normal(2, 2, *sizes) * 2)
        calls = {
            f"max_pool{rank}d": (MAX[rank], (kernel, stride, padding, dilation, ceil_mode)),
            f"avg_pool{rank}d": (AVG[rank], (kernel, stride, padding, ceil_mode, bool(pick.integers(2)))),
        }
        counts = tuple(pick.choice((1, 2, 3, 7), rank).tolist())
        for kind in ("avg", "max"):
            name = f"adaptive_{kind}_pool{rank}d"
            calls[name] = (getattr(A, name), (counts if rank > 1 else counts[0],))
        for name, (op, args) in calls.items():
            a, b = Tensor(x.copy(), True), torch.tensor(x, requires_grad=True)
            got, want = op(a, *args), getattr(F, name)(b, *args)
            np.testing.assert_allclose(
                value(got), want.detach().numpy(), atol=1e-12, err_msg=f"{name} {args}"
            )
            g = normal(*got.shape)
            want.backward(torch.tensor(g))
            theirs = b.grad.numpy()
            np.testing.assert_allclose(
                grad([got], [a], [Tensor(g)])[0].numpy(), theirs, atol=1e-12, err_msg=name
            )
