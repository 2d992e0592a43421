"""torch.library.Library: custom operators defined by schemas, with kernels by dispatch key.

Input: schemas as text, and functions; the operators are those of cutaway.library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage0_eager.library import custom_op


class Library:
    """A namespace of custom operators: define(schema), then impl(name, function, dispatch_key)."""

    def __init__(self, ns: str, kind: str = "DEF", dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        if ns == "aten":
            raise NotImplementedError("Library: the operators of aten cannot be given other kernels")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Make an operator of "name(Tensor x, int n=2) -> Tensor". Returns its name."""
        name, bracket, rest = schema.partition("(")
        custom_op.define(f"{self.ns}::{name}", bracket + rest)
        return name

    def impl(self, op_name: Any, fn: Callable[..., Any], dispatch_key: str = "", **options: Any) -> None:
        """Give an operator its kernel ("CPU", "CUDA", "CompositeExplicitAutograd": any) or its fake rule ("Meta")."""
        key = dispatch_key or self.dispatch_key
        name = self._whole(op_name)
        if key == "Meta":
            custom_op.register_fake(name, fn)
        elif key in ("", "CompositeExplicitAutograd", "CompositeImplicitAutograd"):
            custom_op.impl(name, "default", fn)
        elif key in ("CPU", "CUDA"):
            custom_op.impl(name, key.lower(), fn)
        else:
            raise NotImplementedError(
                f"Library.impl: the dispatch key {key!r} is not supported; use CPU, CUDA, Meta or "
                "CompositeExplicitAutograd, and library.register_autograd for a backward"
            )

    def _whole(self, op_name: Any) -> str:
        name = str(getattr(op_name, "_qualname", op_name))
        return name if "::" in name else f"{self.ns}::{name}"

    def _register_fake(self, op_name: Any, fn: Callable[..., Any], **options: Any) -> None:
        custom_op.register_fake(self._whole(op_name), fn)
