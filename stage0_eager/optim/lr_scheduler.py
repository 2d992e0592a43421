"""Learning-rate schedules, by torch's names: each call of step() writes the next rate into the parameter groups.

Input: an optimizer, whose rates at construction are the base. A schedule that scales the rate scales the one of now,
so that several schedules of one optimizer multiply, and a rate set by hand stays; the others follow from the base.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from stage0_eager.optim.cycles import CyclicLR as CyclicLR
from stage0_eager.optim.cycles import OneCycleLR as OneCycleLR
from stage0_eager.optim.optimizer import Optimizer
from stage0_eager.optim.schedule import LRScheduler, _each, _OfTheBase, _Scaled


class LambdaLR(_OfTheBase):
    """base * lr_lambda(epoch); one function, or one per group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Any, last_epoch: int = -1):
        groups = len(optimizer.param_groups)
        functions = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * groups
        if len(functions) != groups:
            raise ValueError(f"Expected {groups} lr_lambdas, but got {len(functions)}")
        self.lr_lambdas: list[Callable[[int], float]] = functions
        super().__init__(optimizer, last_epoch)

    def rates(self, epoch: int) -> list[float]:
        return [base * f(epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """Of a function None, of an object that is called its attributes."""
        kept = [None if isinstance(f, FunctionType) else dict(vars(f)) for f in self.lr_lambdas]
        return {**super().state_dict(), "lr_lambdas": kept}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "lr_lambdas"})
        for function, saved in zip(self.lr_lambdas, state_dict.get("lr_lambdas", ()), strict=False):
            vars(function).update(saved or {})


class MultiplicativeLR(LambdaLR):
    """Each step times lr_lambda(epoch): a rate follows from the one before, so it has no closed form."""

    def get_lr(self) -> list[Any]:
        before = self._current()
        if self._is_initial:
            return before
        return [rate * f(self.last_epoch) for rate, f in zip(before, self.lr_lambdas, strict=True)]


class StepLR(_Scaled):
    """Times gamma every step_size steps."""

    _changes_when_resumed = True

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1):
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return self.gamma ** (epoch // self.step_size)


class MultiStepLR(_Scaled):
    """Times gamma at each milestone."""

    _changes_when_resumed = True

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ):
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return self.gamma ** bisect_right(sorted(self.milestones.elements()), epoch)


class ExponentialLR(_Scaled):
    """Times gamma every step."""

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1):
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return self.gamma**epoch


class ConstantLR(_Scaled):
    """Times `factor` for the first total_iters steps, then the base."""

    _changes_when_resumed = True

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ):
        if not 0 <= factor <= 1:
            raise ValueError("Constant multiplicative factor expected to be between 0 and 1.")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return self.factor if _done(epoch, self.total_iters) < 1 else 1.0


def _done(epoch: int, total: int) -> float:
    """Which part of `total` steps is done; of no steps none ever is, as in torch."""
    return min(epoch, total) / total if total else 0.0


class LinearLR(_Scaled):
    """From start_factor to end_factor of the base in total_iters steps: the usual warm-up."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1.0 / 3, end_factor: float = 1.0,
        total_iters: int = 5, last_epoch: int = -1,
    ):  # fmt: skip
        if not 0 < start_factor <= 1:
            raise ValueError(
                "Starting multiplicative factor expected to be greater than 0 and less or equal to 1."
            )
        if not 0 <= end_factor <= 1:
            raise ValueError("Ending multiplicative factor expected to be between 0 and 1.")
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        change = self.end_factor - self.start_factor
        return self.start_factor + change * _done(epoch, self.total_iters)


class PolynomialLR(_Scaled):
    """Down to 0 in total_iters steps, along a power of what is left."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1):
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def _factor(self, epoch: int) -> float:
        return (1.0 - _done(epoch, self.total_iters)) ** self.power


class CosineAnnealingLR(LRScheduler):
    """From the base to eta_min and back along a cosine of half period T_max. Loshchilov and Hutter 2017."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1):
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[Any]:
        """What is above eta_min shrinks or grows with the cosine; from its zeros on, along with the base."""
        if self._is_initial:
            return self._current()
        before, now = self._share(self.last_epoch - 1), self._share(self.last_epoch)
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:
            ahead = self._share(self.T_max - 1)
            return [
                rate + (base - self.eta_min) * ahead
                for rate, base in zip(self._current(), self.base_lrs, strict=True)
            ]
        return [(rate - self.eta_min) * (now / before) + self.eta_min for rate in self._current()]

    def _get_closed_form_lr(self) -> list[Any]:
        share = self._share(self.last_epoch)
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]

    def _share(self, epoch: int) -> float:
        return (1 + math.cos(math.pi * epoch / self.T_max)) / 2


class CosineAnnealingWarmRestarts(_OfTheBase):
    """Half a cosine from the base to eta_min in T_0 steps, then anew, T_mult times as long. Loshchilov and Hutter 2017.

    step(epoch) goes to that epoch, which may be a fraction.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ):
        if T_0 <= 0 or not isinstance(T_0, int):
            raise ValueError(f"Expected positive integer T_0, but got {T_0}")
        if T_mult < 1 or not isinstance(T_mult, int):
            raise ValueError(f"Expected integer T_mult >= 1, but got {T_mult}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        super().__init__(optimizer, last_epoch)

    def step(self, epoch: float | None = None) -> None:
        if epoch is not None and epoch < 0:
            raise ValueError(f"Expected non-negative epoch, but got {epoch}")
        at = self.last_epoch + 1 if epoch is None else epoch
        self.last_epoch = math.floor(at)
        self._write(self.rates(at))

    def rates(self, epoch: float) -> list[float]:
        self.T_cur, self.T_i = epoch, self.T_0
        while self.T_cur >= self.T_i:
            self.T_cur, self.T_i = self.T_cur - self.T_i, self.T_i * self.T_mult
        share = (1 + math.cos(math.pi * self.T_cur / self.T_i)) / 2
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


def _check_together(name: str, optimizer: Optimizer, schedulers: list[Any]) -> None:
    """Raise torch's error unless the schedules can take steps together: all of one optimizer, by step()."""
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(f"{name} at index {i} should have `optimizer` as its attribute.")
        if isinstance(scheduler, ReduceLROnPlateau):
            raise ValueError(
                f"{name} does not support `ReduceLROnPlateau` scheduler as it requires additional kwargs to be "
                f"specified when calling `step`, but got one at index {i} in the given schedulers sequence."
            )
        if scheduler.optimizer is not optimizer:
            raise ValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(scheduler).__name__} at index {i} has another"
            )


class _Several(LRScheduler):
    """Schedules that take steps together; each keeps its own state."""

    _schedulers: list[Any]

    def state_dict(self) -> dict[str, Any]:
        state = {k: v for k, v in super().state_dict().items() if k != "_schedulers"}
        return {**state, "_schedulers": [s.state_dict() for s in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class SequentialLR(_Several):
    """One schedule after another: schedulers[i] until milestones[i], each counting from 0."""

    def __init__(
        self, optimizer: Optimizer, schedulers: list[Any], milestones: list[int], last_epoch: int = -1
    ):
        if not schedulers:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        _check_together("SequentialLR", optimizer, schedulers)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than the number of "
                f"milestone points, but got number of schedulers {len(schedulers)} and the number of milestones to be "
                f"equal to {len(milestones)}"
            )
        self.optimizer, self._schedulers, self._milestones = optimizer, schedulers, milestones
        self.last_epoch = last_epoch + 1
        self._write([group["initial_lr"] for group in optimizer.param_groups])
        for scheduler in schedulers:
            _undo(scheduler)
        first = schedulers[bisect_right(milestones, 0)]
        first._initial_step()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:  # type: ignore[override]
        self.last_epoch += 1
        at = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[at]
        if at and self._milestones[at - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


def _undo(scheduler: Any) -> None:
    """Take the first step back, of a schedule or of those it is made of."""
    if isinstance(scheduler, _Several):
        for part in scheduler._schedulers:
            _undo(part)
    else:
        scheduler.last_epoch -= 1


class ChainedScheduler(_Several):
    """Several schedules at once, each taking its step from the rate that the one before it left."""

    def __init__(self, schedulers: Iterable[Any], optimizer: Optimizer | None = None):
        self._schedulers = list(schedulers)
        if not self._schedulers:
            raise ValueError(
                "ChainedScheduler expects at least one scheduler to be chained, but got no scheduler."
            )
        self.optimizer = optimizer or self._schedulers[0].optimizer
        _check_together("ChainedScheduler", self.optimizer, self._schedulers)
        self._last_lr = self._current()

    def step(self) -> None:  # type: ignore[override]
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._current()


class ReduceLROnPlateau(LRScheduler):
    """Times factor when the metric given to step() has not improved for more than `patience` steps."""

    def __init__(
        self, optimizer: Optimizer, mode: str = "min", factor: float = 0.1, patience: int = 10,
        threshold: float = 1e-4, threshold_mode: str = "rel", cooldown: int = 0, min_lr: Any = 0.0, eps: float = 1e-8,
    ):  # fmt: skip
        if factor >= 1.0:
            raise ValueError("Factor should be < 1.0.")
        if mode not in ("min", "max"):
            raise ValueError(f"mode {mode} is unknown!")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold mode {threshold_mode} is unknown!")
        groups = optimizer.param_groups
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = (
            threshold,
            threshold_mode,
            cooldown,
            eps,
        )
        self.min_lrs = _each(min_lr, groups)
        if len(self.min_lrs) != len(groups):
            raise ValueError(f"expected {len(groups)} min_lrs, got {len(self.min_lrs)}")
        self.last_epoch, self.num_bad_epochs, self.cooldown_counter = 0, 0, 0
        self.mode_worse = self.best = math.inf if mode == "min" else -math.inf
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr
        self._last_lr = [group["lr"] for group in groups]

    def is_better(self, a: float, best: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return (
                sign * a < sign * best * (1 - sign * self.threshold)
                if math.isfinite(best)
                else sign * a < sign * best
            )
        return sign * a < sign * best - self.threshold

    def step(self, metrics: Any = None) -> None:
        current = float(metrics)
        self.last_epoch += 1
        if self.is_better(current, self.best):
            self.best, self.num_bad_epochs = current, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if self.num_bad_epochs > self.patience:
            lower = [max(rate * self.factor, least) for rate, least in zip(rates, self.min_lrs, strict=True)]
            rates = [new if old - new > self.eps else old for old, new in zip(rates, lower, strict=True)]
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._write(rates)
