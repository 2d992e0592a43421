"""Optimizers and learning-rate schedules, by torch's names."""

from stage0_eager.optim import lr_scheduler, swa_utils
from stage0_eager.optim.adaptive import Adagrad, Adam, AdamW, NAdam, RMSprop
from stage0_eager.optim.further import ASGD, Adadelta, Adamax, RAdam, Rprop
from stage0_eager.optim.lbfgs import LBFGS
from stage0_eager.optim.matrix_optimizers import Adafactor, Muon
from stage0_eager.optim.optimizer import SGD, Optimizer
from stage0_eager.optim.sparse import SparseAdam

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "SparseAdam", "lr_scheduler", "swa_utils",
]  # fmt: skip
