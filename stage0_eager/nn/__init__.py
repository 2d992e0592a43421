"""Modules, by torch's names. `functional` holds the functions they call."""

from stage0_eager.nn import functional, init
from stage0_eager.nn.layers import (
    GELU,
    CrossEntropyLoss,
    Dropout,
    Embedding,
    Flatten,
    Identity,
    LayerNorm,
    Linear,
    LogSoftmax,
    ModuleList,
    MSELoss,
    ReLU,
    Sequential,
    Sigmoid,
    SiLU,
    Softmax,
    Tanh,
)
from stage0_eager.nn.module import Module, Parameter

__all__ = [
    "GELU", "CrossEntropyLoss", "Dropout", "Embedding", "Flatten", "Identity", "LayerNorm", "Linear", "LogSoftmax",
    "MSELoss", "Module", "ModuleList", "Parameter", "ReLU", "Sequential", "SiLU", "Sigmoid", "Softmax", "Tanh",
    "functional", "init",
]  # fmt: skip
