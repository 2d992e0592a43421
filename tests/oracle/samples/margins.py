"""Losses with margins, bags of embeddings, response norm, and gates that draw: what networks.py has no room for.

Input: none. References follow the definitions, element by element.
"""

import itertools

import numpy as np

from tests.oracle.samples.creation import BITS
from tests.oracle.samples.networks import layer, reduced, refuses
from tests.oracle.spec import FLOATS, I, S, T, V, internal

# ---- margins ---------------------------------------------------------------------------------------------------


def multi_margin_loss(x, y, p=1, margin=1.0, weight=None, reduction="mean"):
    rows = x.reshape(-1, x.shape[-1])
    factor = np.ones(x.shape[-1]) if weight is None else weight
    out = [
        sum(factor[k] * max(0, margin - row[k] + v) ** p for i, v in enumerate(row) if i != k) / len(row)
        for row, k in zip(rows, y.reshape(-1))
    ]
    return reduced(np.reshape(out, x.shape[:-1]), reduction)


def multilabel_margin_loss(x, target, reduction="mean"):
    out = []
    for row, labels in zip(x.reshape(-1, x.shape[-1]), target.reshape(-1, x.shape[-1])):
        given = list(itertools.takewhile(lambda k: k >= 0, labels))
        out.append(
            sum(max(0, 1 - row[k] + row[i]) for k in given for i in range(len(row)) if i not in given)
            / len(row)
        )
    return reduced(np.reshape(out, x.shape[:-1]), reduction)


def multilabel_soft_margin_loss(x, y, weight=None, reduction="mean"):
    loss = y * np.logaddexp(0, -x) + (1 - y) * np.logaddexp(0, x)
    return reduced((loss * (1 if weight is None else weight)).mean(-1), reduction)


_CLASSES, _W = I(3, below=4), T(4, low=0.5, grad=False)
_LABELS = V([[1, 3, -1, 2], [0, -1, 1, 1], [-1, 0, 1, 2]], "int64")
layer("multi_margin_loss", multi_margin_loss, S(T(3, 4), _CLASSES), S(T(3, 4), _CLASSES, 2, 0.5, reduction="sum"), S(T(3, 4), _CLASSES, weight=_W, reduction="none"),
      torch="nn.functional.multi_margin_loss", invalid=refuses(ValueError, "only p == 1 and p == 2", T(3, 4), _CLASSES, 3))  # fmt: skip
layer("multilabel_margin_loss", multilabel_margin_loss, S(T(3, 4), _LABELS), S(T(3, 4), _LABELS, reduction="none"), S(T(4), V([3, 0, -1, 1], "int64")),
      torch="nn.functional.multilabel_margin_loss", invalid=refuses(RuntimeError, "inconsistent target size", T(3, 4), I(3, 3, below=2)))  # fmt: skip
_GIVEN = T(3, 4, low=0, high=1, grad=False)
layer("multilabel_soft_margin_loss", multilabel_soft_margin_loss, S(T(3, 4), _GIVEN), S(T(3, 4), _GIVEN, _W, reduction="sum"), S(T(3, 4), _GIVEN, reduction="none"),
      torch="nn.functional.multilabel_soft_margin_loss", invalid=refuses(ValueError, "is not a valid value for reduction", T(3, 4), _GIVEN, reduction="middle"))  # fmt: skip
internal(ctc_of_rows="nn.functional.ctc_loss")  # against the sum over all paths: test_stage0_more_nn.py

# ---- bags, neighbouring channels -------------------------------------------------------------------------------


def embedding_bag(input, weight, offsets=None, mode="mean", padding_idx=None):
    bags = list(input) if input.ndim == 2 else np.split(input, offsets[1:])
    out = []
    for bag in bags:
        rows = weight[[i for i in bag if i != padding_idx]]
        out.append(getattr(np, mode)(rows, 0) if len(rows) else np.zeros(weight.shape[1]))
    return np.stack(out)


_BAGS, _STARTS = V([1, 5, 2, 2, 0], "int64"), V([0, 2, 2, 4], "int64")
layer("embedding_bag", embedding_bag, S(I(2, 3, below=6), T(6, 2)), *(S(_BAGS, T(6, 2, distinct=True), _STARTS, mode=mode) for mode in ("sum", "mean", "max")),
      S(_BAGS, T(6, 2), _STARTS, mode="sum", padding_idx=2), dtypes=FLOATS, torch="nn.functional.embedding_bag",
      invalid=refuses(ValueError, "2D", _BAGS, T(6, 2)))  # fmt: skip


def local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0):
    out = np.empty_like(x)
    for channel in range(x.shape[1]):
        near = slice(max(0, channel - size // 2), channel + (size - 1) // 2 + 1)
        out[:, channel] = x[:, channel] / (k + alpha / size * (x[:, near] ** 2).sum(1)) ** beta
    return out


layer("local_response_norm", local_response_norm, S(T(2, 5, 3), 3, 0.1), S(T(1, 4, 2, 2), 2, 0.5, 0.5, 2.0), S(T(2, 3, 2), 5, 0.1), torch="nn.functional.local_response_norm",
      invalid=refuses(ValueError, "3D or higher", T(3, 4), 2))  # fmt: skip

# ---- gates that draw -------------------------------------------------------------------------------------------

_OWN = dict.fromkeys(("derivative", "second derivative"), "each call draws its own numbers")
layer("rrelu", lambda x, lower=1 / 8, upper=1 / 3: np.where(x > 0, x, x * (lower + upper) / 2), S(T(3, 4)), S(T(3, 4), 0.2, 0.4), torch="nn.functional.rrelu",
      invalid=refuses(RuntimeError, "Lower bound", T(3), 0.5, 0.2))  # fmt: skip
layer("gumbel_softmax", None, S(T(3, 4)), S(T(3, 4), 0.5, True), exceptions={**BITS, **_OWN, "torch's derivative": BITS["torch"]}, torch="nn.functional.gumbel_softmax",
      invalid=refuses(IndexError, "Dimension out of range", T(3), dim=4))  # fmt: skip
