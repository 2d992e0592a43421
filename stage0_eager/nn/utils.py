"""torch.nn.utils: clipping of gradients, and parameters as one vector.

Input: parameters (one tensor or an iterable); those without a gradient are left out of clipping.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stage0_eager.functions import creation, pointwise, shape
from stage0_eager.functions.statistics import vector_norm
from stage0_eager.state import no_grad
from stage0_eager.table.core import core
from stage0_eager.tensor import Tensor
from stage_contracts.communicators import ranks_of


def _gradients(parameters: Any) -> list[Tensor]:
    return [p.grad for p in _with_gradients(parameters)]


def _with_gradients(parameters: Any) -> list[Any]:
    tensors = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p for p in tensors if p.grad is not None]


@no_grad()
def get_total_norm(tensors: Any, norm_type: float = 2.0, error_if_nonfinite: bool = False) -> Any:
    """The norm of all elements of all tensors."""
    tensors, norm_type = list(tensors), float(norm_type)
    if not tensors:
        return creation.zeros(())
    norms = [vector_norm(g.reshape(-1), norm_type, 0, False) for g in tensors]
    total = vector_norm(shape.stack(norms), norm_type, 0, False)
    if error_if_nonfinite and not pointwise.isfinite(total).item():
        raise RuntimeError(
            f"The total norm of order {norm_type} for gradients from `parameters` is non-finite, so it cannot "
            "be clipped. To disable this error and scale the gradients by the non-finite norm anyway, set "
            "`error_if_nonfinite=False`"
        )
    return total


def _norm_of_group(gradients: list[Tensor], norm_type: float, group: str) -> Tensor:
    """The norms of these gradients on each rank of the group, as a vector: its norm is that of all of them."""
    mine = get_total_norm(gradients, norm_type).reshape(1)
    return core.all_gather(mine, ranks_of(group), "sum", group) if group else mine


@no_grad()
def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: Any = None,
) -> Tensor:
    """Scale all gradients in place so that their joint norm is at most max_norm; returns the norm before.

    Of parameters that `fully_shard` has cut, the parts on the other ranks count too, and every rank must call this.
    """
    found = _with_gradients(parameters)
    gradients = [p.grad for p in found]
    groups = dict.fromkeys(getattr(p, "shard_group", "") for p in found)
    if groups.keys() <= {""}:
        total: Any = get_total_norm(gradients, norm_type, error_if_nonfinite)
    else:
        norms = [_norm_of_group([p.grad for p in found if getattr(p, "shard_group", "") == name], norm_type, name)
                 for name in groups]  # fmt: skip
        total = get_total_norm(norms, norm_type, error_if_nonfinite)
    factor = pointwise.clamp(float(max_norm) / (total + 1e-6), max=1.0)
    for g in gradients:
        g.mul_(factor.to(g.dtype))
    return total


@no_grad()
def clip_grad_value_(parameters: Any, clip_value: float, foreach: Any = None) -> None:
    """Move every element of every gradient into [-clip_value, clip_value], in place."""
    for g in _gradients(parameters):
        g.clamp_(-float(clip_value), float(clip_value))


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All elements in order, as one vector on the tape."""
    return shape.cat([p.reshape(-1) for p in parameters])


@no_grad()
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Write the elements of `vec` into the parameters, in order."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec).__name__}")
    at = 0
    for p in parameters:
        p.copy_(vec[at : at + p.numel()].reshape(p.shape))
        at += p.numel()
