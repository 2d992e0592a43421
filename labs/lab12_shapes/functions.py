"""The functions of sizes that lab 12's checks trace: what operators and models do with shapes.

Input: shapes, as tuples of sizes. Each returns a tuple of sizes.
"""

from __future__ import annotations

from typing import Any


def flatten(x: Any) -> Any:
    """reshape(-1, 4): the sizes multiply, and must divide."""
    total = x[0] * x[1]
    if total % 4 != 0:
        return (-1,)
    return total // 4, 4


def matmul(x: Any, y: Any) -> Any:
    """The inner sizes must be equal."""
    if x[1] != y[0]:
        return (-1,)
    return x[0], y[1]


def add(x: Any, y: Any) -> Any:
    """Broadcasting."""
    sizes = []
    for a, b in zip(x, y, strict=True):
        if a == 1:
            sizes.append(b)
        elif b == 1 or a == b:
            sizes.append(a)
        else:
            return (-1,)
    return tuple(sizes)


def algorithm(x: Any) -> Any:
    """Two ways, chosen by a threshold."""
    if x[0] * x[1] > 60:
        return x[0] // 2, x[1]
    return x[0] + 1, x[1]


def halves(x: Any) -> Any:
    """A loop whose length Python must know."""
    made = 0
    for _ in range(x[0]):
        made = made + x[1]
    return (made,)


def nothing_new(x: Any) -> Any:
    """Each question has the same answer for all sizes of at least 2."""
    n = x[0] * 2
    if n % 2 == 0 and n > 3 and x[1] + 1 != x[1] and x[1] >= 2:
        return n, x[1]
    return (-1,)


def asks_twice(x: Any) -> Any:
    """The same question, three times."""
    count = 0
    for _ in range(3):
        if x[0] > 5:
            count += 1
    return count, x[1]


ALL: dict[Any, int] = {flatten: 1, matmul: 2, add: 2, algorithm: 1, halves: 1, nothing_new: 1, asks_twice: 1}
