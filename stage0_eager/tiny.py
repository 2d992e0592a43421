"""Stage 0 on one screen: tensors, operators and their derivatives, where everything goes through one function.

Input: nested lists of numbers. Read in this order: the table of operators; `apply`, which runs a row; the tape it
writes; `backward`, which reads the tape; `trace`, which interprets the same calls in a second way. The real stage adds
rows, dtypes, devices and care, but no other idea.
"""

# mypy: disable-error-code="has-type"
from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np


class Row(NamedTuple):
    """An operator: how to compute it from arrays, and the gradient of each tensor operand.

    A derivative gets the gradient of the result, the result, then the operands. It calls operators, never NumPy:
    so it can be recorded too, and a gradient has a gradient.
    """

    kernel: Callable[..., np.ndarray]
    derivative: Callable[..., tuple]


TABLE: dict[str, Row] = {
    # elementwise; where shapes differ they broadcast, and `backward` sums what was repeated
    "add": Row(np.add, lambda g, out, x, y: (g, g)),
    "mul": Row(np.multiply, lambda g, out, x, y: (g * y, g * x)),
    "power": Row(np.power, lambda g, out, x, n: (g * n * x ** (n - 1),)),
    "exp": Row(np.exp, lambda g, out, x: (g * out,)),
    "log": Row(np.log, lambda g, out, x: (g / x,)),
    "sin": Row(np.sin, lambda g, out, x: (g * cos(x),)),
    "cos": Row(np.cos, lambda g, out, x: (-g * sin(x),)),
    "tanh": Row(np.tanh, lambda g, out, x: (g * (1 - out * out),)),
    "relu": Row(lambda x: np.maximum(x, 0.0), lambda g, out, x: (g * step(x),)),
    "step": Row(lambda x: np.where(x > 0, 1.0, 0.0), lambda g, out, x: (None,)),
    # sums of products, and sums
    "matmul": Row(np.matmul, lambda g, out, x, y: (g @ y.T, x.T @ g)),
    "sum": Row(lambda x, axes: np.sum(x, axes, keepdims=True), lambda g, out, x, axes: (expand(g, x.shape),)),
    # the same numbers under another shape
    "expand": Row(np.broadcast_to, lambda g, out, x, shape: (fit(g, x.shape),)),
    "reshape": Row(np.reshape, lambda g, out, x, shape: (reshape(g, x.shape),)),
    "transpose": Row(np.transpose, lambda g, out, x: (g.T,)),
}


class Tensor:
    """An array, and its place on the tape: the node that made it, or None for one the user made."""

    def __init__(self, data: Any, requires_grad: bool = False) -> None:
        self.data = np.asarray(data, dtype=float)
        self.requires_grad = requires_grad
        self.grad: Tensor | None = None
        self.node: Node | None = None

    shape = property(lambda self: self.data.shape)
    T = property(lambda self: transpose(self))

    # fmt: off
    def __add__(self, other: Any) -> Tensor: return add(self, other)
    def __mul__(self, other: Any) -> Tensor: return mul(self, other)
    def __matmul__(self, other: Tensor) -> Tensor: return matmul(self, other)
    def __pow__(self, exponent: float) -> Tensor: return power(self, exponent)
    def __neg__(self) -> Tensor: return self * -1
    def __sub__(self, other: Any) -> Tensor: return self + -other
    def __rsub__(self, other: Any) -> Tensor: return -self + other
    def __truediv__(self, other: Any) -> Tensor: return self * other**-1
    __radd__, __rmul__ = __add__, __mul__
    # fmt: on

    def __repr__(self) -> str:
        return f"tensor({self.data.tolist()})"


# ---- the one function every computation goes through -------------------------------------------------------------


def evaluate(name: str, args: tuple) -> Tensor:
    """Compute: arrays in, array out."""
    return Tensor(TABLE[name].kernel(*(a.data if isinstance(a, Tensor) else a for a in args)))


INTERPRETERS: list[Callable[[str, tuple], Tensor]] = [evaluate]  # the last one reads the calls


def apply(name: str, *args: Any) -> Tensor:
    """Run one operator as the interpreter in force reads it, and note on the tape what `backward` will need."""
    # lab: begin apply
    out = INTERPRETERS[-1](name, args)
    if any(isinstance(a, Tensor) and a.requires_grad for a in args):
        out.requires_grad, out.node = True, Node(name, args)
    return out
    # lab: end


add, mul, power, matmul, expand = (partial(apply, n) for n in "add mul power matmul expand".split())
exp, log, sin, cos, tanh, relu, step = (partial(apply, n) for n in "exp log sin cos tanh relu step".split())
reshape, transpose = partial(apply, "reshape"), partial(apply, "transpose")


def total(x: Tensor, axes: Sequence[int] | None = None) -> Tensor:
    """The sum over `axes`, which stay with size 1; over all, as a single number, when there are none."""
    if axes is None:
        return reshape(apply("sum", x, tuple(range(len(x.shape)))), ())
    return apply("sum", x, tuple(axes))


# ---- the tape, and the walk back ---------------------------------------------------------------------------------


class Node(NamedTuple):
    """One recorded call. Operands know their own nodes: those links are the tape, there is no other list."""

    name: str
    args: tuple


def gradients(root: Tensor) -> dict[Tensor, Tensor]:
    """d root / d t, summed over root's elements, for every t that root was computed from.

    Results before operands: a node hands its gradient on when all that used its result have handed in theirs.
    The walk calls operators, so it goes on the tape itself (torch's create_graph=True).
    """
    # lab: begin gradients
    found = {root: Tensor(np.ones(root.shape))}
    for tensor in reversed(in_order(root)):
        if tensor.node is None or tensor not in found:  # a leaf; or only something flat, like a step, used it
            continue
        name, args = tensor.node
        for arg, g in zip(args, TABLE[name].derivative(found[tensor], tensor, *args), strict=False):
            if isinstance(arg, Tensor) and arg.requires_grad and g is not None:
                g = fit(g, arg.shape)
                found[arg] = found[arg] + g if arg in found else g
    return found
    # lab: end


def in_order(root: Tensor) -> list[Tensor]:
    """All that root depends on and that requires grad, operands before results, each once."""
    # lab: begin in_order
    order: dict[Tensor, None] = {}

    def visit(tensor: Any) -> None:
        if isinstance(tensor, Tensor) and tensor.requires_grad and tensor not in order:
            for arg in tensor.node.args if tensor.node else ():
                visit(arg)
            order[tensor] = None

    visit(root)
    return list(order)
    # lab: end


def fit(g: Tensor, shape: tuple) -> Tensor:
    """Undo broadcasting: sum what was repeated."""
    # lab: begin fit
    lead = len(g.shape) - len(shape)
    repeated = [i for i, size in enumerate(g.shape) if i < lead or shape[i - lead] != size]
    g = total(g, repeated) if repeated else g
    return g if g.shape == shape else reshape(g, shape)
    # lab: end


def backward(root: Tensor) -> None:
    """Add to the `.grad` of every leaf that root was computed from."""
    # lab: begin backward
    for tensor, g in gradients(root).items():
        if tensor.node is None and tensor.requires_grad:
            tensor.grad = g if tensor.grad is None else tensor.grad + g
    # lab: end


def grad(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """The derivative of `function` in its first argument: a function like any other, so grad(grad(f)) is one too."""

    def derivative(x: Tensor, *rest: Any) -> Tensor:
        x = x if x.requires_grad else Tensor(x.data, requires_grad=True)
        return gradients(function(x, *rest)).get(x) or Tensor(np.zeros(x.shape))

    return derivative


# ---- a second reading of the same calls ---------------------------------------------------------------------------


def trace(function: Callable[..., Tensor], *examples: Tensor) -> str:
    """The operators that `function` calls, as a program. Of a gradient: forward and backward in one."""
    inputs = [Tensor(x.data, requires_grad=True) for x in examples]
    names = {x: f"x{i}" for i, x in enumerate(inputs)}
    lines: list[str] = []

    def word(arg: Any) -> str:
        return names.get(arg, repr(arg)) if isinstance(arg, Tensor) else repr(arg)

    def record(name: str, args: tuple) -> Tensor:
        out = evaluate(name, args)
        names[out] = f"v{len(lines)}"
        lines.append(f"{names[out]} = {name}({', '.join(map(word, args))})")
        return out

    INTERPRETERS.append(record)
    try:
        lines.append(f"return {word(function(*inputs))}")
    finally:
        INTERPRETERS.pop()
    return "\n".join(lines)
