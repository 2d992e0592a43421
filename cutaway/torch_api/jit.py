"""torch.jit: TorchScript is not here, so what a library marks for it stays the plain Python that it is.

Input: decorators and annotations in libraries. Each gives back what it is given: eager torch computes the same.
"""

from __future__ import annotations

import typing
from typing import Any

from cutaway.torch_api.absent import absent
from stage0_eager import nn


def _as_it_is(obj: Any = None, *args: Any, **options: Any) -> Any:
    """`obj` itself. Without it (`@ignore(drop=True)`), a decorator that gives back what it decorates."""
    return obj if obj is not None and not isinstance(obj, bool) else lambda decorated: decorated


def annotate(the_type: Any, the_value: Any) -> Any:
    """The value itself: Python needs no types."""
    return the_value


def annotate_value(value: Any, type: Any) -> Any:
    """The value itself: torch.jit.Attribute."""
    return value


def _never() -> bool:
    return False


class ScriptModule(nn.Module):
    """For isinstance: no module here is scripted."""


class ScriptFunction:
    """For isinstance: no function here is scripted."""


NOT_HERE = "fork freeze load optimize_for_inference save trace trace_module wait".split()
AS_IT_IS = (
    "export ignore interface script script_if_tracing unused _overload"
    " _overload_method script_method _script_if_tracing"
).split()
PATHS: dict[str, dict[str, Any]] = {
    "torch.jit": {
        **dict.fromkeys(AS_IT_IS, _as_it_is),
        **{name: absent(f"torch.jit.{name}") for name in NOT_HERE},
        "Attribute": annotate_value,
        "Error": RuntimeError,
        "Final": typing.Final,
        "ScriptFunction": ScriptFunction,
        "ScriptModule": ScriptModule,
        "annotate": annotate,
        "is_scripting": _never,
        "is_tracing": _never,
        "isinstance": isinstance,
    },
    "torch.jit.annotations": {
        **{name: getattr(typing, name) for name in ("Any", "Dict", "List", "Optional", "Tuple")},
        "Final": typing.Final,
        "annotate": annotate,
        "BroadcastingList2": typing.List,  # noqa: UP006  # libraries subscript it
    },
    "torch._jit_internal": dict.fromkeys(("_overload", "_overload_method"), _as_it_is)
    | {"is_scripting": _never},
}
