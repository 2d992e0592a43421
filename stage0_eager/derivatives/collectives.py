"""Derivatives of the collectives: each is another collective, so the backward of every rank talks to all ranks too.

Input: as rules.py's rules. The loss is the sum of all ranks' losses: what a rank's input adds to the results of the
others comes back from them. (The same convention as torch.distributed.nn.functional.)
"""

from __future__ import annotations

from typing import Any

from stage0_eager.table.core import core as c
from stage_contracts.collective_ops import of_gradient
from stage_contracts.dtype import DTYPES

LINEAR = ("sum", "avg")


def _linear(name: str, reduction: str) -> None:
    if reduction not in LINEAR:
        raise NotImplementedError(
            f"the derivative of {name} with the reduction {reduction!r} is not implemented; expected one of "
            f"{', '.join(LINEAR)}, or a tensor that needs no gradient"
        )


def _all_reduce(g: Any, reduction: str, group: str) -> Any:
    _linear("all_reduce", reduction)
    return c.all_reduce(g, reduction, group)


def _reduce(g: Any, reduction: str, dst: int, group: str, input_meta: Any) -> Any:
    _linear("reduce", reduction)
    shared = c.broadcast(g, dst, group)
    if reduction == "sum":
        return shared
    ones = c.full((), 1.0, input_meta.dtype, input_meta.device)
    return c.div(shared, c.all_reduce(ones, "sum", group))


def _reduce_scatter(g: Any, reduction: str, size: int, group: str) -> Any:
    _linear("reduce_scatter", reduction)
    whole = c.all_gather(g, size, "sum", group)
    return whole if reduction == "sum" else c.div(whole, size)


def _all_gather(g: Any, size: int, gradient: str, group: str) -> Any:
    """Reduced in a dtype of its own where the word says so; the cast before the gather then has nothing to do."""
    reduction, wide = of_gradient(gradient)
    return c.reduce_scatter(c.cast(g, DTYPES[wide]) if wide else g, reduction, size, group)


c.all_reduce.derivative(input=_all_reduce)
c.reduce.derivative(input=_reduce)
c.broadcast.derivative(input=lambda g, src, group: c.reduce(g, "sum", src, group))
c.average_gradient.derivative(input=lambda g, limit, group: c.average(g, limit, group))
c.average.derivative(input=lambda g, limit, group: c.average(g, limit, group))
c.all_gather.derivative(input=_all_gather)
c.reduce_scatter.derivative(input=_reduce_scatter)
c.all_to_all.derivative(input=lambda g, size, group: c.all_to_all(g, size, group))
c.all_to_all_splits.derivative(
    input=lambda g, received, sent, group: c.all_to_all_splits(g, sent, received, group)
)
