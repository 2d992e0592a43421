"""What networks are made of: normalisation, losses, convolution, pooling, interpolation.

Input: none. References are the formulas of the layers' papers, in NumPy.
"""

import numpy as np
from scipy import special

from tests.oracle.spec import FLOATS, I, S, T, V, declaring, internal, refuses

layer = declaring(units=16, edges=False)


# ---- normalisation ---------------------------------------------------------------------------------------------


def channels(v, x):
    return v.reshape(-1, *[1] * (x.ndim - 2))


def standard(x, axes, eps):
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + eps)


def affine(out, weight, bias):
    out = out if weight is None else out * weight
    return out if bias is None else out + bias


def layer_norm(x, shape, weight=None, bias=None, eps=1e-5):
    return affine(standard(x, tuple(range(-len(shape), 0)), eps), weight, bias)


def batch_norm(x, mean, var, weight=None, bias=None, training=False, momentum=0.1, eps=1e-5):
    dims = (0, *range(2, x.ndim))
    out = standard(x, dims, eps) if training else (x - channels(mean, x)) / np.sqrt(channels(var, x) + eps)
    return affine(out, *[None if p is None else channels(p, x) for p in (weight, bias)])


def instance_norm(
    x, mean=None, var=None, weight=None, bias=None, use_input_stats=True, momentum=0.1, eps=1e-5
):
    return affine(
        standard(x, tuple(range(2, x.ndim)), eps),
        *[None if p is None else channels(p, x) for p in (weight, bias)],
    )


def group_norm(x, groups, weight=None, bias=None, eps=1e-5):
    out = standard(x.reshape(x.shape[0], groups, -1), (2,), eps).reshape(x.shape)
    return affine(out, *[None if p is None else channels(p, x) for p in (weight, bias)])


def rms_norm(x, shape, weight=None, eps=None):
    eps = 2.2e-16 if eps is None else eps  # the narrower dtypes' own epsilons are below the tolerance
    out = x / np.sqrt((x * x).mean(tuple(range(-len(shape), 0)), keepdims=True) + eps)
    return out if weight is None else out * weight


_MOVES = {"vmap": "it writes its running statistics"}
layer(
    "layer_norm",
    layer_norm,
    S(T(3, 5), (5,), T(5), T(5)),
    S(T(2, 3, 4), (3, 4)),
    S(T(2, 6), (6,), None, None, 0.1),
    invalid=refuses(RuntimeError, "", T(3, 5), (4,)),
)
layer("batch_norm", batch_norm, S(T(3, 4), T(4, grad=False), T(4, low=0.5, high=2, grad=False)), S(T(3, 2, 5), T(2, grad=False), T(2, low=0.5, grad=False), T(2), T(2)),
      S(T(3, 2, 4), None, None, T(2), T(2), True), S(T(3, 2, 2, 2), None, None, None, None, True, 0.1, 0.1),
      S(T(3, 4), T(4, grad=False), T(4, low=0.5, grad=False), None, None, True),
      layouts=("contiguous", "transposed", "permuted", "strided", "backwards", "offset"), invalid=refuses(ValueError, "more than 1 value per channel", T(1, 3), None, None, None, None, True))  # fmt: skip
layer(
    "instance_norm",
    instance_norm,
    S(T(2, 3, 5)),
    S(T(2, 3, 2, 4), None, None, T(3), T(3)),
    invalid=refuses(ValueError, "more than 1 spatial", T(2, 3, 1)),
)
layer(
    "group_norm",
    group_norm,
    S(T(2, 4, 3), 2, T(4), T(4)),
    S(T(2, 6), 3),
    S(T(2, 4, 3, 2), 1),
    invalid=refuses(RuntimeError, "divisible", T(2, 5, 3), 2),
)
layer(
    "rms_norm",
    rms_norm,
    S(T(3, 5), (5,), T(5), 1e-5),
    S(T(2, 3, 4), (3, 4), None, 1e-6),
    S(T(3, 5), (5,)),
    invalid=refuses(RuntimeError, "", T(3, 5), (4,)),
)
layer("normalize", lambda x, p=2.0, dim=1, eps=1e-12: x / np.maximum((np.abs(x) ** p).sum(dim, keepdims=True) ** (1 / p), eps), S(T(3, 4)), S(T(3, 4), 1.0, 0), S(T(2, 3, 4), 3.0, -1),
      invalid=refuses(IndexError, "", T(3), 2.0, 4))  # fmt: skip
internal(
    normalize_by_moments="batch_norm",
    normalize_batch="batch_norm",
    normalize_by_own_moments="batch_norm",
    moved_averages="batch_norm",
    channels="batch_norm",
    sum_of_squares="layer_norm",
)

# ---- losses ----------------------------------------------------------------------------------------------------


def reduced(loss, reduction):
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def elementwise(function):
    """A loss per element, then the reduction that was asked for."""
    return lambda x, y, *rest, reduction="mean", **k: reduced(function(x, y, *rest, **k), reduction)


def forms(x, y, **options):
    return [S(x, y, **options), S(x, y, reduction="sum", **options), S(x, y, reduction="none", **options)]


_XY = (T(3, 4), T(3, 4, low=4, high=6))
_WRONG = refuses(ValueError, "is not a valid value for reduction", T(3), T(3), reduction="middle")
layer("mse_loss", elementwise(lambda x, y: (x - y) ** 2), *forms(*_XY), invalid=_WRONG)
layer("l1_loss", elementwise(lambda x, y: np.abs(x - y)), *forms(*_XY), invalid=_WRONG)
layer(
    "smooth_l1_loss",
    elementwise(
        lambda x, y, beta=1.0: np.where(
            np.abs(x - y) < beta, 0.5 * (x - y) ** 2 / beta, np.abs(x - y) - 0.5 * beta
        )
    ),
    *forms(T(3, 4), T(3, 4)),
    S(T(3, 4), T(3, 4), beta=2.5),
    invalid=_WRONG,
)
layer(
    "huber_loss",
    elementwise(
        lambda x, y, delta=1.0: np.where(
            np.abs(x - y) <= delta, 0.5 * (x - y) ** 2, delta * (np.abs(x - y) - 0.5 * delta)
        )
    ),
    *forms(T(3, 4), T(3, 4)),
    S(T(3, 4), T(3, 4), delta=2.0),
    invalid=_WRONG,
)


def cross_entropy_of_logs(logs, target, weight, ignore_index, reduction):
    classes = logs.shape[1] if logs.ndim > 1 else logs.shape[0]
    logs = np.moveaxis(logs, 1, -1) if logs.ndim > 1 else logs
    weight = np.ones(classes) if weight is None else weight
    kept = target != ignore_index
    safe = np.where(kept, target, 0)
    share = weight[safe] * kept
    loss = -np.take_along_axis(logs, safe[..., None], -1)[..., 0] * share
    return loss if reduction == "none" else loss.sum() / share.sum() if reduction == "mean" else loss.sum()


def nll_loss(x, target, weight=None, ignore_index=-100, reduction="mean"):
    return cross_entropy_of_logs(x, target, weight, ignore_index, reduction)


def cross_entropy(x, target, weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0):
    logs, axis = special.log_softmax(x, 1 if x.ndim > 1 else 0), 1 if x.ndim > 1 else 0
    classes = x.shape[axis]
    factor = np.ones(classes) if weight is None else weight
    factor = factor.reshape([-1 if i == axis else 1 for i in range(x.ndim)])
    if target.dtype.kind == "f":
        target = target * (1 - label_smoothing) + label_smoothing / classes
        loss = -(target * logs * factor).sum(axis)
        return loss if reduction == "none" else loss.sum() / (loss.size if reduction == "mean" else 1)
    hard = cross_entropy_of_logs(logs, target, weight, ignore_index, "none")
    kept = target != ignore_index
    smooth = -(logs * factor).sum(axis) * kept / classes
    loss = (1 - label_smoothing) * hard + label_smoothing * smooth
    share = (np.ones(classes) if weight is None else weight)[np.where(kept, target, 0)] * kept
    return loss if reduction == "none" else loss.sum() / (share.sum() if reduction == "mean" else 1)


_CLASSES, _W = I(4, below=3), T(3, low=0.5, high=2, grad=False)
_TARGETS = V([0, 2, -100, 1], "int64")
for _name, _f in (("nll_loss", nll_loss), ("cross_entropy", cross_entropy)):
    layer(_name, _f, S(T(4, 3), _CLASSES), S(T(4, 3), _CLASSES, _W), S(T(4, 3), _TARGETS, reduction="sum"), S(T(4, 3), _TARGETS, _W, reduction="none"), S(T(2, 3, 5), I(2, 5, below=3)), S(T(3), I(below=3)),
          *([S(T(4, 3), _CLASSES, _W, label_smoothing=0.2), S(T(4, 3), T(4, 3, low=0, high=1), label_smoothing=0.1), S(T(2, 3, 4), T(2, 3, 4, low=0, high=1), reduction="none")] if _name == "cross_entropy" else []),
          invalid=(refuses(ValueError, "", T(4, 3), I(5, below=3)), refuses(ValueError, "is not a valid value for reduction", T(4, 3), _CLASSES, reduction="middle")))  # fmt: skip

_P = T(3, 4, low=0.1, high=0.9)
layer("binary_cross_entropy", lambda x, y, weight=None, reduction="mean": reduced(-(y * np.log(x) + (1 - y) * np.log(1 - x)) * (1 if weight is None else weight), reduction), *forms(_P, T(3, 4, low=0, high=1, grad=False)),
      S(_P, T(3, 4, low=0, high=1, grad=False), T(4, low=0.5, grad=False)), invalid=refuses(ValueError, "", _P, T(3, low=0, high=1)))  # fmt: skip
layer("binary_cross_entropy_with_logits", lambda x, y, weight=None, reduction="mean", pos_weight=None: reduced((np.logaddexp(0, x) * (1 - y) + np.logaddexp(0, -x) * y * (1 if pos_weight is None else pos_weight)) * (1 if weight is None else weight), reduction),
      *forms(T(3, 4), T(3, 4, low=0, high=1)), S(T(3, 4), T(3, 4, low=0, high=1), T(4, low=0.5, grad=False), pos_weight=T(4, low=0.5, grad=False)), invalid=refuses(ValueError, "", T(3, 4), T(3)))  # fmt: skip


def kl_div(x, y, reduction="mean", log_target=False):
    loss = np.exp(y) * (y - x) if log_target else special.xlogy(y, y) - y * x
    return loss.sum() / loss.shape[0] if reduction == "batchmean" else reduced(loss, reduction)


layer(
    "kl_div",
    kl_div,
    *forms(T(3, 4), T(3, 4, low=0.1, high=1)),
    S(T(3, 4), T(3, 4, low=0.1, high=1), reduction="batchmean"),
    S(T(3, 4), T(3, 4), log_target=True),
    invalid=_WRONG,
)


def cosine(a, b, dim=1, eps=1e-8):
    a, b = np.broadcast_arrays(a, b)
    norm = lambda x: np.maximum(np.sqrt((x * x).sum(dim, keepdims=True)), eps)  # noqa: E731
    return (a / norm(a) * b / norm(b)).sum(dim)


def signs(*shape):
    return T(*shape, grad=False, law=lambda a: np.where(a > 0, 1, -1))


layer(
    "cosine_similarity",
    cosine,
    S(T(3, 4), T(3, 4)),
    S(T(2, 3, 4), T(3, 4), dim=-1),
    S(T(3, 4), T(3, 1), 0),
    S(T(3, 4), T(3, 1), 1),
    S(T(), T(3, 4), 0),
    invalid=refuses(RuntimeError, "must match", T(2, 3), T(2, 4)),
)
layer("cosine_embedding_loss", lambda a, b, y, margin=0.0, reduction="mean": reduced(np.where(y == 1, 1 - cosine(a, b, -1), np.maximum(0, cosine(a, b, -1) - margin)), reduction), S(T(3, 4), T(3, 4), signs(3)),
      S(T(3, 4), T(3, 4), signs(3), 0.2, reduction="none"), S(T(4), T(4), V(1.0, grad=False)), invalid=refuses(RuntimeError, "", T(3, 4), T(2, 4), signs(3)))  # fmt: skip
layer(
    "hinge_embedding_loss",
    lambda x, y, margin=1.0, reduction="mean": reduced(
        np.where(y == 1, x, np.maximum(0, margin - x)), reduction
    ),
    *forms(T(3, 4), signs(3, 4)),
    S(T(3, 4), signs(3, 4), 2.0),
    invalid=_WRONG,
)
layer("margin_ranking_loss", lambda a, b, y, margin=0.0, reduction="mean": reduced(np.maximum(0, -y * (a - b) + margin), reduction), S(T(4), T(4), signs(4)), S(T(3, 4), T(3, 4), signs(3, 4), 0.5, reduction="none"),
      invalid=refuses(RuntimeError, "", T(4), T(4), T(4, 4)))  # fmt: skip


def distance(a, b, p=2.0, eps=1e-6, keepdim=False):
    size = np.abs(a - b + eps)
    if p == 0:
        return (size != 0).sum(-1, keepdims=keepdim)
    return size.min(-1, keepdims=keepdim) if p == -np.inf else (size**p).sum(-1, keepdims=keepdim) ** (1 / p)


layer(
    "pairwise_distance",
    distance,
    S(T(3, 4), T(3, 4)),
    S(T(3, 4), T(3, 4), 1.0, keepdim=True),
    S(T(4), T(3, 4), 3.0),
    S(T(3, 4), T(3, 4), -np.inf),
    S(T(3, 4), T(3, 4), 0),
    invalid=refuses(RuntimeError, "must match", T(2, 3), T(2, 4)),
)


def triplet(a, p, n, margin=1.0, norm=2, eps=1e-6, swap=False, reduction="mean"):
    far = distance(a, n, norm, eps)
    far = np.minimum(far, distance(p, n, norm, eps)) if swap else far
    return reduced(np.maximum(0, distance(a, p, norm, eps) - far + margin), reduction)


layer("triplet_margin_loss", lambda a, p, n, margin=1.0, **k: triplet(a, p, n, margin, k.get("p", 2), 1e-6, k.get("swap", False), k.get("reduction", "mean")), S(T(3, 4), T(3, 4), T(3, 4)), S(T(3, 4), T(3, 4), T(3, 4), 4.0, swap=True),
      S(T(3, 4), T(3, 4), T(3, 4), 3.0, reduction="none"), invalid=refuses(RuntimeError, "", T(3, 4), T(3, 4), T(3)))  # fmt: skip
layer("gaussian_nll_loss", lambda x, y, var, full=False, eps=1e-6, reduction="mean": reduced(0.5 * (np.log(np.maximum(var, eps)) + (x - y) ** 2 / np.maximum(var, eps)) + (0.5 * np.log(2 * np.pi) if full else 0), reduction),
      S(T(3, 4), T(3, 4), T(3, 4, low=0.5)), S(T(3, 4), T(3, 4), T(3, 1, low=0.5), True, reduction="none"), invalid=refuses(ValueError, "", T(3, 4), T(3, 4), T(2, 5, low=0.5)),
      exceptions=dict.fromkeys(("meta", "aot_eager"), "a negative variance is refused, so the data is read"))  # fmt: skip


def stirling(y):
    return np.where(y > 1, y * np.log(np.maximum(y, 1)) - y + 0.5 * np.log(2 * np.pi * np.maximum(y, 1)), 0)


layer("poisson_nll_loss", lambda x, y, log_input=True, full=False, eps=1e-8, reduction="mean": reduced((np.exp(x) - y * x if log_input else x - y * np.log(x + eps)) + (stirling(y) if full else 0), reduction),
      S(T(3, 4), T(3, 4, low=0.2, high=4)), S(T(3, 4, low=0.3), T(3, 4, low=0.2, high=4), False, reduction="sum"), S(T(3, 4), T(3, 4, low=2, high=4, grad=False), True, True), invalid=refuses(ValueError, "", T(3), T(3), reduction="middle"))  # fmt: skip
layer(
    "soft_margin_loss",
    lambda x, y, reduction="mean": reduced(np.log1p(np.exp(-y * x)), reduction),
    *forms(T(3, 4), signs(3, 4)),
    invalid=_WRONG,
)

# ---- convolution -----------------------------------------------------------------------------------------------


def many(value, rank):
    return (value,) * rank if isinstance(value, int) else tuple(value)


def convolve(x, w, bias=None, stride=1, padding=0, dilation=1, groups=1):
    """Cross-correlation by shifting: one product per tap of the kernel."""
    rank = w.ndim - 2
    stride, dilation, single = many(stride, rank), many(dilation, rank), x.ndim == rank + 1
    x = x[None] if single else x
    if padding == "same":
        total = [d * (k - 1) for d, k in zip(dilation, w.shape[2:])]
        padding = [(t // 2, t - t // 2) for t in total]
    else:
        padding = [(p, p) for p in many(0 if padding == "valid" else padding, rank)]
    x = np.pad(x, [(0, 0), (0, 0), *padding])
    sizes = [(n - d * (k - 1) - 1) // s + 1 for n, d, k, s in zip(x.shape[2:], dilation, w.shape[2:], stride)]
    x, w = x.reshape(len(x), groups, -1, *x.shape[2:]), w.reshape(groups, -1, *w.shape[1:])
    out = np.zeros((len(x), groups, w.shape[1], *sizes))
    for tap in np.ndindex(w.shape[3:]):
        at = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilation, sizes, stride)
        )
        out += np.einsum("bgi...,goi->bgo...", x[(..., *at)], w[(..., *tap)])
    out = out.reshape(len(x), -1, *sizes)
    out = out if bias is None else out + channels(bias, out)
    return out[0] if single else out


def transpose(x, w, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    """Each element of x spreads the kernel over the output."""
    rank = w.ndim - 2
    stride, padding, extra, dilation = (many(v, rank) for v in (stride, padding, output_padding, dilation))
    single = x.ndim == rank + 1
    x = x[None] if single else x
    full = [
        (n - 1) * s + d * (k - 1) + 1 + e
        for n, s, d, k, e in zip(x.shape[2:], stride, dilation, w.shape[2:], extra)
    ]
    x, w = x.reshape(len(x), groups, -1, *x.shape[2:]), w.reshape(groups, -1, *w.shape[1:])
    out = np.zeros((len(x), groups, w.shape[2], *full))
    for tap in np.ndindex(w.shape[3:]):
        at = tuple(
            slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in zip(tap, dilation, x.shape[3:], stride)
        )
        out[(..., *at)] += np.einsum("bgi...,gio->bgo...", x, w[(..., *tap)])
    out = out.reshape(len(x), -1, *full)[(..., *[slice(p, n - p) for p, n in zip(padding, full)])]
    out = out if bias is None else out + channels(bias, out)
    return out[0] if single else out


_SPACE = {1: (7,), 2: (6, 5), 3: (4, 5, 4)}
for _rank, _space in _SPACE.items():
    _k = (3, 2, 2)[:_rank]
    _samples = (
        S(T(2, 4, *_space), T(6, 4, *_k), T(6)),
        S(T(2, 4, *_space), T(6, 2, *_k), T(6), stride=2, padding=1, groups=2),
        S(T(4, *_space), T(3, 4, *_k), None, dilation=_k[::-1], padding=_k),
        S(T(1, 4, *_space), T(4, 1, *_k), None, padding="same", groups=4),
    )
    layer(
        f"conv{_rank}d",
        convolve,
        *(_samples if _rank < 3 else _samples[:2]),
        dtypes=FLOATS,
        invalid=refuses(RuntimeError, "", T(2, 4, *_space), T(6, 3, *_k)),
    )
    _samples = (
        S(T(2, 4, *_space), T(4, 3, *_k), T(3)),
        S(T(2, 4, *_space), T(4, 3, *_k), T(6), stride=2, padding=1, output_padding=1, groups=2),
        S(T(4, *_space), T(4, 3, *_k), None, dilation=2, stride=3),
    )
    layer(
        f"conv_transpose{_rank}d",
        transpose,
        *(_samples if _rank < 3 else _samples[:2]),
        dtypes=FLOATS,
        invalid=refuses(RuntimeError, "", T(2, 4, *_space), T(3, 6, *_k)),
    )
