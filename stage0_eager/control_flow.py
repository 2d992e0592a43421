"""Branches and loops decided by tensors, as functions: what compiled code keeps as one operator with subgraphs.

Input: a predicate and functions of tensors. Eagerly they are Python's own `if` and `while`; names are torch's
(torch.cond and torch.while_loop).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stage0_eager.tensor import Tensor


def cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: Sequence[Tensor] = ()) -> Any:
    """`true_fn(*operands)` if `pred` (a bool or a tensor of one element) is true, else `false_fn(*operands)`.

    Both must return tensors of the same shapes and dtypes: compiled code relies on it. Raises RuntimeError for a
    predicate of several elements, TypeError for operands that are not a tuple or list.
    """
    if isinstance(pred, Tensor) and pred.numel() != 1:
        raise RuntimeError(f"cond expected a predicate of one element, got shape {tuple(pred.shape)}")
    if not isinstance(operands, (tuple, list)):
        raise TypeError(f"cond expected its operands in a tuple or list, got {type(operands).__name__}")
    return true_fn(*operands) if bool(pred) else false_fn(*operands)


def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: Sequence[Tensor]) -> tuple:
    """`body_fn(*carried)` again and again while `cond_fn(*carried)`; the carried tensors keep shape and dtype."""
    carried = tuple(carried_inputs)
    while bool(cond_fn(*carried)):
        made = body_fn(*carried)
        carried = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        if len(carried) != len(carried_inputs):
            raise RuntimeError(
                f"while_loop's body returned {len(carried)} values for {len(carried_inputs)} carried"
            )
    return carried
