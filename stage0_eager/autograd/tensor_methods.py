"""The methods of Tensor for autograd: backward, and those that register hooks.

Input: a tensor on the tape. `@method` makes each function a method.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage0_eager.autograd import backward_pass, hooks
from stage0_eager.tensor import Tensor, method


@method
def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any = None,
) -> None:
    """Add gradients to `.grad` of the leaves, or of `inputs` only. Without `gradient`, the tensor must have one
    element."""
    backward_pass.backward(self, gradient, retain_graph, create_graph, inputs)


@method
def register_hook(self: Tensor, hook: Callable) -> hooks.RemovableHandle:
    """Call `hook(grad)` when this tensor's gradient is complete. A result other than None replaces the gradient.

    Returns a handle with remove(). Hooks run in order of registration.
    """
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return hooks.RemovableHandle(hooks.hooks_of(self), hook)


@method
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable) -> hooks.RemovableHandle:
    """Call `hook(tensor)` after backward has added to this leaf's `.grad`."""
    return hooks.add_post_accumulate_hook(self, hook)


@method
def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this tensor in `.grad`, if it is not a leaf."""
    hooks.retain_grad(self)
