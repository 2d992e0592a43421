"""Losses by margins, connectionist temporal classification, bags of embeddings, responses among channels, random gates.

Input: none. References are written row by row.
"""

import numpy as np
from scipy import special

from tests.oracle.samples.networks import layer, reduced
from tests.oracle.spec import WIDE, I, S, T, V, internal, refuses

# ---- margins ---------------------------------------------------------------------------------------------------


def multi_margin_loss(x, y, p=1, margin=1.0, weight=None, reduction="mean"):
    losses = []
    for row, target in zip(np.atleast_2d(x), np.atleast_1d(y)):
        terms = np.maximum(0, margin - row[target] + np.delete(row, target)) ** p
        losses.append(terms.sum() / len(row) * (1 if weight is None else weight[target]))
    loss = np.array(losses)
    return reduced(loss if x.ndim > 1 else loss[0], reduction)


def multilabel_margin_loss(x, y, reduction="mean"):
    losses = []
    for row, targets in zip(np.atleast_2d(x), np.atleast_2d(y)):
        targets = targets[: np.argmax(targets < 0)] if (targets < 0).any() else targets
        others = np.delete(row, targets)
        losses.append(sum(np.maximum(0, 1 - (row[t] - others)).sum() for t in targets) / len(row))
    loss = np.array(losses)
    return reduced(loss if x.ndim > 1 else loss[0], reduction)


def multilabel_soft_margin_loss(x, y, weight=None, reduction="mean"):
    loss = y * np.logaddexp(0, -x) + (1 - y) * np.logaddexp(0, x)
    return reduced((loss if weight is None else loss * weight).mean(-1), reduction)


_X, _CLASSES = T(3, 4), I(3, below=4)
_LABELS = V([[2, 0, -1, 1], [3, -1, 0, 0], [1, 2, 3, 0]], "int64")
layer("multi_margin_loss", multi_margin_loss, S(_X, _CLASSES), S(_X, _CLASSES, 2, 0.5, reduction="sum"), S(_X, _CLASSES, 1, 1.0, T(4, low=0.5, grad=False), reduction="none"), S(T(4), I(below=4)), dtypes=WIDE,
      invalid=refuses(ValueError, "only p == 1 and p == 2", _X, _CLASSES, 3))  # fmt: skip
layer("multilabel_margin_loss", multilabel_margin_loss, S(_X, _LABELS), S(_X, _LABELS, reduction="none"), S(T(4), V([1, 3, -1, 0], "int64")), dtypes=WIDE,
      invalid=refuses(RuntimeError, "", _X, _CLASSES))  # fmt: skip
layer("multilabel_soft_margin_loss", multilabel_soft_margin_loss, S(_X, T(3, 4, low=0, high=1, grad=False)), S(_X, T(3, 4, low=0, high=1, grad=False), T(4, low=0.5, grad=False), reduction="sum"),
      invalid=refuses(ValueError, "is not a valid", _X, T(3, 4), reduction="middle"))  # fmt: skip


def ctc_loss(logs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Graves et al. 2006: the logarithm of the sum over all alignments, forward in time."""
    losses = []
    for n, (steps, length) in enumerate(zip(input_lengths, target_lengths)):
        labels = [blank]
        for t in targets[n, :length]:
            labels += [int(t), blank]
        alpha = np.full(len(labels), -np.inf)
        alpha[0] = logs[0, n, blank]
        if length:
            alpha[1] = logs[0, n, labels[1]]
        for time in range(1, steps):
            before = alpha.copy()
            for s, label in enumerate(labels):
                total = np.logaddexp(before[s], before[s - 1]) if s else before[s]
                if s > 1 and label != blank and label != labels[s - 2]:
                    total = np.logaddexp(total, before[s - 2])
                alpha[s] = total + logs[time, n, label]
        losses.append(-np.logaddexp(alpha[-1], alpha[-2]) if length else -alpha[-1])
    loss = np.array(losses)
    return (loss / np.maximum(target_lengths, 1)).mean() if reduction == "mean" else reduced(loss, reduction)


_LOGS = T(6, 2, 4, law=lambda a: special.log_softmax(a, -1))
_WORDS = V([[1, 2, 2], [3, 1, 0]], "int64")
layer("ctc_loss", ctc_loss, S(_LOGS, _WORDS, (6, 5), (3, 2)), S(_LOGS, _WORDS, (6, 6), (3, 2), reduction="none"), S(_LOGS, _WORDS, (6, 4), (2, 2), 0, "sum"), dtypes=WIDE, units=64,
      exceptions={"torch's derivative": "torch's is that of the loss after a log_softmax, which it takes for granted"},
      invalid=refuses(RuntimeError, "", _LOGS, _WORDS, (6,), (3, 2)))  # fmt: skip
internal(ctc_of_rows="ctc_loss", unaligned="ctc_loss", log_loss="binary_cross_entropy")
internal(log_loss_of_logits="binary_cross_entropy_with_logits")

# ---- bags, responses, gates ------------------------------------------------------------------------------------


def embedding_bag(places, weight, offsets=None, mode="mean", per_sample_weights=None, padding_idx=None):
    bags = np.split(places, offsets[1:]) if places.ndim == 1 else list(places)
    out = []
    for k, bag in enumerate(bags):
        bag = bag if padding_idx is None else bag[bag != padding_idx % len(weight)]
        rows = weight[bag]
        rows = rows * per_sample_weights[k][:, None] if per_sample_weights is not None else rows
        out.append({"sum": rows.sum, "mean": rows.mean, "max": rows.max}[mode](0))
    return np.stack(out)


layer("embedding_bag", embedding_bag, S(I(2, 3, below=5), T(5, 4)), S(I(2, 3, below=5), T(5, 4), mode="sum"), S(V([[0, 4, 1], [3, 2, 4]], "int64"), T(5, 4), padding_idx=-1), S(V([0, 3, 1, 4], "int64"), T(5, 4, distinct=True), V([0, 2], "int64"), mode="max"),
      S(I(2, 3, below=5), T(5, 4), mode="sum", per_sample_weights=T(2, 3)), layouts=("contiguous", "transposed", "strided", "backwards", "offset"),
    dtypes=WIDE, torch="nn.functional.embedding_bag", invalid=refuses(ValueError, "", V([0, 3], "int64"), T(5, 4)))  # fmt: skip


def local_response_norm(x, size, alpha=1e-4, beta=0.75, k=1.0):
    squares = np.pad(x * x, [(0, 0), (size // 2, (size - 1) // 2), *[(0, 0)] * (x.ndim - 2)])
    around = sum(squares[:, i : i + x.shape[1]] for i in range(size)) / size
    return x / (k + alpha * around) ** beta


layer(
    "local_response_norm",
    local_response_norm,
    S(T(2, 5, 3), 3),
    S(T(1, 4, 2, 3), 2, 0.5, 0.5, 2.0),
    S(T(2, 5, 3), 5, alpha=1.0),
    invalid=refuses(ValueError, "3D or higher", T(3, 4), 2),
)

_CHANCE = {
    **dict.fromkeys(("vmap", "derivative", "second derivative"), "random: each call draws its own"),
    **dict.fromkeys(("torch", "torch's derivative"), "random: other bits than torch's"),
}
layer("rrelu", lambda x, low=1 / 8, high=1 / 3, training=False: np.where(x >= 0, x, x * (low + high) / 2), S(T(3, 4)), S(T(3, 4), 0.2, 0.4), S(T()),
      invalid=refuses(TypeError, "", "text"))  # fmt: skip
layer(
    "gumbel_softmax",
    None,
    S(T(3, 4)),
    S(T(3, 4), 0.5, dim=0),
    S(T(3, 4), hard=True),
    exceptions={**_CHANCE, "NumPy": "random: see stage0_eager/tests"},
    invalid=refuses(IndexError, "", T(3), dim=4),
)
