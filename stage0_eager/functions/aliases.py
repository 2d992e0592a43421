"""Aliases: `subtract` for `sub`, `arccos` for `acos`, `concat` for `cat`, and the others that torch has.

Input: the operators that they stand for. Each alias has its own row, so that a graph shows the name the user wrote.
"""

from __future__ import annotations

from stage0_eager.functions import joining, pointwise, shape
from stage0_eager.functions.linalg import products
from stage0_eager.table.operator import Operator
from stage0_eager.table.registry import register
from stage0_eager.tensor import method


def alias(name: str, original: Operator) -> Operator:
    op = register(Operator(name, "", body=original.body))
    op.__name__, op.__doc__ = name, f"As {original.name}: {original.__doc__}"
    return op


# ---- of pointwise and comparison operations ------------------------------------------------------------------------

subtract = method(alias("subtract", pointwise.sub))
multiply = method(alias("multiply", pointwise.mul))
divide = method(alias("divide", pointwise.div))
true_divide = method(alias("true_divide", pointwise.div))
negative = method(alias("negative", pointwise.neg))
absolute = method(alias("absolute", pointwise.abs))
arccos = method(alias("arccos", pointwise.acos))
arcsin = method(alias("arcsin", pointwise.asin))
arctan = method(alias("arctan", pointwise.atan))
arccosh = method(alias("arccosh", pointwise.acosh))
arcsinh = method(alias("arcsinh", pointwise.asinh))
arctanh = method(alias("arctanh", pointwise.atanh))
arctan2 = method(alias("arctan2", pointwise.atan2))
greater = method(alias("greater", pointwise.gt))
greater_equal = method(alias("greater_equal", pointwise.ge))
less = method(alias("less", pointwise.lt))
less_equal = method(alias("less_equal", pointwise.le))
not_equal = method(alias("not_equal", pointwise.ne))
clip = method(alias("clip", pointwise.clamp))
fix = method(alias("fix", pointwise.trunc))
expit = alias("expit", pointwise.sigmoid)  # torch.special has it

# ---- of shapes and products ------------------------------------------------------------------------------------------

concat = alias("concat", shape.cat)
concatenate = alias("concatenate", shape.cat)
row_stack = alias("row_stack", joining.vstack)
ger = method(alias("ger", products.outer))
unsafe_chunk = method(alias("unsafe_chunk", shape.chunk))
unsafe_split = method(alias("unsafe_split", shape.split))
