"""The data of tensors that have none: what their shape, dtype, strides and device are.

Input: creation functions with `device="meta"`, or inside `with device("meta"):`. Operators then run their meta rules
only, so a model of any size is there at once; `to_empty` or `load_state_dict(assign=True)` give it its data later.
Tracers make tensors of the same kind (transforms/trace.py).
"""

from __future__ import annotations

from typing import Any, NoReturn

from stage_contracts.device import Device
from stage_contracts.tensor_meta import TensorMeta

META = object()  # stands where the namespace of arrays is asked for: of these, no library computes


class WithoutData:
    """What an array says of itself, from a meta."""

    __slots__ = ("meta",)
    meta: TensorMeta

    shape = property(lambda self: self.meta.shape)
    ndim = property(lambda self: len(self.meta.shape))
    size = property(lambda self: self.meta.numel)
    dtype: Any = property(lambda self: self.meta.dtype.numpy)
    itemsize = property(lambda self: self.meta.dtype.itemsize)

    @property
    def strides(self) -> tuple:
        """The strides in bytes, like an array's."""
        return tuple(s * self.meta.dtype.itemsize for s in self.meta.strides)


class MetaArray(WithoutData):
    """The data of a tensor on the device meta. `base`: what it is a view of, if it is one."""

    __slots__ = ("base",)
    __array_ufunc__ = None  # NumPy would take it for an object

    def __init__(self, meta: TensorMeta, base: MetaArray | None = None) -> None:
        self.meta, self.base = meta, base

    def refuse(self, what: str) -> NoReturn:
        raise RuntimeError(f"Tensor.{what} cannot be called on meta tensors: they have no data")


def moved(array: Any, meta: TensorMeta, device: Device) -> MetaArray:
    """What an array becomes on the device meta, by `meta`. Raises NotImplementedError if it should leave that."""
    if device.type != "meta":
        raise NotImplementedError(
            "Cannot copy out of meta tensor; no data! Please use torch.nn.Module.to_empty() instead of "
            "torch.nn.Module.to() when moving module from meta to a different device."
        )
    return array if type(array) is MetaArray else MetaArray(on(meta, device))


def on(meta: TensorMeta, device: Device) -> TensorMeta:
    """The meta on another device, as data has it: without requires_grad."""
    return TensorMeta(meta.shape, meta.dtype, meta.strides, device)


def as_arrays(result: Any, source: Any) -> Any:
    """What a meta rule gave, as the results of a kernel. `source`: the operand that a view is of."""
    if isinstance(result, TensorMeta):
        base = source if isinstance(source, MetaArray) else None
        return MetaArray(on(result, result.device), base if base is None or base.base is None else base.base)
    return tuple(as_arrays(part, None) for part in result)
