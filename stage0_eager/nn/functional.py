"""torch.nn.functional's names: the public functions, gathered."""

from typing import Any

from stage0_eager.functions import pointwise
from stage0_eager.functions.activations import (
    cross_entropy,
    dropout,
    embedding,
    gelu,
    l1_loss,
    layer_norm,
    leaky_relu,
    mse_loss,
    nll_loss,
    one_hot,
    relu,
    silu,
    softplus,
)
from stage0_eager.functions.linalg import linear
from stage0_eager.functions.reductions import log_softmax, softmax
from stage0_eager.functions.shape import flatten
from stage0_eager.functions.windows import pad

sigmoid: Any = pointwise.sigmoid
tanh: Any = pointwise.tanh

__all__ = [
    "cross_entropy", "dropout", "embedding", "flatten", "gelu", "l1_loss", "layer_norm", "leaky_relu", "linear",
    "log_softmax", "mse_loss", "nll_loss", "one_hot", "pad", "relu", "sigmoid", "silu", "softmax", "softplus", "tanh",
]  # fmt: skip
