"""Elementwise operators: one table per arity, with NumPy's counterpart and the domain of its operands.

Input: none. Every row gets the same shapes; what is special about one follows its table.
"""

import numpy as np
from scipy import special

from tests.oracle.spec import (
    ALL,
    FLOATS,
    INTEGERS,
    INTEGRAL,
    NUMBERS,
    B,
    I,
    Invalid,
    Operand,
    S,
    T,
    V,
    declare,
)

TEXT = Invalid(S("text"), TypeError)
SHAPES = Invalid(S(T(2, 3), T(4)), RuntimeError, "must match the size of tensor b")
SHAPES_OF_INTEGERS = Invalid(SHAPES.sample, RuntimeError, SHAPES.says, dtype="int64")
NO_FLOATS = Invalid(S(T(3), T(3)), RuntimeError, "")


def erf_complement(x):
    return special.erfc(x)


def sinc(x):
    return np.sinc(x)


def logit(x, eps=None):
    return special.logit(x if eps is None else np.clip(x, eps, 1 - eps))


def sign(x):
    return x if x.dtype == bool else np.sign(np.where(np.isnan(x), 0, x))


def same(x):
    return x


def rounded(function):
    """floor and the like of integers and bools are the values themselves."""
    return lambda x: function(x) if x.dtype.kind == "f" else x


# name: (reference, low, high, dtypes)
UNARY = {
    "exp": (np.exp, -3, 3, ALL), "exp2": (np.exp2, -3, 3, ALL), "expm1": (np.expm1, -3, 3, ALL),
    "log": (np.log, 0.1, 9, ALL), "log2": (np.log2, 0.1, 9, ALL), "log10": (np.log10, 0.1, 9, ALL),
    "log1p": (np.log1p, -0.9, 9, ALL), "sqrt": (np.sqrt, 0.1, 9, ALL), "square": (np.square, -3, 3, NUMBERS),
    "rsqrt": (lambda x: 1 / np.sqrt(x.astype(float)), 0.1, 9, ALL),
    "reciprocal": (lambda x: 1 / x.astype(float), 0.5, 4, ALL),
    "sin": (np.sin, -3, 3, ALL), "cos": (np.cos, -3, 3, ALL), "tan": (np.tan, -1.4, 1.4, ALL),
    "asin": (np.arcsin, -0.95, 0.95, ALL), "acos": (np.arccos, -0.95, 0.95, ALL), "atan": (np.arctan, -3, 3, ALL),
    "sinh": (np.sinh, -3, 3, ALL), "cosh": (np.cosh, -3, 3, ALL), "tanh": (np.tanh, -3, 3, ALL),
    "asinh": (np.arcsinh, -3, 3, ALL), "acosh": (np.arccosh, 1.1, 9, ALL), "atanh": (np.arctanh, -0.95, 0.95, ALL),
    "erf": (special.erf, -2, 2, ALL), "erfc": (special.erfc, -2, 2, ALL), "sigmoid": (special.expit, -3, 3, ALL),
    "sinc": (np.sinc, -3, 3, ALL), "deg2rad": (np.deg2rad, -180, 180, ALL), "rad2deg": (np.rad2deg, -3, 3, ALL),
    "entr": (special.entr, 0.1, 3, ALL), "logit": (logit, 0.05, 0.95, ALL),
    "abs": (np.abs, -3, 3, ALL), "neg": (np.negative, -3, 3, NUMBERS), "positive": (same, -3, 3, NUMBERS),
    "sign": (sign, -3, 3, ALL), "floor": (rounded(np.floor), -3, 3, ALL), "ceil": (rounded(np.ceil), -3, 3, ALL),
    "trunc": (rounded(np.trunc), -3, 3, ALL), "frac": (lambda x: x - np.trunc(x), -3, 3, FLOATS),
    "signbit": (lambda x: np.zeros(x.shape, bool) if x.dtype == bool else np.signbit(x), -3, 3, ALL),
    "isnan": (np.isnan, -3, 3, ALL), "isinf": (np.isinf, -3, 3, ALL), "isfinite": (np.isfinite, -3, 3, ALL),
    "isposinf": (lambda x: x == np.inf, -3, 3, ALL), "isneginf": (lambda x: x == -np.inf, -3, 3, ALL),
    "isreal": (np.isreal, -3, 3, ALL), "logical_not": (np.logical_not, -3, 3, ALL),
    "bitwise_not": (np.invert, -3, 3, INTEGRAL),
}  # fmt: skip

_EDGES = {
    "sinc": {"NumPy": "pi * x overflows for the largest floats, as in torch"},
}


def counted(function):
    """A reference to which integers and bools are float32 numbers, as they are to torch (NumPy would choose others)."""

    def reference(*operands, **options):
        wide = [
            x.astype(np.float32).astype(float) if isinstance(x, np.ndarray) and x.dtype.kind in "iub" else x
            for x in operands
        ]
        return function(*wide, **options)

    return reference


for _name, (_function, _low, _high, _dtypes) in UNARY.items():
    if isinstance(_function, np.ufunc) and _name not in (
        "abs",
        "neg",
        "square",
        "logical_not",
        "bitwise_not",
    ):
        _function = counted(_function)
    _x = {"low": _low, "high": _high}
    declare(
        _name, _function, S(T(3, 4, **_x)), S(T(2, 1, 3, **_x)), S(T(**_x)), S(T(0, 3, **_x)),
        dtypes=_dtypes, elementwise=True, invalid=(TEXT,), scale=1 if _name in ("sinc", "entr", "logit") else None,
        edge_exceptions=_EDGES.get(_name, {}),
        torch=f"Tensor.{_name}" if _name in ("tanh", "sigmoid") else None,  # nn.functional's are in Python
    )  # fmt: skip

ROUNDING = {"units": 8}  # a composite rounds between its steps in half precision

# ---- activations: the formula in NumPy -------------------------------------------------------------------------


def elu(x, alpha=1.0):
    return np.where(x > 0, x, alpha * np.expm1(np.minimum(x, 0)))


def selu(x):
    return 1.0507009873554805 * elu(x, 1.6732632423543772)


def gelu(x, approximate="none"):
    if approximate == "none":
        return x * special.ndtr(x)
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def softplus(x, beta=1, threshold=20):
    return np.where(x * beta > threshold, x, np.logaddexp(0, beta * x) / beta)


def hardtanh(x, min_val=-1.0, max_val=1.0):
    return np.clip(x, min_val, max_val)


def hardshrink(x, lambd=0.5):
    return np.where((x >= -lambd) & (x <= lambd), 0, x)


def softshrink(x, lambd=0.5):
    return np.where(np.isnan(x), x, np.where(x > lambd, x - lambd, np.where(x < -lambd, x + lambd, 0)))


# name: (reference, further calls, whether edge values are walked)
ACTIVATIONS = {
    "relu": (lambda x: np.maximum(x, 0), ()),
    "leaky_relu": (lambda x, s=0.01: np.where(x > 0, x, s * x), (0.2,)),
    "gelu": (gelu, ("tanh",)),
    "silu": (lambda x: x * special.expit(x), ()),
    "softplus": (softplus, (2, 3)),
    "softsign": (lambda x: x / (1 + np.abs(x)), ()),
    "mish": (lambda x: x * np.tanh(softplus(x)), ()),
    "hardsigmoid": (lambda x: np.clip(x + 3, 0, 6) / 6, ()),
    "hardswish": (lambda x: x * np.clip(x + 3, 0, 6) / 6, ()),
    "hardtanh": (hardtanh, (-0.5, 2.0)),
    "relu6": (lambda x: np.clip(x, 0, 6), ()),
    "elu": (elu, (0.5,)),
    "selu": (selu, ()),
    "celu": (lambda x, a=1.0: np.maximum(x, 0) + np.minimum(0, a * np.expm1(x / a)), (0.5,)),
    "logsigmoid": (lambda x: -np.logaddexp(0, -x), ()),
    "tanhshrink": (lambda x: x - np.tanh(x), ()),
    "hardshrink": (hardshrink, (1.0,)),
    "softshrink": (softshrink, (1.0,)),
    "threshold": (lambda x, t, v: np.where(x <= t, v, x), (0.5, -2.0)),
}

# What torch writes in Python refuses with whatever its first step raises; here all say TypeError.
_IN_PYTHON = ("softsign", "tanhshrink")

for _name, (_function, _options) in ACTIVATIONS.items():
    _first = _options if _name == "threshold" else ()
    _more = [{"approximate": _options[0]}] if _name == "gelu" else []
    _calls = [S(T(3, 4), *_options)] if _options and _name != "gelu" else [S(T(3, 4), **k) for k in _more]
    declare(
        _name, _function, S(T(3, 4), *_first), *_calls, S(T(), *_first), S(T(0, 3), *_first),
        elementwise=True, units=8, scale=1,
        exceptions={"torch's derivative": "torch multiplies float64 by a float32 1/6"} if _name == "hardsigmoid" else {},
        invalid=(Invalid(S("text", *_first), TypeError),) if _name not in _IN_PYTHON else (),
    )  # fmt: skip

# ---- two operands ----------------------------------------------------------------------------------------------


def floor_divide(x, y):
    return np.floor_divide(x, y)


def shift(function):
    """Shifts by less than 0, or by all the bits, shift everything out; int64 references have more bits than they."""

    def shifted(x, y):
        return function(x, np.clip(y, 0, 63))

    return shifted


def float_power(x, y):
    return np.power(np.asarray(x, float), y)


def xlogy(x, y):
    return np.where(np.isnan(y), np.nan, special.xlogy(x, y))


def heaviside(x, y):
    return (
        np.where(x == 0, y, np.where(x < 0, 0, 1))
        if x.dtype.kind != "f"
        else np.where(np.isnan(x), 0, np.heaviside(x, y))
    )


_D = {"nonzero": True}
# name: (reference, dtypes, options of the first operand, options of the second)
BINARY = {
    "mul": (np.multiply, ALL, {}, {}), "maximum": (np.maximum, ALL, {}, {}), "minimum": (np.minimum, ALL, {}, {}),
    "fmax": (np.fmax, ALL, {}, {}), "fmin": (np.fmin, ALL, {}, {}),
    "atan2": (np.arctan2, ALL, {}, {}), "copysign": (np.copysign, ALL, {}, {}),
    "hypot": (np.hypot, FLOATS, {}, {}), "logaddexp": (np.logaddexp, FLOATS, {}, {}),
    "logaddexp2": (np.logaddexp2, FLOATS, {}, {}),
    "floor_divide": (floor_divide, NUMBERS, {}, {"low": 0.5, **_D}),
    "remainder": (np.remainder, NUMBERS, {}, {"low": 0.5, **_D}),
    "fmod": (np.fmod, NUMBERS, {}, {"low": 0.5, **_D}),
    "xlogy": (xlogy, ALL, {}, {"low": 0.1}), "xlog1py": (special.xlog1py, ALL, {}, {"low": 0.1}),
    "float_power": (float_power, ALL, {"low": 0.1}, {}),
    "ldexp": (lambda x, y: x * np.exp2(y), ALL, {}, {}),
    "heaviside": (heaviside, ALL, {"grad": False}, {"grad": False}),
    "eq": (np.equal, ALL, {}, {}), "ne": (np.not_equal, ALL, {}, {}), "lt": (np.less, ALL, {}, {}),
    "le": (np.less_equal, ALL, {}, {}), "gt": (np.greater, ALL, {}, {}), "ge": (np.greater_equal, ALL, {}, {}),
    "logical_and": (np.logical_and, ALL, {}, {}), "logical_or": (np.logical_or, ALL, {}, {}),
    "logical_xor": (np.logical_xor, ALL, {}, {}),
    "bitwise_and": (np.bitwise_and, INTEGRAL, {}, {}), "bitwise_or": (np.bitwise_or, INTEGRAL, {}, {}),
    "bitwise_xor": (np.bitwise_xor, INTEGRAL, {}, {}),
    "bitwise_left_shift": (shift(np.left_shift), INTEGERS, {}, {"ints": (0, 6)}),
    "bitwise_right_shift": (shift(np.right_shift), INTEGERS, {}, {"ints": (0, 6)}),
}  # fmt: skip

_TAKES_NUMBERS = set(BINARY) - {"maximum", "minimum", "fmax", "fmin", "atan2", "hypot", "logaddexp", "logaddexp2",
                                "heaviside", "ldexp", "logical_and", "logical_or", "logical_xor", "xlogy", "xlog1py"}  # fmt: skip

for _name, (_function, _dtypes, _a, _b) in BINARY.items():
    _number = [S(T(3, 4, **_a), 2)] if _name in _TAKES_NUMBERS else []
    if _D.items() <= _b.items():
        _number.append(S(T(0, 3, **_a), 0))  # of no elements none is divided by zero
    if _name in ("atan2", "copysign", "xlogy", "xlog1py", "ldexp"):
        _function = counted(_function)
    declare(
        _name, _function, S(T(3, 4, **_a), T(3, 4, **_b)), S(T(2, 1, 4, **_a), T(3, 1, **_b)), *_number,
        S(T(**_a), T(3, **_b)), S(T(0, 3, **_a), T(3, **_b)),
        dtypes=_dtypes, elementwise=True, units=8, scale=1 if _name.startswith("logadd") else None,
        edge_exceptions={"NumPy": "2 ** (other / 2) overflows in half precision", "torch": "2 ** other overflows first, and 0 times it is NaN; here only the result may overflow"} if _name == "ldexp" else {},
        invalid=(SHAPES_OF_INTEGERS if _dtypes in (INTEGRAL, INTEGERS) else SHAPES, Invalid(S("text", T(3)), TypeError)),
    )  # fmt: skip


def logical_add(x, y, alpha=1):
    both = x.dtype == bool and np.asarray(y).dtype == bool
    return np.logical_or(x, y) if both else x + alpha * y


def divided(x, y, rounding_mode=None):
    exact = np.true_divide(x, y)
    if rounding_mode is None:
        return exact
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    return (
        np.trunc(exact)
        if np.asarray(x).dtype.kind == "f"
        else (np.abs(x) // np.abs(y)) * np.sign(x) * np.sign(y)
    )


declare(
    "add", logical_add, S(T(3, 4), T(3, 4)), S(T(2, 1, 4), T(3, 1), alpha=2), S(T(3, 4), 2), S(T(), T(0, 3)),
    S(T(3, 4), 2, alpha=3), S(T(3, 4), B(3, 4), alpha=2), S(T(3, 4), True, alpha=2),
    dtypes=ALL, elementwise=True, invalid=(SHAPES,),
    exceptions={},
)  # fmt: skip
declare(
    "sub", lambda x, y, alpha=1: x - alpha * y,
    S(T(3, 4), T(3, 4)), S(T(2, 1, 4), T(3, 1), alpha=2), S(T(3, 4), 2), S(T(), T(0, 3)), S(T(3, 4), 2, alpha=3),
    dtypes=NUMBERS, elementwise=True, invalid=(SHAPES, Invalid(S(T(3), T(3)), RuntimeError, "", dtype="bool")),
)  # fmt: skip
declare(
    "div", divided,
    S(T(3, 4), T(3, 4, low=0.5, nonzero=True)), S(T(2, 1, 4), T(3, 1, low=0.5, nonzero=True), rounding_mode="floor"),
    S(T(3, 4), 2), S(T(3, 4), T(3, 4, low=0.5, nonzero=True), rounding_mode="trunc"), S(T(), T(0, 3)),
    dtypes=NUMBERS, elementwise=True,
    invalid=(SHAPES, Invalid(S(T(3), T(3), rounding_mode="up"), RuntimeError, "rounding_mode")),
)  # fmt: skip
declare(
    "pow", np.power, S(T(3, 4, low=0.1), T(3, 4, ints=(0, 5))), S(T(3, 4), 2), S(T(3, 4), 3), S(T(3, 4, low=0.2), 0.5),
    S(T(2, 1, 4, low=0.1), T(3, 1, ints=(0, 3))), S(T(3, low=1, high=3), 0), S(T(low=0.1), T(0, 3)),
    dtypes=FLOATS, elementwise=True, invalid=(SHAPES,),
)  # fmt: skip
declare("rsub", lambda x, y: y - x, S(T(3, 4), T(3, 4)), S(T(3, 4), 2), S(T(0, 3), T(3)),
        dtypes=NUMBERS, elementwise=True, invalid=(SHAPES,))  # fmt: skip
declare("rdiv", lambda x, y: np.true_divide(y, x), S(T(3, 4, low=0.5), T(3, 4)), S(T(3, 4, low=0.5), 2),
        dtypes=NUMBERS, elementwise=True, torch=lambda x, y: y / x, invalid=(SHAPES,))  # fmt: skip
declare("rpow", lambda x, y: np.power(float(y) if x.dtype.kind == "f" else y, x), S(T(3, 4, ints=(0, 4)), 2), S(T(2, 0), 3),
        elementwise=True, torch=lambda x, y: y**x, invalid=(Invalid(S("text", "text"), TypeError),))  # fmt: skip

for _name, _function, _law, _dtypes in (
    ("rfloor_divide", lambda x, y: floor_divide(y, x), {"low": 0.5, **_D}, NUMBERS),
    ("rremainder", lambda x, y: np.remainder(y, x), {"low": 0.5, **_D}, NUMBERS),
    ("rleft_shift", lambda x, y: shift(np.left_shift)(np.asarray(y, x.dtype), x), {"ints": (0, 6)}, INTEGERS),
    (
        "rright_shift",
        lambda x, y: shift(np.right_shift)(np.asarray(y, x.dtype), x),
        {"ints": (0, 6)},
        INTEGERS,
    ),
):
    _python = {"rfloor_divide": lambda x, y: y // x, "rremainder": lambda x, y: y % x,
               "rleft_shift": lambda x, y: y << x, "rright_shift": lambda x, y: y >> x}[_name]  # fmt: skip
    declare(_name, _function, S(T(3, 4, **_law), T(3, 4)), S(T(3, 4, **_law), 3), S(T(0, 3, **_law), T(3)), dtypes=_dtypes,
            elementwise=True, torch=_python, invalid=(SHAPES_OF_INTEGERS if _dtypes is INTEGERS else SHAPES,))  # fmt: skip

# ---- three operands, bounds, casts -----------------------------------------------------------------------------


def clamp(x, min=None, max=None):
    low = (
        x
        if min is None
        else np.where(x < min, min, np.where(np.isnan(min), np.nan, x))
        if x.dtype.kind == "f"
        else np.maximum(x, min)
    )
    if max is None:
        return low
    return (
        np.where(low > max, max, np.where(np.isnan(max), np.nan, low))
        if x.dtype.kind == "f"
        else np.minimum(low, max)
    )


declare("where", np.where, S(B(3, 4), T(3, 4), T(3, 4)), S(B(4), T(2, 3, 1), T(3, 4)), S(B(3, 4), T(3, 4), 1),
        S(B(), T(3), T()), S(B(0, 3), T(3), T()), dtypes=ALL, elementwise=True,
        invalid=(Invalid(S(B(2), T(3), T(3)), RuntimeError, "must match"),))  # fmt: skip
declare("masked_fill", lambda x, m, v: np.where(m, np.asarray(v).astype(x.dtype), x), S(T(3, 4), B(3, 4), 2), S(T(3, 4), B(4), 0),
        S(T(2, 3), B(3), T()), S(T(0, 3), B(3), 1), dtypes=ALL, elementwise=True,
        invalid=(Invalid(S(T(2), B(3), 1.0), RuntimeError, "must match"),))  # fmt: skip
declare("lerp", lambda x, y, w: x + w * (y - x), S(T(3, 4), T(3, 4), 0.3), S(T(3, 4), T(4), T(3, 1, low=0, high=1)),
        S(T(3, 4), T(3, 4), 0.8), S(T(0, 3), T(3), 0.5), elementwise=True, edges=False, units=8, scale=3, invalid=(Invalid(S(T(2), T(3), 0.5), RuntimeError, "must match"),),
        )  # fmt: skip
declare("addcmul", lambda x, a, b, value=1: x + value * a * b, S(T(3, 4), T(3, 4), T(3, 4)), S(T(3, 4), T(4), T(3, 1), value=2),
        S(T(0, 3), T(3), T(3)), dtypes=NUMBERS, elementwise=True, edges=False, units=8, scale=10, invalid=(Invalid(S(T(2), T(3), T(3)), RuntimeError, "must match"),),
        )  # fmt: skip
declare("addcdiv", lambda x, a, b, value=1: x + value * a / b, S(T(3, 4), T(3, 4), T(3, 4, low=0.5)),
        S(T(3, 4), T(4), T(3, 1, low=0.5), value=0.5), S(T(0, 3), T(3), T(3)), elementwise=True, edges=False, units=8, scale=10,
        invalid=(Invalid(S(T(2), T(3), T(3)), RuntimeError, "must match"),))  # fmt: skip
declare("clamp", clamp, S(T(3, 4), 1, 2), S(T(3, 4), min=0), S(T(3, 4), max=1), S(T(3, 4), T(4), T(3, 1)), S(T(0, 3), 0, 1),
        dtypes=NUMBERS, elementwise=True, invalid=(Invalid(S(T(3)), RuntimeError, "t least one of"),))  # fmt: skip
declare("clamp_min", clamp, S(T(3, 4), 1), S(T(3, 4), T(4)), S(T(0, 3), 0), dtypes=NUMBERS, elementwise=True,
        invalid=(SHAPES,))  # fmt: skip
declare("clamp_max", lambda x, m: clamp(x, max=m), S(T(3, 4), 1), S(T(3, 4), T(4)), S(T(0, 3), 0), dtypes=NUMBERS, elementwise=True,
        invalid=(SHAPES,))  # fmt: skip
declare("round", lambda x, decimals=0: np.round(x, decimals), S(T(3, 4)), S(T(3, 4), decimals=1), S(T(3, 4, high=900), decimals=-2), S(T(0, 3)),
        dtypes=FLOATS, elementwise=True, units=16, invalid=(TEXT,))  # fmt: skip
declare("nan_to_num", lambda x, *a: np.nan_to_num(x, True, *a), S(T(3, 4)), S(V([np.nan, np.inf, -np.inf, 1.5]), 1.0, 2.0, -2.0), S(T(0, 3)),
        dtypes=ALL, elementwise=True, edges=False, invalid=(TEXT,))  # fmt: skip
declare("isclose", lambda x, y, rtol=1e-5, atol=1e-8, equal_nan=False: np.isclose(x, y, rtol, atol, equal_nan),
        S(T(3, 4), T(3, 4)), S(T(3, 4), T(4), rtol=0.5), S(V([1.0, np.nan]), V([1.0, np.nan]), equal_nan=True), S(T(0, 3), T(3)),
        dtypes=ALL, elementwise=True, invalid=(SHAPES, Invalid(S(T(3), T(3), rtol=-1.0), RuntimeError, "greater than or equal to zero")))  # fmt: skip
declare("prelu", lambda x, w: np.where(x > 0, x, np.asarray(w).reshape(-1, *[1] * (x.ndim - 2)) * x if x.ndim > 1 else w * x), S(T(3, 4), T(1)), S(T(2, 4, 3), T(4)), S(T(3), T(1)),
        units=8, invalid=(Invalid(S(T(2, 4), T(3)), RuntimeError, ""),))  # fmt: skip
declare("glu", lambda x, dim=-1: np.split(x, 2, dim)[0] * special.expit(np.split(x, 2, dim)[1]), S(T(3, 4)), S(T(2, 6, 3), 1), S(T(0, 4)),
        units=8, invalid=(Invalid(S(T(3, 5)), RuntimeError, "must be even"),))  # fmt: skip
declare("expit", special.expit, S(T(3, 4)), S(T(0, 3)), dtypes=ALL, elementwise=True, invalid=(TEXT,))


def _cast(x, dtype):
    return x


def register_casts():
    from stage_contracts.dtype import DTYPES

    targets = [
        S(T(3, 4, low=0, high=9), DTYPES[d])
        for d in ("float64", "int64", "bool", "float16", "uint8", "bfloat16")
    ]
    declare("cast", lambda x, dtype: x.astype(dtype.numpy), *targets, S(T(0, 3), DTYPES["float32"]), dtypes=ALL, elementwise=True,
            edges=False, torch=lambda x, dtype: x.to(dtype), invalid=(Invalid(S("text", DTYPES["bool"]), TypeError, torch_error=AttributeError),))  # fmt: skip


register_casts()
_ = (I, Operand)
