"""Module.register_full_backward_hook and its pre-hook: functions that see, and may replace, a module's gradients.

Input: a module and a hook. Inputs and outputs pass through an identity whose backward calls the hook, so what a hook
gets is what flows through the whole module, not through its last operator.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage0_eager.autograd.function import Function
from stage0_eager.autograd.hooks import RemovableHandle
from stage0_eager.functions import creation
from stage0_eager.nn.module import Module
from stage0_eager.state import STATE
from stage0_eager.tensor import Tensor

Gradients = tuple[Any, ...]


class _Passing(Function):
    """Gives its tensors; in the backward, `seen(gradients)` gives the gradients that go on."""

    @staticmethod
    def forward(ctx: Any, seen: Callable[[Gradients], Gradients], *tensors: Tensor) -> Any:
        ctx.seen = seen
        ctx.set_materialize_grads(False)
        return tuple(tensor.view_as(tensor) for tensor in tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return (None, *ctx.seen(gradients))


def _idle_shape(value: Any) -> Any:
    """The shape of an input that needs no gradient: as in torch, zeros stand for its gradient."""
    return tuple(value.shape) if isinstance(value, Tensor) and not value.requires_grad else None


def _through(values: Gradients, seen: Callable[[Gradients], Gradients], inputs: bool = False) -> Gradients:
    """The values, with the tensors that need a gradient passed through `seen` in the backward: it gets one gradient for
    each value; None for what is no tensor."""
    places = [i for i, v in enumerate(values) if isinstance(v, Tensor) and v.requires_grad]
    if not places:
        return values

    shapes = [_idle_shape(v) if inputs else None for v in values]

    def of_all(gradients: Gradients) -> Gradients:
        whole: list[Any] = [creation.zeros(shape) if isinstance(shape, tuple) else None for shape in shapes]
        for place, gradient in zip(places, gradients, strict=True):
            whole[place] = gradient
        result = seen(tuple(whole))
        return tuple(result[place] for place in places)

    passed = _Passing.apply(of_all, *(values[place] for place in places))
    out = list(values)
    for place, tensor in zip(places, passed if isinstance(passed, tuple) else (passed,), strict=True):
        out[place] = tensor
    return tuple(out)


def _replaced(gradients: Gradients, by: Any, what: str) -> Gradients:
    if by is None:
        return gradients
    found = by if isinstance(by, tuple) else (by,)
    if len(found) != len(gradients):
        raise RuntimeError(
            f"Backward hook returned an invalid number of {what}, got {len(found)}, but expected {len(gradients)}"
        )
    return found


class FullBackwardHook:
    """A forward pre-hook and a forward hook that together call `hook(module, grad_input, grad_output)`."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook
        self.calls: list[dict[str, Any]] = []  # the calls of the module that are running

    def before(self, module: Module, args: tuple) -> tuple:
        call: dict[str, Any] = {"grad_output": None, "inputs": len(args)}
        self.calls.append(call)
        if not STATE.grad_enabled:
            return args

        def seen(grad_input: Gradients) -> Gradients:
            return _replaced(grad_input, self.hook(module, grad_input, call["grad_output"]), "grad_input")

        passed = _through(args, seen, inputs=True)
        call["on inputs"] = passed is not args
        return passed

    def after(self, module: Module, args: tuple, output: Any) -> Any:
        call = self.calls.pop()
        if not STATE.grad_enabled:
            return output

        def seen(grad_output: Gradients) -> Gradients:
            call["grad_output"] = grad_output
            if not call.get("on inputs"):  # no input needs a gradient: nothing is called later
                self.hook(module, (None,) * call["inputs"], grad_output)
            return grad_output

        return _outputs_through(output, seen)


def _outputs_through(output: Any, seen: Callable[[Gradients], Gradients]) -> Any:
    several = isinstance(output, tuple)
    passed = _through(output if several else (output,), seen)
    if not several:
        return passed[0]
    return type(output)(*passed) if hasattr(output, "_fields") else passed


class _Handle(RemovableHandle):
    """Removes several hooks as one."""

    def __init__(self, *handles: RemovableHandle) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_full_backward_hook(
    self: Module, hook: Callable[..., Any], prepend: bool = False
) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` when the gradients of the module's inputs are known; a result other than
    None replaces grad_input. grad_input has None for what needs no gradient and for keyword arguments."""
    pair = FullBackwardHook(hook)
    return _Handle(
        self.register_forward_pre_hook(pair.before),
        self.register_forward_hook(pair.after, prepend=not prepend),
    )


def register_full_backward_pre_hook(
    self: Module, hook: Callable[..., Any], prepend: bool = False
) -> RemovableHandle:
    """`hook(module, grad_output)` before the backward of the module; a result other than None replaces grad_output."""

    def after(module: Module, args: tuple, output: Any) -> Any:
        def seen(grad_output: Gradients) -> Gradients:
            return _replaced(grad_output, hook(module, grad_output), "grad_output")

        return _outputs_through(output, seen) if STATE.grad_enabled else output

    return self.register_forward_hook(
        after
    )  # behind the full hooks', so that it comes before them in the backward


Module.register_full_backward_hook = register_full_backward_hook  # type: ignore
Module.register_full_backward_pre_hook = register_full_backward_pre_hook  # type: ignore
Module.register_backward_hook = register_full_backward_hook  # type: ignore
