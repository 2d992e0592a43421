"""Tensors from data, numbers and shapes, by torch's names.

Input: Python numbers and lists, arrays, shapes (as separate ints or one tuple). These are plain functions over the
`full` and `arange` operators, so capture inlines them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stage0_eager import arrays
from stage0_eager.defaults import device_or_default, dtype_or_default, get_default_device
from stage0_eager.functions.numbers import known
from stage0_eager.functions.shape import in_layout_of
from stage0_eager.kernels.conversion import of_data
from stage0_eager.random import generator as random_module
from stage0_eager.state import STATE
from stage0_eager.table.core import core as c
from stage0_eager.table.numpy_numbers import in_python
from stage0_eager.table.operator import operator
from stage0_eager.tensor import Tensor, made_in_inference
from stage_contracts import dtype as dt
from stage_contracts.device import CPU, device_of
from stage_contracts.dtype import dtype_of
from stage_contracts.symbolic import SymInt


def shape_of(sizes: tuple) -> tuple:
    """`(2, 3)` from `f(2, 3)` or `f((2, 3))`."""
    return tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else tuple(sizes)


def tensor(data: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A new tensor with a copy of `data` (numbers, nested lists, an array). Python floats become float32."""
    if isinstance(data, Tensor):
        data = data._data
    array = of_data(data, None if dtype is None else dtype_of(dtype))
    dtype_of(array.dtype)  # raises TypeError for complex, object, strings
    out = Tensor(
        arrays.move(np.asarray(array) if isinstance(array, np.generic) else array, device_or_default(device))
    )
    if STATE.inference:
        made_in_inference(out)
    return out.requires_grad_() if requires_grad else out


def from_numpy(array: np.ndarray) -> Tensor:
    """A tensor that shares the array's memory. Raises TypeError for dtypes Tensor does not have."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(array).__name__})")
    dtype_of(array.dtype)
    if any(stride < 0 for stride in array.strides):
        raise ValueError(
            "At least one stride in the given numpy array is negative, and tensors with negative strides are not "
            "currently supported. Pass array.copy() instead."
        )
    return made_in_inference(Tensor(array)) if STATE.inference else Tensor(array)


def from_dlpack(external: Any) -> Tensor:
    """A tensor that shares the memory of any array with `__dlpack__`: NumPy's, CuPy's, another library's."""
    if isinstance(external, Tensor):
        return external.detach()
    if not hasattr(external, "__dlpack__") or not hasattr(external, "__dlpack_device__"):
        raise TypeError(
            f"from_dlpack expects an object with __dlpack__ and __dlpack_device__, got {type(external).__name__}"
        )
    on_gpu = int(external.__dlpack_device__()[0]) == 2
    array = (arrays.cupy() if on_gpu else np).from_dlpack(external)
    dtype_of(array.dtype)
    return Tensor(array)


def on_default_device(tensor: Tensor) -> Tensor:
    """`tensor`, moved to the default device if one was set: a CPU that nobody set moves nothing."""
    place = get_default_device()
    return tensor if place == CPU or tensor.device == place else c.to_device(tensor, place)


def as_tensor(data: Any, *, dtype: Any = None, device: Any = None) -> Tensor:
    """`data` as a tensor, sharing memory where possible: on the default device it is a copy, as in torch."""
    out = (
        data
        if isinstance(data, Tensor)
        else from_numpy(data)
        if isinstance(data, np.ndarray)
        else tensor(data)
    )
    if dtype is not None and out.dtype is not dtype_of(dtype):
        out = c.cast(out, dtype_of(dtype))
    if device is None:
        return on_default_device(out)
    return out if out.device == device_of(device) else c.to_device(out, device_of(device))


@operator
def full_of_shape(size, fill_value, *, dtype=None, device=None):
    """Every element fill_value; its own kind of dtype unless one is given."""
    if not known(fill_value):  # a float that compiled code left open, or the user's 0-d tensor
        own = dt.DEFAULT_DTYPE.dtype if fill_value.is_floating_point() else fill_value.dtype
        filled = c.cast(fill_value, own if dtype is None else dtype_of(dtype))
        return c.clone(c.expand(filled, tuple(size)))
    dtype = dt.scalar_dtype(fill_value) if dtype is None else dtype_of(dtype)
    return c.full(tuple(size), fill_value, dtype, device_of(device))


def _is_floating_tensor(value):
    return isinstance(value, Tensor) and value.is_floating_point()


@operator
def arange_between(start, end, step=1, *, dtype=None, device=None):
    """start, start + step, ... below end."""
    start, end, step = in_python((start, end, step))
    if step == 0 or (end - start) * step < 0:
        raise RuntimeError(f"upper bound and lower bound inconsistent with step sign: {start}, {end}, {step}")
    if dtype is None:
        floating = any(isinstance(v, float) or _is_floating_tensor(v) for v in (start, end, step))
        dtype = dt.DEFAULT_DTYPE.dtype if floating else dt.int64
    span, step_ = end - start, step
    exact = isinstance(span, (int, SymInt)) and isinstance(step_, (int, SymInt))
    length = -(-span // step_) if exact else int(np.ceil(span / step_))
    if not dtype_of(dtype).is_floating_point:  # as torch: whole steps from a whole start
        start, step = (int(v) if isinstance(v, float) else v for v in (start, step))
    return c.iota(length, start, step, dtype_of(dtype), device_of(device))


def arange(start: Any, end: Any = None, step: Any = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """arange(end), arange(start, end) or arange(start, end, step)."""
    start, end = (0, start) if end is None else (start, end)
    return arange_between(start, end, step, dtype=dtype, device=device_or_default(device))


def full(
    size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False
) -> Tensor:
    size = (size,) if isinstance(size, (int, SymInt)) else tuple(size)
    out = full_of_shape(size, fill_value, dtype=dtype, device=device_or_default(device))
    return out.requires_grad_() if requires_grad else out


def zeros(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return full(shape_of(size), 0, dtype=dtype_or_default(dtype), device=device, requires_grad=requires_grad)


def ones(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    return full(shape_of(size), 1, dtype=dtype_or_default(dtype), device=device, requires_grad=requires_grad)


def empty(*size: Any, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Zeros: memory without a value would not be reproducible."""
    return zeros(*size, dtype=dtype, device=device, requires_grad=requires_grad)


def _needs_tensor(name: str, input: Any) -> None:
    if not isinstance(input, Tensor):
        raise TypeError(f"{name}(): argument 'input' must be Tensor, not {type(input).__name__}")


def _like(out: Tensor, input: Tensor, memory_format: Any, requires_grad: bool) -> Tensor:
    """What a function made in the likeness of a tensor, laid out as that is or as asked (channels_last), maybe as a
    leaf."""
    if memory_format is None or memory_format.name == "preserve_format":
        out = out if input.is_contiguous() else in_layout_of(out, input)
    else:
        out = out.contiguous(memory_format=memory_format)
    return out.requires_grad_() if requires_grad else out


def full_like(
    input: Tensor, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False,
    memory_format: Any = None,
) -> Tensor:  # fmt: skip
    _needs_tensor("full_like", input)
    out = full(input.shape, fill_value, dtype=dtype or input.dtype, device=device or input.device)
    return _like(out, input, memory_format, requires_grad)


def zeros_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None
) -> Tensor:  # fmt: skip
    return full_like(
        input, 0, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format
    )


def ones_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None
) -> Tensor:  # fmt: skip
    return full_like(
        input, 1, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format
    )


def empty_like(
    input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None
) -> Tensor:  # fmt: skip
    """Zeros, as `empty`."""
    return zeros_like(
        input, dtype=dtype, device=device, requires_grad=requires_grad, memory_format=memory_format
    )


def eye(n: int, m: int | None = None, *, dtype: Any = None, device: Any = None) -> Tensor:
    """1 on the diagonal of an (n, m) matrix."""
    for size in (n, m):
        if isinstance(size, int) and size < 0:
            raise RuntimeError(f"n and m must be greater or equal to 0, got {size}")
    rows = c.reshape(c.iota(n, 0, 1, dt.int64, device_or_default(device)), (n, 1))
    return c.cast(
        c.eq(rows, c.iota(n if m is None else m, 0, 1, dt.int64, device_or_default(device))),
        dtype_or_default(dtype),
    )


def _random(
    function: Any, size: tuple, dtype: Any, device: Any, generator: Any, requires_grad: bool
) -> Tensor:
    out = function(
        shape_of(size), dtype=dtype_or_default(dtype), device=device_or_default(device), generator=generator
    )
    return out.requires_grad_() if requires_grad else out


def rand(*size, dtype=None, device=None, generator=None, requires_grad=False):
    """Uniform on [0, 1)."""
    return _random(random_module.rand_of_shape, size, dtype, device, generator, requires_grad)


def randn(*size, dtype=None, device=None, generator=None, requires_grad=False):
    """Standard normal."""
    return _random(random_module.randn_of_shape, size, dtype, device, generator, requires_grad)


def rand_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None):
    _needs_tensor("rand_like", input)
    out = rand(input.shape, dtype=dtype or input.dtype, device=device or input.device)
    return _like(out, input, memory_format, requires_grad)


def randn_like(input, *, dtype=None, device=None, requires_grad=False, memory_format=None):
    _needs_tensor("randn_like", input)
    out = randn(input.shape, dtype=dtype or input.dtype, device=device or input.device)
    return _like(out, input, memory_format, requires_grad)


def randint(low, high=None, size=None, *, dtype=dt.int64, device=None, generator=None):
    """randint(high, size) or randint(low, high, size): integers in [low, high)."""
    if size is None:
        low, high, size = 0, low, high
    return random_module.randint_of_shape(
        low, high, tuple(size), dtype=dtype_of(dtype), device=device_or_default(device), generator=generator
    )


def tensor_of_array(array: Any) -> Tensor:
    """An ndarray or NumPy scalar as a tensor: how compiled code passes an array to its graph, without a copy."""
    return Tensor(array if type(array) is np.ndarray else np.asarray(array))


def scalar_input(value: Any, dtype: str, device: str) -> Tensor:
    """A Python number as a tensor without dimensions: how compiled code passes a number to its graph."""
    if device == "cpu":
        return Tensor(np.array(value, dtype))
    return tensor(value, dtype=dtype_of(dtype), device=device_of(device))
