"""Calls with an index or a target that does not fit: every operator that takes one, and every way to get it wrong.

Input: none. `calls()` yields (operator, way, arguments as NumPy arrays); index_calls.json holds what torch 2.13 does
with each ("value" or an exception's name). `python -m tests.errors.index_calls` asks the installed torch and writes it.
"""

import json
import warnings
from functools import reduce
from pathlib import Path

import numpy as np

RECORD = Path(__file__).with_suffix(".json")


def F(*shape):
    return (np.arange(max(int(np.prod(shape)), 1), dtype=np.float32).reshape(shape) * 0.11 + 0.05) % 1


def I(*values):  # noqa: E743
    return np.array(values if len(values) > 1 or isinstance(values[0], list) else values, np.int64)


# Operator: its path under torch, a call that works, which argument is the index, and what its numbers stay below.
INDEXED = {
    "cross_entropy": ("nn.functional.cross_entropy", (F(2, 3), I(0, 2)), 1, 3),
    "cross_entropy weighted": ("nn.functional.cross_entropy", (F(2, 3), I(0, 2), F(3)), 1, 3),
    "cross_entropy of a vector": ("nn.functional.cross_entropy", (F(3), np.array(2)), 1, 3),
    "cross_entropy of pixels": ("nn.functional.cross_entropy", (F(2, 3, 2), I([0, 2], [1, 1])), 1, 3),
    "nll_loss": ("nn.functional.nll_loss", (F(2, 3), I(0, 2)), 1, 3),
    "nll_loss of a vector": ("nn.functional.nll_loss", (F(3), np.array(2)), 1, 3),
    "nll_loss of an image": ("nn.functional.nll_loss", (F(1, 3, 2, 2), I([[0, 2], [1, 1]])), 1, 3),
    "multi_margin_loss": ("nn.functional.multi_margin_loss", (F(2, 3), I(0, 2)), 1, 3),
    "multilabel_margin_loss": ("nn.functional.multilabel_margin_loss", (F(2, 3), I([0, 2, -1], [1, 0, 2])), 1, 3),
    "embedding": ("nn.functional.embedding", (I(0, 2), F(3, 2)), 0, 3),
    "embedding_bag": ("nn.functional.embedding_bag", (I([0, 2]), F(3, 2)), 0, 3),
    "one_hot": ("nn.functional.one_hot", (I(0, 2), 3), 0, 3),
    "gather": ("gather", (F(2, 3), 1, I([2], [0])), 2, 3),
    "gather of rows": ("gather", (F(2, 3), 0, I([1, 0, 1])), 2, 2),
    "index_select": ("index_select", (F(2, 3), 1, I(2, 0)), 2, 3),
    "take": ("take", (F(2, 3), I(5, 0)), 1, 6),
    "scatter": ("scatter", (F(2, 3), 1, I([2], [0]), F(2, 1)), 2, 3),
    "scatter_add": ("scatter_add", (F(2, 3), 1, I([2], [0]), F(2, 1)), 2, 3),
    "scatter_reduce": ("scatter_reduce", (F(2, 3), 1, I([2], [0]), F(2, 1), "sum"), 2, 3),
    "index_add": ("index_add", (F(2, 3), 1, I(2, 0), F(2, 2)), 2, 3),
    "index_copy": ("index_copy", (F(2, 3), 1, I(2, 0), F(2, 2)), 2, 3),
    "index_fill": ("index_fill", (F(2, 3), 1, I(2, 0), 0.5), 2, 3),
}  # fmt: skip
TARGETED = {
    name: (f"nn.functional.{name}", (F(2, 3), F(2, 3)), 1, None)
    for name in "cross_entropy mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy "
    "binary_cross_entropy_with_logits kl_div poisson_nll_loss soft_margin_loss hinge_embedding_loss".split()
}


def _last(a, value):
    b = a.copy()
    b.reshape(-1)[-1] = value
    return b


# A way to get it wrong: the index as it should be, and what its numbers stay below, to another.
INDEX_WAYS = {
    "right": lambda a, n: a,
    "too large": lambda a, n: _last(a, n),
    "far too large": lambda a, n: _last(a, 2**40),
    "-1": lambda a, n: _last(a.reshape(-1)[::-1].reshape(a.shape), -1) if a.ndim == 1 else _last(a, -1),
    "-2": lambda a, n: _last(a, -2),
    "below minus the size": lambda a, n: _last(a, -n - 1),
    "int32": lambda a, n: a.astype(np.int32),
    "int16": lambda a, n: a.astype(np.int16),
    "bool": lambda a, n: a.astype(bool),
    "float": lambda a, n: a.astype(np.float32),
    "one dimension more": lambda a, n: a[None],
    "one dimension more at the end": lambda a, n: a[..., None],
    "one row more": lambda a, n: np.concatenate([a, a[:1]]) if a.ndim else np.stack([a, a]),
    "empty": lambda a, n: np.zeros((0, *a.shape[1:]), a.dtype),
    "no dimension": lambda a, n: a.reshape(-1)[:1].reshape(()),
}
TARGET_WAYS = {
    "right": lambda a, n: a,
    "a row": lambda a, n: a[0],
    "a row of one": lambda a, n: a[:1],
    "a column": lambda a, n: a[:, :1],
    "no dimension": lambda a, n: a[0, :1].reshape(()),
    "one column less": lambda a, n: a[:, :2],
    "one row more": lambda a, n: np.concatenate([a, a[:1]]),
    "as many numbers": lambda a, n: a.reshape(3, 2),
    "one dimension more": lambda a, n: a[None],
    "empty": lambda a, n: a[:0],
    "int64": lambda a, n: a.astype(np.int64),
    "float64": lambda a, n: a.astype(np.float64),
}


def calls():
    for table, ways in ((INDEXED, INDEX_WAYS), (TARGETED, TARGET_WAYS)):
        for name, (path, args, at, below) in table.items():
            for way, change in ways.items():
                said = f"{name}, target" if table is TARGETED else name
                yield said, way, path, (*args[:at], change(args[at], below), *args[at + 1 :])


def function_of(torch, path):
    return reduce(getattr, path.split("."), torch)


def outcome(torch, function, args):
    """("value", shape), or ("raises", the exception)."""
    given = [torch.tensor(a.tolist(), dtype=getattr(torch, str(a.dtype))).reshape(a.shape)
             if isinstance(a, np.ndarray) else a for a in args]  # fmt: skip
    return result(function, given)


def result(function, given):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return "value", tuple(function(*given).shape)
        except Exception as error:
            return "raises", error


def asked(torch):
    """What this torch does with each call, as index_calls.json has it."""
    record = {}
    for name, way, path, args in calls():
        kind, what = outcome(torch, function_of(torch, path), args)
        record.setdefault(name, {})[way] = "value" if kind == "value" else type(what).__name__
    return record


if __name__ == "__main__":
    import torch

    RECORD.write_text(json.dumps(asked(torch), indent=1) + "\n", encoding="utf-8")
