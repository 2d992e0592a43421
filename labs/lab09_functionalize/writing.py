"""The small programs of lab 9's checks: each writes to a tensor, and most return something that eager shares or copies.

Input: tensors, real or traced. `PROGRAMS` run in the compiler on odd-sized, strided, aliased, NaN and empty arrays.
"""

from __future__ import annotations

from typing import Any

import cutaway

from ..programs import SPECIAL, Program, numbers


def temporary(x: Any) -> Any:
    y = x * 2
    y.add_(1)
    return y * y


def running_mean(x: Any, mean: Any) -> Any:
    mean.mul_(0.9)
    mean.add_(x.detach() * 0.1)
    return x * mean


def exchange(x: Any, a: Any, b: Any) -> Any:
    old = a.clone()
    a.copy_(b)
    b.copy_(old)
    return (x + 1) * 2


def back_as_it_was(x: Any, a: Any) -> Any:
    a.neg_()
    a.neg_()
    return x + 1


def becomes_another(x: Any, a: Any, b: Any) -> Any:
    a.copy_(b)
    return x * a


def same_twice(x: Any, a: Any, b: Any) -> Any:
    """Two tensors in eager, with one value."""
    y = x * a
    z = b * 2
    z.copy_(y)
    return y, z


def from_a_sum(x: Any, buffer: Any) -> Any:
    buffer.copy_(x.sum())
    return x * 3


def from_wider(x: Any, buffer: Any) -> Any:
    buffer.copy_(x)
    return x * 3


def from_a_turned_one(x: Any, buffer: Any) -> Any:
    buffer.copy_((x * 2).t())
    return x * 3


def several_results(x: Any, y: Any) -> Any:
    p, q = x * 2, x + y
    return y, p, y, q, p


def view_in_use(x: Any, y: Any) -> Any:
    view = x.t()
    x.add_(1)
    return view * y


def write_through_a_view(x: Any, y: Any) -> Any:
    x.t().mul_(y)
    return x * 2


def write_to_expanded(x: Any, y: Any) -> Any:
    row = (y * 2)[:1].sum(0).expand(4, 4)
    row.add_(x)
    return row * 1


def write_to_a_constant(x: Any, y: Any) -> Any:
    CONSTANT.add_(x)
    return y * CONSTANT


def view_of_an_input(x: Any, y: Any) -> Any:
    return x.t(), y * 2


def view_of_a_result(x: Any, y: Any) -> Any:
    z = x * y
    return z, z.t()


CONSTANT = cutaway.zeros(4, 4)
REFUSED = {
    view_in_use: "x is written while a view of it is still read",
    write_through_a_view: "x.t() is written, and x, which shares its memory, is read later",
    write_to_expanded: "the elements of an expanded tensor share memory",
    write_to_a_constant: "a constant of the graph is not an input, so nothing would write it back",
    view_of_an_input: "a result that shares memory with an input would be a copy",
    view_of_a_result: "two results that share memory would be two copies",
}


def statistics(x: Any, mean: Any) -> Any:
    """As a batch norm does: statistics of this batch, written into a buffer."""
    batch = x.mean(0)
    mean.mul_(0.9)
    mean.add_(batch.detach() * 0.1)
    return ((x - batch) * mean,)


def dropped_view(x: Any, a: Any) -> Any:
    """No view is in use when a is written."""
    total = a.t().sum()
    a.add_(1)
    return x * total, a.t() * 2


def overwrite_and_share(x: Any, a: Any, b: Any) -> Any:
    """Two results with one value, which must not share memory with each other or with b."""
    a.copy_(b)
    y = x * a
    z = b * 2
    z.copy_(y.detach())
    return y, z


def masked(x: Any, a: Any) -> Any:
    a.copy_(x.detach().relu())
    a.exp_()
    return x * a, a + 1


X = numbers(7, 5)
PROGRAMS = (
    Program(statistics, (X, numbers(5, seed=1)), "a buffer, odd sizes"),
    Program(statistics, (numbers(14, 5)[::2, ::-1], numbers(5, seed=1)), "strided"),
    Program(
        overwrite_and_share, (X, numbers(7, 5, seed=1), numbers(7, 5, seed=2)), "two results with one value"
    ),
    Program(overwrite_and_share, (X, X, numbers(7, 5, seed=2)), "one tensor given twice"),
    Program(dropped_view, (X, numbers(7, 5, seed=3)), "a view that is dropped before the write"),
    Program(dropped_view, (X, numbers(5, 7, seed=3).T), "a written input that is transposed in memory"),
    Program(masked, (SPECIAL, numbers(3, 5)), "NaN, infinities, a denormal number"),
    Program(masked, (X[:0], X[:0].copy()), "no elements"),
)
