"""Adafactor and Muon: optimizers that look at a parameter as a matrix.

Input: parameters with `.grad`; Muon takes matrices only. As in optimizer.py, each update is a pure function.
"""

from __future__ import annotations

import math

from stage0_eager.functions import creation
from stage0_eager.functions.linalg.products import addmm
from stage0_eager.optim.adaptive import refuse_negative
from stage0_eager.optim.optimizer import Optimizer, keep, speed_options
from stage0_eager.type_info import finfo
from stage_contracts import dtype as dt


def factored_variance(g, row_var, col_var, weight, eps):
    """(estimate of the mean square, its rows' means, its columns' means): an outer product stands for the matrix."""
    row_var = row_var + ((g * g).mean(-1, keepdim=True) - row_var) * weight
    col_var = col_var + ((g * g).mean(-2, keepdim=True) - col_var) * weight
    return row_var @ col_var / row_var.mean(-2, keepdim=True).clamp(min=eps), row_var, col_var


class Adafactor(Optimizer):
    """Shazeer and Stern, "Adafactor: adaptive learning rates with sublinear memory cost" (2018), as torch has it."""

    def __init__(
        self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *, foreach=None,
        maximize=False,
    ):  # fmt: skip
        refuse_negative(lr=lr, weight_decay=weight_decay)
        if beta2_decay > 0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if d < 1:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        options = {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay}
        super().__init__(params, {**options, "maximize": maximize, **speed_options(foreach=foreach)})

    def init_state(self, p, state, group):
        state["step"] = 0
        if p.ndim > 1:
            state["row_var"] = creation.zeros_like(p).sum(-1, keepdim=True)
            state["col_var"] = creation.zeros_like(p).sum(-2, keepdim=True)
        else:
            state["variance"] = creation.zeros_like(p)

    def update(self, p, g, state, group):
        if not state:
            self.init_state(p, state, group)
        state["step"] += 1
        g = -g if group["maximize"] else g
        least, floor = group["eps"]
        least = finfo(p.dtype).eps if least is None else least
        weight = state["step"] ** group["beta2_decay"]
        size = (p.norm() / math.sqrt(p.numel())).clamp(min=floor)
        lr = size * min(group["lr"], 1 / math.sqrt(state["step"]))
        if p.ndim > 1:
            estimate, row_var, col_var = factored_variance(
                g, state["row_var"], state["col_var"], weight, least
            )
            keep(state, row_var=row_var, col_var=col_var)
        else:
            estimate = state["variance"] + (g * g - state["variance"]) * weight
            keep(state, variance=estimate.clone())
        step = estimate.clamp(min=least * least).rsqrt() * g
        clip = (step.norm() / (math.sqrt(step.numel()) * group["d"])).clamp(min=1.0)
        p.copy_(p * (1 - group["lr"] * group["weight_decay"]) - step * (lr / clip))


def orthogonalized(g, coefficients, steps, eps):
    """g with its singular values moved near 1 by Newton and Schulz's iteration, in bfloat16. Jordan et al. (2024)."""
    a, b, c = coefficients
    x = g.to(dt.bfloat16)
    turned = g.shape[0] > g.shape[1]
    x = x.mT if turned else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        square = x @ x.mT
        x = addmm(x, addmm(square, square, square, beta=b, alpha=c), x, beta=a)  # each rounded once
    return (x.mT if turned else x).to(g.dtype)


_RATES = {
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}


class Muon(Optimizer):
    """Momentum, orthogonalized: for matrices inside a network."""

    def __init__(
        self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, ns_coefficients=(3.4445, -4.775, 2.0315),
        eps=1e-7, ns_steps=5, adjust_lr_fn=None,
    ):  # fmt: skip
        refuse_negative(lr=lr, momentum=momentum, weight_decay=weight_decay)
        if adjust_lr_fn is not None and adjust_lr_fn not in _RATES:
            raise ValueError(
                f"Adjust learning rate function {adjust_lr_fn} is not supported; it is one of {', '.join(_RATES)}"
            )
        options = {
            "lr": lr,
            "weight_decay": weight_decay,
            "momentum": momentum,
            "nesterov": nesterov,
            "eps": eps,
        }
        more = {"ns_coefficients": ns_coefficients, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn}
        super().__init__(params, options | more)

    def add_param_group(self, param_group):
        super().add_param_group(param_group)
        for p in self.param_groups[-1]["params"]:
            if p.ndim != 2:
                raise ValueError(f"Muon only supports 2D parameters, but got one of size {tuple(p.shape)}")

    def init_state(self, p, state, group):
        state["momentum_buffer"] = creation.zeros_like(p)

    def update(self, p, g, state, group):
        if not state:
            self.init_state(p, state, group)
        momentum, buffer = group["momentum"], state["momentum_buffer"]
        buffer = buffer + (g - buffer) * (1 - momentum)
        direction = g + (buffer - g) * momentum if group["nesterov"] else buffer
        step = orthogonalized(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
        keep(state, momentum_buffer=buffer)
        rate = _RATES[group["adjust_lr_fn"] or "original"](*p.shape)
        p.copy_(p * (1 - group["lr"] * group["weight_decay"]) - step * (group["lr"] * rate))
