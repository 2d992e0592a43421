"""The base classes of learning-rate schedules: counting steps, and writing rates into the parameter groups.

Input: an optimizer, whose rates at construction are the base. lr_scheduler.py has the schedules.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stage0_eager.optim.optimizer import Optimizer
from stage0_eager.state import no_grad
from stage0_eager.tensor import Tensor


def _copies(values: Iterable[Any]) -> list[Any]:
    return [value.clone() if isinstance(value, Tensor) else value for value in values]


def _each(value: Any, groups: list) -> list:
    return list(value) if isinstance(value, (list, tuple)) else [value] * len(groups)


@no_grad()
def _set_rate(group: dict[str, Any], rate: Any) -> None:
    """A rate that is a tensor stays the same tensor."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


class LRScheduler:
    """Counts steps; a subclass gives the rates of the step `last_epoch` by `get_lr`, as in torch."""

    _is_initial = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1):
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer, self.last_epoch = optimizer, last_epoch
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", *_copies([group["lr"]]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    f"last_epoch >= 0"
                )
        self.base_lrs = _copies(group["initial_lr"] for group in optimizer.param_groups)
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count, self._get_lr_called_within_step = (
            0,
            False,
        )  # torch's fields: its checkpoints load here
        self._is_initial = True
        self.step()
        self._is_initial = False

    def get_lr(self) -> list[Any]:
        """The rate of each group at the step `last_epoch`."""
        raise NotImplementedError

    def _get_closed_form_lr(self) -> list[Any]:
        """The same from the base alone, for step(epoch)."""
        return self.get_lr()

    def step(self, epoch: int | None = None) -> None:
        """Advance by one, or go to `epoch`, and write the rates."""
        self._step_count += 1
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        if epoch is None:
            self.last_epoch += 1
            self._write(self.get_lr())
        else:
            self.last_epoch = epoch
            self._write(self._get_closed_form_lr())

    def _write(self, rates: list[Any]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            _set_rate(group, rate)
        self._last_lr = self._current()

    def _current(self) -> list[Any]:
        return _copies(group["lr"] for group in self.optimizer.param_groups)

    def get_last_lr(self) -> list[Any]:
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """All but the optimizer and functions."""
        return {k: v for k, v in self.__dict__.items() if k != "optimizer" and not callable(v)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.__dict__.update(state_dict)


class _Scaled(LRScheduler):
    """The base times a factor of the step: each step multiplies the rate of now by what the factor changed."""

    _changes_when_resumed = False  # whether the step that a resumed schedule begins with changes the rate

    def _factor(self, epoch: int) -> float:
        raise NotImplementedError

    def get_lr(self) -> list[Any]:
        change = self._change(self.last_epoch)
        return self._current() if change == 1 else [rate * change for rate in self._current()]

    def _change(self, epoch: int) -> float:
        if epoch == 0:
            return self._factor(0)
        before, now = self._factor(epoch - 1), self._factor(epoch)
        kept = before == now or (self._is_initial and not self._changes_when_resumed)
        return 1.0 if kept else now / before

    def _get_closed_form_lr(self) -> list[Any]:
        factor = self._factor(self.last_epoch)
        return [base * factor for base in self.base_lrs]


class _OfTheBase(LRScheduler):
    """The rates of a step follow from the base, whatever they are now."""

    def rates(self, epoch: int) -> list[Any]:
        raise NotImplementedError

    def get_lr(self) -> list[Any]:
        return self.rates(self.last_epoch)
