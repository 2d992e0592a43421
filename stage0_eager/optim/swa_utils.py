"""Averages of a model's parameters over training: stochastic weight averaging and exponential moving averages.

Input: a model in training, and its optimizer. The idea: Izmailov et al., "Averaging weights leads to wider optima and
better generalization" (2018). Names and rules follow torch.optim.swa_utils.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from stage0_eager.functions.creation import tensor
from stage0_eager.nn.module import Module
from stage0_eager.nn.normalization import _BatchNorm
from stage0_eager.optim.optimizer import Optimizer
from stage0_eager.optim.schedule import _OfTheBase
from stage0_eager.state import no_grad
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt

Average = Callable[[Tensor, Tensor, Any], Tensor]
AverageOfMany = Callable[[Sequence[Tensor], Sequence[Tensor], Any], None]


def _checked(decay: float) -> float:
    if not 0.0 <= decay <= 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")
    return decay


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """avg_fn: `decay` of the average so far, the rest of the model."""
    _checked(decay)

    @no_grad()
    def ema_update(ema_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn() -> Average:
    """avg_fn: the mean of all models so far, each with the same weight."""

    @no_grad()
    def swa_update(averaged_param: Tensor, current_param: Tensor, num_averaged: Any) -> Tensor:
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


def _of_many(average: Average) -> AverageOfMany:
    @no_grad()
    def update(averaged: Sequence[Tensor], current: Sequence[Tensor], num_averaged: Any) -> None:
        for mine, new in zip(averaged, current, strict=True):
            mine.copy_(average(mine, new, num_averaged))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> AverageOfMany:
    """multi_avg_fn: get_ema_avg_fn on lists of tensors, in place."""
    return _of_many(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> AverageOfMany:
    """multi_avg_fn: get_swa_avg_fn on lists of tensors, in place."""
    return _of_many(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model whose parameters are averages: `update_parameters(model)` after each step to be counted.

    use_buffers: buffers are averaged too, else copied. Raises AssertionError for both kinds of functions at once.
    """

    n_averaged: Tensor

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Average | None = None,
        multi_avg_fn: AverageOfMany | None = None, use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tensor(0, dtype=dt.int64, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    @no_grad()
    def update_parameters(self, model: Module) -> None:
        """Count the model's parameters in: the first time they are copied."""
        averaged, current = _averaged(self.module, self.use_buffers), _averaged(model, self.use_buffers)
        if int(self.n_averaged) == 0:
            for mine, new in zip(averaged, current, strict=True):
                mine.copy_(new.to(mine.device))
        else:
            self._average(
                averaged, [new.to(mine.device) for mine, new in zip(averaged, current, strict=True)]
            )
        if not self.use_buffers:
            for mine, new in zip(self.module.buffers(), model.buffers(), strict=True):
                mine.copy_(new.to(mine.device))
        self.n_averaged.add_(1)

    def _average(self, averaged: list[Tensor], current: list[Tensor]) -> None:
        if self.multi_avg_fn is not None:
            return self.multi_avg_fn(averaged, current, self.n_averaged)
        one = self.avg_fn or get_swa_avg_fn()
        for mine, new in zip(averaged, current, strict=True):
            mine.copy_(one(mine, new, self.n_averaged))


def _averaged(model: Module, buffers: bool) -> list[Tensor]:
    more = model.buffers() if buffers else ()
    return [value.detach() for value in itertools.chain(model.parameters(), more)]


@no_grad()
def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Compute the running statistics of the model's batch norms anew, as means over the loader's batches.

    A batch is a tensor, or a list or tuple that begins with one. The model's modes are as before afterwards.
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    before = [norm.momentum for norm in norms]
    was_training = model.training
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the mean of all batches
    model.train()
    for batch in loader:
        first = batch[0] if isinstance(batch, (list, tuple)) else batch
        model(first if device is None else first.to(device))
    for norm, momentum in zip(norms, before, strict=True):
        norm.momentum = momentum
    model.train(was_training)


class SWALR(_OfTheBase):
    """Anneals each group's rate from what it was to `swa_lr` in `anneal_epochs` steps, by a cosine or in a line."""

    def __init__(
        self, optimizer: Optimizer, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:  # fmt: skip
        if anneal_strategy not in _ANNEAL:
            raise ValueError(
                f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        groups = optimizer.param_groups
        goals = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(groups)
        if len(goals) != len(groups):
            raise ValueError(f"swa_lr must have the same length as param_groups: {len(goals)}, {len(groups)}")
        for group, goal in zip(groups, goals, strict=True):
            group["swa_lr"] = goal
        self.anneal_epochs, self.anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _share(self, epoch: int) -> float:
        done = 1.0 if self.anneal_epochs == 0 else max(0, min(1, epoch / self.anneal_epochs))
        return _ANNEAL[self.anneal_strategy](done)

    def rates(self, epoch: int) -> list[float]:
        """From the rates of now, which another schedule may have changed: what is left of the way is undone first."""
        groups = self.optimizer.param_groups
        before, now = self._share(max(0, epoch - 1)), self._share(epoch)
        if before == 1:
            return [group["swa_lr"] for group in groups]
        starts = [(group["lr"] - group["swa_lr"] * before) / (1 - before) for group in groups]
        return [
            group["swa_lr"] * now + start * (1 - now) for group, start in zip(groups, starts, strict=True)
        ]


_ANNEAL: dict[str, Callable[[float], float]] = {
    "cos": lambda done: (1 - math.cos(math.pi * done)) / 2,
    "linear": lambda done: done,
}
__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip
