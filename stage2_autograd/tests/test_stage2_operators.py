"""Every differentiable core operator, and the composites people train with: compiled forward and gradients.

Input: one or more calls per operator, with broadcasting where it broadcasts. Compared with eager's tape to
1e-12 and with finite differences, in float64.
"""

from __future__ import annotations

import pytest

from stage0_eager import TABLE
from stage0_eager.functions import indexing, sorting
from stage2_autograd.tests.helpers import (
    SEAMS,
    activations,
    call_on,
    check_against_eager,
    check_finite_differences,
    dropout,
    integers,
    losses,
    normalization,
    pointwise,
    products,
    reductions,
    shape,
    tensor,
    tensors_of,
)
from stage_contracts import dtype as dt
from stage_contracts.device import CPU

_positive = tensor(2, 3, low=0.3, high=2.0)
_unit = tensor(2, 3, low=-0.9, high=0.9)
_any = tensor(2, 3)
_row = tensor(3, seed=1, low=0.4, high=1.8)
_column = tensor(2, 1, seed=2, low=0.4, high=1.8)
_condition = tensor(2, 3, seed=3, grad=False) > 0

# Operands by domain; whatever is not listed takes any number.
_DOMAINS = {
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "rsqrt", "reciprocal"), _positive),
    **dict.fromkeys(("log1p", "asin", "acos", "atanh", "tan"), _unit),
    "acosh": tensor(2, 3, low=1.2, high=3.0),
}
_UNARY = """
    exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sin cos tan asin acos atan sinh cosh tanh asinh
    acosh atanh erf erfc sigmoid abs neg floor ceil round trunc sign clone contiguous
"""
_BINARY = "add sub mul div pow maximum minimum atan2 copysign remainder fmod floor_divide"

CORE_CASES: dict[str, list[tuple]] = {name: [(_DOMAINS.get(name, _any),)] for name in _UNARY.split()}
CORE_CASES |= {name: [(_positive, _row), (_column, _row), (_positive, 1.7)] for name in _BINARY.split()}
CORE_CASES["sub"].append((2, _any))
CORE_CASES["pow"].append((1.3, _any))
CORE_CASES["atan2"].append((1.3, _positive))
CORE_CASES |= {
    "where": [(_condition, _any, _row), (_condition, _column, 0.5)],
    "cast": [(_any, dt.float32), (_any, dt.float64)],
    "sum": [(_any, (0,), True), (_any, (0, 1))],
    "all_reduce": [(_any, "sum", "self"), (_any, "avg", "self")],
    "reduce": [(_any, "sum", 0, "self")],
    "broadcast": [(_any, 0, "self")],
    "all_gather": [(_any, 1, "sum", "self")],
    "average": [(_any, 100, "self")],
    "average_gradient": [(_any, 100, "self")],
    "reduce_scatter": [(_any, "avg", 1, "self")],
    "all_to_all": [(_any, 1, "self")],
    "all_to_all_splits": [(_any, (2,), (2,), "self")],
    "prod": [(_positive, (1,)), (_any, (0, 1), True)],
    "amax": [(_any, (1,))],
    "amin": [(_any, (0, 1), True)],
    "cumsum": [(_any, 1)],
    "reshape": [(_any, (3, 2)), (_any, (-1,))],
    "permute": [(tensor(2, 3, 4), (2, 0, 1))],
    "expand": [(_column, (4, 2, 3)), (_row, (2, -1))],
    "slice": [(tensor(5, 3), 0, 1, 4, 2), (_any, 1, None, -1)],
    "slice_scatter": [(tensor(5, 3), tensor(2, 3, seed=4), 0, 1, 4, 2)],
    "flip": [(_any, (0, 1))],
    "cat": [([_any, tensor(1, 3, seed=5)], 0)],
    "constant_pad": [(_any, ((1, 0), (-1, 2)), 0.5)],
    "gather": [(tensor(4, 3), 0, integers(2, 3))],
    "scatter": [(tensor(4, 2), 1, integers(3, 1, high=2), tensor(3, 2, seed=6))],
    "scatter_add": [(tensor(4, 3), 0, integers(5, 3), tensor(5, 3, seed=7))],
    "scatter_reduce": [
        (tensor(4, 3), 0, integers(5, 3), tensor(5, 3, seed=7), reduce) for reduce in ("prod", "amax", "amin")
    ],
    "diagonal": [(tensor(3, 4), 1, 0, 1)],
    "unfold": [(tensor(5, 2), 0, 3, 1)],
    "as_strided": [(tensor(2, 3), (2, 2), (1, 2), 1)],
    "matmul": [(tensor(2, 3), tensor(3, 4, seed=8)), (tensor(5, 2, 3), tensor(3, 4, seed=8))],
    "convolution": [
        (tensor(2, 4, 5), tensor(6, 2, 2, seed=8), (2,), (1,), (1,), False, (0,), 2),
        (tensor(1, 2, 3, 4), tensor(2, 3, 2, 1, seed=8), (2, 1), (1, 0), (1, 2), True, (1, 1), 1),
    ],
    "convolution_weight_gradient": [
        (tensor(2, 4, 5), tensor(2, 6, 3, seed=8), (2,), (2,), (1,), (1,), 2),
    ],
    "to_device": [(_any, CPU)],
}
# Steps: finite differences would not see the true slope.
_NO_DIFFERENCES = {"cast", "floor_divide", "copysign"}
# A view of an input is no result of its own; `+ 0` makes it one, so that this is about derivatives.
VIEWS = {
    "reshape",
    "permute",
    "expand",
    "slice",
    "diagonal",
    "unfold",
    "as_strided",
    "contiguous",
    "to_device",
}
_FIRST_TIER = {"exp", "mul", "sum", "matmul", "permute"}
_CORE_TIER = {"exp", "mul", "where", "sum", "permute", "expand", "matmul", "cat", "gather", "maximum"}


def _tier(name: str, core_tier: set[str]) -> str:
    return "first" if name in _FIRST_TIER else "core" if name in core_tier else "full"


def _cases(table: dict[str, list[tuple]], core_tier: set[str]) -> list:
    return [
        pytest.param(
            name,
            args,
            id=f"{name}-{i}" if i else name,
            marks=pytest.mark.conformance(*SEAMS, tier=_tier(name, core_tier) if not i else "full"),
        )
        for name, calls in table.items()
        for i, args in enumerate(calls)
    ]


def test_every_differentiable_core_operator_has_a_case():
    # external rows are calls, whatever they are: COMPOSITES has some of them
    differentiable = {
        op.name for op in TABLE.values() if op.core and op.derivatives and op.core.kind != "external"
    }
    # views of complex numbers: the programs of tests/complex_programs
    assert differentiable - {"copy_", "view_as_real", "view_as_complex"} == set(CORE_CASES)


@pytest.mark.parametrize("name, args", _cases(CORE_CASES, _CORE_TIER))
def test_core_operator(seam, name, args):
    inputs = tensors_of(args)
    call = call_on(TABLE[f"core.{name}"], args)
    compiled = check_against_eager(seam, lambda *ts: call(*ts) + 0 if name in VIEWS else call(*ts), *inputs)
    if name not in _NO_DIFFERENCES:
        check_finite_differences(compiled, *inputs)


_logits = tensor(4, 5, low=-3, high=3)
_classes = integers(4, high=5)
COMPOSITES: dict[str, list[tuple]] = {
    "msort": [(sorting.msort, tensor(4, 3))],
    "relu": [(activations.relu, _any)],
    "gelu": [(activations.gelu, _any), (activations.gelu, _any, "tanh")],
    "silu": [(activations.silu, _any)],
    "softplus": [(activations.softplus, _any)],
    "leaky_relu": [(activations.leaky_relu, _any)],
    "dropout": [(dropout.dropout, _any, 0.4)],
    "layer_norm": [
        (normalization.layer_norm, tensor(4, 3), (3,), tensor(3, seed=1), tensor(3, seed=2)),
        (normalization.layer_norm, tensor(4, 3), (4, 3)),
    ],
    "softmax": [(reductions.softmax, _logits, 1), (reductions.softmax, _logits, 0)],
    "log_softmax": [(reductions.log_softmax, _logits, -1)],
    "logsumexp": [(reductions.logsumexp, _logits, 1)],
    "cross_entropy": [
        (losses.cross_entropy, _logits, _classes),
        (losses.cross_entropy, _logits, _classes, None, -100, "sum", 0.1),
    ],
    "linear": [
        (products.linear, tensor(4, 3), tensor(5, 3, seed=1), tensor(5, seed=2)),
        (products.linear, tensor(2, 4, 3), tensor(5, 3, seed=1)),
        (products.linear, tensor(3), tensor(5, 3, seed=1)),
    ],
    "matmul": [
        (products.matmul, tensor(3), tensor(3, seed=1)),
        (products.matmul, tensor(2, 4, 3), tensor(3, seed=1)),
    ],
    "addmm": [(products.addmm, tensor(5), tensor(2, 3), tensor(3, 5, seed=1))],
    "var": [(reductions.var, _any, 1), (reductions.std, _any)],
    "mean": [(reductions.mean, _any, (0,), True)],
    "clamp": [(pointwise.clamp, _any, -0.5, 0.75)],
    "lerp": [(pointwise.lerp, _any, _row, 0.3)],
    "shapes": [
        (shape.stack, [_any, tensor(2, 3, seed=4)], 1),
        (shape.tril, tensor(3, 3)),
        (indexing.getitem, tensor(5, 3), (slice(1, 4), 0)),
        (indexing.getitem, tensor(5, 3), integers(2, 2)),
    ],
}


@pytest.mark.parametrize(
    "name, args",
    _cases(COMPOSITES, {"relu", "gelu", "dropout", "layer_norm", "softmax", "cross_entropy", "linear"}),
)
def test_composite(seam, name, args):
    function, args = args[0], args[1:]
    inputs = tensors_of(args)
    compiled = check_against_eager(seam, lambda *ts: call_on(function, args)(*ts) + 0, *inputs)
    check_finite_differences(compiled, *inputs)
