"""The same call in torch, when it is installed: arrays in, arrays out, so that columns compare arrays only.

Input: cases. Strides survive the way into torch, but for negative ones, which torch does not have.
"""

from __future__ import annotations

import warnings
from typing import Any

import ml_dtypes
import numpy as np

from stage_contracts.device import Device
from stage_contracts.dtype import DType
from tests.oracle.cases import Case, leaves, map_leaves
from tests.oracle.spec import ROWS

try:
    import torch
except ImportError:
    torch = None


def to_torch(array: np.ndarray) -> Any:
    if any(s < 0 for s in array.strides) or 0 in array.shape:
        array = array.copy()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if array.dtype == ml_dtypes.bfloat16:
            return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
        return torch.from_numpy(array)


def to_array(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    value = value.detach()
    if value.dtype is torch.bfloat16:
        return value.view(torch.int16).numpy().view(ml_dtypes.bfloat16)
    return value.numpy(force=True)


def words(tree: Any) -> Any:
    """Arguments as torch takes them: its dtypes, its devices."""
    tree = map_leaves(tree, lambda d: getattr(torch, d.name), DType)
    return map_leaves(tree, lambda d: torch.device(str(d)), Device)


def function_of(row: Any) -> Any:
    """torch's function of that name, wherever it keeps it."""
    if callable(row.torch):
        return row.torch
    name = row.torch or row.name
    if "." in name:
        found: Any = torch
        for part in name.split("."):
            found = getattr(found, part)
        return found
    for home in (torch.nn.functional, torch, torch.special, torch.linalg, torch.Tensor):
        if hasattr(home, name):
            return getattr(home, name)
    if row.in_place_of:
        plain = function_of(ROWS[row.in_place_of])
        return lambda x, *args, **kwargs: x.copy_(plain(x.clone(), *args, **kwargs))
    raise LookupError(f"torch has no function called {name}")


def flat_results(result: Any) -> list:
    return [x for x in leaves(result) if x is not None]


def own_kernels() -> Any:
    """torch without oneDNN, whose kernels differ from torch's own: gelu(inf) is NaN there in float32, inf in torch's."""
    return torch.backends.mkldnn.flags(enabled=False)


def run(case: Case, arrays: tuple | None = None) -> list:
    """torch's results on the case, as arrays; what is a view of an operand shares its memory."""
    function = function_of(case.row)
    args, kwargs = words(map_leaves(arrays or case.arrays(), to_torch, np.ndarray))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with own_kernels():
            out = function(*args, **kwargs)
    return [to_array(x) for x in flat_results(args[0] if out is None else out)]


def lacks_kernel(error: Exception) -> bool:
    """Whether torch only has not written this kernel: then what is done here is our own affair."""
    text = str(error)
    return any(words in text for words in ("not implemented for", "not supported for", "is not implemented"))


def gradients(case: Case, arrays: tuple, flags: list[bool]) -> list[np.ndarray]:
    """torch's gradients of columns.weighted's loss."""
    flat = [to_torch(np.array(a, copy=True)) for a in leaves(arrays, np.ndarray)]
    wanted = [t.requires_grad_() for t, flag in zip(flat, flags) if flag]
    items = iter(flat)
    args, kwargs = words(map_leaves(arrays, lambda _: next(items), np.ndarray))
    if case.row.in_place_of:
        args = (args[0].clone(), *args[1:])
    rng, total = np.random.default_rng(7), 0
    result = function_of(case.row)(*args, **kwargs)
    for out in flat_results(args[0] if result is None else result):
        if isinstance(out, torch.Tensor) and out.is_complex():
            out = torch.view_as_real(torch.resolve_conj(out))
        if isinstance(out, torch.Tensor) and out.is_floating_point():
            total = total + (out * torch.from_numpy(rng.uniform(0.5, 1.5, tuple(out.shape)))).sum()
    found = torch.autograd.grad(total, wanted, allow_unused=True)
    return [np.zeros(tuple(t.shape)) if g is None else to_array(g) for t, g in zip(wanted, found)]
