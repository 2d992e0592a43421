"""Functions of torch.nn.functional made of public ones alone: gumbel_softmax, local_response_norm, channel_shuffle.

Input: tensors. Plain functions, which capture inlines.
"""

from __future__ import annotations

from stage0_eager.core import core as c
from stage0_eager.functions import joining, reductions, shape, windows
from stage0_eager.random import uniform
from stage_contracts import dtype as dt


def gumbel_softmax(logits, tau=1, hard=False, eps=1e-10, dim=-1):
    """softmax((logits + Gumbel noise) / tau); hard: the largest as one-hot, with the soft one's gradient.

    Jang, Gu and Poole, "Categorical Reparameterization with Gumbel-Softmax" (2017).
    """
    inside = c.add(
        uniform(logits.shape, logits.dtype, logits.device), 2.0**-26
    )  # never 0, whose noise is infinite
    noise = c.neg(c.log(c.neg(c.log(inside))))
    soft = reductions.softmax(c.div(c.add(logits, noise), tau), dim)
    if not hard:
        return soft
    top = c.eq(reductions.argmax(soft, dim, True), _positions(soft, dim))
    return c.add(c.sub(c.cast(top, soft.dtype), c.detach(soft)), soft)


def _positions(x, dim):
    dim %= x.ndim
    sizes = tuple(size if i == dim else 1 for i, size in enumerate(x.shape))
    return c.reshape(c.iota(x.shape[dim], 0, 1, dt.int64, x.device), sizes)


def local_response_norm(input, size, alpha=1e-4, beta=0.75, k=1.0):
    """input / (k + alpha * mean of the squares in `size` neighbouring channels) ** beta; input is (N, C, *).

    Krizhevsky, Sutskever and Hinton, "ImageNet Classification with Deep Convolutional Neural Networks" (2012).
    """
    if input.ndim < 3:
        raise ValueError(f"Expected 3D or higher dimensionality input (got {input.ndim} dimensions)")
    around = (0, 0) * (input.ndim - 2) + (size // 2, (size - 1) // 2)
    squares = windows.pad(c.mul(input, input), around)
    total = shape.narrow(squares, 1, 0, input.shape[1])
    for start in range(1, size):
        total = c.add(total, shape.narrow(squares, 1, start, input.shape[1]))
    return c.div(input, c.pow(c.add(c.mul(total, alpha / size), k), beta))


def channel_shuffle(input, groups):
    """Channels of (N, C, *) in `groups` groups, dealt out in turn."""
    apart = joining.unflatten(input, 1, (groups, -1))
    return shape.flatten(shape.transpose(apart, 1, 2), 1, 2)
