"""Which parameters of an operator take a number as they take a tensor without dimensions, and which numbers it refuses.

Input: the names of the table's operators. Capture reads this: a number that changes from call to call may then be an
input of the graph instead of a constant.
"""

from __future__ import annotations

# By operator, the parameters that take ints and floats alike: operands of arithmetic.
TAKEN: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("mul", "maximum", "minimum", "rsub", "rdiv", "div"), ("input", "other")),
    **dict.fromkeys(("add", "sub"), ("input", "other", "alpha")),
    "lerp": ("weight",),
    **dict.fromkeys(("addcmul", "addcdiv"), ("value",)),
}
# Those that take floats. An int may have a meaning of its own there, an exponent for example.
FLOATS: dict[str, tuple[str, ...]] = {
    "pow": ("input", "exponent"),
    "rpow": ("input", "other"),
    **dict.fromkeys(("eq", "ne", "lt", "le", "gt", "ge"), ("input", "other")),
    **dict.fromkeys(("fmod", "remainder", "floor_divide", "rremainder", "rfloor_divide"), ("input", "other")),
    "clamp": ("min", "max"),
    "clamp_min": ("min",),
    "clamp_max": ("max",),
    "where": ("input", "other"),
    "masked_fill": ("value",),
    "fill_": ("value",),
    "full_of_shape": ("fill_value",),
    "nan_to_num": ("nan", "posinf", "neginf"),
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "addbmm", "addr"), ("beta", "alpha")),
    **dict.fromkeys(
        (
            "layer_norm",
            "rms_norm",
            "group_norm",
            "normalize",
            "normalize_by_moments",
            "normalize_batch",
            "normalize_by_own_moments",
        ),
        ("eps",),
    ),
    "leaky_relu": ("negative_slope",),
    "elu": ("alpha",),
    "celu": ("alpha",),
    "softplus": ("beta", "threshold"),
    "threshold": ("threshold", "value"),
    "hardtanh": ("min_val", "max_val"),
    "hardshrink": ("lambd",),
    "softshrink": ("lambd",),
    "huber_loss": ("delta",),
    "smooth_l1_loss": ("beta",),
    "isclose": ("rtol", "atol"),
    **dict.fromkeys(("trapezoid", "cumulative_trapezoid"), ("dx",)),
    **dict.fromkeys(("cosine_similarity", "pairwise_distance", "poisson_nll_loss"), ("eps",)),
    **dict.fromkeys(("cosine_embedding_loss", "hinge_embedding_loss", "margin_ranking_loss"), ("margin",)),
    "triplet_margin_loss": ("margin", "eps"),
    "multi_margin_loss": ("margin",),
    "cross_entropy": ("label_smoothing",),
    "renorm": ("maxnorm",),
    "local_response_norm": ("alpha", "beta", "k"),
    "scaled_dot_product_attention": ("scale",),
}
for _name in ("add", "sub", "mul", "div", "lerp", "addcmul", "addcdiv"):
    TAKEN[f"{_name}_"] = TAKEN[_name]
for _name in (
    "pow",
    "clamp",
    "fmod",
    "remainder",
    "floor_divide",
    "masked_fill",
    "leaky_relu",
    "elu",
    "celu",
):
    FLOATS[f"{_name}_"] = FLOATS[_name]
# Whose tensors of integers are indices. Beside any others floats are rounded.
INDICES = frozenset(("multi_margin_loss", "cross_entropy"))

# What eager refuses, as guards: the operators' own checks need to know the number.
HOLDS: dict[str, tuple[tuple[str, str, str | int], ...]] = {
    **dict.fromkeys(("addmm", "baddbmm", "addmv", "addbmm", "addr"), (("beta", "!=", 0),)),
    "celu": (("alpha", "!=", 0),),
    "hardtanh": (("min_val", "<=", "max_val"),),
    "softshrink": (("lambd", ">=", 0),),
    "huber_loss": (("delta", ">", 0),),
    "smooth_l1_loss": (("beta", ">", 0),),
    "triplet_margin_loss": (("margin", ">", 0),),
    "cross_entropy": (("label_smoothing", ">", 0), ("label_smoothing", "<=", 1)),
    "isclose": (("rtol", ">=", 0), ("atol", ">", 0)),
}
HOLDS["celu_"] = HOLDS["celu"]
