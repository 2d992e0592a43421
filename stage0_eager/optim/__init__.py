"""Optimizers and learning-rate schedules, by torch's names."""

from stage0_eager.optim import lr_scheduler
from stage0_eager.optim.adaptive import Adagrad, Adam, AdamW, NAdam, RMSprop
from stage0_eager.optim.optimizers import SGD, Optimizer

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "NAdam", "Optimizer", "RMSprop", "lr_scheduler"]
