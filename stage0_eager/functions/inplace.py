"""In-place functions: each computes its value and writes it with copy_, the one operator that mutates.

Input: a tensor to write to, then the arguments of the function without the underscore.
"""

from __future__ import annotations

from typing import Any

from stage0_eager.autograd import views
from stage0_eager.derivatives.rules import zeros
from stage0_eager.functions import (
    aliases,
    comparison,
    complex_numbers,
    cumulative,
    pointwise,
    pointwise_composed,
    reductions,
    shape,
    special,
)
from stage0_eager.functions.linalg import einsum
from stage0_eager.functions.nn import activations, rectifiers
from stage0_eager.state import STATE
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import Operator, operator
from stage0_eager.table.registry import register
from stage0_eager.tensor import Tensor, is_recorded, is_traced, method, refresh, root
from stage_contracts import dtype as dt
from stage_contracts.core_metas import broadcast_shapes
from stage_contracts.symbolic import same_shape

INFERENCE_WRITTEN = (
    "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a normal "
    "tensor before doing inplace update."
)


def write(input: Any, value: Any) -> Any:
    """Write `value` into input's storage, on the tape where that is needed."""
    if not STATE.inference and input.is_inference():
        raise RuntimeError(INFERENCE_WRITTEN)
    if value.ndim and not _is_shaped(value, input):
        c.expand.meta(value.meta, input.shape)  # said of these shapes, whichever way the write goes
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


def _is_shaped(value: Any, input: Any) -> bool:
    """Whether the two have one shape; of open sizes nothing is asked."""
    return same_shape(value.shape, input.shape) if is_traced(input) else value.shape == input.shape


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


@method
@operator
def copy_(input, src, non_blocking=False):
    """Write src, broadcast, cast and moved, into input. non_blocking: as `Tensor.to` has it, to a GPU."""
    if not isinstance(src, Tensor):
        src = c.full((), src, dt.scalar_dtype(src), input.device)
    if src.device is not input.device and src.device != input.device:
        src = c.to_device(src, input.device, bool(non_blocking and input.is_cuda))
    if not _is_shaped(src, input):
        whole = broadcast_shapes(input.shape, src.shape)
        if not same_shape(whole, input.shape):
            raise RuntimeError(
                f"output with shape {list(input.shape)} doesn't match the broadcast shape {list(whole)}"
            )
    return write(input, src)


@method
@operator
def zero_(input):
    """Set every element to 0."""
    return write(input, c.full((), 0, input.dtype, input.device))


@method
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


@method
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


def in_place_form(name: str, function: Operator) -> Operator:
    """The row `name_`: what `function` gives, written into its first argument."""
    code, last = function.bind.__code__, function.bind.__defaults__ or ()
    defaults = dict(zip(function.params[code.co_argcount - len(last) : code.co_argcount], last, strict=True))
    defaults |= function.bind.__kwdefaults__ or {}
    words = [f"{key}={defaults[key]!r}" if key in defaults else key for key in function.params]
    words[code.co_argcount : code.co_argcount] = ["*"] * (code.co_kwonlyargcount > 0)
    call = [f"{key}={key}" for key in function.params]
    if name not in _SAVE_NO_INPUT:
        call[0] = f"kept(input, ({''.join(f'{key}, ' for key in function.params[1:])}))"
    namespace: dict[str, Any] = {"function": function, "write": write_computed, "kept": kept}
    exec(
        f"def {name}_({', '.join(words)}):\n    return write(input, function({', '.join(call)}))\n",
        namespace,
    )
    body = namespace[f"{name}_"]
    body.__doc__ = f"{name}, written into input."
    return register(Operator(f"{name}_", "", body=body, mutates=("input",)))


# ---- name_ does what name does, into its first operand; of activations torch has no methods ----------------------

add_ = method(in_place_form("add", pointwise.add))
sub_ = method(in_place_form("sub", pointwise.sub))
mul_ = method(in_place_form("mul", pointwise.mul))
div_ = method(in_place_form("div", pointwise.div))
pow_ = method(in_place_form("pow", pointwise.pow))
clamp_ = method(in_place_form("clamp", pointwise.clamp))
neg_ = method(in_place_form("neg", pointwise.neg))
abs_ = method(in_place_form("abs", pointwise.abs))
exp_ = method(in_place_form("exp", pointwise.exp))
log_ = method(in_place_form("log", pointwise.log))
sqrt_ = method(in_place_form("sqrt", pointwise.sqrt))
rsqrt_ = method(in_place_form("rsqrt", pointwise.rsqrt))
reciprocal_ = method(in_place_form("reciprocal", pointwise.reciprocal))
sin_ = method(in_place_form("sin", pointwise.sin))
cos_ = method(in_place_form("cos", pointwise.cos))
tanh_ = method(in_place_form("tanh", pointwise.tanh))
sigmoid_ = method(in_place_form("sigmoid", pointwise.sigmoid))
relu_ = method(in_place_form("relu", activations.relu))
floor_ = method(in_place_form("floor", pointwise.floor))
ceil_ = method(in_place_form("ceil", pointwise.ceil))
round_ = method(in_place_form("round", pointwise.round))
trunc_ = method(in_place_form("trunc", pointwise.trunc))
lerp_ = method(in_place_form("lerp", pointwise.lerp))
addcmul_ = method(in_place_form("addcmul", pointwise.addcmul))
addcdiv_ = method(in_place_form("addcdiv", pointwise.addcdiv))
masked_fill_ = method(in_place_form("masked_fill", pointwise.masked_fill))
floor_divide_ = method(in_place_form("floor_divide", pointwise.floor_divide))
remainder_ = method(in_place_form("remainder", pointwise.remainder))
erf_ = method(in_place_form("erf", pointwise.erf))
erfc_ = method(in_place_form("erfc", pointwise.erfc))
exp2_ = method(in_place_form("exp2", pointwise.exp2))
expm1_ = method(in_place_form("expm1", pointwise.expm1))
log2_ = method(in_place_form("log2", pointwise.log2))
log10_ = method(in_place_form("log10", pointwise.log10))
log1p_ = method(in_place_form("log1p", pointwise.log1p))
tan_ = method(in_place_form("tan", pointwise.tan))
asin_ = method(in_place_form("asin", pointwise.asin))
acos_ = method(in_place_form("acos", pointwise.acos))
atan_ = method(in_place_form("atan", pointwise.atan))
sinh_ = method(in_place_form("sinh", pointwise.sinh))
cosh_ = method(in_place_form("cosh", pointwise.cosh))
asinh_ = method(in_place_form("asinh", pointwise.asinh))
acosh_ = method(in_place_form("acosh", pointwise.acosh))
atanh_ = method(in_place_form("atanh", pointwise.atanh))
sign_ = method(in_place_form("sign", pointwise.sign))
fmod_ = method(in_place_form("fmod", pointwise.fmod))
atan2_ = method(in_place_form("atan2", pointwise.atan2))
copysign_ = method(in_place_form("copysign", pointwise.copysign))
eq_ = method(in_place_form("eq", pointwise.eq))
ne_ = method(in_place_form("ne", pointwise.ne))
lt_ = method(in_place_form("lt", pointwise.lt))
le_ = method(in_place_form("le", pointwise.le))
gt_ = method(in_place_form("gt", pointwise.gt))
ge_ = method(in_place_form("ge", pointwise.ge))
logical_not_ = method(in_place_form("logical_not", pointwise.logical_not))
logical_and_ = method(in_place_form("logical_and", pointwise.logical_and))
logical_or_ = method(in_place_form("logical_or", pointwise.logical_or))
logical_xor_ = method(in_place_form("logical_xor", pointwise.logical_xor))
bitwise_not_ = method(in_place_form("bitwise_not", pointwise.bitwise_not))
bitwise_and_ = method(in_place_form("bitwise_and", pointwise.bitwise_and))
bitwise_or_ = method(in_place_form("bitwise_or", pointwise.bitwise_or))
bitwise_xor_ = method(in_place_form("bitwise_xor", pointwise.bitwise_xor))
bitwise_left_shift_ = method(in_place_form("bitwise_left_shift", pointwise.bitwise_left_shift))
bitwise_right_shift_ = method(in_place_form("bitwise_right_shift", pointwise.bitwise_right_shift))
square_ = method(in_place_form("square", pointwise.square))
maximum_ = method(in_place_form("maximum", pointwise.maximum))
minimum_ = method(in_place_form("minimum", pointwise.minimum))
hypot_ = method(in_place_form("hypot", pointwise_composed.hypot))
xlogy_ = method(in_place_form("xlogy", pointwise_composed.xlogy))
logit_ = method(in_place_form("logit", pointwise_composed.logit))
sinc_ = method(in_place_form("sinc", pointwise_composed.sinc))
deg2rad_ = method(in_place_form("deg2rad", pointwise_composed.deg2rad))
rad2deg_ = method(in_place_form("rad2deg", pointwise_composed.rad2deg))
frac_ = method(in_place_form("frac", pointwise_composed.frac))
heaviside_ = method(in_place_form("heaviside", pointwise_composed.heaviside))
ldexp_ = method(in_place_form("ldexp", pointwise_composed.ldexp))
nan_to_num_ = method(in_place_form("nan_to_num", comparison.nan_to_num))
clamp_min_ = method(in_place_form("clamp_min", comparison.clamp_min))
clamp_max_ = method(in_place_form("clamp_max", comparison.clamp_max))
mish_ = in_place_form("mish", rectifiers.mish)
hardswish_ = in_place_form("hardswish", rectifiers.hardswish)
hardsigmoid_ = in_place_form("hardsigmoid", rectifiers.hardsigmoid)
hardtanh_ = in_place_form("hardtanh", rectifiers.hardtanh)
relu6_ = in_place_form("relu6", rectifiers.relu6)
elu_ = in_place_form("elu", rectifiers.elu)
selu_ = in_place_form("selu", rectifiers.selu)
celu_ = in_place_form("celu", rectifiers.celu)
threshold_ = in_place_form("threshold", rectifiers.threshold)
leaky_relu_ = in_place_form("leaky_relu", activations.leaky_relu)
silu_ = in_place_form("silu", activations.silu)
subtract_ = method(in_place_form("subtract", aliases.subtract))
multiply_ = method(in_place_form("multiply", aliases.multiply))
divide_ = method(in_place_form("divide", aliases.divide))
true_divide_ = method(in_place_form("true_divide", aliases.true_divide))
negative_ = method(in_place_form("negative", aliases.negative))
absolute_ = method(in_place_form("absolute", aliases.absolute))
arccos_ = method(in_place_form("arccos", aliases.arccos))
arcsin_ = method(in_place_form("arcsin", aliases.arcsin))
arctan_ = method(in_place_form("arctan", aliases.arctan))
arccosh_ = method(in_place_form("arccosh", aliases.arccosh))
arcsinh_ = method(in_place_form("arcsinh", aliases.arcsinh))
arctanh_ = method(in_place_form("arctanh", aliases.arctanh))
arctan2_ = method(in_place_form("arctan2", aliases.arctan2))
lgamma_ = method(in_place_form("lgamma", special.lgamma))
digamma_ = method(in_place_form("digamma", special.digamma))
erfinv_ = method(in_place_form("erfinv", special.erfinv))
i0_ = method(in_place_form("i0", special.i0))
igamma_ = method(in_place_form("igamma", special.igamma))
igammac_ = method(in_place_form("igammac", special.igammac))
nextafter_ = method(in_place_form("nextafter", special.nextafter))
gcd_ = method(in_place_form("gcd", special.gcd))
lcm_ = method(in_place_form("lcm", special.lcm))
cumprod_ = method(in_place_form("cumprod", cumulative.cumprod))
cumsum_ = method(in_place_form("cumsum", reductions.cumsum))
addmv_ = method(in_place_form("addmv", einsum.addmv))
addr_ = method(in_place_form("addr", einsum.addr))
baddbmm_ = method(in_place_form("baddbmm", einsum.baddbmm))
addbmm_ = method(in_place_form("addbmm", einsum.addbmm))
addmm_ = method(in_place_form("addmm", einsum.addmm))
tril_ = method(in_place_form("tril", shape.tril))
triu_ = method(in_place_form("triu", shape.triu))
greater_ = method(in_place_form("greater", aliases.greater))
greater_equal_ = method(in_place_form("greater_equal", aliases.greater_equal))
less_ = method(in_place_form("less", aliases.less))
less_equal_ = method(in_place_form("less_equal", aliases.less_equal))
not_equal_ = method(in_place_form("not_equal", aliases.not_equal))
clip_ = method(in_place_form("clip", aliases.clip))
fix_ = method(in_place_form("fix", aliases.fix))
conj_physical_ = method(in_place_form("conj_physical", complex_numbers.conj_physical))
sgn_ = method(in_place_form("sgn", complex_numbers.sgn))
mvlgamma_ = method(in_place_form("mvlgamma", special.mvlgamma))
for _op in (copy_, zero_, fill_, float_power_):
    _op.mutates = ("input",)
