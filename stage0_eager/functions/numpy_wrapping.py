"""wrap_numpy: turns a function on arrays into one on tensors, with gradients in compiled code.

Input: a function on ndarrays. Named after torch.compiler.wrap_numpy. For capture, `array_of` and `tensor_of` change
only the class that Python sees: the graph stays on the tensors, on their device and on the tape.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from stage0_eager.functions.creation import on_default_device, tensor_of_array
from stage0_eager.tensor import Tensor


def wrap_numpy(fn: Callable) -> Callable:
    """`fn` with tensors for arguments and results, in the places of arrays (also inside tuples, lists and dicts).

    Made for `compile(wrap_numpy(fn), fullgraph=True)`, where gradients flow through it. Without compile it runs in
    NumPy, and raises RuntimeError for a tensor that requires grad, as `tensor.numpy()` does.
    """
    if not callable(fn):
        raise TypeError(f"wrap_numpy expects a callable, but got {type(fn).__name__}")

    @functools.wraps(fn)
    def on_tensors(*args: Any, **kwargs: Any) -> Any:
        arrays = [_everywhere(Tensor, array_of, value) for value in args]
        named = {key: _everywhere(Tensor, array_of, value) for key, value in kwargs.items()}
        return _everywhere((np.ndarray, np.generic), tensor_of, fn(*arrays, **named))

    return on_tensors


def _everywhere(kind: Any, change: Callable[[Any], Any], tree: Any) -> Any:
    """A copy of nested containers with what is of this kind changed."""
    if isinstance(tree, kind):
        return change(tree)
    if isinstance(tree, (tuple, list)):
        items = [_everywhere(kind, change, item) for item in tree]
        return items if isinstance(tree, list) else tuple(items)
    if isinstance(tree, dict):
        return {key: _everywhere(kind, change, item) for key, item in tree.items()}
    return tree


def array_of(tensor: Tensor) -> np.ndarray:
    """The tensor as Python sees it in a NumPy program."""
    return tensor.numpy()


def tensor_of(array: Any) -> Tensor:
    """The tensor that stands for an array or NumPy scalar, on the default device."""
    return on_default_device(tensor_of_array(array))
