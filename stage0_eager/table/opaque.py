"""Opaque operators: rows outside the table that every stage keeps as one step and never looks into.

Input: control flow (control_flow/operators.py), user-defined operators (library/) and Triton kernels. Each has a body
for eager calls, a meta rule, and a kernel `(array namespace, *arguments)` that compiled graphs call.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from stage0_eager.arrays import is_array
from stage0_eager.autograd.tape import needs_tape, record
from stage0_eager.state import STATE
from stage0_eager.table.operator import Operator
from stage0_eager.table.registry import OPAQUE
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import Tracer
from stage0_eager.utils.pytree import leaves_of, mapped
from stage_contracts.tensor_meta import TensorMeta


class OpaqueOperator(Operator):
    """One row. Graphs call it by `qualname`; a Tracer records it as one node, with its derivative."""

    opaque = True
    listed = False  # whether its results are a list
    pullback: Callable[..., dict[str, Any]] | None = (
        None  # computes all gradients in one call; used instead of rules
    )

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
        """The TensorMeta of the result, or a tuple of them, from the row's own rule."""
        return self.meta_rule(*self.bind(*args, **kwargs))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        interpreter = STATE.interpreter
        if interpreter is None:
            return self.run(*args, **kwargs)
        if not isinstance(interpreter, Tracer):  # a vmap: example by example
            return self._interpreted(interpreter, args, kwargs)
        args = self.bind(*args, **kwargs)
        recording = STATE.grad_enabled and needs_tape(self, args)
        out = interpreter.process(self, args)
        if recording:
            record(self, args, out)
        return out


def functional_form(op: OpaqueOperator) -> OpaqueOperator:
    """For an `op` that writes to arguments: the operator that returns their new values after op's results instead."""
    places = [op.params.index(name) for name in op.mutates]

    def with_copies(args: tuple, copy: Callable[[Any], Any]) -> tuple[tuple, list]:
        """The arguments, in which tensors that are written are replaced by copies; and these copies."""
        copies = {id(leaf): copy(leaf) for i in places for leaf in leaves_of(args[i]) if is_data(leaf)}
        copied = tuple(mapped(lambda leaf: copies.get(id(leaf), leaf), a) for a in args)
        return copied, [leaf for i in places for leaf in leaves_of(copied[i]) if is_data(leaf)]

    def meta(*args: Any) -> tuple:
        args, written = with_copies(args, lambda m: m)
        made = op.meta_rule(*args)
        return (*_several(made), *written)

    def kernel(xp: Any, *args: Any) -> tuple:
        args, written = with_copies(args, lambda a: a.copy(order="K"))
        return (*_several(op.kernel(xp, *args)), *written)  # type: ignore[misc]

    @wraps(op.body)  # type: ignore[arg-type]
    def body(*args: Any, **kwargs: Any) -> tuple:
        args, written = with_copies(op.bind(*args, **kwargs), lambda t: t.clone())
        return (*_several(op(**dict(zip(op.params, args, strict=True)))), *written)

    name = f"functional.{op.qualname}"
    return OPAQUE.get(name) or OpaqueOperator(f"functional.{op.namespace}", op.name, body, meta, kernel)


def is_data(value: Any) -> bool:
    """Whether this is a tensor, or an array or a meta in place of one."""
    return isinstance(value, (Tensor, TensorMeta)) or is_array(value)


def _several(result: Any) -> tuple:
    """The result of an operator as a tuple."""
    if result is None:
        return ()
    return tuple(result) if isinstance(result, (tuple, list)) else (result,)
