"""What random programs are made of: each operation on tensors, on NumPy arrays, and on dtypes and error bounds.

Input: nothing. programs.py composes them. The NumPy side computes in float64, int64 and bool, whatever the program's
dtypes are, and shares nothing with stage 0; arrays alias where tensors do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from scipy import special

import cutaway as ct
from stage0_eager.tensor import Tensor
from stage_contracts.dtype import DTYPES, FLOATING

FLOATS, INTEGERS = ("float64", "float32"), ("int64", "int32")


@dataclass(frozen=True)
class Operation:
    """The same thing twice: on tensors, and on NumPy arrays; and what that does to kinds and to errors."""

    tensors: Callable
    arrays: Callable
    arity: int
    pick: Callable  # (draw, the operands' Kinds) -> options, or None where it does not apply
    dtype: Callable  # (the operands' Kinds, *options) -> the result's dtype
    error: Callable  # (errors, magnitudes, elements folded into one) -> the error that reaches the result
    rounds: str = "float32"  # "never"; "float32": float64 is the same arithmetic on both sides; "always"
    exact: bool = False  # it jumps, so that its operands must have no error
    writes: bool = False  # into its first operand
    view: bool = False


OPERATIONS: dict[str, Operation] = {}


def operation(
    name: str, tensors: Callable, arrays: Callable, arity: int, pick: Callable, **words: Any
) -> None:
    words = {"dtype": promoted, "error": carried, **words}
    OPERATIONS[name] = Operation(tensors, arrays, arity, pick, **words)


@dataclass(frozen=True)
class Kind:
    """What the generator knows of a value: enough to compose only programs that torch would accept."""

    dtype: str
    shape: tuple[int, ...]

    @property
    def floating(self) -> bool:
        return DTYPES[self.dtype].category == FLOATING

    @property
    def boolean(self) -> bool:
        return self.dtype == "bool"


# ---- what becomes of dtypes and of errors ------------------------------------------------------------------------

RANK = {"bool": 0, "int32": 1, "int64": 1, "float32": 2, "float64": 2}
ORDER = ("bool", "int32", "int64", "float32", "float64")


def promoted(kinds: list[Kind], *_: Any) -> str:
    """torch's rule: 0-d operands count only where they are of a higher category than all that have dimensions."""
    high = [k.dtype for k in kinds if k.shape]
    low = [k.dtype for k in kinds if not k.shape]
    if high and low and max(RANK[d] for d in low) <= max(RANK[d] for d in high):
        low = []
    if high and low and max(RANK[d] for d in high) < max(RANK[d] for d in low):
        high = []
    return max(high + low, key=ORDER.index)


def first(kinds: list[Kind], *_: Any) -> str:
    return kinds[0].dtype


def boolean(kinds: list[Kind], *_: Any) -> str:
    return "bool"


def summed(kinds: list[Kind], *_: Any) -> str:
    return kinds[0].dtype if kinds[0].floating else "int64"


def carried(errors: list[float], sizes: list[float], folded: int) -> float:
    """Functions of slope at most 1.2 in each operand."""
    return 1.2 * sum(errors)


def multiplied(errors: list[float], sizes: list[float], folded: int) -> float:
    a, b = (errors * 2)[:2], (sizes * 2)[:2]
    return folded * (a[0] * b[1] + a[1] * b[0] + a[0] * a[1])


def added_up(errors: list[float], sizes: list[float], folded: int) -> float:
    return folded * errors[0]


def divided(errors: list[float], sizes: list[float], folded: int) -> float:
    """x / (1 + y * y)."""
    return errors[0] + sizes[0] * errors[1]


MOVES: dict[str, Any] = {"rounds": "never", "dtype": promoted}
JUMPS: dict[str, Any] = {"rounds": "never", "exact": True}
TRUTH: dict[str, Any] = {**JUMPS, "dtype": boolean}

# ---- pointwise -------------------------------------------------------------------------------------------------


def always(draw: Any, *kinds: Kind) -> tuple:
    return ()


def if_floating(draw: Any, *kinds: Kind) -> tuple | None:
    return () if all(k.floating for k in kinds) else None


def if_numbers(draw: Any, *kinds: Kind) -> tuple | None:
    return None if any(k.boolean for k in kinds) else ()


def broadcast(*shapes: tuple) -> tuple | None:
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        return None


def same_width(draw: Any, *kinds: Kind) -> tuple | None:
    """Comparisons: of a float32 with a float64 that is rounded first, there is no exact answer."""
    return () if len({k.dtype for k in kinds if k.floating}) < 2 else None


def if_broadcast(check: Callable) -> Callable:
    def pick(draw: Any, *kinds: Kind) -> tuple | None:
        return check(draw, *kinds) if broadcast(*(k.shape for k in kinds)) is not None else None

    return pick


for _name, _numpy in {
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "atan": np.arctan,
    "erf": special.erf,
}.items():
    operation(_name, getattr(ct, _name), _numpy, 1, if_floating, rounds="always")
for _name, _numpy in {"neg": np.negative, "abs": np.abs}.items():
    operation(_name, getattr(ct, _name), _numpy, 1, if_numbers, **MOVES)
operation("square", ct.square, np.square, 1, if_numbers, error=multiplied)
for _name, _numpy in {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc}.items():
    operation(_name, getattr(ct, _name), _numpy, 1, if_floating, **JUMPS)
operation("relu", ct.relu, lambda x: np.maximum(x, 0), 1, if_numbers, **MOVES)
operation("sigmoid", ct.sigmoid, special.expit, 1, if_floating, rounds="always")
operation("sqrt of 1 + square", lambda x: ct.sqrt(1 + x * x), lambda x: np.sqrt(1 + x * x), 1, if_floating)
operation(
    "log of 1 + abs",
    lambda x: ct.log(1 + x.abs()),
    lambda x: np.log(1 + np.abs(x)),
    1,
    if_floating,
    rounds="always",
)
operation(
    "exp of -abs", lambda x: ct.exp(-x.abs()), lambda x: np.exp(-np.abs(x)), 1, if_floating, rounds="always"
)
operation("logical_not", ct.logical_not, np.logical_not, 1, always, **TRUTH)
for _name, _numpy in {"add": np.add, "sub": np.subtract}.items():
    operation(_name, getattr(ct, _name), _numpy, 2, if_broadcast(if_numbers))
operation("mul", ct.mul, np.multiply, 2, if_broadcast(if_numbers), error=multiplied)
for _name, _numpy in {"maximum": np.maximum, "minimum": np.minimum}.items():
    operation(_name, getattr(ct, _name), _numpy, 2, if_broadcast(if_numbers))
for _name, _numpy in {
    "lt": np.less,
    "ge": np.greater_equal,
    "eq": np.equal,
    "logical_and": np.logical_and,
}.items():
    operation(_name, getattr(ct, _name), _numpy, 2, if_broadcast(same_width), **TRUTH)
operation(
    "div by 1 + square",
    lambda x, y: x / (1 + y * y),
    lambda x, y: x / (1 + y * y),
    2,
    if_broadcast(if_floating),
    error=divided,
)
operation(
    "floor_divide by 1 + square", lambda x, y: ct.floor_divide(x, 1 + y * y % 7), lambda x, y: np.floor_divide(x, 1 + y * y % 7),
    2, if_broadcast(lambda draw, *kinds: None if any(k.floating or k.boolean for k in kinds) else ()), **JUMPS,
)  # fmt: skip
operation(
    "add a number", lambda x, n: x + n, lambda x, n: x + n, 1,
    lambda draw, k: None if k.boolean else (draw(st.integers(-3, 3)),),
)  # fmt: skip
operation(
    "where", lambda c, x, y: ct.where(c, x, y), np.where, 3,
    if_broadcast(lambda draw, c, x, y: () if c.boolean and not x.boolean and not y.boolean else None),
    dtype=lambda kinds: promoted(kinds[1:]),
)  # fmt: skip
operation(
    "clamp", lambda x, low: x.clamp(low, low + 2), lambda x, low: np.clip(x, low, low + 2), 1,
    lambda draw, k: None if k.boolean else (draw(st.integers(-3, 1)),),
)  # fmt: skip
_CASTS = {
    "float64": np.float64,
    "float32": np.float64,
    "int64": np.int64,
    "int32": np.int64,
    "bool": np.bool_,
}
operation(
    "to", lambda x, d: ct.clone(x.to(DTYPES[d])), lambda x, d: x.astype(_CASTS[d]), 1,
    lambda draw, k: (draw(st.sampled_from(FLOATS if k.floating else tuple(_CASTS))),), dtype=lambda kinds, d: d,
)  # fmt: skip

# ---- reductions ------------------------------------------------------------------------------------------------


def some_dim(draw: Any, k: Kind) -> int | None:
    return draw(st.integers(-len(k.shape), len(k.shape) - 1)) if k.shape else None


def with_dim(draw: Any, k: Kind) -> tuple | None:
    return (some_dim(draw, k),) if k.shape else None


def reducing(check: Callable, filled: bool = False) -> Callable:
    """(dim or None, keepdim); `filled`: an empty dimension has no result."""

    def pick(draw: Any, k: Kind) -> tuple | None:
        if not check(k):
            return None
        dim = some_dim(draw, k) if draw(st.booleans()) else None
        if filled and 0 in (k.shape if dim is None else (k.shape[dim],)):
            return None
        return dim, draw(st.booleans()) if dim is not None else False

    return pick


def number(k: Kind) -> bool:
    return not k.boolean


def floating(k: Kind) -> bool:
    return k.floating


def reduction(name: str, tensors: Callable, numpy: Callable, pick: Callable, **words: Any) -> None:
    operation(
        name, lambda x, d, keep: tensors(x, d, keep) if d is not None else tensors(x),
        lambda x, d, keep: numpy(x, axis=d, keepdims=keep), 1, pick, **words,
    )  # fmt: skip


reduction("sum", ct.sum, np.sum, reducing(lambda k: True), dtype=summed, error=added_up, rounds="always")
reduction("mean", ct.mean, np.mean, reducing(floating, filled=True), rounds="always")
reduction("amax", lambda x, *a: ct.amax(x, *a), np.max, reducing(number, filled=True), **MOVES)
reduction("amin", lambda x, *a: ct.amin(x, *a), np.min, reducing(number, filled=True), **MOVES)
reduction("any", ct.any, np.any, reducing(lambda k: True), **TRUTH)
reduction("all", ct.all, np.all, reducing(lambda k: True), **TRUTH)
operation("softmax", ct.softmax, special.softmax, 1, lambda draw, k: (some_dim(draw, k),) if k.floating and k.shape and 0 not in k.shape else None,
          error=lambda errors, sizes, folded: 2 * errors[0], rounds="always")  # fmt: skip
operation("cumsum", ct.cumsum, np.cumsum, 1, with_dim, dtype=summed, error=added_up, rounds="always")

# ---- views and movements ---------------------------------------------------------------------------------------


def permuted(draw: Any, k: Kind) -> tuple:
    return (tuple(draw(st.permutations(range(len(k.shape))))),)


def sliced(draw: Any, k: Kind) -> tuple | None:
    """(dim, start, stop, step), as Python slices have them: also beyond the ends."""
    if not k.shape:
        return None
    dim = draw(st.integers(0, len(k.shape) - 1))
    size = k.shape[dim]
    return (
        dim,
        draw(st.integers(-size - 1, size)),
        draw(st.integers(-size, size + 1)),
        draw(st.integers(1, 3)),
    )


def cut(x: Any, dim: int, start: int, stop: int, step: int) -> Any:
    return x[tuple([slice(None)] * dim + [slice(start, stop, step)])]


def chosen(draw: Any, k: Kind) -> tuple | None:
    if not k.shape or k.shape[0] == 0:
        return None
    return (draw(st.integers(-k.shape[0], k.shape[0] - 1)),)


def expanded(draw: Any, k: Kind) -> tuple:
    sizes = [draw(st.integers(0, 3)) if s == 1 else s for s in k.shape]
    return ((*draw(st.sampled_from([(), (2,), (1,)])), *sizes),)


def diagonal(x: np.ndarray, offset: int) -> np.ndarray:
    view = np.diagonal(x, offset)
    view.flags.writeable = x.flags.writeable
    return view


operation("permute", lambda x, dims: x.permute(dims), np.transpose, 1, permuted, view=True, **MOVES)
operation(
    "unsqueeze",
    ct.unsqueeze,
    np.expand_dims,
    1,
    lambda draw, k: (draw(st.integers(0, len(k.shape))),) if len(k.shape) < 4 else None,
    view=True,
    **MOVES,
)
operation(
    "squeeze",
    ct.squeeze,
    lambda x, d: np.squeeze(x, d) if x.shape[d] == 1 else x,
    1,
    with_dim,
    view=True,
    **MOVES,
)
operation("slice", cut, cut, 1, sliced, view=True, **MOVES)
operation("select", lambda x, i: x[i], lambda x, i: x[i, ...], 1, chosen, view=True, **MOVES)
operation("expand", lambda x, s: x.expand(s), np.broadcast_to, 1, expanded, view=True, **MOVES)
operation(
    "diagonal",
    ct.diagonal,
    diagonal,
    1,
    lambda draw, k: (draw(st.integers(-2, 2)),) if len(k.shape) > 1 else None,
    view=True,
    **MOVES,
)
operation("flatten", lambda x: ct.clone(x.reshape(-1)), lambda x: np.array(x).reshape(-1), 1, always, **MOVES)
operation("flip", lambda x, d: x.flip(d), lambda x, d: np.array(np.flip(x, d)), 1, with_dim, **MOVES)
operation(
    "roll",
    ct.roll,
    np.roll,
    1,
    lambda draw, k: (draw(st.integers(-2, 2)), some_dim(draw, k)) if k.shape else None,
    **MOVES,
)
operation(
    "tril",
    ct.tril,
    np.tril,
    1,
    lambda draw, k: (draw(st.integers(-1, 1)),) if len(k.shape) > 1 else None,
    **MOVES,
)
operation("pad", lambda x, w: ct.pad(x, w, value=1), lambda x, w: np.pad(x, [(0, 0)] * (x.ndim - 1) + [w], constant_values=1), 1,
          lambda draw, k: ((draw(st.integers(0, 2)), draw(st.integers(0, 2))),) if k.shape and not k.boolean else None, **MOVES)  # fmt: skip


def joined(draw: Any, a: Kind, b: Kind) -> tuple | None:
    if not a.shape or len(a.shape) != len(b.shape):
        return None
    dims = [
        d
        for d in range(len(a.shape))
        if all(s == t for i, (s, t) in enumerate(zip(a.shape, b.shape)) if i != d)
    ]
    return (draw(st.sampled_from(dims)),) if dims else None


operation(
    "cat",
    lambda x, y, d: ct.cat([x, y], d),
    lambda x, y, d: np.concatenate([x, y], d),
    2,
    joined,
    dtype=lambda kinds, d: max((k.dtype for k in kinds), key=ORDER.index),
)
operation("stack", lambda x, y, d: ct.stack([x, y], d), lambda x, y, d: np.stack([x, y], d), 2,
          lambda draw, a, b: (draw(st.integers(0, len(a.shape))),) if a.shape == b.shape and a.dtype == b.dtype and len(a.shape) < 4 else None)  # fmt: skip

# ---- products, indexing ----------------------------------------------------------------------------------------


def multipliable(draw: Any, a: Kind, b: Kind) -> tuple | None:
    if a.dtype != b.dtype or a.boolean or not a.shape or not b.shape:
        return None
    inner = b.shape[-2] if len(b.shape) > 1 else b.shape[0]
    return () if a.shape[-1] == inner and broadcast(a.shape[:-2], b.shape[:-2]) is not None else None


def indices(draw: Any, k: Kind) -> tuple | None:
    if not k.shape or 0 in k.shape:
        return None
    dim = draw(st.integers(0, len(k.shape) - 1))
    return dim, tuple(draw(st.lists(st.integers(0, k.shape[dim] - 1), min_size=0, max_size=4)))


operation("matmul", ct.matmul, np.matmul, 2, multipliable, error=multiplied, rounds="always")
operation(
    "transposed matmul",
    lambda x: x @ x.mT,
    lambda x: x @ np.swapaxes(x, -1, -2),
    1,
    lambda draw, k: () if len(k.shape) > 1 and not k.boolean else None,
    error=multiplied,
    rounds="always",
)
operation(
    "index_select",
    lambda x, d, i: ct.index_select(x, d, ct.tensor(list(i), dtype=ct.int64)),
    lambda x, d, i: np.take(x, np.array(i, int), d),
    1,
    indices,
    **MOVES,
)
operation(
    "index by a list",
    lambda x, d, i: x[tuple([slice(None)] * d + [list(i)])] if i else x.clone(),
    lambda x, d, i: np.take(x, np.array(i, int), d) if i else np.array(x),
    1,
    indices,
    **MOVES,
)
operation("masked_fill", lambda x, m: x.masked_fill(m, 2), lambda x, m: np.where(m, 2, x), 2,
          lambda draw, x, m: () if m.boolean and not x.boolean and broadcast(x.shape, m.shape) == x.shape else None, **{**MOVES, "dtype": first})  # fmt: skip

# ---- writes ----------------------------------------------------------------------------------------------------


def writable(draw: Any, x: Kind, *others: Kind) -> tuple | None:
    """Where the other operands broadcast to x and have no higher category."""
    fits = all(broadcast(x.shape, o.shape) == x.shape and RANK[o.dtype] <= RANK[x.dtype] for o in others)
    return () if fits and not x.boolean and not any(o.boolean for o in others) else None


def into(function: Callable) -> Callable:
    """NumPy's way of writing: every array that shares the memory sees it."""

    def write(x: np.ndarray, *rest: Any) -> np.ndarray:
        x[...] = function(x, *rest)
        return x

    return write


WRITES: dict[str, Any] = {"writes": True, "dtype": first}
for _name, _numpy in {"add_": np.add, "sub_": np.subtract}.items():
    operation(_name, getattr(Tensor, _name), into(_numpy), 2, writable, **WRITES)
operation("mul_", Tensor.mul_, into(np.multiply), 2, writable, error=multiplied, **WRITES)
operation("copy_", Tensor.copy_, into(lambda x, y: y), 2, writable, **WRITES)
operation("zero_", Tensor.zero_, into(lambda x: 0), 1, always, **WRITES)
operation(
    "fill_", Tensor.fill_, into(lambda x, n: n), 1, lambda draw, k: (draw(st.integers(0, 1)),), **WRITES
)
operation("relu_", Tensor.relu_, into(lambda x: np.maximum(x, 0)), 1, if_numbers, **WRITES)


def set_item(x: Any, index: int, number: int) -> Any:
    x[index] = number
    return x


operation("setitem", set_item, set_item, 1,
          lambda draw, k: (*picked, draw(st.integers(0, 1))) if (picked := chosen(draw, k)) else None, **WRITES)  # fmt: skip
