"""autograd.Function: one node of the tape with your own forward and backward.

Input: a class with forward and backward. `apply` runs forward off the tape and records a FunctionNode, which calls
backward in the backward pass.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from stage0_eager.autograd import tape
from stage0_eager.autograd.tape import Edge, SavedTensor, TapeNode
from stage0_eager.derivatives.rules import fit
from stage0_eager.state import STATE, no_grad
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor, up_to_date
from stage_contracts.dtype import float32
from stage_contracts.tensor_meta import TensorMeta


class FunctionCtx:
    """The context that forward passes to backward. You can set any attributes on it."""

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._to_save: tuple = ()
        self._non_differentiable: tuple = ()
        self._dirty: tuple = ()
        self._node: FunctionNode | None = None
        self._materialize = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save inputs, outputs or other tensors for backward. A later write to one of them is an error in backward."""
        for t in tensors:
            if t is not None and not isinstance(t, Tensor):
                raise TypeError(
                    f"save_for_backward can only save variables, but got type {type(t).__name__}; "
                    "keep other things as attributes of ctx"
                )
        self._to_save = tensors

    @property
    def saved_tensors(self) -> tuple:
        if self._node is None:
            return self._to_save
        return tuple(self._node.unpack().values())

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        self._non_differentiable = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare the inputs that forward wrote to in place. Forward must also return each of them."""
        self._dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """With False, backward gets None instead of zeros for an output without a gradient."""
        self._materialize = value


class FunctionNode(TapeNode):
    """The tape node of one Function.apply."""

    __slots__ = ("cls", "ctx", "inputs", "materialize")
    cls: type[Function]
    ctx: FunctionCtx
    inputs: tuple  # the meta of each argument; None for an argument that is not a tensor

    def __repr__(self) -> str:
        return f"<{self.name}Backward>"

    def apply(self, gradients: list) -> list:
        if self.saved is None:
            self.unpack()  # raises, because the saved tensors are freed
        if self.materialize:  # floating outputs have zeros already
            gradients = [
                c.full(m.shape, 0, m.dtype, m.device) if g is None else g
                for g, m in zip(gradients, self.out_metas, strict=True)
            ]
        results = self.cls.backward(self.ctx, *gradients)
        results = results if isinstance(results, tuple) else (results,)
        expected = len(self.inputs)
        if len(results) < expected or any(r is not None for r in results[expected:]):
            raise RuntimeError(
                f"function {self.name}Backward returned an incorrect number of gradients "
                f"(expected {expected}, got {len(results)})"
            )
        return [self._checked(e.position, results[e.position]) for e in self.edges]

    def _checked(self, index: int, g: Any) -> Any:
        if g is None:
            return None
        if not isinstance(g, Tensor):
            raise TypeError(
                f"function {self.name}Backward returned a gradient that is not a Tensor at index {index}, but "
                f"{type(g).__name__}"
            )
        meta = self.inputs[index]
        if g.shape == meta.shape and g.dtype is meta.dtype:
            return g
        lead = g.ndim - meta.ndim
        if lead < 0 or any(a != b and b != 1 for a, b in zip(g.shape[lead:], meta.shape, strict=True)):
            raise RuntimeError(
                f"Function {self.name}Backward returned an invalid gradient at index {index} - got "
                f"{list(g.shape)} but expected shape compatible with {list(meta.shape)}"
            )
        return fit(g, meta)


class Function:
    """Subclass with static forward(ctx, *args) and backward(ctx, *gradients); call `apply`."""

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple, output: Any) -> None:
        """If you override this, forward gets no ctx, and this method fills it."""

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it "
            "with backward mode AD."
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. "
            "Please use new-style autograd function with static forward method."
        )

    @classmethod
    def apply(cls, *args: Any) -> Any:
        ctx = FunctionCtx()
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and up_to_date(a).requires_grad for a in args)
        recording = STATE.grad_enabled and any(ctx.needs_input_grad)
        metas = tuple(a.meta if isinstance(a, Tensor) else None for a in args)
        edges = [Edge(a, "", i) for i, a in enumerate(args) if ctx.needs_input_grad[i]]
        for a in args:
            if recording and isinstance(a, Tensor) and a.requires_grad:
                tape.version_of(a)
        with no_grad():
            if cls.setup_context is Function.setup_context:
                result = cls.forward(ctx, *args)
            else:
                result = cls.forward(*args)
                cls.setup_context(ctx, args, result)
        outputs = result if isinstance(result, tuple) else (result,)
        if recording:
            outputs = _record(cls, ctx, args, metas, edges, outputs)
        return outputs if isinstance(result, tuple) else outputs[0]


def _record(
    cls: type[Function], ctx: FunctionCtx, args: tuple, metas: tuple, edges: list, outputs: tuple
) -> tuple:
    """Put one Function.apply on the tape. An input that forward returned unchanged becomes an alias."""
    for t in ctx._dirty:
        if t.requires_grad and t.is_leaf:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    flat = {id(t) for t in ctx._non_differentiable}
    finished = _with_aliases(args, ctx, outputs, flat)
    own = {id(t) for t in finished}  # outputs are saved without their own tape node
    tensors = [t.meta if isinstance(t, Tensor) else TensorMeta((), float32) for t in finished]
    node = FunctionNode(cls.__name__, tuple(tensors), edges)
    node.cls, node.ctx, node.inputs, node.materialize = cls, ctx, metas, ctx._materialize
    for index, out in enumerate(finished):
        if isinstance(out, Tensor) and out.dtype.is_differentiable and id(out) not in flat:
            out._requires_grad, out._grad_fn, out._output_index = True, node, index
    node.saved = {
        str(i): None if t is None else SavedTensor(t, id(t) in own and t._grad_fn is node)
        for i, t in enumerate(ctx._to_save)
    }
    ctx._node, ctx._to_save = node, ()
    return tuple(finished)


def _with_aliases(args: tuple, ctx: FunctionCtx, outputs: tuple, flat: set[int]) -> list:
    """The outputs, with an alias for each that is an unchanged input. Aliases without a derivative are added to
    `flat`."""
    unchanged = {id(a) for a in args if isinstance(a, Tensor)} - {id(t) for t in ctx._dirty}
    finished: list = []
    for out in outputs:
        if isinstance(out, Tensor) and id(out) in unchanged:
            alias = Tensor(out._data)
            out._share_version(alias)
            if id(out) in flat:
                flat.add(id(alias))
            out = alias
        finished.append(out)
    return finished


def once_differentiable(backward: Callable) -> Callable:
    """Decorator for a backward that cannot be differentiated: its gradients are constants."""

    @functools.wraps(backward)
    def wrapper(ctx: Any, *gradients: Any) -> Any:
        with no_grad():
            return backward(ctx, *gradients)

    return wrapper
