"""Optimizers, by torch's names."""

from stage0_eager.optim.optimizers import SGD, AdamW, Optimizer

__all__ = ["SGD", "AdamW", "Optimizer"]
