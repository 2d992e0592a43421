"""Every derivative rule against finite differences in float64, with broadcasting; and that rules call operators only.

Input: the derivatives attached to rows of the table. A rule without a sample here fails.
"""

import operator

import numpy as np
import pytest

from stage0_eager import Tensor
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.table.core import core
from stage0_eager.table.registry import TABLE
from stage0_eager.transforms.trace import Tracer, interpreting
from stage_contracts import dtype as dt
from stage_contracts.device import CPU
from stage_contracts.graph import Graph

RNG = np.random.default_rng(0)


def away(*shape, low=0.3, high=1.4):
    """Numbers whose magnitudes keep away from kinks and poles."""
    return np.asarray(RNG.uniform(low, high, shape) * RNG.choice([-1.0, 1.0], shape))


def inside(*shape):
    return RNG.uniform(0.15, 0.85, shape)


INDEX = np.array([[0, 1, 1], [1, 0, 1]])

# Arguments of each differentiable operator; every float64 array in them is differentiated.
SAMPLES = {
    **{n: [[away(2, 3)]] for n in "exp exp2 expm1 sin cos tan atan sinh cosh tanh asinh erf erfc sigmoid abs neg reciprocal".split()},
    **{n: [[inside(2, 3)]] for n in "log log2 log10 log1p sqrt rsqrt asin acos atanh".split()},
    **{n: [[away(2, 3)]] for n in "floor ceil round trunc sign".split()},
    "acosh": [[RNG.uniform(1.5, 3, (2, 3))]],
    **{
        n: [[away(2, 3), away(2, 3)], [away(2, 1), away(3)], [away(3), away(2, 3)], [away(), away(2, 2)], [away(2), 0.7], [0.7, away(2)]]
        for n in "add sub mul div atan2 copysign maximum minimum remainder fmod floor_divide".split()
    },
    "pow": [[inside(2, 3), away(2, 3)], [inside(2, 1), away(3)], [away(4), 3], [away(3), 2.0], [inside(3), 0], [1.5, away(3)]],
    "where": [[INDEX > 0, away(2, 3), away(3)], [INDEX > 0, away(2, 1), 2.0]],
    "cast": [[away(3), dt.float64]],
    "sum": [[away(2, 3), (1,)], [away(2, 3), (0, 1), True], [away(2, 3), (-1,), False], [away(), ()]],
    "prod": [[away(2, 3), (1,)], [away(2, 3), (0, 1), True], [np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 1.0]]), (1,)]],
    "amax": [[away(2, 3), (1,)], [away(2, 3), (0, 1), True]],
    "amin": [[away(2, 3), (0,)], [away(2, 3), (-2, -1), True]],
    "cumsum": [[away(2, 3), 0], [away(2, 3), -1]],
    "reshape": [[away(2, 3), (3, 2)], [away(2, 3), (-1,)]],
    "all_reduce": [[away(2, 3), "sum", "self"], [away(2, 3), "avg", "self"]],
    "reduce": [[away(2, 3), "sum", 0, "self"], [away(2, 3), "avg", 0, "self"]],
    "broadcast": [[away(2, 3), 0, "self"]],
    "all_gather": [[away(2, 3), 1, "sum", "self"], [away(2, 3), 1, "avg in float64", "self"]],
    "average": [[away(2, 3), 100, "self"]],
    "average_gradient": [[away(2, 3), 100, "self"]],
    "reduce_scatter": [[away(2, 3), "sum", 1, "self"], [away(2, 3), "avg", 1, "self"]],
    "all_to_all": [[away(2, 3), 1, "self"]],
    "all_to_all_splits": [[away(2, 3), (2,), (2,), "self"]],
    "permute": [[away(2, 3, 2), (2, 0, 1)], [away(2, 3), (-1, 0)]],
    "expand": [[away(3, 1), (2, 3, 4)], [away(2, 1), (-1, 5)], [away(), (2, 2)]],
    "slice": [[away(5, 2), 0, 1, 4, 1], [away(5, 2), 0, 0, None, 2], [away(2, 5), -1, -3, -1, 1]],
    "slice_scatter": [[away(5, 2), away(2, 2), 0, 1, 3, 1], [away(5, 2), away(3, 2), 0, 0, None, 2]],
    "flip": [[away(2, 3), (0, 1)]],
    "cat": [[[away(2, 3), away(1, 3)], 0], [[away(2, 1), away(2, 2)], -1]],
    "constant_pad": [[away(2, 3), ((1, 0), (-1, 2)), 4.0]],
    "gather": [[away(2, 3), 0, INDEX], [away(2, 3), 1, INDEX[:1]]],
    "scatter": [[away(2, 3), 0, np.array([[0, 1, 0]]), away(2, 3)]],
    "scatter_add": [[away(2, 3), 0, INDEX, away(2, 3)], [away(2, 3), 1, INDEX[:1], away(2, 3)]],
    "scatter_reduce": [
        [away(2, 3), 0, INDEX, away(2, 3), reduce] for reduce in ("prod", "amax", "amin")
    ],
    "diagonal": [[away(3, 4), 1, 0, 1], [away(2, 3, 4), -1, 2, 0]],
    "unfold": [[away(5, 2), 0, 3, 1], [away(2, 5), -1, 2, 2]],
    "as_strided": [[away(2, 3), (2, 2), (1, 2), 1]],
    "matmul": [[away(2, 3), away(3, 4)], [away(2, 2, 3), away(3, 4)], [away(2, 3), away(2, 3, 2)], [away(1, 2, 3), away(4, 3, 2)]],
    "convolution": [
        [away(2, 4, 5), away(6, 2, 2), (2,), (1,), (1,), False, (0,), 2],
        [away(1, 2, 3, 4), away(2, 3, 2, 1), (2, 1), (1, 0), (1, 2), True, (1, 1), 1],
        [away(2, 2, 2), away(2, 1, 2), (1,), (0,), (2,), True, (1,), 2],
    ],
    "convolution_weight_gradient": [
        [away(2, 4, 5), away(2, 6, 3), (2,), (2,), (1,), (1,), 2],
        [away(1, 2, 4, 3), away(1, 3, 2, 2), (2, 2), (1, 2), (0, 1), (2, 1), 1],
    ],
    "clone": [[away(2)]],
    "contiguous": [[away(2, 3).T]],
    "to_device": [[away(2), CPU]],
    # composites with a derivative of their own
    "max_over_windows": [
        [away(2, 5), (3,), (2,), (1,), (1,), False],
        [away(1, 4, 3), (2, 2), (1, 2), (0, 1), (2, 1), True],
    ],
    "overwrite": [[away(2, 3), away(2, 3)]],
    "sum_of_squares": [[away(2, 3), (1,)], [away(2, 3, 2), (0, 2)]],
    "median_of_vector": [[away(5), False], [away(4), True]],
    "wide_sum": [[away(2, 3), (1,), False], [away(2, 3, 2), (0, 2), True]],
    "relu": [[away(2, 3)]],
    "clamp": [[away(2, 3), -0.7, 0.7], [away(2, 3), inside(3), None], [away(2, 3), None, away(2, 1)],
              [away(2, 3), away(3), away(3)]],
    "hardsigmoid": [[away(2, 3, low=2.0, high=4.0)]],
    "hardswish": [[away(2, 3, low=2.0, high=4.0)]],
    "softshrink": [[away(2, 3), 0.7]],
    "linalg_pinv": [[away(2, 3, 2)], [away(2, 3)]],
    "logit": [[inside(2, 3)], [inside(2, 3), 0.2]],
    "hypot": [[away(2, 3), away(3)]],
    "softmax": [[away(2, 3), 1], [away(2, 3), 0], [away(3), -1]],
    "log_loss": [[np.array([0.2, 0.5, 0.9]), np.array([0.3, 1.0, 0.1])]],
    "log_loss_of_logits": [[away(3), away(3), away(3)]],
    "log_softmax": [[away(2, 3), 1], [away(2, 3), -2], [away(3), 0]],
}  # fmt: skip
WITH_RULES = {q: op for q, op in TABLE.items() if op.derivatives and op.name != "copy_"}
CASES = [(q, i) for q, op in WITH_RULES.items() for i in range(len(SAMPLES.get(op.name, [])))]


def floats_in(args):
    """The places of the float64 arrays in an argument list: (position,) or (position, element)."""
    for i, a in enumerate(args):
        if isinstance(a, np.ndarray) and a.dtype == np.float64:
            yield (i,)
        elif isinstance(a, list):
            yield from ((i, k) for k in range(len(a)))


def tensors(args, requires_grad=True):
    def wrap(a):
        if isinstance(a, list):
            return [wrap(x) for x in a]
        return Tensor(a.copy(), requires_grad and a.dtype == np.float64) if isinstance(a, np.ndarray) else a

    return [wrap(a) for a in args]


def at(tree, place):
    for i in place:
        tree = tree[i]
    return tree


def finite_difference(function, args, place, step=1e-6):
    """d function(args) / d args[place], one element at a time, by central differences."""
    x = at(args, place)
    out = np.zeros(x.shape)
    for i in np.ndindex(x.shape):
        kept = x[i]
        x[i] = kept + step
        high = function(args)
        x[i] = kept - step
        low = function(args)
        x[i] = kept
        out[i] = (high - low) / (2 * step)
    return out


def weighted(op, weights):
    """A number that depends on every element of the output in its own way."""
    return lambda args: float((op(*tensors(args, False)).numpy() * weights).sum())


@pytest.mark.parametrize(("qualname", "case"), CASES)
def test_first_derivative(qualname, case):
    op = WITH_RULES[qualname]
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in SAMPLES[op.name][case]]
    given = tensors(args)
    out = op(*given)
    weights = np.random.default_rng(1).uniform(0.5, 1.5, out.shape)
    places = list(floats_in(args))
    found = grad([out], [at(given, p) for p in places], [Tensor(weights)])
    for place, g in zip(places, found, strict=True):
        want = finite_difference(weighted(op, weights), args, place)
        assert g.shape == at(args, place).shape and g.dtype is dt.float64
        np.testing.assert_allclose(
            g.numpy(), want, rtol=2e-6, atol=1e-7, err_msg=f"{qualname}, operand {place}"
        )


SECOND = (
    "exp log sin tan sqrt rsqrt reciprocal tanh sigmoid erf mul div pow matmul softmax log_softmax atan2 prod"
)


@pytest.mark.parametrize("name", SECOND.split())
def test_second_derivative(name):
    """The gradient of a weighted gradient, against differences of the first derivative."""
    op = next(op for op in WITH_RULES.values() if op.name == name)
    args = [a.copy() if isinstance(a, np.ndarray) else a for a in SAMPLES[name][0]]
    places = list(floats_in(args))
    seeds = np.random.default_rng(2)
    weights = seeds.uniform(0.5, 1.5, op(*tensors(args)).shape)
    mixes = [seeds.uniform(0.5, 1.5, at(args, p).shape) for p in places]

    def mixed(arrays, create_graph=False):
        given = tensors(arrays)
        firsts = grad(
            [op(*given)], [at(given, p) for p in places], [Tensor(weights)], create_graph=create_graph
        )
        total = firsts[0] * 0
        for f, m in zip(firsts, mixes, strict=True):
            total = core.add(
                core.sum(core.mul(f, Tensor(m)), tuple(range(f.ndim))),
                core.sum(total, tuple(range(total.ndim))),
            )
        return given, total

    given, total = mixed(args, create_graph=True)
    seconds = grad([total], [at(given, p) for p in places], allow_unused=True)
    for place, g in zip(places, seconds, strict=True):
        want = finite_difference(lambda a: mixed(a)[1].item(), args, place)
        np.testing.assert_allclose(g.numpy(), want, rtol=1e-5, atol=1e-6, err_msg=f"{name}, operand {place}")


@pytest.mark.parametrize(("qualname", "case"), CASES)
def test_rules_call_operators_only(qualname, case):
    """Traced on tensors that have no data, the backward must be a graph; a rule that looks at data would raise."""
    op = WITH_RULES[qualname]
    args = SAMPLES[op.name][case]
    tracer = Tracer(Graph())
    number = iter(range(100))

    def placeholder(a):
        if isinstance(a, list):
            return [placeholder(x) for x in a]
        if not isinstance(a, np.ndarray):
            return a
        meta = Tensor(a).meta.with_(requires_grad=a.dtype == np.float64, strides=Tensor(a).meta.strides)
        return tracer.placeholder(f"x{next(number)}", meta)

    given = [placeholder(a) for a in args]
    with interpreting(tracer):
        out = op(*given)
        tangent = tracer.placeholder("tangent", out.meta.with_(requires_grad=False, strides=out.meta.strides))
        found = grad([out], [at(given, p) for p in floats_in(args)], [tangent])
    tracer.graph.output([tracer.node_of(g) for g in found])
    tracer.graph.verify(allowed=lambda target: target is operator.getitem or target.core is not None)
    for place, g in zip(floats_in(args), found, strict=True):
        assert (g.shape, g.dtype) == (at(args, place).shape, dt.float64)
    # and the graph, run on the data, is the gradient that eager gives
    eager = tensors(args)
    weights = np.random.default_rng(3).uniform(0.5, 1.5, out.shape)
    want = grad([op(*eager)], [at(eager, p) for p in floats_in(args)], [Tensor(weights)])
    flat = [
        t for a in tensors(args, False) for t in (a if isinstance(a, list) else [a]) if isinstance(t, Tensor)
    ]
    for one, other in zip(tracer.graph.interpret([*flat, Tensor(weights)]), want, strict=True):
        np.testing.assert_array_equal(one.numpy(), other.numpy())


def test_every_rule_has_a_sample():
    # external rows are tested in test_stage0_external.py, sort in test_stage0_sorting.py; assign_data's is no derivative
    own = {op.name for op in WITH_RULES.values() if op.core is None or op.core.kind != "external"}
    # those of complex numbers are tested in test_stage0_complex.py; normalize_by_own_moments holds where its moments are
    # the input's, so it is tested through batch_norm (test_stage0_normalisation.py); unaligned's is no derivative
    apart = {"assign_data", "view_as_real", "view_as_complex", "normalize_by_own_moments", "unaligned"}
    assert own - apart == set(SAMPLES)


def test_every_float_parameter_has_a_rule_or_a_reason():
    """What has no derivative is an integer, a predicate, or piecewise constant: nothing was forgotten."""
    reasons = {
        "isnan", "isinf", "logical_not", "bitwise_not", "eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or",
        "logical_xor", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift", "any",
        "all", "argmax", "argmin", "full", "iota", "random_bits", "detach", "nonzero",
        "gcd", "nextafter", "bitcast",
    }  # fmt: skip
    without = {op.name for q, op in TABLE.items() if q.startswith("core.") and not op.derivatives}
    assert without == reasons


def test_conventions_at_kinks_are_torchs():
    def slope(name, *values):
        given = [Tensor(np.array(v), isinstance(v, float)) for v in values]
        return [g.item() for g in grad([getattr(core, name)(*given)], [t for t in given if t.requires_grad])]

    assert slope("abs", 0.0) == [0.0]
    assert slope("maximum", 1.0, 1.0) == [0.5, 0.5]
    assert slope("minimum", 2.0, 2.0) == [0.5, 0.5]
    assert slope("pow", 0.0, 2.0) == [0.0, 0.0]
    assert slope("pow", 0.0, 0.0) == [0.0, 0.0]
    x = Tensor(np.array([3.0, 3.0, 1.0]), True)
    assert grad([core.amax(x, (0,))], [x])[0].tolist() == [0.5, 0.5, 0.0]
    x = Tensor(np.array([0.0, -1.0, 2.0]), True)
    assert grad([TABLE["cutaway.relu"](x)], [x], [Tensor(np.ones(3))])[0].tolist() == [0.0, 0.0, 1.0]


NAN = float("nan")
# function, arguments, the gradient at each place
KINKS = {
    "clamp": ([NAN, -2.0, -1.0, 0.0, 1.0, 2.0], (-1, 1), [0, 0, 1, 1, 1, 0]),
    "clamp_min": ([NAN, -2.0, -1.0, 0.0], (-1,), [0, 0, 1, 1]),
    "clamp_max": ([NAN, 0.0, 1.0, 2.0], (1,), [0, 1, 1, 0]),
    "hardtanh": ([NAN, -1.0, 0.0, 1.0], (), [1, 0, 1, 0]),
    "relu6": ([NAN, 0.0, 3.0, 6.0], (), [1, 0, 1, 0]),
    "relu": ([NAN, 0.0, 1.0], (), [1, 0, 1]),
    "hardsigmoid": ([NAN, -3.0, 0.0, 3.0], (), [0, 0, 1 / 6, 0]),
    "hardswish": ([NAN, -3.0, 0.0, 3.0], (), [1, 0, 0.5, 1]),
    "hardshrink": ([NAN, 0.5, 1.0], (), [1, 0, 1]),
    "softshrink": ([NAN, 0.5, 1.0], (), [1, 0, 1]),
    "elu": ([NAN, 0.0, 1.0], (), [1, 1, 1]),
    "abs": ([NAN, 0.0, -1.0], (), [0, 0, -1]),
    "leaky_relu": ([NAN, 0.0, 1.0], (), [0.01, 0.01, 1]),
    "threshold": ([NAN, 1.0, 2.0], (1.0, 7.0), [1, 0, 1]),
}


@pytest.mark.parametrize("name", KINKS)
def test_gradients_at_kinks_and_at_nan_are_torchs(name):
    values, options, want = KINKS[name]
    x = Tensor(np.array(values), True)
    out = TABLE[f"cutaway.{name}"](x, *options)
    assert np.isnan(out.detach().numpy()).tolist() == np.isnan(values).tolist()
    np.testing.assert_allclose(grad([out], [x], [Tensor(np.ones(len(values)))])[0].numpy(), want)


def test_clamp_with_its_bounds_the_wrong_way_round_gives_all_to_max():
    x, low, high = (Tensor(np.array(v), True) for v in ([-2.0, 0.0, 2.0], [1.0] * 3, [-1.0] * 3))
    found = grad([TABLE["cutaway.clamp"](x, low, high)], [x, low, high], [Tensor(np.ones(3))])
    assert [g.tolist() for g in found] == [[0.0] * 3, [0.0] * 3, [1.0] * 3]


def test_gradients_of_half_precision_keep_their_dtype():
    for dtype in (dt.float16, dt.bfloat16):
        x = Tensor(np.ones((2, 3), dtype.numpy), True)
        w = Tensor(np.ones(3, np.float32), True)
        gx, gw = grad([core.mul(x, w)], [x, w], [Tensor(np.ones((2, 3), np.float32))])
        assert gx.dtype is dtype and gw.dtype is dt.float32 and gw.tolist() == [2.0] * 3


def test_a_bad_gradient_stays_where_it_belongs():
    """What where, maximum and their like did not choose gets 0, also when the gradient is NaN or infinite."""
    bad = Tensor(np.array([np.nan, np.inf]))
    x, y = (Tensor(np.array(v), True) for v in ([2.0, 1.0], [1.0, 2.0]))
    chosen = core.where(Tensor(np.array([True, False])), x, y)
    assert [np.isfinite(g.numpy()).tolist() for g in grad([chosen], [x, y], [bad])] == [
        [False, True],
        [True, False],
    ]
    gx, gy = grad([core.maximum(x, y)], [x, y], [bad])
    assert np.isnan(gx.numpy()[0]) and gx.numpy()[1] == 0 and gy.numpy().tolist() == [0.0, np.inf]
    assert grad([core.pow(x, 0)], [x], [bad])[0].tolist() == [0.0, 0.0]
    zero = Tensor(np.array([0.0]), True)
    assert grad([core.pow(0.0, Tensor(np.array([2.0]), True))], [zero], allow_unused=True) == (None,)
    exponent = Tensor(np.array([2.0, 0.0, -1.0]), True)
    assert grad([core.pow(0.0, exponent)], [exponent], [Tensor(np.ones(3))])[0].tolist() == [
        0.0,
        0.0,
        -np.inf,
    ]
