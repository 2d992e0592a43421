"""vmap against a loop: every core operator, every choice of batched arguments; its nesting with grad; its errors.

Input: the samples of the derivatives and of the external rows, and here those of what has no derivative.
"""

import itertools

import numpy as np
import pytest

import stage0_eager.functions  # noqa: F401  (fills the table)
from stage0_eager import nn
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.functions.creation import ones, tensor
from stage0_eager.functions.nn import dropout, losses, normalization
from stage0_eager.random.generator import manual_seed, rand_of_shape
from stage0_eager.state import interpreting, no_grad
from stage0_eager.table.registry import TABLE
from stage0_eager.tensor import Tensor
from stage0_eager.tests import test_stage0_derivatives as rules
from stage0_eager.tests import test_stage0_external as external
from stage0_eager.transforms import func
from stage0_eager.transforms.func import vmap
from stage0_eager.transforms.trace import Tracer
from stage0_eager.transforms.vmap_rules import RULES, looped
from stage_contracts import dtype as dt
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.graph import Graph

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(2, 3)).round(1), RNG.normal(size=(3,)).round(1)
WHOLE, BITS = np.array([[3, -5, 0], [7, 2, 1]]), np.array([1, 6, 3])
BATCH = 3


def _pairs(x, y):
    return [[x, y], [x, 2], [2, y], [x[0, 0].reshape(()), y], [x[0, 0].reshape(()), x[0, 1].reshape(())]]


# What has no derivative, and what a single number asks of a rule.
MORE = {
    **{n: _pairs(X, Y) for n in "eq ne lt le gt ge logical_and logical_or logical_xor".split()},
    **{n: _pairs(WHOLE, BITS) for n in "bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift".split()},
    **{n: [[X], [X[0, 0].reshape(())]] for n in "isnan isinf logical_not detach nonzero".split()},
    "bitwise_not": [[WHOLE]],
    **{n: [[X + 2j * X], [np.array(1 + 2j)]] for n in ("conj", "view_as_real")},
    "fft_c2c": [[X + 2j * X, (1,), True], [X + 1j, (-1, 0), False]],
    "fft_r2c": [[X, (1,)], [X, (1, 0)]],
    "fft_c2r": [[X + 2j * X, (0, 1), 4], [X + 1j, (-1,), 5]],
    "eig": [[np.array([[3.0, 1.0], [0.0, 1.0]])]],
    "view_as_complex": [[X[:, :2].copy()], [X[0, :2].copy()]],
    "bitcast": [[X, dt.int64], [WHOLE, dt.float64], [np.array(2.0), dt.int64]],
    **{n: [[X, (1,)], [X, (0, -1), True], [X, ()], [np.array(2.0), (0,)]] for n in ("any", "all", "sum", "prod", "amax")},
    **{n: [[X, 1], [X, -2, True], [np.array(2.0), 0, False]] for n in ("argmax", "argmin")},
    "cumsum": [[np.array(2.0), 0]],
    "cumprod": [[np.array(2.0), -1]],
    "sort": [[X, 1, False, True], [X, -2, True, True], [np.array(2.0), 0, False, True]],
    "gather": [[np.array(2.0), 0, np.array(0)]],
    "scatter": [[np.array(2.0), 0, np.array(0), np.array(3.0)]],
    "scatter_add": [[np.array(2.0), -1, np.array(0), np.array(3.0)]],
    "unfold": [[np.array(2.0), 0, 1, 1]],
    "flip": [[np.array(2.0), (0,)]],
    "reshape": [[np.array(2.0), (1, 1)], [X.T, (6,)], [X, (3, -1)]],
    "where": [[X > 0, np.array(1.0), 2.0], [np.array(True), X, Y]],
}  # fmt: skip
SAMPLES = {
    name: [
        *rules.SAMPLES.get(name, []),
        *(external.SAMPLES[name][1] if name in external.SAMPLES else []),
        *MORE.get(name, []),
    ]
    for name in CORE_OPS
}
CASES = [(name, i) for name, calls in SAMPLES.items() for i in range(len(calls))]
# what cuts or joins dimension 0, and
LOOPED = {
    "all_gather",
    "reduce_scatter",
    "all_to_all",
    "all_to_all_splits",
    "convolution_weight_gradient",
}  # also `convolution` with a weight per example


def test_every_core_operator_has_a_rule_and_a_sample():
    without = {name for name, calls in SAMPLES.items() if not calls}
    assert without == {"full", "iota", "random_bits"}  # no operand to batch
    assert {n for n in looped() if CORE_OPS[n].kind != "external"} == LOOPED


def batched(array, k):
    """BATCH examples like `array`; numbers stay in the domain of the function."""
    if array.dtype == bool:
        return np.stack([array, ~array, array])
    if array.dtype.kind == "i":
        return np.stack([array, array, array[::-1] if array.ndim else array])
    return np.stack([array * (1 - 0.07 * i * (k + 1)) for i in range(BATCH)])


def spots(args):
    """The places of the arrays in an argument list: (position,) or (position, element)."""
    for i, a in enumerate(args):
        if isinstance(a, np.ndarray):
            yield (i,)
        elif isinstance(a, list):
            yield from ((i, k) for k in range(len(a)))


def place(args, spot, value):
    if len(spot) == 1:
        args[spot[0]] = value
    else:
        args[spot[0]] = [value if k == spot[1] else a for k, a in enumerate(args[spot[0]])]


def at(args, spot):
    return args[spot[0]] if len(spot) == 1 else args[spot[0]][spot[1]]


def as_tensors(args):
    wrap = lambda a: Tensor(a) if isinstance(a, np.ndarray) else a  # noqa: E731
    return [[wrap(b) for b in a] if isinstance(a, list) else wrap(a) for a in args]


def results(out):
    return list(out) if isinstance(out, tuple) else [out]


@pytest.mark.parametrize(("name", "case"), CASES)
def test_a_rule_gives_what_a_loop_gives(name, case):
    op, args = TABLE[f"core.{name}"], SAMPLES[name][case]
    where = list(spots(args))
    for chosen in (c for n in range(1, len(where) + 1) for c in itertools.combinations(where, n)):
        batches = {spot: batched(at(args, spot), k) for k, spot in enumerate(chosen)}

        def call(*parts, chosen=chosen):
            given = as_tensors(args)
            for spot, part in zip(chosen, parts):
                place(given, spot, part)
            return op(*given)

        if name == "nonzero":
            with pytest.raises(RuntimeError, match="dynamic shape"):
                vmap(call)(*map(Tensor, batches.values()))
            continue
        got = results(vmap(call)(*map(Tensor, batches.values())))
        rows = [results(call(*[Tensor(np.asarray(b[i])) for b in batches.values()])) for i in range(BATCH)]
        for k, whole in enumerate(got):
            want = np.stack([r[k]._data for r in rows])
            assert (whole.dtype, whole.shape) == (rows[0][k].dtype, want.shape), chosen
            np.testing.assert_allclose(whole.numpy(), want, rtol=1e-12, atol=1e-13, err_msg=str(chosen))


def test_single_numbers_promote_as_numbers():
    wide, narrow = tensor([1.5, 2.5], dtype=dt.float64), tensor([[1.0, 2.0], [3.0, 4.0]])
    whole = tensor([1, 2])
    for function in (TABLE["core.mul"], TABLE["core.lt"], lambda a, b: TABLE["core.where"](b > 2, a, b)):
        for first, second in ((wide, narrow), (whole, narrow), (wide, whole), (whole, wide)):
            got = vmap(function)(first, second)
            rows = [function(first[i], second[i]) for i in range(2)]
            assert got.dtype is rows[0].dtype and got.tolist() == [r.tolist() for r in rows]


def public_samples():
    x = RNG.normal(size=(4, 3, 5))
    t = TABLE
    return {
        "relu": (t["cutaway.relu"], x),
        "softmax": (lambda v: t["cutaway.softmax"](v, -1), x),
        "log_softmax": (lambda v: t["cutaway.log_softmax"](v, 0), x),
        "clamp": (lambda v: t["cutaway.clamp"](v, -0.5, 0.5), x),
        "hypot": (lambda v: t["cutaway.hypot"](v, v[0]), x),
        "layer_norm": (lambda v: normalization.layer_norm(v, (5,)), x),
        "var": (lambda v: v.var(0), x),
        "indices": (lambda v: v[:, [0, 2]] + v[1:2, -1:], x),
        "topk": (lambda v: v.topk(2)[0], x),
        "stack": (lambda v: t["cutaway.stack"]([v, v * 2], 1), x),
        "split": (lambda v: v.split(2, 1)[1], x),
        "write": (lambda v: write(v), x),
        "max": (lambda v: v.max(1)[0], x),
        "number": (lambda v: v.sum() * v, x),
        "matmul": (lambda v: v @ v.T @ v[:, 0], x),
        "pinv": (lambda v: t["cutaway.linalg_pinv"](v), x),
        "tril": (lambda v: v.tril(), x),
        "view": (lambda v: v.reshape(-1).view(5, 3).contiguous(), x),
    }


def write(v):
    out = v.clone()
    out[0] = out[1] * 2
    out.mul_(v)
    return out


@pytest.mark.parametrize("name", public_samples())
def test_public_functions_their_gradients_and_both_nested(name):
    function, array = public_samples()[name]
    x = Tensor(array.copy(), True)
    loop = TABLE["cutaway.stack"]([function(x[i]) for i in range(4)], 0)
    got = vmap(function)(x)
    np.testing.assert_allclose(got.detach().numpy(), loop.detach().numpy(), rtol=1e-12, atol=1e-13)
    weights = Tensor(RNG.normal(size=got.shape))
    (want,) = grad([loop], [x], [weights])
    (g,) = grad([got], [x], [weights])  # grad of vmap
    np.testing.assert_allclose(g.numpy(), want.numpy(), rtol=1e-10, atol=1e-12)
    loss = lambda v, w: (function(v) * w).sum()  # noqa: E731
    g = vmap(func.grad(loss))(x.detach(), weights)  # vmap of grad
    np.testing.assert_allclose(g.numpy(), want.numpy(), rtol=1e-10, atol=1e-12)


def test_grad_of_vmap_of_grad():
    x = Tensor(RNG.normal(size=(3, 4)), True)
    inner = lambda v: (v.sin() * v).sum()  # noqa: E731
    total = vmap(func.grad(inner))(x).square().sum()
    (g,) = grad([total], [x])
    d = np.array(x._data)
    first, second = np.cos(d) * d + np.sin(d), 2 * np.cos(d) - d * np.sin(d)
    np.testing.assert_allclose(g.numpy(), 2 * first * second, rtol=1e-12)


def test_a_rule_of_its_own_reaches_the_gradient_of_a_batch():
    x = tensor([[0.0, -1.0, 2.0]], requires_grad=True)
    (g,) = grad([vmap(TABLE["cutaway.relu"])(x).sum()], [x])
    assert g.tolist() == [[0.0, 0.0, 1.0]]  # maximum's rule would give 0.5 at 0


def test_nested_and_dims():
    x, y = Tensor(RNG.normal(size=(2, 3))), Tensor(RNG.normal(size=(4, 3)))
    table = vmap(vmap(lambda a, b: (a * b).sum(), in_dims=(None, 0)), in_dims=(0, None))(x, y)
    np.testing.assert_allclose(table.numpy(), x.numpy() @ y.numpy().T, rtol=1e-12)
    out = vmap(lambda a, d: (a["k"] + d[0], a["k"]), in_dims=({"k": 1}, [0]), out_dims=(1, -1))(
        {"k": x}, [tensor([1.0, 2.0, 3.0])]
    )
    np.testing.assert_allclose(out[0].numpy(), x.numpy() + [1, 2, 3])
    np.testing.assert_allclose(out[1].numpy(), x.numpy())
    assert vmap(lambda a: ones(2))(x).tolist() == [[1, 1], [1, 1]]  # what is not batched is repeated
    assert vmap(lambda a: (a, 7), out_dims=(0, None))(x)[1] == 7
    assert vmap(lambda a: a.sum(), chunk_size=3)(y).tolist() == vmap(lambda a: a.sum())(y).tolist()
    assert vmap(lambda a, b: a + b, (1, None), 1, chunk_size=2)(x, tensor([1.0, 2.0])).shape == (2, 3)
    assert vmap(lambda a: a * 2)(Tensor(np.zeros((0, 3)))).shape == (0, 3)
    assert vmap(lambda k, *, scale: k * scale)(x, scale=3.0).tolist() == (x * 3.0).tolist()


def test_jacobians_are_batches():
    x = Tensor(RNG.normal(size=(3, 2)))
    f = lambda v: (v.exp() @ v.T).sum(1)  # noqa: E731
    a, b = func.jacrev(f)(x), func.jacfwd(f)(x)
    assert a.shape == (3, 3, 2)
    np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10)
    np.testing.assert_allclose(func.jacrev(f, chunk_size=2)(x).numpy(), a.numpy(), rtol=1e-12)
    per_example = vmap(func.jacrev(lambda v: v.sin()))(x)
    np.testing.assert_allclose(
        per_example.numpy(), np.stack([np.diag(np.cos(r)) for r in x.numpy()]), rtol=1e-12
    )
    hessians = vmap(func.hessian(lambda v: (v**3).sum()))(x)
    np.testing.assert_allclose(hessians.numpy(), np.stack([np.diag(6 * r) for r in x.numpy()]), rtol=1e-10)
    forward_over_reverse = func.jacfwd(func.jacrev(lambda v: (v**3).sum()))(x[0])
    np.testing.assert_allclose(forward_over_reverse.numpy(), np.diag(6 * x.numpy()[0]), rtol=1e-10)


def test_gradients_per_example_of_a_module():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    parameters = {k: p.detach() for k, p in model.named_parameters()}
    x, y = Tensor(RNG.normal(size=(5, 3)).astype(np.float32)), tensor([0, 1, 1, 0, 1])

    def loss(parameters, x, y):
        out = func.functional_call(model, parameters, (TABLE["cutaway.unsqueeze"](x, 0),))
        return losses.cross_entropy(out, TABLE["cutaway.unsqueeze"](y, 0))

    found = vmap(func.grad(loss), in_dims=(None, 0, 0))(parameters, x, y)
    for i in range(5):
        one = func.grad(loss)(parameters, x[i], y[i])
        for key, g in one.items():
            np.testing.assert_allclose(found[key].numpy()[i], g.numpy(), rtol=1e-4, atol=1e-6)


def test_random_numbers():
    x = Tensor(np.zeros((3, 2), np.float32))
    draw = lambda v: v + rand_of_shape((2,))  # noqa: E731
    with pytest.raises(RuntimeError, match="randomness error mode"):
        vmap(draw)(x)
    manual_seed(1)
    same = vmap(draw, randomness="same")(x).tolist()
    assert same[0] == same[1] == same[2]
    manual_seed(1)
    assert same[0] == rand_of_shape((2,)).tolist()
    apart = vmap(draw, randomness="different")(x).tolist()
    assert apart[0] != apart[1] != apart[2]
    masks = vmap(lambda v: dropout.dropout(v, 0.5), randomness="different")(
        Tensor(np.ones((8, 8), np.float32))
    ).tolist()
    assert len(set(map(tuple, masks))) > 1


def test_a_batch_is_traced_by_the_interpreter_around_it():
    tracer = Tracer(Graph())
    with interpreting(tracer), no_grad():
        x = tracer.placeholder("x", Tensor(X).meta)
        y = tracer.placeholder("y", Tensor(Y).meta)
        out = vmap(lambda a, b: (a * b.exp()).sum(), in_dims=(1, 0))(x, y)
    tracer.graph.output([tracer.node_of(out)])
    tracer.graph.verify(allowed=lambda target: target.core is not None)
    (got,) = tracer.graph.interpret([Tensor(X), Tensor(Y)])
    np.testing.assert_allclose(got.numpy(), (X * np.exp(Y)).sum(0), rtol=1e-12)


REFUSED = {
    "item": (lambda v: v.sum().item(), "calling .item"),
    "if": (lambda v: v if v.sum() > 0 else -v, "data-dependent control flow"),
    "numpy": (lambda v: v.numpy(), "calling .numpy"),
    "mask": (lambda v: v[v > 0], "dynamic shape"),
    "no tensor": (lambda v: 3, "must only return Tensors"),
    "write": (lambda v: ones(3).add_(v), "inplace arithmetic"),
    "dims of an example": (lambda v: v.sum(1), "Dimension out of range"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    function, message = REFUSED[name]
    with pytest.raises((RuntimeError, ValueError, IndexError, NotImplementedError), match=message):
        vmap(function)(Tensor(np.ones((2, 3))))


def test_arguments_that_do_not_fit():
    x = ones(2, 3)
    for dims, args, message in [
        (0, (x, ones(3)), "same size in the mapped dimension"),
        ((0,), (x, x), "not compatible with the structure"),
        (None, (x,), "at least one input"),
        (2, (x,), "expected in_dim to satisfy"),
        (0, (x, 3), "non-Tensor arguments"),
        ("a", (x,), "must be an int"),
    ]:
        with pytest.raises(ValueError, match=message):
            vmap(lambda *a: a[0], in_dims=dims)(*args)
    with pytest.raises(ValueError, match="can not return a BatchedTensor"):
        vmap(lambda a: a, out_dims=None)(x)
    with pytest.raises(IndexError, match="Dimension out of range"):
        vmap(lambda a: a, out_dims=2)(x)
    with pytest.raises(RuntimeError, match="Only allowed values for randomness"):
        vmap(lambda a: a, randomness="some")
    with pytest.raises(ValueError, match="chunk_size"):
        vmap(lambda a: a, chunk_size=0)


def test_a_rule_for_all_that_is_named():
    known = set(CORE_OPS) | {op.name for op in TABLE.values() if op.whole} | {"copy_"}
    assert set(RULES) <= known
