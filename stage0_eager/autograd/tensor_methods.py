"""The methods that autograd adds to Tensor: backward, and those that register hooks.

Input: a tensor that the tape knows. `@method` makes each a method.
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
    """Accumulate gradients into the leaves, or `inputs` only. Without `gradient` this must be a single element."""
    backward_pass.backward(self, gradient, retain_graph, create_graph, inputs)


@method
def register_hook(self: Tensor, hook: Callable) -> hooks.RemovableHandle:
    """`hook(grad)` when this tensor's gradient is known; what it returns (not None) replaces the gradient.

    Returns a handle with remove(). Hooks run in order of registration.
    """
    if not self.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    return hooks.RemovableHandle(hooks.hooks_of(self), hook)


@method
def register_post_accumulate_grad_hook(self: Tensor, hook: Callable) -> hooks.RemovableHandle:
    """`hook(tensor)` after backward has added to this leaf's `.grad`."""
    return hooks.add_post_accumulate_hook(self, hook)


@method
def retain_grad(self: Tensor) -> None:
    """Keep this inner tensor's gradient in `.grad`, as a leaf's is kept."""
    hooks.retain_grad(self)
