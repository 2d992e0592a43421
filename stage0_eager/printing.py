"""How tensors print: torch's layout over NumPy's number formatting.

Input: a tensor with data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stage0_eager import arrays
from stage_contracts import dtype as dt


def tensor_text(tensor: Any) -> str:
    """`tensor([1., 2.], dtype=..., device=..., requires_grad=True)`, naming only what is not the default."""
    array = arrays.move(tensor._data, arrays.CPU)
    if tensor.dtype in (dt.float16, dt.bfloat16):
        array = array.astype(np.float32)
    body = np.array2string(
        array,
        separator=", ",
        precision=4,
        suppress_small=False,
        prefix="tensor(",
        threshold=1000,
        edgeitems=3,
    )
    extra = []
    if tensor.dtype not in (dt.float32, dt.int64, dt.bool_):
        extra.append(f"dtype={tensor.dtype!r}")
    if tensor.is_cuda:
        extra.append(f"device='{tensor.device}'")
    if tensor._grad_fn is not None:
        extra.append(f"grad_fn={tensor._grad_fn!r}")
    elif tensor.requires_grad:
        extra.append("requires_grad=True")
    return f"tensor({', '.join([body, *extra])})"
