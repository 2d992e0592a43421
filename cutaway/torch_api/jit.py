"""torch.jit: TorchScript is not here, so what a library marks for it stays the plain Python that it is.

Input: decorators and annotations in libraries. Each gives back what it is given: eager torch computes the same.
"""

from __future__ import annotations

import typing
from typing import Any


def _as_it_is(obj: Any = None, *args: Any, **options: Any) -> Any:
    """`obj` itself. Without it (`@ignore(drop=True)`), a decorator that gives back what it decorates."""
    return obj if obj is not None and not isinstance(obj, bool) else lambda decorated: decorated


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value itself: Python needs no types."""
    return the_value


def _never() -> bool:
    return False


AS_IT_IS = (
    "export ignore interface script script_if_tracing unused _overload _overload_method _script_if_tracing"
).split()
PATHS: dict[str, dict[str, Any]] = {
    "torch.jit": {
        **dict.fromkeys(AS_IT_IS, _as_it_is),
        "Final": typing.Final,
        "annotate": annotate,
        "is_scripting": _never,
        "is_tracing": _never,
    },
    "torch.jit.annotations": {
        **{name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Tuple")},
        "BroadcastingList2": typing.List,  # noqa: UP006  # libraries subscript it
    },
    "torch._jit_internal": dict.fromkeys(("_overload", "_overload_method"), _as_it_is)
    | {"is_scripting": _never},
}
