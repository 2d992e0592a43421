"""Checkpointing: saves only a function's arguments, and runs the function again in the backward.

Input: a function and its arguments. It uses saved_tensors_hooks (hooks.py): a number takes the place of each saved
tensor. The first number that the backward needs runs the function again, with the random state of the first run.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from stage0_eager.amp.autocast import autocast_as
from stage0_eager.autograd.hooks import saved_tensors_hooks
from stage0_eager.random.generator import default_generator
from stage0_eager.state import STATE, enable_grad
from stage0_eager.tensor import Tensor


class CheckpointError(RuntimeError):
    """The second run did not save the same tensors as the first."""


class _Frame:
    """One checkpointed call: what is needed to run it again, and the tensors that the second run saved."""

    def __init__(self, function: Callable, args: tuple, kwargs: dict, preserve_rng_state: bool) -> None:
        self.function, self.args, self.kwargs = function, args, kwargs
        self.rng = default_generator().get_state() if preserve_rng_state else None
        self.casts = STATE.autocast, STATE.autocast_cache
        self.metas: list[tuple] = []
        self.again: dict[int, Tensor] = {}

    def pack(self, tensor: Tensor) -> int:
        self.metas.append((tuple(tensor.shape), tensor.dtype))
        return len(self.metas) - 1

    def unpack(self, number: int) -> Tensor:
        if number not in self.again:  # this is the first one that is needed, or a second backward
            self._run_again()
        return self.again.pop(number)

    def _run_again(self) -> None:
        found: list[Tensor] = []
        now = default_generator().get_state()
        if self.rng is not None:
            default_generator().set_state(self.rng)
        try:
            with enable_grad(), autocast_as(*self.casts), saved_tensors_hooks(found.append, lambda _: None):
                self.function(*self.args, **self.kwargs)
        finally:
            if self.rng is not None:
                default_generator().set_state(now)
        if len(found) != len(self.metas):
            raise CheckpointError(
                "utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {len(self.metas)}\n"
                f"Number of tensors saved during recomputation: {len(found)}"
            )
        for i, (tensor, meta) in enumerate(zip(found, self.metas, strict=True)):
            if (tuple(tensor.shape), tensor.dtype) != meta:
                raise CheckpointError(
                    "utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                    f"during the forward pass.\ntensor at position {i}: saved {meta}, "
                    f"recomputed {(tuple(tensor.shape), tensor.dtype)}"
                )
        self.again = dict(enumerate(found))


def checkpoint(
    function: Callable,
    *args: Any,
    use_reentrant: bool | None = None,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Call `function(*args, **kwargs)`, and recompute it in the backward. `use_reentrant` has no effect; torch wants it
    to be there."""
    if use_reentrant is None:
        _warn_of_none("checkpoint")
    if not STATE.grad_enabled:
        return function(*args, **kwargs)
    frame = _Frame(function, args, kwargs, preserve_rng_state)
    with saved_tensors_hooks(frame.pack, frame.unpack):
        return function(*args, **kwargs)


def _warn_of_none(name: str) -> None:
    warnings.warn(
        f"torch.utils.{name}: the use_reentrant parameter should be passed explicitly. use_reentrant=False is "
        "recommended",
        stacklevel=3,
    )


def checkpoint_sequential(functions: Any, segments: int, input: Any, **kwargs: Any) -> Any:
    """Run a Sequential, or a list of modules, in `segments` parts. Each part but the last is checkpointed."""
    if kwargs.setdefault("use_reentrant", None) is None:
        _warn_of_none("checkpoint_sequential")
        kwargs["use_reentrant"] = True
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)
    size = len(functions) // segments

    def run(part: list) -> Callable:
        def forward(x: Any) -> Any:
            for f in part:
                x = f(x)
            return x

        return forward

    end = 0
    for start in range(0, size * (segments - 1), size):
        end = start + size
        input = checkpoint(run(functions[start:end]), input, **kwargs)
    return run(functions[end:])(input)
