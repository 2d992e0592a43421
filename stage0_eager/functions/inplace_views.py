"""Methods that change in place how a tensor views its memory: squeeze_, unsqueeze_, transpose_, t_, resize_, ...

Input: a tensor. Nothing is written: the tensor becomes what its view would be, including the history. Existing views of
it stay views of what it was before, which it keeps (`_formerly`).
"""

from __future__ import annotations

import math
from typing import Any

from stage0_eager import arrays
from stage0_eager.functions import rearranging, shape, strided_windows
from stage0_eager.state import STATE, inference_mode, set_grad_enabled
from stage0_eager.tensor import Tensor, method, up_to_date

# How a tensor sees its memory, and its place on the tape. The rest (.grad, hooks, what a user put there) stays.
_LOOKS = ("_output_index", "_version", "_base", "_written", "_made_silently", "_source_was")


def _take_over(target: Tensor, source: Tensor) -> None:
    """Make a tensor see what another sees."""
    for name in _LOOKS:
        target.__dict__.pop(name, None)
        if name in source.__dict__:
            target.__dict__[name] = source.__dict__[name]
    for name in ("_data", "_grad_fn", "_view", "_requires_grad"):
        setattr(target, name, getattr(source, name))


def _in_place(view: Any) -> Any:
    def take_view(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        up_to_date(self)  # its base may have come onto the tape
        if STATE.grad_enabled and self.requires_grad and self.is_leaf:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        # what the tensor was: the view's source, on the tape and as owner of the memory
        before = Tensor(self._data)
        _take_over(before, self)
        # neither no_grad nor inference mode takes anything off the tape
        recording = STATE.grad_enabled or not self.is_leaf
        with inference_mode(STATE.inference and not recording), set_grad_enabled(recording):
            after = view(before, *args, **kwargs)
        after._requires_grad, after._made_silently = self.requires_grad, self._made_silently
        _take_over(self, after)
        self._formerly = (*self._formerly, before)
        self._bump_version()  # what was saved for a backward has another shape now, and must not be used
        return self

    take_view.__name__ = take_view.__qualname__ = f"{view.name}_"
    take_view.__doc__ = f"{view.name}, of the tensor itself."
    return take_view


squeeze_ = method(_in_place(shape.squeeze))
unsqueeze_ = method(_in_place(shape.unsqueeze))
transpose_ = method(_in_place(shape.transpose))
t_ = method(_in_place(shape.t))
swapaxes_ = method(_in_place(rearranging.swapaxes))
swapdims_ = method(_in_place(rearranging.swapdims))
as_strided_ = method(_in_place(strided_windows.as_strided))


@method
def resize_(self: Tensor, *sizes: Any) -> Tensor:
    """Another shape, row-major; elements are kept in order as far as they go, new ones are 0."""
    up_to_date(self)
    size = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
    if self.requires_grad:
        raise RuntimeError("cannot resize variables that require grad")
    data = self._real("resize_()")
    if tuple(data.shape) == size:
        return self
    new = arrays.namespace(self.device).zeros(size, data.dtype)
    count = min(data.size, math.prod(size))
    new.reshape(-1)[:count] = data.reshape(-1)[:count]
    before, counter = Tensor(self._data), self._counter()
    _take_over(before, self)
    _take_over(self, Tensor(new))
    self._formerly, self._version = (*self._formerly, before), counter  # which its views go on sharing
    self._bump_version()
    return self


@method
def resize_as_(self: Tensor, other: Tensor) -> Tensor:
    """resize_ to the shape of another."""
    return resize_(self, tuple(other.shape))
