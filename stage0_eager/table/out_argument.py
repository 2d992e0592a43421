"""`out=`: any public function may write its results into tensors that the caller passes, by torch's rules.

Input: a row of the table, its arguments and `out`. One implementation serves all rows: the function runs as always;
then `copy_`, the only operator that mutates, writes the result. So a tracer sees two ordinary calls.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from stage0_eager import arrays
from stage0_eager.state import STATE
from stage0_eager.tensor import Tensor, is_traced
from stage_contracts.breaks import Unsupported


def into_out(op: Any, args: tuple, kwargs: dict[str, Any], copy_: Callable) -> Any:
    """Write op(*args, **kwargs) into `out`, and return `out`.

    Raises RuntimeError if autograd would have to record it, or if the category of a result (bool, integer, float) is
    higher than out's. Raises TypeError for a function whose result is a view. A tensor of another shape is resized,
    with a warning unless it was empty.
    """
    rest = {key: value for key, value in kwargs.items() if key != "out"}
    out = kwargs["out"]
    if out is None:
        return op(*args, **rest)
    if op.core is not None or op.mutates:
        raise TypeError(f"{op.name}() got an unexpected keyword argument 'out'")
    targets = _targets(op, out)
    if STATE.grad_enabled and any(t.requires_grad for t in _tensors((*args, *rest.values(), *targets))):
        raise RuntimeError(
            f"{op.name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    results = op(*args, **rest)
    several = results if isinstance(results, tuple) else (results,)
    if len(several) != len(targets):
        raise TypeError(f"{op.name}(): expected {len(several)} tensors in 'out', got {len(targets)}")
    for target, result in zip(targets, several, strict=True):
        if _is_view_of(result, _tensors((*args, *rest.values()))):
            raise TypeError(f"{op.name}() got an unexpected keyword argument 'out'")
        _write(target, result, copy_)
    if isinstance(out, Tensor):
        return out
    return type(results)(*targets) if hasattr(results, "_fields") else targets


def _targets(op: Any, out: Any) -> tuple:
    """The tensors of `out`."""
    targets = (out,) if isinstance(out, Tensor) else tuple(out) if isinstance(out, (tuple, list)) else ()
    if not targets or not all(isinstance(t, Tensor) for t in targets):
        raise TypeError(
            f"{op.name}(): argument 'out' must be Tensor or a tuple of Tensors, not {type(out).__name__}"
        )
    return targets


def _tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, (tuple, list)):
        return [t for item in tree for t in _tensors(item)]
    return [tree] if isinstance(tree, Tensor) else []


def _is_view_of(result: Tensor, arguments: list[Tensor]) -> bool:
    """Whether a result is a view of an argument. Such functions have no `out=` in torch."""
    if is_traced(result) or any(result is a for a in arguments):
        return False
    mine = arrays.owner(result._data)
    return any(not is_traced(a) and arrays.owner(a._data) is mine for a in arguments)


def _write(target: Tensor, result: Tensor, copy_: Callable) -> None:
    if result.dtype.category > target.dtype.category:
        raise RuntimeError(
            f"result type {result.dtype.name} can't be cast to the desired output type {target.dtype.name}"
        )
    if result.device != target.device:
        raise RuntimeError(
            f"Expected out tensor to be on device {result.device}, but it is on {target.device}; move it first"
        )
    if target.shape != result.shape:
        _resize(target, result)
    copy_(target, result)


def _resize(target: Tensor, result: Tensor) -> None:
    """Give the tensor new memory. Views of the old memory keep it."""
    if is_traced(target):
        raise Unsupported(
            f"out= of shape {tuple(target.shape)} for a result of shape {tuple(result.shape)}", code="GB0067"
        )
    if target.numel():
        warnings.warn(
            f"An output with one or more elements was resized since it had shape {list(target.shape)}, which does "
            f"not match the required output shape {list(result.shape)}. Give a tensor of that shape, or an empty one.",
            stacklevel=5,
        )
    xp: Any = np if target.device.type == "cpu" else arrays.cupy()
    target._data = xp.empty(result.shape, target.dtype.numpy)
    target._base = target._view = target._version = None
