"""In-place functions: each computes its value and writes it with copy_, the one operator that mutates.

Input: a tensor to write to, then the arguments of the function without the underscore.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

from stage0_eager.autograd import views
from stage0_eager.derivatives.rules import zeros
from stage0_eager.functions import (
    aliases,
    comparison,
    cumulative,
    pointwise,
    pointwise_composed,
    reductions,
    shape,
    special,
)
from stage0_eager.functions.linalg import einsum, products
from stage0_eager.functions.nn import activations, rectifiers
from stage0_eager.state import STATE
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import Operator, operator
from stage0_eager.table.registry import register
from stage0_eager.tensor import Tensor, is_recorded, is_traced, refresh, root
from stage_contracts import dtype as dt

if TYPE_CHECKING:  # the rows that a loop below makes

    def __getattr__(name: str) -> Any: ...


# name_ does what name does, into its first operand
IN_PLACE = (
    "add sub mul div pow clamp neg abs exp log sqrt rsqrt reciprocal sin cos tanh sigmoid relu floor ceil round trunc "
    "lerp addcmul addcdiv masked_fill floor_divide remainder erf erfc exp2 expm1 log2 log10 log1p tan asin acos atan "
    "sinh cosh asinh acosh atanh sign fmod atan2 copysign eq ne lt le gt ge logical_not logical_and logical_or "
    "logical_xor bitwise_not bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift square maximum "
    "minimum hypot xlogy logit sinc deg2rad rad2deg frac heaviside ldexp nan_to_num clamp_min clamp_max "
    "mish hardswish hardsigmoid hardtanh relu6 elu selu celu threshold leaky_relu silu "
    "subtract multiply divide true_divide negative absolute arccos arcsin arctan arccosh arcsinh arctanh arctan2 "
    "lgamma digamma erfinv i0 igamma igammac nextafter gcd lcm cumprod cumsum addmv addr baddbmm addbmm addmm "
    "tril triu greater greater_equal less less_equal not_equal clip fix sgn"
).split()


def write(input: Any, value: Any) -> Any:
    """Write `value` into input's storage, on the tape where that is needed."""
    if not STATE.inference and input.is_inference():
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a "
            "normal tensor before doing inplace update."
        )
    if STATE.grad_enabled and not is_recorded(input):
        if input.requires_grad and input.is_leaf:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        if input._view is not None:
            refresh(input)
            if value.requires_grad or input.requires_grad or root(input).requires_grad:
                return views.write_through(input, value)
        if value.requires_grad or input.requires_grad:
            input._written += 1  # views that there are of it take the new history when they are next used
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


def kept(input: Any, others: tuple = ()) -> Any:
    """What a derivative may save of a tensor that is about to be written: a copy while the tape runs."""
    if not STATE.grad_enabled or is_recorded(input):
        return input
    # of a batch inside vmap the tape around the vmap would have to be asked
    differentiated = is_traced(input) or any(getattr(t, "requires_grad", False) for t in (input, *others))
    return c.clone(input) if differentiated else input


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
    """Set every element to value, a number or a 0-d tensor."""
    if isinstance(value, Tensor):
        if value.ndim:
            raise RuntimeError(
                f"fill_ only supports 0-dimension value tensor but got tensor with {value.ndim} dimensions."
            )
        return write(input, value)
    return write(input, c.full((), value, input.dtype, input.device))


@operator
def float_power_(input, exponent):
    """float_power, written into input, which has to be float64."""
    if input.dtype is not dt.float64:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {input.dtype.name} but the operation's result requires "
            "dtype float64"
        )
    return write_computed(input, pointwise_composed.float_power(kept(input, (exponent,)), exponent))


@operator
def assign_data(input, data):
    """data's elements with input's place on the tape: what input is after a write that autograd did not see."""
    return c.clone(data)


assign_data.derivative(input=lambda g: g)


@operator
def overwrite(input, data):
    """data's elements where input's were: input stays on the tape, with gradient 0, as under copy_."""
    return c.clone(data)


overwrite.derivative(input=lambda g, input_meta: zeros(input_meta), data=lambda g: g)


_MODULES = (
    pointwise, activations, pointwise_composed, comparison, rectifiers, aliases, special, cumulative, reductions,
    einsum, products, shape,
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
        call.append(f"{key}={key}")
    if name not in _SAVE_NO_INPUT:
        call[0] = f"kept(input, ({''.join(f'{key}, ' for key in list(signature.parameters)[1:])}))"
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
for _op in (copy_, zero_, fill_, float_power_):
    _op.mutates = ("input",)
