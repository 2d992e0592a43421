"""A Python float that an operator takes as an argument is an input of the graph: one compile, and eager's numbers.

Input: for each parameter of open_scalars' tables a call with it, and numbers with special values among them. On the tree
before there was a compile for each number, for all but the operands of arithmetic.
"""

import math
import warnings

import numpy as np
import pytest

import cutaway
from cutaway.torch_api import torch
from stage0_eager.table.number_operands import FLOATS, TAKEN
from stage_contracts import config, events

F = torch.nn.functional
NUMBERS = (0.5, 2.0, 1.0, 0.1, 3.7, 1e-300, 0.0, -0.0, -1.5, math.inf, -math.inf, math.nan, 1e300)
CLASSES = torch.tensor([0, 3, 1, 1])
SIGNS = torch.tensor([1.0, -1.0, -1.0, 1.0])
CALLS = {  # operator, parameter: the call, with x of shape (4, 4)
    **{(name, "other"): lambda x, s, name=name: getattr(torch, name)(x, s) for name in
       "mul maximum minimum div add sub eq ne lt le gt ge fmod remainder floor_divide".split()},
    ("rsub", "other"): lambda x, s: s - x,
    ("rdiv", "other"): lambda x, s: s / x,
    ("rfloor_divide", "other"): lambda x, s: s // x,
    ("rremainder", "other"): lambda x, s: s % x,
    ("rpow", "other"): lambda x, s: s**x,
    ("add", "alpha"): lambda x, s: torch.add(x, x.t(), alpha=s),
    ("sub", "alpha"): lambda x, s: torch.sub(x, x.t(), alpha=s),
    ("lerp", "weight"): lambda x, s: torch.lerp(x, x.t(), s),
    ("addcmul", "value"): lambda x, s: torch.addcmul(x, x, x.t(), value=s),
    ("addcdiv", "value"): lambda x, s: torch.addcdiv(x, x, x.t() + 3, value=s),
    ("pow", "exponent"): lambda x, s: torch.pow(x, s),
    ("clamp", "min"): lambda x, s: x.clamp(s, 1.5),
    ("clamp", "max"): lambda x, s: x.clamp(max=s),
    ("clamp_min", "min"): lambda x, s: torch.clamp_min(x, s),
    ("clamp_max", "max"): lambda x, s: torch.clamp_max(x, s),
    ("where", "input"): lambda x, s: torch.where(x > 0, s, x),
    ("where", "other"): lambda x, s: torch.where(x > 0, x, s),
    ("masked_fill", "value"): lambda x, s: x.masked_fill(x > 0, s),
    ("fill_", "value"): lambda x, s: x.clone().fill_(s),
    ("full_of_shape", "fill_value"): lambda x, s: torch.full((2, 3), s),
    **{("nan_to_num", p): lambda x, s, p=p: torch.nan_to_num(1 / (x - x.floor()), **{p: s}) for p in FLOATS["nan_to_num"]},
    **{("addmm", p): lambda x, s, p=p: torch.addmm(x, x, x.t(), **{p: s}) for p in ("beta", "alpha")},
    **{("baddbmm", p): lambda x, s, p=p: torch.baddbmm(x[None], x[None], x[None], **{p: s}) for p in ("beta", "alpha")},
    **{("addmv", p): lambda x, s, p=p: torch.addmv(x[0], x, x[1], **{p: s}) for p in ("beta", "alpha")},
    **{("addbmm", p): lambda x, s, p=p: torch.addbmm(x, x[None], x[None], **{p: s}) for p in ("beta", "alpha")},
    **{("addr", p): lambda x, s, p=p: torch.addr(x, x[0], x[1], **{p: s}) for p in ("beta", "alpha")},
    ("layer_norm", "eps"): lambda x, s: F.layer_norm(x, (4,), eps=s),
    ("rms_norm", "eps"): lambda x, s: F.rms_norm(x, (4,), eps=s),
    ("group_norm", "eps"): lambda x, s: F.group_norm(x, 2, eps=s),
    ("normalize", "eps"): lambda x, s: F.normalize(x, eps=s),
    ("normalize_by_moments", "eps"): lambda x, s: F.batch_norm(x, x[0].detach(), x[1].detach() ** 2, eps=s),
    ("leaky_relu", "negative_slope"): lambda x, s: F.leaky_relu(x, s),
    ("elu", "alpha"): lambda x, s: F.elu(x, s),
    ("celu", "alpha"): lambda x, s: F.celu(x, s),
    ("softplus", "beta"): lambda x, s: F.softplus(x, s),
    ("softplus", "threshold"): lambda x, s: F.softplus(x, 2, s),
    ("threshold", "threshold"): lambda x, s: F.threshold(x, s, 0.5),
    ("threshold", "value"): lambda x, s: F.threshold(x, 0.5, s),
    ("hardtanh", "min_val"): lambda x, s: F.hardtanh(x, s, 1.5),
    ("hardtanh", "max_val"): lambda x, s: F.hardtanh(x, -1.5, s),
    ("hardshrink", "lambd"): lambda x, s: F.hardshrink(x, s),
    ("softshrink", "lambd"): lambda x, s: F.softshrink(x, s),
    ("huber_loss", "delta"): lambda x, s: F.huber_loss(x, x.t(), delta=s),
    ("smooth_l1_loss", "beta"): lambda x, s: F.smooth_l1_loss(x, x.t(), beta=s),
    ("isclose", "rtol"): lambda x, s: torch.isclose(x, x.t(), rtol=s),
    ("isclose", "atol"): lambda x, s: torch.isclose(x, x.t(), atol=s),
    ("trapezoid", "dx"): lambda x, s: torch.trapezoid(x, dx=s),
    ("cumulative_trapezoid", "dx"): lambda x, s: torch.cumulative_trapezoid(x, dx=s),
    ("cosine_similarity", "eps"): lambda x, s: F.cosine_similarity(x, x.t(), eps=s),
    ("pairwise_distance", "eps"): lambda x, s: F.pairwise_distance(x, x.t(), eps=s),
    ("poisson_nll_loss", "eps"): lambda x, s: F.poisson_nll_loss(x, x.t(), log_input=False, eps=s),
    ("cosine_embedding_loss", "margin"): lambda x, s: F.cosine_embedding_loss(x, x.t(), SIGNS, margin=s),
    ("hinge_embedding_loss", "margin"): lambda x, s: F.hinge_embedding_loss(x, SIGNS, margin=s),
    ("margin_ranking_loss", "margin"): lambda x, s: F.margin_ranking_loss(x[0], x[1], SIGNS, margin=s),
    **{
        (name, "eps"): lambda x, s: F.batch_norm(x, None, None, training=True, eps=s)
        for name in ("normalize_batch", "normalize_by_own_moments")
    },
    ("triplet_margin_loss", "margin"): lambda x, s: F.triplet_margin_loss(x, x.t(), x.flip(0), margin=s),
    ("multi_margin_loss", "margin"): lambda x, s: F.multi_margin_loss(x, CLASSES, margin=s),
    ("cross_entropy", "label_smoothing"): lambda x, s: F.cross_entropy(x, CLASSES, label_smoothing=s),
    ("renorm", "maxnorm"): lambda x, s: torch.renorm(x, 2, 0, s),
    ("triplet_margin_loss", "eps"): lambda x, s: F.triplet_margin_loss(x, x.t(), x.flip(0), eps=s),
    **{("local_response_norm", p): lambda x, s, p=p: F.local_response_norm(x[None], 2, **{p: s}) for p in ("alpha", "beta", "k")},
    ("scaled_dot_product_attention", "scale"): lambda x, s: F.scaled_dot_product_attention(x, x, x, scale=s),
}  # fmt: skip
IN_PLACE = {
    "add_": lambda x, s: x.clone().add_(x.t(), alpha=s), "sub_": lambda x, s: x.clone().sub_(s),
    "mul_": lambda x, s: x.clone().mul_(s), "div_": lambda x, s: x.clone().div_(s),
    "lerp_": lambda x, s: x.clone().lerp_(x.t(), s), "addcmul_": lambda x, s: x.clone().addcmul_(x, x.t(), value=s),
    "addcdiv_": lambda x, s: x.clone().addcdiv_(x, x.t() + 3, value=s), "pow_": lambda x, s: x.clone().pow_(s),
    "clamp_": lambda x, s: x.clone().clamp_(s, 2.5), "fmod_": lambda x, s: x.clone().fmod_(s),
    "remainder_": lambda x, s: x.clone().remainder_(s), "floor_divide_": lambda x, s: x.clone().floor_divide_(s),
    "masked_fill_": lambda x, s: x.clone().masked_fill_(x > 0, s),
    **{f"{name}_": lambda x, s, name=name: F.__dict__[f"{name}_"](x.clone(), s) for name in ("leaky_relu", "elu", "celu")},
}  # fmt: skip
CASES = {f"{op}, {parameter}": call for (op, parameter), call in CALLS.items()} | IN_PLACE
FIRST_OPERAND = {"input"}  # of arithmetic: the same code as for the other


@pytest.fixture(autouse=True)
def anew():
    """Calls from one comprehension share their code, and with it the limit on compiles."""
    cutaway.reset()


def x_of(dtype):
    drawn = np.random.default_rng(0).standard_normal((4, 4)) * 2
    drawn[0, :3] = 0.5, -0.5, 2.0
    return torch.from_numpy(drawn.astype(np.float64)).to(dtype)


def result(function, x, number):
    """The values and the gradient, or the name of the error."""
    x = x.detach().clone().requires_grad_(x.is_floating_point())
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            y = function(x, number)
            if y.requires_grad:
                y.double().sum().backward()
            return y.detach(), None if x.grad is None else x.grad
        except (RuntimeError, ValueError, ZeroDivisionError) as error:
            return type(error).__name__


def test_every_parameter_of_the_tables_has_a_case():
    named = {(op, p) for table in (TAKEN, FLOATS) for op, ps in table.items() for p in ps}
    missing = {(op, p) for op, p in named if not op.endswith("_") or op == "fill_"} - CALLS.keys()
    assert {p for _, p in missing} <= FIRST_OPERAND, missing
    assert {op for op, _ in named if op.endswith("_") and op != "fill_"} == IN_PLACE.keys()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "half"])
@pytest.mark.parametrize("name", CASES)
def test_it_is_eagers_for_every_number(name, dtype):
    if dtype == "half":
        dtype = ("float16", "bfloat16")[list(CASES).index(name) % 2]
    x, call = x_of(getattr(torch, dtype)), CASES[name]
    compiled = cutaway.compile(call, backend="aot_eager")
    # of sixteen bits, one unit of a gradient that three inputs share, where the margin is infinite
    near = (5e-3, 1e-3) if "16" in dtype and name == "triplet_margin_loss, margin" else (1e-5, 1e-6)
    with events.no_internal_errors(), config.patch(recompile_limit=20):
        for number in NUMBERS:
            mine, wanted = result(compiled, x, number), result(call, x, number)
            assert isinstance(mine, str) == isinstance(wanted, str), (number, mine, wanted)
            if isinstance(mine, str):
                assert mine == wanted, number
                continue
            for a, b in zip(mine, wanted, strict=True):
                assert (a is None) == (b is None), number
                if a is not None:
                    assert a.dtype == b.dtype and a.stride() == b.stride(), number
                    np.testing.assert_allclose(
                        a.double().numpy(), b.double().numpy(), *near, err_msg=str(number)
                    )


@pytest.mark.parametrize("name", CASES)
def test_one_compile_serves_them(name):
    x, call = x_of(torch.float32), CASES[name]
    compiled = cutaway.compile(call)
    for number in (0.5, 0.25, 0.75, 0.375):
        y = compiled(x, number)
        np.testing.assert_allclose(y.double().numpy(), call(x, number).double().numpy(), 2e-6, 1e-6)
    assert len(compiled.entries) == 1


WITHOUT_DIMENSIONS = {
    **{name: CASES[name] for name in ("mul, other", "add, other", "sub, other", "div, other", "rdiv, other", "lerp, weight")},
    **{f"{op.__name__}, other": lambda x, s, op=op: op(x, s) for op in (torch.eq, torch.ne, torch.lt, torch.ge)},
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64"])
@pytest.mark.parametrize("name", WITHOUT_DIMENSIONS)
def test_beside_a_tensor_without_dimensions(name, dtype):
    """On the tree before, tensor(0.1) was not 0.1 here, and arithmetic was a compile for each number."""
    call = WITHOUT_DIMENSIONS[name]
    compiled = cutaway.compile(call, backend="aot_eager")
    for number in (0.1, 0.3, 1.5, 2.0):
        for x in (torch.tensor(n).to(getattr(torch, dtype)) for n in (0.1, 0.3, 2.0)):
            y, wanted = compiled(x, number), call(x, number)
            assert y.dtype == wanted.dtype
            np.testing.assert_array_equal(y.double().numpy(), wanted.double().numpy(), f"{x} {number}")
    assert len(compiled.entries) == 1 or dtype not in ("float32", "float64")


IN_HALF = ("mul, other", "add, other", "div, other", "rdiv, other", "rpow, other", "clamp, min", "lerp, weight",
           "addcmul, value", "leaky_relu, negative_slope", "softplus, beta", "where, other", "masked_fill, value",
           "gt, other", "add, alpha", "elu, alpha")  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sixteen_bits_are_those_of_a_number_that_is_known(dtype):
    """On the tree before, a tensor of 16 bits was a compile for each number."""
    open_, x = cutaway.compile(lambda x, s: [CASES[n](x, s) for n in IN_HALF]), x_of(getattr(torch, dtype))
    for number in (0.1, 3.7):
        for name, y in zip(IN_HALF, open_(x, number), strict=True):
            np.testing.assert_array_equal(y.double().numpy(), CASES[name](x, number).double().numpy(), name)
    assert len(open_.entries) == 1


def test_functions_of_math_stay_open():
    def f(x, s):
        return x * math.sqrt(s) + math.exp(-s) * math.log(s) + math.cos(math.pi * s)

    compiled, x = cutaway.compile(f), x_of(torch.float64)
    for s in (0.5, 2.0, 9.0, 1e300):
        assert torch.allclose(compiled(x, s), f(x, s))
    assert len(compiled.entries) == 1
    for s in (-1.0, 0.0):
        with pytest.raises(ValueError, match="math domain error|expected a"):
            compiled(x, s)


INTS = (0, 1, -1, 5, -7, 2, 2**31, 2**53 + 1, -(2**63), 2**70, 3)
OF_INTS = ("x * (k << 2)", "x * (3 & k) + (k & -4)", "x * ~k", "x * (n + k)", "x * (n // k)", "x[:, k : k + n]", "x[:, : abs(k)]",
           "torch.arange(n) * k", "x[:, [k % n, n - 1]]", "x * math.ceil(k / 2)", "torch.tensor([k, n])")  # fmt: skip


@pytest.mark.parametrize("text", OF_INTS)
def test_an_int_of_any_size_beside_an_open_size(text):
    """An int that is used as a size is open from its first change on; one of more than 64 bits is none."""
    call = eval(f"lambda x, k, n: {text}", {"torch": torch, "math": math})
    compiled = cutaway.compile(
        lambda x, k: call(x, k, x.shape[1]), backend="aot_eager", options={"recompile_limit": 40}
    )
    for i, k in enumerate(INTS):
        x = torch.ones(2, 3 + i % 4)
        try:
            wanted = call(x, k, x.shape[1])
        except (ArithmeticError, RuntimeError, TypeError) as error:
            with pytest.raises(type(error)):
                compiled(x, k)
            continue
        got = compiled(x, k)
        assert got.dtype == wanted.dtype and torch.equal(got, wanted), k
