"""GradScaler: multiplies the loss by a large number so that float16 gradients do not vanish, and divides them again.

Input: losses, and optimizers whose parameters have gradients. The scale grows while gradients stay finite and shrinks
when they do not; a step with gradients that are not finite is skipped. Names and numbers are those of
torch.amp.GradScaler.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np

from stage0_eager import arrays
from stage0_eager.state import no_grad
from stage0_eager.tensor import Tensor

READY, UNSCALED, STEPPED = "ready", "unscaled", "stepped"


class GradScaler:
    """`scaler.scale(loss).backward(); scaler.step(optimizer); scaler.update()`.

    Disabled, and on "cuda" without a GPU (with a warning), it hands everything through. Raises RuntimeError for calls
    out of order: unscale_ or step twice between two updates.
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        if enabled and device == "cuda" and not arrays.gpu_is_there():
            warnings.warn(
                "torch.cuda.amp.GradScaler is enabled, but CUDA is not available.  Disabling.", stacklevel=2
            )
            enabled = False
        if enabled and growth_factor <= 1.0:
            raise AssertionError("The growth factor must be > 1.0.")
        if enabled and backoff_factor >= 1.0:
            raise AssertionError("The backoff factor must be < 1.0.")
        self._device, self._enabled = device, enabled
        self._scale, self._growth_factor, self._backoff_factor = (
            float(init_scale), float(growth_factor), float(backoff_factor),
        )  # fmt: skip
        self._growth_interval, self._growth_tracker = growth_interval, 0
        self._stages: dict[int, str] = {}  # of each optimizer since the last update
        self._found_inf: dict[int, bool] = {}

    # ---- one step of training --------------------------------------------------------------------------------

    def scale(self, outputs: Any) -> Any:
        """A tensor times the scale, or each tensor in a list or tuple."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs.mul(self._scale)
        if isinstance(outputs, Iterable):
            return type(outputs)(map(self.scale, outputs))  # type: ignore[call-arg]
        raise ValueError("outputs must be a Tensor or an iterable of Tensors")

    def unscale_(self, optimizer: Any) -> None:
        """Divide the gradients of the optimizer's parameters by the scale, to look at them or clip them."""
        if not self._enabled:
            return
        stage = self._stages.get(id(optimizer), READY)
        if stage == UNSCALED:
            raise RuntimeError(
                "unscale_() has already been called on this optimizer since the last update()."
            )
        if stage == STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        found = self._divide(optimizer)
        if found is not None:
            self._found_inf[id(optimizer)] = found
        self._stages[id(optimizer)] = UNSCALED

    def _divide(self, optimizer: Any) -> bool | None:
        """Whether a gradient was not finite; None if there was none."""
        found: bool | None = None
        with no_grad():
            for group in optimizer.param_groups:
                for p in group["params"]:
                    if p.grad is None:
                        continue
                    if p.grad.dtype.name == "float16":
                        raise ValueError("Attempting to unscale FP16 gradients.")
                    found = found or not bool(p.grad.isfinite().all())
                    p.grad.mul_(1.0 / self._scale)
        return found

    def step(self, optimizer: Any, *args: Any, **kwargs: Any) -> Any:
        """`optimizer.step()` on unscaled gradients, unless one is infinite or NaN. Returns what the step returns."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        stage = self._stages.get(id(optimizer), READY)
        if stage == STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage == READY:
            self.unscale_(optimizer)
        if id(optimizer) not in self._found_inf:
            raise AssertionError("No inf checks were recorded for this optimizer.")
        result = None if self._found_inf[id(optimizer)] else optimizer.step(*args, **kwargs)
        self._stages[id(optimizer)] = STEPPED
        return result

    def update(self, new_scale: Any = None) -> None:
        """After the steps: a smaller scale if a gradient was not finite, a larger after growth_interval good steps."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._found_inf:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(self._found_inf.values()):
            self._scale *= self._backoff_factor
            self._growth_tracker = 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                grown = float(np.float32(self._scale * self._growth_factor))
                self._scale = grown if np.isfinite(grown) else self._scale
                self._growth_tracker = 0
        self._stages.clear()
        self._found_inf.clear()

    # ---- what it holds ---------------------------------------------------------------------------------------

    def get_scale(self) -> float:
        return self._scale if self._enabled else 1.0

    def is_enabled(self) -> bool:
        return self._enabled

    def get_growth_factor(self) -> float:
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        self._growth_interval = new_interval

    def state_dict(self) -> dict[str, Any]:
        """Empty when disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale, "growth_factor": self._growth_factor, "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval, "_growth_tracker": self._growth_tracker,
        }  # fmt: skip

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled instance of GradScaler."
            )
        self._scale, self._growth_tracker = float(state_dict["scale"]), state_dict["_growth_tracker"]
        self._growth_factor, self._backoff_factor = (
            state_dict["growth_factor"], state_dict["backoff_factor"],
        )  # fmt: skip
        self._growth_interval = state_dict["growth_interval"]
