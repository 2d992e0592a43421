"""Autograd as a user meets it: grad, backward, Function, hooks on tensors, hooks on what is saved, gradcheck.

Input: tensors that the tape (autograd/tape.py) knows. A Function is one tape node whose rule the user wrote.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np

from stage0_eager.autograd import tape
from stage0_eager.autograd.anomaly import detect_anomaly, set_detect_anomaly
from stage0_eager.autograd.tape import Edge, SavedTensor, TapeNode, up_to_date
from stage0_eager.state import (
    STATE,
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor
from stage_contracts.device import CPU
from stage_contracts.tensor_meta import TensorMeta

grad = tape.grad


def backward(
    tensors: Any,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add the gradients of `tensors` to `.grad` of the leaves they depend on, or of `inputs` only."""
    tensors = (tensors,) if isinstance(tensors, Tensor) else tuple(tensors)
    grad_tensors = (grad_tensors,) if isinstance(grad_tensors, Tensor) else grad_tensors
    inputs = (inputs,) if isinstance(inputs, Tensor) else inputs
    keep = create_graph if retain_graph is None else retain_graph
    tape.backward(tensors, grad_tensors, keep, create_graph, inputs)


# ---- hooks ----------------------------------------------------------------------------------------------------


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook away; leaving it as a context does too."""

    def __init__(self, hooks: dict, hook: Callable) -> None:
        self._hooks, self._key = hooks, object()
        hooks[self._key] = hook

    def remove(self) -> None:
        self._hooks.pop(self._key, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def hooks_of(tensor: Tensor) -> dict:
    """The dict of a tensor's hooks: on its node when it was computed, on itself when it is a leaf."""
    node = up_to_date(tensor)._grad_fn
    if node is None:
        if not tensor._hooks:  # a Parameter notices the assignment, so that compiled code does
            tensor._hooks = {}
        return tensor._hooks
    if node.hooks is None:
        node.hooks = {}
    return node.hooks.setdefault(tensor._output_index, {})


def retain_grad(tensor: Tensor) -> None:
    if not tensor.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if tensor.is_leaf or tensor.retains_grad:
        return

    def keep(g: Tensor) -> None:
        tensor.grad = g if tensor.grad is None else c.add(tensor.grad, g)

    keep.retains_grad = True  # type: ignore[attr-defined]  # tape.run_hooks runs these last
    RemovableHandle(hooks_of(tensor), keep)


def add_post_accumulate_hook(tensor: Tensor, hook: Callable) -> RemovableHandle:
    if not tensor.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not tensor.is_leaf:
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    if not tensor._after_hooks:
        tensor._after_hooks = {}
    return RemovableHandle(tensor._after_hooks, hook)


@contextmanager
def saved_tensors_hooks(pack_hook: Callable, unpack_hook: Callable) -> Iterator[None]:
    """In this block, `pack_hook(tensor)` is kept for backward in the tensor's place; `unpack_hook` gives it back."""
    previous, STATE.saved_hooks = STATE.saved_hooks, (pack_hook, unpack_hook)
    try:
        yield
    finally:
        STATE.saved_hooks = previous


@contextmanager
def save_on_cpu(pin_memory: bool = False, device_type: str = "cuda") -> Iterator[None]:
    """In this block, what is saved for backward is kept in the CPU's memory and moved back when it is needed."""

    def pack(tensor: Tensor) -> tuple:
        return tensor.device, c.clone(tensor) if tensor.device.type == "cpu" else c.to_device(tensor, CPU)

    with saved_tensors_hooks(pack, lambda packed: c.to_device(packed[1], packed[0])):
        yield


# ---- functions with a derivative of the user's own ----------------------------------------------------------------


class FunctionCtx:
    """What forward hands to backward. Other attributes may be set freely."""

    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._to_save: tuple = ()
        self._non_differentiable: tuple = ()
        self._dirty: tuple = ()
        self._node: FunctionNode | None = None
        self._materialize = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep inputs, outputs or tensors in between for backward; a later write to one is caught."""
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
        """Say which inputs forward wrote to in place; each has to be returned as well."""
        self._dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """False: backward gets None, not zeros, for an output that no gradient reached."""
        self._materialize = value


class FunctionNode(TapeNode):
    """The tape node of one Function.apply."""

    __slots__ = ("cls", "ctx", "inputs", "materialize")
    cls: type[Function]
    ctx: FunctionCtx
    inputs: tuple  # the meta of each argument; None for what is no tensor

    def __repr__(self) -> str:
        return f"<{self.name}Backward>"

    def apply(self, gradients: list) -> list:
        if self.saved is None:
            self.unpack()  # raises: freed
        if self.materialize:  # the walk has filled in what is floating
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
                f"function {self.name}Backward returned a gradient that is no Tensor at index {index}: "
                f"{type(g).__name__}"
            )
        meta = self.inputs[index]
        if g.shape == meta.shape and g.dtype is meta.dtype:
            return g
        from stage0_eager.derivatives.rules import fit

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
        """Where this is overridden, forward takes no ctx and this fills it."""

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
    """Put one Function.apply on the tape. An input that forward returned as it was becomes an alias."""
    given = {id(a) for a in args if isinstance(a, Tensor)}
    dirty = {id(t) for t in ctx._dirty}
    flat = {id(t) for t in ctx._non_differentiable}
    for t in ctx._dirty:
        if t.requires_grad and t.is_leaf:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
    kept = {id(t) for t in ctx._to_save if t is not None}
    finished: list = []
    replaced: dict[int, Tensor] = {}
    for out in outputs:
        if isinstance(out, Tensor) and id(out) in given and id(out) not in dirty:
            alias = Tensor(out._data)
            out._share_version(alias)
            if id(out) in flat:
                flat.add(id(alias))
            finished.append(alias)
        else:
            finished.append(out)
            if isinstance(out, Tensor) and id(out) in kept:
                replaced[id(out)] = out
    tensors = [t.meta if isinstance(t, Tensor) else TensorMeta((), _float32()) for t in finished]
    node = FunctionNode(cls.__name__, tuple(tensors), edges)
    node.cls, node.ctx, node.inputs, node.materialize = cls, ctx, metas, ctx._materialize
    for index, out in enumerate(finished):
        if isinstance(out, Tensor) and out.dtype.is_floating_point and id(out) not in flat:
            out.requires_grad, out._grad_fn, out._output_index = True, node, index
    node.saved = {
        str(i): None if t is None else SavedTensor(t, id(t) in replaced and t._grad_fn is node)
        for i, t in enumerate(ctx._to_save)
    }
    ctx._node, ctx._to_save = node, ()
    return tuple(finished)


def _float32() -> Any:
    from stage_contracts.dtype import float32

    return float32


def once_differentiable(backward: Callable) -> Callable:
    """Decorator for a backward that cannot itself be differentiated: its gradients are constants."""

    @functools.wraps(backward)
    def wrapper(ctx: Any, *gradients: Any) -> Any:
        with no_grad():
            return backward(ctx, *gradients)

    return wrapper


# ---- the check ----------------------------------------------------------------------------------------------------


class GradcheckError(RuntimeError):
    """The derivative on the tape is not what finite differences give."""


def gradcheck(
    func: Callable,
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """Whether func's gradients agree with central differences. Inputs that require grad should be float64."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    chosen = [i for i, t in enumerate(inputs) if isinstance(t, Tensor) and t.requires_grad]
    if not chosen:
        raise ValueError(
            "gradcheck expects at least one input tensor to require gradient, but none of the them have "
            "requires_grad=True."
        )
    for o, out in enumerate(_outputs(func, inputs)):
        for i in chosen:
            exact, measured = _analytical(out, inputs[i]), _numerical(func, inputs, i, o, eps)
            if not np.allclose(exact, measured, rtol, atol):
                if not raise_exception:
                    return False
                raise GradcheckError(
                    f"Jacobian mismatch for output {o} with respect to input {i},\n"
                    f"numerical:{measured}\nanalytical:{exact}\n"
                )
    return True


def gradgradcheck(
    func: Callable,
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
) -> bool:
    """gradcheck of func's gradients, as functions of the inputs and of `grad_outputs` (random ones when None)."""
    inputs = (inputs,) if isinstance(inputs, Tensor) else tuple(inputs)
    outputs = _outputs(func, inputs)
    if grad_outputs is None:
        draws = np.random.default_rng(0)
        seeds = tuple(Tensor(draws.normal(size=o.shape).astype(o.dtype.numpy), True) for o in outputs)
    else:
        seeds = (grad_outputs,) if isinstance(grad_outputs, Tensor) else tuple(grad_outputs)
    count = len(inputs)

    def gradients(*args: Any) -> tuple:
        chosen = [t for t in args[:count] if isinstance(t, Tensor) and t.requires_grad]
        found = grad(_outputs(func, args[:count]), chosen, args[count:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradcheck(
        gradients, (*inputs, *seeds), eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception
    )


def _outputs(func: Callable, inputs: Sequence) -> list[Tensor]:
    result = func(*inputs)
    result = result if isinstance(result, (tuple, list)) else (result,)
    return [t for t in result if isinstance(t, Tensor) and t.requires_grad]


def _analytical(out: Tensor, x: Tensor) -> np.ndarray:
    """The Jacobian, a row per input element and a column per output element, one backward per column."""
    columns = []
    for k in range(out.numel()):
        seed = np.zeros(out.numel(), out.dtype.numpy)
        seed[k] = 1
        (g,) = grad(out, x, Tensor(seed.reshape(out.shape)), retain_graph=True, allow_unused=True)
        columns.append(np.zeros(x.numel()) if g is None else np.asarray(g.detach().tolist()).reshape(-1))
    return np.stack(columns, 1) if columns else np.zeros((x.numel(), 0))


def _numerical(func: Callable, inputs: tuple, i: int, o: int, eps: float) -> np.ndarray:
    def value(array: np.ndarray) -> np.ndarray:
        moved = [Tensor(array, True) if k == i else t for k, t in enumerate(inputs)]
        return np.array(_outputs(func, moved)[o]._data, np.float64).reshape(-1)

    rows = []
    for k in range(inputs[i].numel()):
        ends = []
        for step in (eps, -eps):
            array = np.array(inputs[i]._data)
            array.reshape(-1)[k] += step
            ends.append(value(array))
        rows.append((ends[0] - ends[1]) / (2 * eps))
    return np.stack(rows) if rows else np.zeros((0, 0))


function = SimpleNamespace(
    Function=Function, FunctionCtx=FunctionCtx, once_differentiable=once_differentiable
)
graph = SimpleNamespace(saved_tensors_hooks=saved_tensors_hooks, save_on_cpu=save_on_cpu, Node=TapeNode)


def __getattr__(name: str) -> Any:
    if name == "functional":  # made of function transforms, which are made of this
        from stage0_eager.autograd import functional as autograd_functional

        return autograd_functional
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "Function", "FunctionCtx", "GradcheckError", "backward", "detect_anomaly", "enable_grad", "function", "grad",
    "gradcheck", "gradgradcheck", "graph", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
    "once_differentiable", "save_on_cpu", "saved_tensors_hooks", "set_detect_anomaly", "set_grad_enabled",
]  # fmt: skip
