"""`cutaway.amp`: automatic mixed precision under torch.amp's names.

Input: amp/autocast.py and amp/grad_scaler.py; here are also the decorators for the two halves of an autograd.Function.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stage0_eager.amp.autocast import (
    autocast,
    autocast_as,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_enabled,
    with_device,
)
from stage0_eager.amp.grad_scaler import GradScaler
from stage0_eager.state import STATE
from stage0_eager.tensor import Tensor


def custom_fwd(fwd: Callable | None = None, *, device_type: str, cast_inputs: Any = None) -> Any:
    """Decorator for an autograd.Function's forward: its backward (custom_bwd) will run under the same autocast.

    cast_inputs: float tensors among the arguments are cast to this dtype, and autocast is off inside.
    """
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def decorate_fwd(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        ctx._dtype = get_autocast_dtype(device_type)
        if cast_inputs is None:
            ctx._fwd_used_autocast = is_autocast_enabled(device_type)
            return fwd(ctx, *args, **kwargs)
        under = is_autocast_enabled(device_type)
        ctx._fwd_used_autocast = False
        if not under:
            return fwd(ctx, *args, **kwargs)
        with autocast_as(with_device(STATE.autocast, device_type, None)):
            cast = functools.partial(_cast, device_type=device_type, dtype=cast_inputs)
            return fwd(ctx, *map(cast, args), **{k: cast(v) for k, v in kwargs.items()})

    return decorate_fwd


def custom_bwd(bwd: Callable | None = None, *, device_type: str) -> Any:
    """Decorator for an autograd.Function's backward whose forward has custom_fwd."""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)

    @functools.wraps(bwd)
    def decorate_bwd(*args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, enabled=args[0]._fwd_used_autocast, dtype=args[0]._dtype):
            return bwd(*args, **kwargs)

    return decorate_bwd


def _cast(value: Any, device_type: str, dtype: Any) -> Any:
    if isinstance(value, Tensor):
        fits = (
            value.is_floating_point() and value.device.type == device_type and value.dtype.name != "float64"
        )
        return value.to(dtype) if fits else value
    if isinstance(value, dict):
        return {_cast(k, device_type, dtype): _cast(v, device_type, dtype) for k, v in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_cast(v, device_type, dtype) for v in value)
    return value


__all__ = [
    "GradScaler", "autocast", "clear_autocast_cache", "custom_bwd", "custom_fwd", "is_autocast_available",
]  # fmt: skip
