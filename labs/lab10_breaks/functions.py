"""The functions that lab 10's checks compile: each has a step that cannot be captured.

Input: tensors. `tell` is what a print would be; `TOLD` has what it was given.
"""

from __future__ import annotations

from typing import Any

TOLD: list[Any] = []


def tell(*values: Any) -> int:
    """Not captured. It keeps what it is given, as numbers, and gives 3."""
    TOLD.append(tuple(v.detach().numpy().tolist() if hasattr(v, "numpy") else v for v in values))
    return 3


def straight(x: Any, y: Any) -> Any:
    return (x * y).exp() + x


def told_once(x: Any, y: Any) -> Any:
    a = x * 2
    b = a + y
    tell("sum", a.sum())
    return b - a


def branch(x: Any, y: Any) -> Any:
    a = x * y
    if a.sum() > 0:
        return a + x
    return a - x


def halve(x: Any, y: Any) -> Any:
    n = y.exp()
    while x.sum() > 1:
        x = x / 2
        tell(x.sum())
    return x + n


def in_the_middle(x: Any, y: Any) -> Any:
    """The stack has three values when `tell` is called: x * 2, the method of y, and `tell`."""
    return x * 2 + y.pow(tell(y.sum()))


def written(x: Any, y: Any) -> Any:
    """add_ writes to x itself, which the caller sees."""
    a = y * 2
    x.add_(a)
    return x * a


def one_tensor_twice(x: Any, y: Any) -> Any:
    """a and b are one tensor, so the write is seen through both."""
    a = x * y
    b = a
    a.add_(1)
    return b * 2 + a


def dead(x: Any, y: Any) -> Any:
    """n is not needed after the break."""
    n = y.exp()
    a = x * 2 + n.sum()
    tell("n is dead")
    return a * a


def read_in_the_loop(x: Any, y: Any) -> Any:
    """b is read by the next round only: it lives across the jump back."""
    b = y * 0
    while x.sum() > 1:
        x = x / 2 + b
        b = y * 0 + x * 0
    return x


def raises(x: Any, y: Any) -> Any:
    a = x * 2
    tell("before")
    tell(a.reshape(1000))
    return a


ALL = (straight, told_once, branch, halve, in_the_middle, written, one_tensor_twice, dead, read_in_the_loop)
