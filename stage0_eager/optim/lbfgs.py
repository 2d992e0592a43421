"""LBFGS: quasi-Newton steps from the last changes of the gradient, with an optional line search.

Input: one group of parameters, and a closure that computes the loss and its gradients, called several times a step.
Nocedal and Wright, "Numerical Optimization" (2006), algorithms 7.4, 3.5 and 3.6.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from stage0_eager.functions import creation, joining
from stage0_eager.optim.optimizer import Optimizer
from stage0_eager.state import enable_grad, no_grad


class _Point(NamedTuple):
    """A place on the line: how far, the loss there, its gradient, and its slope along the line."""

    t: float
    loss: float
    grad: Any
    slope: float


class LBFGS(Optimizer):
    """step(closure) makes up to max_iter iterations, with at most max_eval calls of the closure."""

    def __init__(
        self, params, lr=1, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9, history_size=100,
        line_search_fn=None,
    ):  # fmt: skip
        if lr < 0:
            raise ValueError(f"Invalid learning rate: {lr}")
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError("only 'strong_wolfe' is supported")
        options = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
        }
        options |= {"tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change}
        super().__init__(params, {**options, "history_size": history_size, "line_search_fn": line_search_fn})
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        self._params = self.param_groups[0]["params"]

    def _flat_gradient(self) -> Any:
        parts = [creation.zeros_like(p) if p.grad is None else p.grad for p in self._params]
        return joining.cat([part.reshape(-1) for part in parts])

    def _move(self, t: float, direction: Any) -> None:
        at = 0
        for p in self._params:
            p.add_(direction[at : at + p.numel()].reshape(p.shape), alpha=t)
            at += p.numel()

    @no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Up to max_iter iterations. Returns the loss before them."""
        if closure is None:
            raise TypeError("LBFGS.step() needs a closure that computes the loss and its gradients")
        group = self.param_groups[0]
        calls = 0

        def evaluated() -> float:
            nonlocal calls
            calls += 1
            with enable_grad():
                self._loss = closure()
            return float(self._loss)

        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        loss = evaluated()
        first, g = self._loss, self._flat_gradient()
        for done in range(group["max_iter"]):
            if float(g.abs().max()) <= group["tolerance_grad"]:
                break
            direction = self._direction(state, g, group)
            t = min(1.0, 1.0 / float(g.abs().sum())) * group["lr"] if state["n_iter"] == 1 else group["lr"]
            slope = float(g.dot(direction))
            if slope > -group["tolerance_change"]:
                break
            before, state["prev_flat_grad"] = loss, g.clone()
            if group["line_search_fn"]:
                t, loss, g = self._searched(evaluated, t, direction, _Point(0.0, loss, g, slope))
            else:
                self._move(t, direction)
                if done + 1 == group["max_iter"]:
                    state["t"] = t
                    break
                loss = evaluated()
                g = self._flat_gradient()
            state["t"] = t
            small = float((direction * t).abs().max()) <= group["tolerance_change"]
            if calls >= group["max_eval"] or small or abs(loss - before) < group["tolerance_change"]:
                break
        state["func_evals"] += calls
        return first

    def _direction(self, state: dict, g: Any, group: dict) -> Any:
        """-H @ g, H from the history of steps and of changes of the gradient (algorithm 7.4)."""
        state["n_iter"] += 1
        if state["n_iter"] == 1:
            state.update(d=-g, old_dirs=[], old_stps=[], H_diag=1.0)
            return state["d"]
        change, moved = g - state["prev_flat_grad"], state["d"] * state["t"]
        product = float(change.dot(moved))
        if product > 1e-10:
            if len(state["old_dirs"]) == group["history_size"]:
                del state["old_dirs"][0], state["old_stps"][0]
            state["old_dirs"].append(change)
            state["old_stps"].append(moved)
            state["H_diag"] = product / float(change.dot(change))
        pairs = list(zip(state["old_dirs"], state["old_stps"], strict=True))
        q, weights = -g, []
        for y, s in reversed(pairs):
            weights.append(float(s.dot(q)) / float(y.dot(s)))
            q = q - y * weights[-1]
        d = q * state["H_diag"]
        for (y, s), weight in zip(pairs, reversed(weights), strict=True):
            d = d + s * (weight - float(y.dot(d)) / float(y.dot(s)))
        state["d"] = d
        return d

    def _searched(self, evaluated: Any, t: float, d: Any, start: _Point) -> tuple:
        before = [p.clone() for p in self._params]

        def at(t: float) -> _Point:
            self._move(t, d)
            loss = evaluated()
            g = self._flat_gradient()
            for p, old in zip(self._params, before, strict=True):
                p.copy_(old)
            return _Point(t, loss, g, float(g.dot(d)))

        found = strong_wolfe(at, t, start, float(d.abs().max()), self.param_groups[0]["tolerance_change"])
        self._move(found.t, d)
        return found.t, found.loss, found.grad


def _cubic_minimum(a: _Point, b: _Point, low: float, high: float) -> float:
    """The minimum of the cubic through two points with their slopes, moved into [low, high]."""
    a, b = (a, b) if a.t <= b.t else (b, a)
    d1 = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = d1 * d1 - a.slope * b.slope
    if square < 0:
        return (low + high) / 2
    d2 = square**0.5
    return min(max(b.t - (b.t - a.t) * ((b.slope + d2 - d1) / (b.slope - a.slope + 2 * d2)), low), high)


class _Search(NamedTuple):
    """A line: the point at a length, where it starts, and how many points may be asked for."""

    at: Callable[[float], _Point]
    start: _Point
    most: int = 25

    def low(self, p: _Point) -> bool:
        """Whether the loss fell by enough of what the slope promised."""
        return p.loss <= self.start.loss + 1e-4 * p.t * self.start.slope

    def flat(self, p: _Point) -> bool:
        return abs(p.slope) <= -0.9 * self.start.slope


def strong_wolfe(
    at: Callable[[float], _Point], t: float, start: _Point, width: float, least: float
) -> _Point:
    """A point along the line with a lower loss and a flatter slope. `width`: the largest element of the direction;
    intervals that move nothing by more than `least` are not cut further."""
    search = _Search(at, start)
    previous, here, count = start, at(t), 1
    while search.low(here) and not (count > 1 and here.loss >= previous.loss):
        if search.flat(here):
            return here
        if here.slope >= 0:
            break
        if count >= search.most:
            return min(start, here, key=lambda p: p.loss)
        near, far = here.t + 0.01 * (here.t - previous.t), here.t * 10
        previous, here, count = here, at(_cubic_minimum(previous, here, near, far)), count + 1
    return _zoomed(search, previous, here, count, least / width)


def _zoomed(search: _Search, one: _Point, two: _Point, count: int, narrow: float) -> _Point:
    """The same between two points of which the better one slopes towards the other: algorithm 3.6."""
    best, other = (one, two) if one.loss <= two.loss else (two, one)
    stuck = False
    while count < search.most and abs(other.t - best.t) >= narrow:
        t, stuck = _inside(best, other, stuck)
        here, count = search.at(t), count + 1
        if not search.low(here) or here.loss >= best.loss:
            best, other = (best, here) if best.loss <= here.loss else (here, best)
            continue
        if search.flat(here):
            return here
        best, other = here, best if here.slope * (other.t - best.t) >= 0 else other
    return best


def _inside(best: _Point, other: _Point, stuck: bool) -> tuple[float, bool]:
    """Where to try next, and whether that is near an end; a second time near an end it is moved away from it."""
    left, right = sorted((best.t, other.t))
    t, edge = _cubic_minimum(best, other, left, right), 0.1 * (right - left)
    if min(right - t, t - left) >= edge:
        return t, False
    if not stuck and left < t < right:
        return t, True
    return (right - edge if abs(t - right) < abs(t - left) else left + edge), False
