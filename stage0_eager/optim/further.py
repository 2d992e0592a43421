"""Adadelta, Adamax, RAdam, Rprop, ASGD: further optimizers by torch's names and constructor arguments.

Input: parameters with `.grad`. As in optimizer.py, each update is a pure function of tensors and numbers.
"""

from __future__ import annotations

from stage0_eager.functions import creation, pointwise
from stage0_eager.functions.gather_scatter import where
from stage0_eager.optim.adaptive import check_betas, decayed_in, gradient_of, refuse_negative
from stage0_eager.optim.optimizer import Optimizer, keep, speed_options


def adadelta_update(p, g, square_avg, acc_delta, lr, rho, eps):
    """(new parameter, mean square of gradients, of steps). Zeiler, "ADADELTA" (2012)."""
    square_avg = square_avg * rho + g * g * (1 - rho)
    step = (acc_delta + eps).sqrt() / (square_avg + eps).sqrt() * g
    return p - step * lr, square_avg, acc_delta * rho + step * step * (1 - rho)


class Adadelta(Optimizer):
    """Steps in the unit of the parameters: no learning rate to choose."""

    def __init__(
        self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0, foreach=None, *, capturable=False, maximize=False,
        differentiable=False,
    ):  # fmt: skip
        refuse_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        if not 0 <= rho <= 1:
            raise ValueError(f"Invalid rho value: {rho}")
        options = {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(
            params, options | speed_options(differentiable, foreach=foreach, capturable=capturable)
        )

    def init_state(self, p, state, group):
        state.update(step=0, square_avg=creation.zeros_like(p), acc_delta=creation.zeros_like(p))

    def update(self, p, g, state, group):
        if not state:
            self.init_state(p, state, group)
        state["step"] += 1
        new, square_avg, acc_delta = adadelta_update(
            p,
            gradient_of(p, g, group),
            state["square_avg"],
            state["acc_delta"],
            group["lr"],
            group["rho"],
            group["eps"],
        )
        keep(state, square_avg=square_avg, acc_delta=acc_delta)
        p.copy_(new)


def adamax_update(p, g, exp_avg, exp_inf, lr, beta1, beta2, eps, correction):
    """(new parameter, first moment, infinity norm). Kingma and Ba 2015, section 7; correction = 1 - beta1**step."""
    exp_avg = exp_avg + (g - exp_avg) * (1 - beta1)
    exp_inf = pointwise.maximum(exp_inf * beta2, g.abs() + eps)
    return p - exp_avg / exp_inf * (lr / correction), exp_avg, exp_inf


class Adamax(Optimizer):
    """Adam with the largest gradient in the place of the second moment."""

    def __init__(
        self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, foreach=None, *, maximize=False,
        differentiable=False, capturable=False,
    ):  # fmt: skip
        refuse_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        super().__init__(
            params, options | speed_options(differentiable, foreach=foreach, capturable=capturable)
        )

    def init_state(self, p, state, group):
        state.update(step=0, exp_avg=creation.zeros_like(p), exp_inf=creation.zeros_like(p))

    def update(self, p, g, state, group):
        if not state:
            self.init_state(p, state, group)
        state["step"] += 1
        beta1, beta2 = group["betas"]
        new, exp_avg, exp_inf = adamax_update(
            p, gradient_of(p, g, group), state["exp_avg"], state["exp_inf"], group["lr"], beta1, beta2, group["eps"],
            1 - beta1 ** state["step"],
        )  # fmt: skip
        keep(state, exp_avg=exp_avg, exp_inf=exp_inf)
        p.copy_(new)


def radam_update(p, g, exp_avg, exp_avg_sq, lr, beta1, beta2, eps, step):
    """(new parameter, both moments). Liu et al., "On the variance of the adaptive learning rate and beyond" (2020)."""
    exp_avg = exp_avg + (g - exp_avg) * (1 - beta1)
    exp_avg_sq = exp_avg_sq * beta2 + g * g * (1 - beta2)
    correction2 = 1 - beta2**step
    longest = 2 / (1 - beta2) - 1
    length = longest - 2 * step * beta2**step / correction2
    move = exp_avg * (lr / (1 - beta1**step))
    if length > 5:  # the variance of the adaptive rate is known: divide by the second moment
        rectified = ((length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)) ** 0.5
        move = move * (rectified * correction2**0.5) / (exp_avg_sq.sqrt() + eps)
    return p - move, exp_avg, exp_avg_sq


class RAdam(Optimizer):
    """Adam that warms up by itself."""

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, decoupled_weight_decay=False, *,
        foreach=None, maximize=False, capturable=False, differentiable=False,
    ):  # fmt: skip
        refuse_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        options = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay, "maximize": maximize}
        options |= speed_options(differentiable, foreach=foreach, capturable=capturable)
        super().__init__(params, options | {"decoupled_weight_decay": decoupled_weight_decay})

    def init_state(self, p, state, group):
        state.update(step=0, exp_avg=creation.zeros_like(p), exp_avg_sq=creation.zeros_like(p))

    def update(self, p, g, state, group):
        if not state:
            self.init_state(p, state, group)
        state["step"] += 1
        (beta1, beta2), (start, g) = group["betas"], decayed_in(group, p, g)
        new, exp_avg, exp_avg_sq = radam_update(
            start, g, state["exp_avg"], state["exp_avg_sq"], group["lr"], beta1, beta2, group["eps"], state["step"]
        )  # fmt: skip
        keep(state, exp_avg=exp_avg, exp_avg_sq=exp_avg_sq)
        p.copy_(new)


def rprop_update(p, g, prev, step_size, shrink, grow, smallest, largest):
    """(new parameter, gradient to remember, step sizes). Riedmiller and Braun 1993, without going back."""
    agree = g * prev
    waiting = where(agree < 0, step_size * shrink, step_size)
    step_size = where(agree > 0, step_size * grow, waiting).clamp(smallest, largest)
    g = where(agree < 0, 0.0, g)  # where the sign turned, wait
    return p - g.sign() * step_size, g, step_size


class Rprop(Optimizer):
    """Steps by the signs of gradients only, each with a size of its own."""

    def __init__(
        self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50), *, capturable=False, foreach=None,
        maximize=False, differentiable=False,
    ):  # fmt: skip
        refuse_negative(lr=lr)
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f"Invalid eta values: {etas[0]}, {etas[1]}")
        options = {"lr": lr, "etas": etas, "step_sizes": step_sizes, "maximize": maximize}
        super().__init__(
            params, options | speed_options(differentiable, foreach=foreach, capturable=capturable)
        )

    def init_state(self, p, state, group):
        state.update(step=0, prev=creation.zeros_like(p), step_size=creation.full_like(p, float(group["lr"])))

    def update(self, p, g, state, group):
        if not state:
            self.init_state(p, state, group)
        state["step"] += 1
        g = -g if group["maximize"] else g
        new, prev, step_size = rprop_update(
            p, g, state["prev"], state["step_size"], *group["etas"], *group["step_sizes"]
        )
        keep(state, prev=prev, step_size=step_size)
        p.copy_(new)


def asgd_update(p, g, ax, eta, mu, lambd):
    """(new parameter, its average). Polyak and Juditsky 1992."""
    p = p * (1 - lambd * eta) - g * eta
    return p, p if mu == 1 else ax + (p - ax) * mu


class ASGD(Optimizer):
    """Averaged stochastic gradient descent: state["ax"] is the average."""

    def __init__(
        self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0, foreach=None, maximize=False,
        differentiable=False, capturable=False,
    ):  # fmt: skip
        refuse_negative(lr=lr, weight_decay=weight_decay)
        options = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay}
        speed = speed_options(differentiable, foreach=foreach, capturable=capturable)
        super().__init__(params, options | {"maximize": maximize} | speed)

    def init_state(self, p, state, group):
        state.update(step=0, eta=group["lr"], mu=1.0, ax=creation.zeros_like(p))

    def update(self, p, g, state, group):
        if not state:
            self.init_state(p, state, group)
        state["step"] += 1
        step = state["step"]
        new, ax = asgd_update(
            p, gradient_of(p, g, group), state["ax"], state["eta"], state["mu"], group["lambd"]
        )
        keep(state, ax=ax)
        p.copy_(new)
        state["eta"] = group["lr"] / (1 + group["lambd"] * group["lr"] * step) ** group["alpha"]
        state["mu"] = 1 / max(1, step - group["t0"])
