"""Layers whose first sizes the first call decides: LazyLinear, LazyConv2d, LazyBatchNorm1d and the like.

Input: the arguments of the layer without that size. Until the first call the parameters are there, without a shape. The
first call gives them their shapes, draws their values, and the layer becomes one of the ordinary class.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from stage0_eager.nn import convolution, linear, normalization
from stage0_eager.nn.module import Module, Parameter
from stage0_eager.tensor import Tensor


class _Uninitialized:
    """A tensor that has no shape yet."""

    _becomes: type = Tensor

    @property
    def shape(self) -> Any:
        raise RuntimeError(
            f"Can't access the shape of an uninitialized parameter or buffer ({type(self).__name__}). Call the module "
            "on an input first: that decides the shape"
        )

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Give it a shape, in place; the values are for whoever initializes the module."""
        from stage0_eager.functions import creation

        self.become(creation.zeros(*shape, device=device, dtype=dtype))

    def become(self: Any, values: Tensor) -> None:
        """Take the memory of `values`, and be an ordinary parameter or buffer from now on."""
        self.__class__ = self._becomes
        self._data = values._data

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(_Uninitialized, Parameter):
    """A parameter without a shape."""

    _becomes = Parameter

    def __init__(self, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(Tensor(np.zeros(0, np.float32)), requires_grad)


class UninitializedBuffer(_Uninitialized, Tensor):
    """A buffer without a shape."""

    _becomes = Tensor

    def __init__(
        self, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ):
        super().__init__(np.zeros(0, np.float32))
        self._is_buffer, self.persistent = True, persistent


class _Lazy(Module):
    """`become` is the ordinary class, `dim` the dimension of the input, from its end, whose size is missing."""

    become: type
    dim = -1
    defaults: dict[str, Any] = {}

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__()
        options = {**self.defaults, **options}
        self._made_with = (args, options)
        ordinary = type(self).become(
            1, *args, **options
        )  # for the names of its parameters, and its own errors
        for name, parameter in ordinary._parameters.items():
            setattr(self, name, None if parameter is None else UninitializedParameter())
        for name, buffer in ordinary._buffers.items():
            self.register_buffer(name, buffer if buffer is None or not buffer.ndim else UninitializedBuffer())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.initialize_parameters(args[0])
        return self(*args, **kwargs)

    def has_uninitialized_params(self) -> bool:
        """True until the first call."""
        return True

    def initialize_parameters(self, input: Tensor) -> None:
        """Become the ordinary layer for inputs like this one."""
        if input.ndim < -self.dim:
            raise RuntimeError(f"{type(self).__name__}: expected an input of at least {-self.dim} dimensions")
        args, options = self._made_with
        size = input.shape[1 if self.dim == 0 else self.dim]
        ordinary = type(self).become(size, *args, **options)
        for registry in ("_parameters", "_buffers"):
            for name, value in ordinary.__dict__[registry].items():
                mine = self.__dict__[registry][name]
                if isinstance(mine, _Uninitialized):
                    mine.become(value)
        del self._made_with
        kept = {"training", "_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks"}
        self.__class__ = type(self).become
        for name, value in ordinary.__dict__.items():
            if name not in kept:
                setattr(self, name, value)


def _lazy(become: type, dim: int, **defaults: Any) -> type:
    doc = f"{become.__name__} whose {'in_features' if dim == -1 else 'channels'} the first call decides."
    members = {"become": become, "dim": dim, "defaults": defaults, "__doc__": doc, "__module__": __name__}
    return type(f"Lazy{become.__name__}", (_Lazy,), members)


LazyLinear = _lazy(linear.Linear, -1)
LazyConv1d = _lazy(convolution.Conv1d, -2)
LazyConv2d = _lazy(convolution.Conv2d, -3)
LazyConv3d = _lazy(convolution.Conv3d, -4)
LazyConvTranspose1d = _lazy(convolution.ConvTranspose1d, -2)
LazyConvTranspose2d = _lazy(convolution.ConvTranspose2d, -3)
LazyConvTranspose3d = _lazy(convolution.ConvTranspose3d, -4)
LazyBatchNorm1d = _lazy(normalization.BatchNorm1d, 0)  # 0: (N, C) and (N, C, L) have it second
LazyBatchNorm2d = _lazy(normalization.BatchNorm2d, -3)
LazyBatchNorm3d = _lazy(normalization.BatchNorm3d, -4)
_TORCHS = {
    "affine": True,
    "track_running_stats": True,
}  # what torch's lazy ones are made with, unlike the others
LazyInstanceNorm1d = _lazy(normalization.InstanceNorm1d, -2, **_TORCHS)
LazyInstanceNorm2d = _lazy(normalization.InstanceNorm2d, -3, **_TORCHS)
LazyInstanceNorm3d = _lazy(normalization.InstanceNorm3d, -4, **_TORCHS)
