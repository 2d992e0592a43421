"""torch.overrides: `__torch_function__` for functions that a program writes itself, and modes.

Input: stage0_eager/table/overriding.py, which asks the classes of an operator's arguments.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from stage0_eager.table import overriding
from stage0_eager.tensor import Tensor


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether one of the arguments is of a class that answers calls, or a mode is on."""
    return not overriding.STATE.off and bool(overriding.overriding_types(tuple(relevant_args), {}))


def has_torch_function_variadic(*relevant_args: Any) -> bool:
    return has_torch_function(relevant_args)


def handle_torch_function(
    public_api: Callable, relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What the classes of the relevant arguments answer to a call of `public_api`. Raises TypeError if none does."""
    for kind in overriding.overriding_types(tuple(relevant_args), {}):
        result = kind.__torch_function__(public_api, (kind,), args, kwargs)  # type: ignore[attr-defined]
        if result is not NotImplemented:
            return result
    raise TypeError(
        f"no implementation found for '{public_api.__module__}.{public_api.__name__}' on its arguments"
    )


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Callable], Callable]:
    """A decorator: the function asks the classes of what dispatcher(*args) gives before it runs."""

    def decorate(function: Callable) -> Callable:
        @functools.wraps(function)
        def asking(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(asking, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return asking

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or of a class that answers calls."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable) -> bool:
    """Whether it is a method of Tensor, or a getter of one of its properties."""
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func


PATHS: dict[str, dict[str, Any]] = {
    "torch.overrides": {
        **{f.__name__: f for f in (
            has_torch_function, has_torch_function_variadic, handle_torch_function, wrap_torch_function,
            is_tensor_like, is_tensor_method_or_property,
        )},
        "has_torch_function_unary": has_torch_function_variadic,
        "TorchFunctionMode": overriding.TorchFunctionMode,
    },
}  # fmt: skip
