"""Opaque operators: rows outside the table that every stage keeps as one step and never opens.

Input: control flow (control_flow_operators.py), the user's custom operators (library.py) and Triton kernels. Each
brings a body for eager calls, a meta rule, and a kernel `(array namespace, *arguments)` that compiled graphs call.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage0_eager.operator import Operator
from stage0_eager.state import STATE
from stage0_eager.tape import needs_tape, record
from stage0_eager.trace import Tracer

OPAQUE: dict[
    str, OpaqueOperator
] = {}  # by qualname: where graphs that are read back, and runtimes, find them


class OpaqueOperator(Operator):
    """One row. Graphs call it by `qualname`; a Tracer records it as it is, derivative and all."""

    opaque = True

    def __init__(
        self,
        namespace: str,
        name: str,
        body: Callable[..., Any],
        meta: Callable[..., Any],
        kernel: Callable[..., Any],
        mutates: tuple[str, ...] = (),
    ) -> None:
        super().__init__(name, "", body=body, mutates=mutates)
        self.namespace, self.meta_rule, self.kernel = namespace, meta, kernel
        self.whole = True
        OPAQUE[self.qualname] = self

    def __reduce__(self) -> tuple:
        return OPAQUE.__getitem__, (self.qualname,)

    def meta(self, *args: Any, **kwargs: Any) -> Any:
        """The result's TensorMeta, or a tuple of them, by the row's own rule."""
        return self.meta_rule(*self.bind(*args, **kwargs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        interpreter = STATE.interpreter
        if not isinstance(interpreter, Tracer):
            return self.run(*args, **kwargs)
        args = self.bind(*args, **kwargs)
        recording = STATE.grad_enabled and needs_tape(self, args)
        out = interpreter.process(self, args)
        if recording:
            record(self, args, out)
        return out


def opaque_kernel(qualname: str) -> Callable[..., Any]:
    """The kernel of an opaque operator, called as the operator is, after the array namespace. Raises KeyError."""
    op = OPAQUE[qualname]
    return lambda xp, *args, **kwargs: op.kernel(xp, *op.bind(*args, **kwargs))  # type: ignore[misc]
