"""Optimizers and learning-rate schedules, by torch's names."""

from stage0_eager.optim import lr_scheduler
from stage0_eager.optim.adaptive import Adagrad, Adam, AdamW, NAdam, RMSprop
from stage0_eager.optim.further import ASGD, Adadelta, Adamax, RAdam, Rprop
from stage0_eager.optim.optimizer import SGD, Optimizer

__all__ = [
    "ASGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD",
    "lr_scheduler",
]  # fmt: skip
