"""Every public name that draws random numbers, as a program: one row each, and how a name without a row is found.

Input: how many elements to draw. `names_that_draw` reads stage 0's sources: a function that calls, through whatever
functions, what takes a counter from the generator.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cutaway.nn import functional as F
from cutaway.nn import init

import cutaway as ct
from cutaway import nn


def _filled(write: Callable[[Any], Any], dtype: Any = ct.float32) -> Callable[[int], Any]:
    return lambda n: write(ct.empty(n, dtype=dtype))


def _matrix(write: Callable[[Any], Any]) -> Callable[[int], Any]:
    return lambda n: write(ct.empty(max(n // 64, 1), 64))


def _spread(n: int) -> Any:
    """n parameters in [0, 1]."""
    return ct.arange(n) / n


def _channels(dropout: Callable, rank: int) -> Callable[[int], Any]:
    return lambda n: dropout(ct.ones(n, 2, *[1] * rank), 0.3)


def _classes(n: int) -> Any:
    """Which class gumbel_softmax picks: its softmax is ordinary arithmetic, and no draw."""
    return F.gumbel_softmax(ct.zeros(max(n // 4, 1), 4), hard=True) > 0.5


# Drawn in any dtype; float16 and bfloat16 have eager kernels only, which compiled programs call.
FLOATS = ("float32", "float64", "float16", "bfloat16")
IN_EVERY_FLOAT: dict[str, Callable[[int, Any], Any]] = {
    "rand": lambda n, dtype: ct.rand(n, dtype=dtype),
    "randn": lambda n, dtype: ct.randn(n, dtype=dtype),
    "normal_": lambda n, dtype: ct.empty(n, dtype=dtype).normal_(0.3, 1.7),
    "uniform_": lambda n, dtype: ct.empty(n, dtype=dtype).uniform_(-3.0, 5.0),
    "exponential_": lambda n, dtype: ct.empty(n, dtype=dtype).exponential_(1.3),
    "cauchy_": lambda n, dtype: ct.empty(n, dtype=dtype).cauchy_(0.2, 1.1),
    "log_normal_": lambda n, dtype: ct.empty(n, dtype=dtype).log_normal_(0.1, 0.9),
    "geometric_": lambda n, dtype: ct.empty(n, dtype=dtype).geometric_(0.2),
}

ROWS: dict[str, Callable[[int], Any]] = {
    f"{name} {dtype}": lambda n, draw=draw, dtype=dtype: draw(n, getattr(ct, dtype))
    for name, draw in IN_EVERY_FLOAT.items()
    for dtype in FLOATS
} | {
    "rand_like": lambda n: ct.rand_like(ct.empty(n)),
    "randn_like": lambda n: ct.randn_like(ct.empty(n)),
    "randint": lambda n: ct.randint(-5, 1000, (n,)),
    "randint_like": lambda n: ct.randint_like(ct.empty(n), 7),
    "random_": _filled(lambda x: x.random_(3, 200), ct.int32),
    "randperm": lambda n: ct.randperm(n),
    "bernoulli": lambda n: ct.bernoulli(_spread(n)),
    "bernoulli_": _filled(lambda x: x.bernoulli_(0.3)),
    "bernoulli_ of a tensor": lambda n: ct.empty(n).bernoulli_(_spread(n)),
    "normal of numbers": lambda n: ct.normal(0.3, 1.7, (n,)),
    "normal of tensors": lambda n: ct.normal(_spread(n), _spread(n) + 0.5),
    "geometric_ of a small p": _filled(lambda x: x.geometric_(1e-9), ct.int64),
    "multinomial with replacement": lambda n: ct.multinomial(ct.arange(1.0, 50.0), n, replacement=True),
    "multinomial without": lambda n: ct.multinomial(ct.expand(ct.arange(8.0), (max(n // 3, 1), 8)), 3),
    "dropout": lambda n: F.dropout(ct.ones(n), 0.3),
    "dropout1d": _channels(F.dropout1d, 1),
    "dropout2d": _channels(F.dropout2d, 2),
    "dropout3d": _channels(F.dropout3d, 3),
    "alpha_dropout": lambda n: F.alpha_dropout(_spread(n), 0.3, training=True),
    "feature_alpha_dropout": lambda n: F.feature_alpha_dropout(_spread(2 * n).reshape(n, 2, 1), 0.3, training=True),
    "rrelu": lambda n: F.rrelu(-_spread(n), training=True),
    "gumbel_softmax": _classes,
    "scaled_dot_product_attention": lambda n: F.scaled_dot_product_attention(
        ct.ones(max(n // 64, 1), 8, 8), ct.ones(max(n // 64, 1), 8, 8), ct.ones(max(n // 64, 1), 8, 8), dropout_p=0.5
    ) > 1,
    "init.uniform_": _filled(lambda x: init.uniform_(x, -2.0, 2.0)),
    "init.normal_": _filled(lambda x: init.normal_(x, 1.0, 3.0)),
    "init.trunc_normal_": _filled(lambda x: init.trunc_normal_(x, 0.1, 1.0, -1.0, 1.5)),
    "init.xavier_uniform_": _matrix(init.xavier_uniform_),
    "init.xavier_normal_": _matrix(init.xavier_normal_),
    "init.kaiming_uniform_": _matrix(init.kaiming_uniform_),
    "init.kaiming_normal_": _matrix(init.kaiming_normal_),
    "init.sparse_": lambda n: init.sparse_(ct.empty(max(n // 4, 1), 4), 0.4),
    "init.orthogonal_": lambda n: init.orthogonal_(ct.empty(max(n // 64, 1), 64)),
}  # fmt: skip
# Of these, what runs in eager between graphs, by their own documentation: an order or a loop that the data decides.
IN_EAGER = {"randperm", "init.trunc_normal_", "init.sparse_", "init.orthogonal_"}

# What draws and has no row, with the reason.
NO_ROW = {
    "rand_of_shape": "the body of rand", "randn_of_shape": "the body of randn", "randint_of_shape": "the body of randint",
    "attention_heads": "the body of MultiheadAttention, which draws by dropout",
    "multi_head_attention_forward": "MultiheadAttention with its weights given, which draws by dropout",
    "dropout_channels": "the body of dropout1d and its like", "alpha_dropout_channels": "of feature_alpha_dropout", "uniform": "init's name for Tensor.uniform_",
    "normal_of": "the body of normal",
}  # fmt: skip


def names_that_draw() -> set[str]:
    """The public names of functions in stage 0 that call, by way of any others, `next_random`."""
    calls: dict[str, set[str]] = {}
    for path in Path(ct.__file__).resolve().parents[1].joinpath("stage0_eager").rglob("*.py"):
        if "tests" in path.parts or path.name == "tiny.py":
            continue
        tree = ast.parse(path.read_text())
        known = _known(tree)
        for function in tree.body:
            if isinstance(function, ast.FunctionDef):
                calls.setdefault(function.name, set()).update(_called(function, known))
    found = {"next_random"}
    while more := {name for name, called in calls.items() if called & found} - found:
        found |= more
    return {n for n in found if any(hasattr(where, n) for where in (ct, F, init, ct.Tensor, nn))}


def _known(tree: ast.Module) -> dict[str, str]:
    """What a name at a file's top means: a function of its own, or what it imports, by the name it has there."""
    imports = (n for n in ast.walk(tree) if isinstance(n, (ast.Import, ast.ImportFrom)))
    known = {a.asname or a.name: a.name for n in imports for a in n.names}
    return known | {n.name: n.name for n in tree.body if isinstance(n, ast.FunctionDef)}


def _called(function: ast.FunctionDef, known: dict[str, str]) -> set[str]:
    """Names it calls, or hands to a call, as a function of its own file or of what that imports; no local variable's."""
    names = set()
    for call in (n for n in ast.walk(function) if isinstance(n, ast.Call)):
        for part in (call.func, *call.args):
            if isinstance(part, ast.Name):
                names.add(known.get(part.id, ""))
            elif isinstance(part, ast.Attribute) and isinstance(part.value, ast.Name):
                names.add(part.attr if part.value.id not in ("self", "np", "c", "xp") else "")
    return names


def names_without_a_row() -> set[str]:
    rowed = {row.split()[0].removeprefix("init.") for row in ROWS}
    return names_that_draw() - rowed - set(NO_ROW)
