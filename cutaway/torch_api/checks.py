"""torch._check and the like: raise an error if a condition of the program does not hold.

Input: the program's conditions on sizes and numbers. They are plain Python, so capture follows them: a condition on an
open size becomes a guard.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage0_eager.functions.unbacked import require, statically_known_true
from stage0_eager.tensor import Tensor


def _check_with(error: type[Exception], cond: Any, message: Callable[[], Any] | None) -> None:
    if isinstance(cond, Tensor):
        raise TypeError("cond must be a bool, but got a Tensor; pass bool(cond.all()) instead")
    if message is not None and not callable(message):
        raise TypeError(f"message must be a callable, but got {message!r}; pass lambda: ... instead")
    if message is None or statically_known_true(cond):
        require(
            cond, error, "Expected cond to be True, but got False. (To explain it, pass message=lambda: ...)"
        )
    else:
        require(cond, error, str(message()))


def check(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """Raise RuntimeError with the text `message()` if `cond` is false."""
    _check_with(RuntimeError, cond, message)


def check_value(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """The same as check, with ValueError."""
    _check_with(ValueError, cond, message)


def check_index(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """The same as check, with IndexError."""
    _check_with(IndexError, cond, message)


def check_type(cond: Any, message: Callable[[], Any] | None = None) -> None:
    """The same as check, with TypeError."""
    _check_with(TypeError, cond, message)


def check_is_size(i: int, message: Callable[[], Any] | None = None, *, max: int | None = None) -> None:
    """Check that `i` can be a size: it is not negative, and not above `max` (None: no limit)."""
    _check_with(RuntimeError, i >= 0, message)
    if max is not None:
        _check_with(RuntimeError, i <= max, message)


CHECKS = {f"_{f.__name__}": f for f in (check, check_value, check_index, check_type, check_is_size)}
