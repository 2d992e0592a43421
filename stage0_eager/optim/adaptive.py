"""Adam, AdamW, RMSprop, Adagrad and NAdam: optimizers whose step depends on the gradients' history per element.

Input: parameters with `.grad`. As in optimizer.py, each update is a pure function of tensors and numbers.
"""

from __future__ import annotations

from stage0_eager.functions import creation, pointwise
from stage0_eager.optim.optimizer import Optimizer, keep, speed_options


def refuse_negative(**values):
    """Raise torch's ValueError for a number below 0."""
    names = {"lr": "learning rate", "eps": "epsilon value"}
    for name, value in values.items():
        if value < 0:
            raise ValueError(f"Invalid {names.get(name, name + ' value')}: {value}")


def check_betas(betas):
    for i, beta in enumerate(betas):
        if not 0 <= beta < 1:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def adam_update(
    p, g, exp_avg, exp_avg_sq, max_exp_avg_sq, step, lr, beta1, beta2, eps, weight_decay, decoupled, maximize
):
    """(new parameter, first moment, second moment, its running maximum or None). Kingma and Ba 2015; Reddi et al. 2018.

    `step` counts from 1. Decoupled decay shrinks the parameter itself: Loshchilov and Hutter 2019.
    """
    p, g = decayed(p, g, lr, weight_decay, decoupled, maximize)
    correction1, correction2 = 1 - beta1**step, (1 - beta2**step) ** 0.5
    exp_avg = exp_avg + (g - exp_avg) * (1 - beta1)
    exp_avg_sq = exp_avg_sq * beta2 + g * g * (1 - beta2)
    used = exp_avg_sq
    if max_exp_avg_sq is not None:
        used = max_exp_avg_sq = pointwise.maximum(max_exp_avg_sq, exp_avg_sq)
    denominator = used.sqrt() / correction2 + eps
    return p - exp_avg / denominator * (lr / correction1), exp_avg, exp_avg_sq, max_exp_avg_sq


def nadam_update(p, g, exp_avg, exp_avg_sq, lr, beta1, beta2, eps, mu, mu_next, mu_product, correction2):
    """(new parameter, first moment, second moment). Dozat, "Incorporating Nesterov momentum into Adam" (2016)."""
    exp_avg = exp_avg + (g - exp_avg) * (1 - beta1)
    exp_avg_sq = exp_avg_sq * beta2 + g * g * (1 - beta2)
    denominator = (exp_avg_sq / correction2).sqrt() + eps
    p = p - g / denominator * (lr * (1 - mu) / (1 - mu_product))
    return p - exp_avg / denominator * (lr * mu_next / (1 - mu_product * mu_next)), exp_avg, exp_avg_sq


def rmsprop_update(p, g, square_avg, grad_avg, momentum_buffer, lr, alpha, eps, momentum):
    """(new parameter, mean square, mean gradient or None, momentum buffer or None). Hinton, lecture 6e."""
    square_avg = square_avg * alpha + g * g * (1 - alpha)
    spread = square_avg
    if grad_avg is not None:
        grad_avg = grad_avg + (g - grad_avg) * (1 - alpha)
        spread = square_avg - grad_avg * grad_avg
    step = g / (spread.sqrt() + eps)
    if momentum_buffer is not None:
        step = momentum_buffer = momentum_buffer * momentum + step
    return p - step * lr, square_avg, grad_avg, momentum_buffer


def adagrad_update(p, g, total, lr, eps):
    """(new parameter, sum of squares). Duchi, Hazan and Singer 2011."""
    total = total + g * g
    return p - g / (total.sqrt() + eps) * lr, total


def gradient_of(p, g, group):
    """The gradient to go down: with `maximize` turned round, with weight decay added."""
    return decayed(p, g, group["lr"], group["weight_decay"], False, group["maximize"])[1]


def decayed(p, g, lr, weight_decay, decoupled, maximize):
    """(the parameter to start from, the gradient to use). Decoupled decay shrinks the parameter itself."""
    g = -g if maximize else g
    if decoupled:
        return p * (1 - lr * weight_decay), g
    return p, g + p * weight_decay if weight_decay else g


def decayed_in(group, p, g):
    """`decayed` by the options of a parameter group."""
    return decayed(
        p, g, group["lr"], group["weight_decay"], group["decoupled_weight_decay"], group["maximize"]
    )


class Adam(Optimizer):
    """Adam; amsgrad divides by the largest second moment so far."""

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0, amsgrad=False, *, foreach=None,
        maximize=False, capturable=False, differentiable=False, fused=None, decoupled_weight_decay=False,
    ):  # fmt: skip
        refuse_negative(lr=lr, eps=eps, weight_decay=weight_decay)
        check_betas(betas)
        options = {"weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize}
        options |= speed_options(differentiable, foreach=foreach, capturable=capturable, fused=fused)
        options["decoupled_weight_decay"] = decoupled_weight_decay
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, **options})

    def init_state(self, p, state, group):
        state.update(step=0, exp_avg=creation.zeros_like(p), exp_avg_sq=creation.zeros_like(p))
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = creation.zeros_like(p)

    def update(self, p, g, state, group):
        if not state:
            self.init_state(p, state, group)
        step = state["step"] = state["step"] + 1
        exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
        beta1, beta2 = group["betas"]
        new, new_exp_avg, new_exp_avg_sq, largest = adam_update(
            p, g, exp_avg, exp_avg_sq, state.get("max_exp_avg_sq"), step, group["lr"], beta1, beta2, group["eps"],
            group["weight_decay"], group["decoupled_weight_decay"], group["maximize"],
        )  # fmt: skip
        exp_avg.copy_(new_exp_avg)
        exp_avg_sq.copy_(new_exp_avg_sq)
        if largest is not None:
            state["max_exp_avg_sq"].copy_(largest)
        p.copy_(new)


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself. Loshchilov and Hutter 2019."""

    def __init__(
        self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, *, maximize=False,
        foreach=None, capturable=False, differentiable=False, fused=None,
    ):  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, foreach=foreach, maximize=maximize, capturable=capturable,
            differentiable=differentiable, fused=fused, decoupled_weight_decay=True,
        )  # fmt: skip


class NAdam(Optimizer):
    """Adam with Nesterov momentum."""

    def __init__(
        self,
        params,
        lr=2e-3,
        betas=(0.9, 0.999),
        eps=1e-8,
        weight_decay=0,
        momentum_decay=4e-3,
        decoupled_weight_decay=False,
        *,
        foreach=None,
        maximize=False,
        capturable=False,
        differentiable=False,
    ):
        refuse_negative(lr=lr, eps=eps, weight_decay=weight_decay, momentum_decay=momentum_decay)
        check_betas(betas)
        options = {"weight_decay": weight_decay, "momentum_decay": momentum_decay, "maximize": maximize}
        options |= speed_options(differentiable, foreach=foreach, capturable=capturable)
        options["decoupled_weight_decay"] = decoupled_weight_decay
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, **options})

    def init_state(self, p, state, group):
        zeros = {k: creation.zeros_like(p) for k in ("exp_avg", "exp_avg_sq")}
        state.update(step=0, mu_product=1.0, **zeros)

    def update(self, p, g, state, group):
        if not state:
            self.init_state(p, state, group)
        state["step"] += 1
        (beta1, beta2), step = group["betas"], state["step"]
        mu, mu_next = (beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1))
        state["mu_product"] *= mu
        start, g = decayed_in(group, p, g)
        new, exp_avg, exp_avg_sq = nadam_update(
            start, g, state["exp_avg"], state["exp_avg_sq"], group["lr"], beta1, beta2,
            group["eps"], mu, mu_next, state["mu_product"], 1 - beta2**step,
        )  # fmt: skip
        keep(state, exp_avg=exp_avg, exp_avg_sq=exp_avg_sq)
        p.copy_(new)


class RMSprop(Optimizer):
    """Steps divided by the root of a moving mean of squares; centred subtracts the squared mean."""

    def __init__(
        self,
        params,
        lr=1e-2,
        alpha=0.99,
        eps=1e-8,
        weight_decay=0,
        momentum=0,
        centered=False,
        capturable=False,
        foreach=None,
        maximize=False,
        differentiable=False,
    ):
        refuse_negative(lr=lr, eps=eps, momentum=momentum, weight_decay=weight_decay, alpha=alpha)
        options = {
            "weight_decay": weight_decay,
            "momentum": momentum,
            "centered": centered,
            "maximize": maximize,
            **speed_options(differentiable, foreach=foreach, capturable=capturable),
        }
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps, **options})

    def init_state(self, p, state, group):
        state.update(step=0, square_avg=creation.zeros_like(p))
        if group["momentum"] > 0:
            state["momentum_buffer"] = creation.zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = creation.zeros_like(p)

    def update(self, p, g, state, group):
        if not state:
            self.init_state(p, state, group)
        state["step"] += 1
        new, square_avg, mean, buffer = rmsprop_update(
            p, gradient_of(p, g, group), state["square_avg"], state.get("grad_avg"),
            state.get("momentum_buffer"), group["lr"], group["alpha"], group["eps"], group["momentum"],
        )  # fmt: skip
        keep(state, square_avg=square_avg, grad_avg=mean, momentum_buffer=buffer)
        p.copy_(new)


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squares so far."""

    def __init__(
        self,
        params,
        lr=1e-2,
        lr_decay=0,
        weight_decay=0,
        initial_accumulator_value=0,
        eps=1e-10,
        foreach=None,
        *,
        maximize=False,
        differentiable=False,
        fused=None,
    ):
        refuse_negative(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay, eps=eps)
        refuse_negative(initial_accumulator_value=initial_accumulator_value)
        options = {"lr_decay": lr_decay, "weight_decay": weight_decay, "maximize": maximize}
        options |= speed_options(differentiable, foreach=foreach, fused=fused)
        start = {"initial_accumulator_value": initial_accumulator_value}
        super().__init__(params, {"lr": lr, "eps": eps, **options, **start})

    def init_state(self, p, state, group):
        state.update(step=0, sum=creation.full_like(p, float(group["initial_accumulator_value"])))

    def update(self, p, g, state, group):
        if not state:
            self.init_state(p, state, group)
        state["step"] += 1
        lr = group["lr"] / (1 + (state["step"] - 1) * group["lr_decay"])
        new, total = adagrad_update(p, gradient_of(p, g, group), state["sum"], lr, group["eps"])
        keep(state, sum=total)
        p.copy_(new)
