"""Hooks: on a tensor's gradient, and on the tensors saved for the backward.

Input: tensors on the tape (tape.py); the backward pass (backward_pass.py) runs the hooks of gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from stage0_eager.state import STATE
from stage0_eager.table.core import core as c
from stage0_eager.tensor import Tensor, up_to_date
from stage_contracts.device import CPU


class RemovableHandle:
    """The result of registering a hook. `remove()` removes the hook; so does the end of a `with` block."""

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
    """The dict of a tensor's hooks: on its node, or on the tensor itself if it is a leaf."""
    node = up_to_date(tensor)._grad_fn
    if node is None:
        if not tensor._hooks:  # the assignment changes the structure epoch of a Parameter, for compiled code
            tensor._hooks = {}
        return tensor._hooks
    if node.hooks is None:
        node.hooks = {}
    return node.hooks.setdefault(tensor._output_index, {})


def retain_grad(tensor: Tensor) -> None:
    """Keep the gradient of a tensor that is not a leaf in its `.grad`."""
    if not tensor.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if tensor.is_leaf or tensor.retains_grad:
        return

    def keep(g: Tensor) -> None:
        tensor.grad = c.clone(g) if tensor.grad is None else c.add(tensor.grad, g)

    keep.retains_grad = True  # type: ignore[attr-defined]  # backward_pass.run_hooks runs these last
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
    """In this block, `pack_hook(tensor)` is saved for backward instead of a tensor. `unpack_hook` makes the tensor
    again."""
    previous, STATE.saved_hooks = STATE.saved_hooks, (pack_hook, unpack_hook)
    try:
        yield
    finally:
        STATE.saved_hooks = previous


@contextmanager
def save_on_cpu(pin_memory: bool = False, device_type: str = "cuda") -> Iterator[None]:
    """In this block, tensors saved for backward are kept in the CPU's memory, and moved back when they are needed.

    pin_memory: in page-locked memory, so that the host waits for no copy of them.
    """

    def pack(tensor: Tensor) -> tuple:
        on_host = tensor.device.type == "cpu"
        return tensor.device, c.clone(tensor) if on_host else c.to_device(tensor, CPU, pin_memory)

    with saved_tensors_hooks(pack, lambda packed: c.to_device(packed[1], packed[0], pin_memory)):
        yield
