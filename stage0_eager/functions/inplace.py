"""In-place functions: each computes its value and writes it with copy_, the one operator that mutates.

Input: a tensor to write to, then the arguments of the function without the underscore.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from stage0_eager import views
from stage0_eager.core import core as c
from stage0_eager.functions import (
    activations,
    einsum,
    elementary,
    elementwise_aliases,
    linalg,
    pointwise,
    rectifiers,
    reductions,
    scans,
    shape,
    special,
    special_values,
)
from stage0_eager.operator import Operator, operator, register
from stage0_eager.state import STATE
from stage0_eager.tensor import is_traced

if TYPE_CHECKING:  # the rows that a loop below makes

    def __getattr__(name: str) -> Any: ...


# name_ does what name does, into its first operand
IN_PLACE = (
    "add sub mul div pow clamp neg abs exp log sqrt rsqrt reciprocal sin cos tanh sigmoid relu floor ceil round trunc "
    "lerp addcmul addcdiv masked_fill floor_divide remainder erf erfc exp2 expm1 log2 log10 log1p tan asin acos atan "
    "sinh cosh asinh acosh atanh sign fmod atan2 copysign eq ne lt le gt ge logical_not logical_and logical_or "
    "logical_xor bitwise_not bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift square maximum "
    "minimum hypot xlogy logit sinc deg2rad rad2deg frac heaviside float_power ldexp nan_to_num clamp_min clamp_max "
    "mish hardswish hardsigmoid hardtanh relu6 elu selu celu threshold leaky_relu silu "
    "subtract multiply divide true_divide negative absolute arccos arcsin arctan arccosh arcsinh arctanh arctan2 "
    "lgamma digamma erfinv i0 igamma igammac nextafter gcd lcm cumprod cumsum addmv addr baddbmm addbmm addmm "
    "tril triu greater greater_equal less less_equal not_equal clip fix sgn"
).split()


def write(input: Any, value: Any) -> Any:
    """Write `value` into input's storage, on the tape where that is needed."""
    if STATE.grad_enabled and not is_traced(input):
        if input.requires_grad and input.is_leaf:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        if input._view is not None and (value.requires_grad or views.root(input).requires_grad):
            return views.write_through(input, value)
    return c.copy_(input, value)


def write_computed(input: Any, value: Any) -> Any:
    """As write, for a value computed from input: it must have input's shape and a dtype no higher in category."""
    if value.shape != input.shape:
        raise RuntimeError(
            f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(value.shape)}"
        )
    if value.dtype.category > input.dtype.category:
        raise RuntimeError(
            f"result type {value.dtype.name} can't be cast to the desired output type {input.dtype.name}"
        )
    return write(input, value)


# What their derivative needs is at most the result, or the other operand.
_SAVE_NO_INPUT = frozenset(
    "add sub subtract neg negative relu exp sqrt rsqrt tanh sigmoid floor ceil round trunc fix sign".split()
)


def kept(input: Any) -> Any:
    """input, or a copy of it where the tape will want the values that are about to be written over."""
    recorded = STATE.grad_enabled and not is_traced(input) and input.requires_grad
    return c.clone(input) if recorded else input


@operator
def copy_(input, src):
    """Write src, broadcast and cast, into input."""
    return write(input, src)


@operator
def zero_(input):
    """Set every element to 0."""
    return write(input, c.full((), 0, input.dtype, input.device))


@operator
def fill_(input, value):
    """Set every element to value."""
    return write(input, c.full((), value, input.dtype, input.device))


_MODULES = (
    pointwise, activations, elementary, special_values, rectifiers, elementwise_aliases, special, scans, reductions,
    einsum, linalg, shape,
)  # fmt: skip


def in_place_form(name: str, function: Operator) -> Operator:
    """The row `name_`: what `function` gives, written into its first argument."""
    signature = inspect.signature(function.bind)
    words, call = [], []
    starred = False
    for key, p in signature.parameters.items():
        if p.kind is p.KEYWORD_ONLY and not starred:
            words.append("*")
            starred = True
        words.append(key if p.default is p.empty else f"{key}={p.default!r}")
        call.append(f"{key}=kept(input)" if key == "input" and name not in _SAVE_NO_INPUT else f"{key}={key}")
    namespace: dict[str, Any] = {"function": function, "write": write_computed, "kept": kept}
    exec(
        f"def {name}_({', '.join(words)}):\n    return write(input, function({', '.join(call)}))\n",
        namespace,
    )
    body = namespace[f"{name}_"]
    body.__doc__ = f"{name}, written into input."
    return register(Operator(f"{name}_", "", body=body, mutates=("input",)))


def _plain_form(name: str) -> Operator:
    return next(vars(module)[name] for module in _MODULES if name in vars(module))


globals().update({f"{name}_": in_place_form(name, _plain_form(name)) for name in IN_PLACE})
for _op in (copy_, zero_, fill_):
    _op.mutates = ("input",)
