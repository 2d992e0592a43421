"""torch.nn.functional's functions that take `inplace`: with it the result is written into the input and is the input.

Input: as the operator of the same name takes it. Plain functions, which capture inlines; the write goes through
`copy_`, so that the tape and views see it.
"""

from __future__ import annotations

from stage0_eager.functions import inplace as in_place
from stage0_eager.functions.nn import activations, random_activations, rectifiers
from stage0_eager.functions.nn import dropout as dropouts


def relu(input, inplace=False):
    """max(x, 0)."""
    return in_place.relu_(input) if inplace else activations.relu(input)


def leaky_relu(input, negative_slope=0.01, inplace=False):
    """x where positive, else negative_slope * x."""
    return _applied(activations.leaky_relu, input, inplace, negative_slope)


def silu(input, inplace=False):
    """x * sigmoid(x)."""
    return _applied(activations.silu, input, inplace)


def mish(input, inplace=False):
    """x * tanh(softplus(x))."""
    return _applied(rectifiers.mish, input, inplace)


def relu6(input, inplace=False):
    """min(max(x, 0), 6)."""
    return _applied(rectifiers.relu6, input, inplace)


def elu(input, alpha=1.0, inplace=False):
    """x where positive, else alpha * (exp(x) - 1)."""
    return _applied(rectifiers.elu, input, inplace, alpha)


def selu(input, inplace=False):
    """elu scaled so that activations keep mean 0 and variance 1."""
    return _applied(rectifiers.selu, input, inplace)


def celu(input, alpha=1.0, inplace=False):
    """elu with a continuous derivative for every alpha."""
    return _applied(rectifiers.celu, input, inplace, alpha)


def hardswish(input, inplace=False):
    """x * hardsigmoid(x)."""
    return _applied(rectifiers.hardswish, input, inplace)


def hardsigmoid(input, inplace=False):
    """x / 6 + 1/2, moved into [0, 1]."""
    return _applied(rectifiers.hardsigmoid, input, inplace)


def hardtanh(input, min_val=-1.0, max_val=1.0, inplace=False):
    """x moved into [min_val, max_val]."""
    return _applied(rectifiers.hardtanh, input, inplace, min_val, max_val)


def threshold(input, threshold, value, inplace=False):
    """x where above the threshold, else value."""
    return _applied(rectifiers.threshold, input, inplace, threshold, value)


def rrelu(input, lower=1.0 / 8, upper=1.0 / 3, training=False, inplace=False):
    """x where positive, else x times a slope drawn from [lower, upper], or their mean when not training."""
    return _applied(random_activations.rrelu, input, inplace, lower, upper, training)


def dropout(input, p=0.5, training=True, inplace=False):
    """Each element zeroed with probability p and the rest scaled by 1 / (1 - p); input itself when not training."""
    if not training:
        return dropouts.dropout(input, p, training)
    return _applied(dropouts.dropout, input, inplace, p, training)


def alpha_dropout(input, p=0.5, training=False, inplace=False):
    """Dropout that keeps mean 0 and variance 1 after selu."""
    return _applied(dropouts.alpha_dropout, input, inplace, p, training)


def feature_alpha_dropout(input, p=0.5, training=False, inplace=False):
    """alpha_dropout of whole channels: of (N, C, ...), the elements of each (n, c) together."""
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    return _applied(dropouts.alpha_dropout_channels, input, inplace, p)


def _channels(input, p, training, inplace, rank):
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        return input
    return _applied(dropouts.dropout_channels, input, inplace, p, rank)


def dropout1d(input, p=0.5, training=True, inplace=False):
    """Channels of (N, C, L) or (C, L) zeroed with probability p, the rest scaled by 1 / (1 - p)."""
    return _channels(input, p, training, inplace, 1)


def dropout2d(input, p=0.5, training=True, inplace=False):
    """Channels of (N, C, H, W) or (C, H, W) zeroed with probability p, the rest scaled by 1 / (1 - p)."""
    return _channels(input, p, training, inplace, 2)


def dropout3d(input, p=0.5, training=True, inplace=False):
    """Channels of (N, C, D, H, W) or (C, D, H, W) zeroed with probability p, the rest scaled by 1 / (1 - p)."""
    return _channels(input, p, training, inplace, 3)


def _applied(function, input, write, *options):
    if not write:
        return function(input, *options)
    result = function(in_place.kept(input, options), *options)
    return in_place.copy_(input, result)
