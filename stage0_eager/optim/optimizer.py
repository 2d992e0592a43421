"""Optimizer, parameter groups, and SGD. The update of one tensor is a pure function of tensors and numbers.

Input: parameters with `.grad`. The pure functions are what a compiled training step captures; `step` writes back.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Collection, Iterable
from typing import Any

from stage0_eager.functions import complex_numbers, creation
from stage0_eager.nn.module import Parameter
from stage0_eager.state import enable_grad, no_grad
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt


def speed_options(differentiable: bool = False, **options: Any) -> dict[str, Any]:
    """foreach, fused and capturable for a parameter group: they ask for speed and change nothing.

    Raises NotImplementedError for differentiable=True, which would change what a step is.
    """
    if differentiable:
        raise NotImplementedError(
            "differentiable=True is not supported: a step writes to parameters outside of the tape. To differentiate "
            "through an update, call the pure function of its optimizer (sgd_update, adam_update, ...)"
        )
    if options.get("foreach") and options.get("fused"):
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")
    return {**options, "differentiable": False}


_NUMBERS = frozenset(("step", "mu_product", "eta", "mu"))  # what torch saves as tensors without dimensions


def _saved(key: str, value: Any) -> Any:
    if key not in _NUMBERS or isinstance(value, Tensor):
        return value
    return creation.tensor(float(value), dtype=dt.float32 if float(value).is_integer() else dt.float64)


def _loaded(key: str, value: Any, p: Tensor, numbers: Collection[str]) -> Any:
    """The other way round; a tensor gets the parameter's dtype and device."""
    if not isinstance(value, Tensor):
        return value
    if key == "step" and key not in numbers:  # of a user's own optimizer
        return value.clone()
    if key in numbers:
        number = value.item()
        return int(number) if float(number).is_integer() else number
    return (value.to(p.dtype) if value.is_floating_point() else value).to(p.device).clone()


def keep(state: dict[str, Any], **new: Tensor | None) -> None:
    """Write new values into the state's own tensors, which stay the same objects, as torch's do; None is left out."""
    for key, value in new.items():
        if value is None:
            continue
        if key in state:
            state[key].copy_(value)
        else:
            state[key] = value


def _check_parameter(p: Any) -> None:
    if not isinstance(p, Tensor):
        raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {type(p).__name__}")
    if isinstance(p, Parameter) or not p.requires_grad:  # which always is a leaf, as compiled code knows
        return
    if not (p.is_leaf or p.retains_grad):
        raise ValueError("can't optimize a non-leaf Tensor: it was computed, and its gradient is not kept")


def _is_complex(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_complex()


def _checked_group(group: Any) -> tuple[list[Tensor], dict[str, list[str]]]:
    """The parameters of a group, and the option with their names, if they have any."""
    if not isinstance(group, dict):
        raise TypeError(f"param_group must be a dict, but got {type(group)}")
    given = group["params"]
    if isinstance(given, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in "
            "sets will change between runs. Please use a list instead."
        )
    pairs: list[Any] = [given] if isinstance(given, Tensor) else list(given)
    named = bool(pairs) and isinstance(pairs[0], tuple)
    params = [p[1] for p in pairs] if named else pairs
    for p in params:
        _check_parameter(p)
    return params, {"param_names": [p[0] for p in pairs]} if named else {}


class Optimizer:
    """Parameter groups with defaults, and per-parameter state by id. Subclasses define `update`."""

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts"
            )
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self.state: dict[Tensor, dict[str, Any]] = defaultdict(dict)
        for group in groups:
            self.add_param_group(group)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Further parameters with options of their own. Raises ValueError for one that is in a group already, or that
        no backward gives a gradient to."""
        params, names = _checked_group(param_group)
        if len({id(p) for p in params}) < len(params):
            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters: each is updated once for every time "
                "that it is there",
                stacklevel=3,
            )
        known = {id(p) for group in self.param_groups for p in group["params"]}
        if known & {id(p) for p in params}:
            raise ValueError("some parameters appear in more than one parameter group")
        if self.param_groups and bool(names) != ("param_names" in self.param_groups[0]):
            raise ValueError(
                "all optimizer param groups should be with/without names. cannot add param group with/without names "
                "to the optimizer"
            )
        self.param_groups.append({**self.defaults, **param_group, "params": params, **names})

    def zero_grad(self, set_to_none: bool = True) -> None:
        for group in self.param_groups:
            for p in group["params"]:
                if set_to_none:
                    p.grad = None
                elif p.grad is not None:
                    p.grad.zero_()

    @no_grad()
    def step(self, closure: Any = None) -> Any:
        """One update of every parameter that has a gradient. A closure computes gradients first and gives the loss."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        state = self.state
        for group in self.param_groups:
            for p in group["params"]:
                g = p.grad
                if g is not None:
                    update = self._update_parts if p.dtype.is_complex else self.update
                    update(p, g, state[p], group)
        return loss

    def init_state(self, p: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Put what the first update of `p` reads into its empty state. An update calls it, or capture before one."""

    def update(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise NotImplementedError

    def _is_ours(self) -> bool:
        """Whether it counts in numbers that torch keeps in tensors. A user's own optimizer defines `step` instead."""
        return type(self).update is not Optimizer.update

    def _update_parts(self, p: Tensor, g: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        """Complex numbers as pairs of real ones, as torch updates them; the state's tensors are complex."""
        parts = {k: complex_numbers.view_as_real(v) if _is_complex(v) else v for k, v in state.items()}
        self.update(complex_numbers.view_as_real(p), complex_numbers.view_as_real(g), parts, group)
        for key, value in parts.items():
            if not isinstance(value, Tensor):
                state[key] = value
            elif key not in state:
                state[key] = complex_numbers.view_as_complex(value)

    def state_dict(self) -> dict[str, Any]:
        """State and groups with parameters numbered in order, as torch lays it out."""
        numbers = {id(p): i for i, p in enumerate(p for g in self.param_groups for p in g["params"])}
        groups = [{**g, "params": [numbers[id(p)] for p in g["params"]]} for g in self.param_groups]
        saved = _saved if self._is_ours() else lambda _, value: value
        state = {numbers[id(p)]: {k: saved(k, v) for k, v in s.items()} for p, s in self.state.items() if s}
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Raises ValueError when the groups do not match."""
        sizes = [len(g["params"]) for g in self.param_groups]
        if sizes != [len(g["params"]) for g in state["param_groups"]]:
            raise ValueError("loaded state dict has a different number of parameter groups or parameters")
        params = [p for g in self.param_groups for p in g["params"]]
        for group, saved in zip(self.param_groups, state["param_groups"], strict=True):
            group.update({k: v for k, v in saved.items() if k != "params"})
        numbers = _NUMBERS if self._is_ours() else ()
        loaded = {
            params[i]: {k: _loaded(k, v, params[i], numbers) for k, v in s.items()}
            for i, s in state["state"].items()
        }
        self.state = defaultdict(dict, loaded)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


def sgd_update(p, g, momentum_buffer, lr, momentum, dampening, weight_decay, nesterov, first):
    """(new parameter, new momentum buffer or None): one SGD step as torch defines it."""
    if weight_decay:
        g = g + p * weight_decay
    if momentum:
        fresh = g * (1 - dampening) if dampening else g
        momentum_buffer = g.clone() if first else momentum_buffer * momentum + fresh
        g = g + momentum_buffer * momentum if nesterov else momentum_buffer
    return p - g * lr, momentum_buffer


def adamw_update(p, g, exp_avg, exp_avg_sq, lr, beta1, beta2, eps, weight_decay, correction1, correction2):
    """(new parameter, first moment, second moment). Loshchilov and Hutter, "Decoupled weight decay" (2019).

    correction1 = 1 - beta1**step, correction2 = sqrt(1 - beta2**step).
    """
    p = p * (1 - lr * weight_decay)
    exp_avg = exp_avg + (g - exp_avg) * (1 - beta1)
    exp_avg_sq = exp_avg_sq * beta2 + g * g * (1 - beta2)
    denominator = exp_avg_sq.sqrt() / correction2 + eps
    return p - exp_avg / denominator * (lr / correction1), exp_avg, exp_avg_sq


class SGD(Optimizer):
    """Stochastic gradient descent with momentum, Nesterov momentum and weight decay."""

    def __init__(
        self, params, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, *, maximize=False,
        foreach=None, differentiable=False, fused=None,
    ):  # fmt: skip
        if lr < 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if momentum < 0:
            raise ValueError(f"Invalid momentum value: {momentum}")
        if weight_decay < 0:
            raise ValueError(f"Invalid weight_decay value: {weight_decay}")
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        momenta = {"momentum": momentum, "dampening": dampening, "nesterov": nesterov}
        speed = speed_options(differentiable, foreach=foreach, fused=fused)
        super().__init__(
            params, {"lr": lr, "weight_decay": weight_decay, **momenta, "maximize": maximize, **speed}
        )

    def init_state(self, p, state, group):
        """Nothing: the first momentum is the first gradient."""

    def update(self, p, g, state, group):
        if not state:
            self.init_state(p, state, group)
        buffer = state.get("momentum_buffer")
        options = {k: group[k] for k in ("lr", "momentum", "dampening", "weight_decay", "nesterov")}
        g = -g if group["maximize"] else g
        new, buffer = sgd_update(p, g, buffer, first=buffer is None, **options)
        keep(state, momentum_buffer=buffer)
        p.copy_(new)
