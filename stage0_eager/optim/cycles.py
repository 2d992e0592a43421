"""Schedules that go up and down, and the momentum the other way round: CyclicLR and OneCycleLR.

Input: an optimizer; lr_scheduler.py has them by torch's names.
"""

from __future__ import annotations

import math
from types import FunctionType
from typing import Any

from stage0_eager.optim.optimizer import Optimizer
from stage0_eager.optim.schedule import _copies, _each, _OfTheBase, _set_rate


class CyclicLR(_OfTheBase):
    """Up from base_lr to max_lr and down again, over and over; momentum the other way round. Smith 2017.

    mode scales each cycle: "triangular" not at all, "triangular2" by half, "exp_range" by gamma a step; scale_fn in
    its place is a function of the cycle (from 1) or, with scale_mode="iterations", of the step.
    """

    def __init__(
        self, optimizer: Optimizer, base_lr: Any, max_lr: Any, step_size_up: int = 2000,
        step_size_down: int | None = None, mode: str = "triangular", gamma: float = 1.0, scale_fn: Any = None,
        scale_mode: str = "cycle", cycle_momentum: bool = True, base_momentum: Any = 0.8, max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ):  # fmt: skip
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        groups = optimizer.param_groups
        if cycle_momentum and not any(k in groups[0] for k in ("momentum", "betas")):
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        self.max_lrs, self.mode, self.gamma, self.scale_fn = _each(max_lr, groups), mode, gamma, scale_fn
        self.scale_mode = "iterations" if mode == "exp_range" and scale_fn is None else scale_mode
        self.total_size = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.step_ratio, self.cycle_momentum = step_size_up / self.total_size, cycle_momentum
        if cycle_momentum:
            self.use_beta1 = "betas" in groups[0]
            self.base_momentums, self.max_momentums = (
                _each(base_momentum, groups),
                _each(max_momentum, groups),
            )
        base_lrs = _copies(_each(base_lr, groups))
        if last_epoch == -1:
            for group, rate in zip(groups, base_lrs, strict=True):
                _set_rate(group, rate)
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs  # an earlier schedule may have left another one in the group

    def state_dict(self) -> dict[str, Any]:
        """With torch's name of the function: None of one, of an object that is called its attributes."""
        state = {k: v for k, v in super().state_dict().items() if k != "scale_fn"}
        plain = self.scale_fn is None or isinstance(self.scale_fn, FunctionType)
        return {**state, "_scale_fn_custom": None if plain else dict(vars(self.scale_fn))}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict({k: v for k, v in state_dict.items() if k != "_scale_fn_custom"})
        if state_dict.get("_scale_fn_custom"):
            vars(self.scale_fn).update(state_dict["_scale_fn_custom"])

    def _scale(self, at: float) -> float:
        if self.scale_fn is not None:
            return self.scale_fn(at)
        return {"triangular": 1.0, "triangular2": 0.5 ** (at - 1), "exp_range": self.gamma**at}[self.mode]

    def rates(self, epoch: int) -> list[float]:
        cycle = math.floor(1 + epoch / self.total_size)
        x = 1.0 + epoch / self.total_size - cycle
        height = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height *= self._scale(cycle if self.scale_mode == "cycle" else epoch)
        if self.cycle_momentum:
            limits = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in limits:
                _set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]


def _set_momentum(group: dict[str, Any], momentum: float) -> None:
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


class OneCycleLR(_OfTheBase):
    """Up from max_lr / div_factor to max_lr, then down to that start / final_div_factor. Smith and Topin 2018.

    Give total_steps, or epochs and steps_per_epoch. Momentum, or beta1, goes the other way round.
    """

    def __init__(
        self, optimizer: Optimizer, max_lr: Any, total_steps: int | None = None, epochs: int | None = None,
        steps_per_epoch: int | None = None, pct_start: float = 0.3, anneal_strategy: str = "cos",
        cycle_momentum: bool = True, base_momentum: float = 0.85, max_momentum: float = 0.95,
        div_factor: float = 25.0, final_div_factor: float = 1e4, three_phase: bool = False, last_epoch: int = -1,
    ):  # fmt: skip
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
            total_steps = epochs * steps_per_epoch
        if total_steps <= 0:
            raise ValueError(f"Expected positive integer total_steps, but got {total_steps}")
        if not 0 <= pct_start <= 1:
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        groups = optimizer.param_groups
        # names and places are torch's, whose checkpoints load here and the other way round: rates are in the groups
        self.total_steps, self._anneal_func_type, self.cycle_momentum = (
            total_steps,
            anneal_strategy,
            cycle_momentum,
        )
        self._schedule_phases = _phases(pct_start * total_steps - 1.0, total_steps - 1, three_phase)
        if cycle_momentum and not any(k in groups[0] for k in ("momentum", "betas")):
            raise ValueError("optimizer must support momentum or beta1 with `cycle_momentum` option enabled")
        if cycle_momentum:
            self.use_beta1 = "betas" in groups[0]
        if last_epoch == -1:
            for group, high in zip(groups, _each(max_lr, groups), strict=True):
                low = high / div_factor
                group.update(initial_lr=low, max_lr=high, min_lr=low / final_div_factor)
                if cycle_momentum:
                    group.update(max_momentum=max_momentum, base_momentum=base_momentum)
        super().__init__(optimizer, last_epoch)

    def _phase(self, epoch: int) -> tuple[dict[str, Any], float]:
        """The phase that a step is in, and which share of it is done."""
        if epoch >= self.total_steps + 1:
            raise ValueError(
                f"Tried to step {epoch} times. The specified number of total steps is {self.total_steps}"
            )
        first = 0.0
        for phase in self._schedule_phases[:-1]:
            if epoch <= phase["end_step"]:
                break
            first = phase["end_step"]
        else:
            phase = self._schedule_phases[-1]
        return phase, (epoch - first) / (phase["end_step"] - first)

    def rates(self, epoch: int) -> list[float]:
        phase, share = self._phase(epoch)

        def between(group: dict[str, Any], what: str) -> float:
            low, high = group[phase[f"start_{what}"]], group[phase[f"end_{what}"]]
            if self._anneal_func_type == "linear":
                return low + (high - low) * share
            return high + (low - high) / 2 * (1 + math.cos(math.pi * share))

        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                _set_momentum(group, between(group, "momentum"))
        return [between(group, "lr") for group in self.optimizer.param_groups]


def _phases(peak: float, last: int, three: bool) -> list[dict[str, Any]]:
    """The phases of one cycle: the last step of each, and from where to where it goes, by names in the groups."""
    rows = [(peak, "initial_lr", "max_lr", "max", "base"), (last, "max_lr", "min_lr", "base", "max")]
    if three:
        rows[1:] = [
            (2 * peak, "max_lr", "initial_lr", "base", "max"),
            (last, "initial_lr", "min_lr", "max", "max"),
        ]
    return [
        {
            "end_step": end, "start_lr": start_lr, "end_lr": end_lr, "start_momentum": f"{start}_momentum",
            "end_momentum": f"{to}_momentum",
        }
        for end, start_lr, end_lr, start, to in rows
    ]  # fmt: skip
