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
from stage0_eager.functions.rectifiers import (
    celu,
    elu,
    glu,
    hardshrink,
    hardsigmoid,
    hardswish,
    hardtanh,
    logsigmoid,
    mish,
    prelu,
    relu6,
    selu,
    softmin,
    softshrink,
    softsign,
    tanhshrink,
    threshold,
)
from stage0_eager.functions.reductions import log_softmax, softmax
from stage0_eager.functions.shape import flatten
from stage0_eager.functions.statistics import normalize

sigmoid: Any = pointwise.sigmoid
tanh: Any = pointwise.tanh

__all__ = [
    "celu", "cross_entropy", "dropout", "elu", "embedding", "flatten", "gelu", "glu", "hardshrink", "hardsigmoid",
    "hardswish", "hardtanh", "l1_loss", "layer_norm", "leaky_relu", "linear", "log_softmax", "logsigmoid", "mish",
    "mse_loss", "nll_loss", "normalize", "one_hot", "prelu", "relu", "relu6", "selu", "sigmoid", "silu", "softmax",
    "softmin", "softplus", "softshrink", "softsign", "tanh", "tanhshrink", "threshold",
]  # fmt: skip
