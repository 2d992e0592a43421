"""Arrays that say they are on a GPU, and refuse arrays of the host beside them; and CuPy's namespace of them.

Input: NumPy's memory and functions. What is computed of such an array is another one.
"""

import contextlib
import sys
from types import SimpleNamespace

import numpy as np

from stage0_eager import arrays
from stage0_eager.kernels import formulas
from stage_contracts.device import Device
from stage_contracts.tensor_meta import TensorMeta

GPU = Device("cuda", 0)


class There(np.ndarray):
    """`cupy.ndarray`."""

    __cuda_array_interface__ = {}

    @property
    def data(self):
        return SimpleNamespace(device_id=0, ptr=self.__array_interface__["data"][0])

    def get(self):
        return np.array(self.view(np.ndarray), order="K")

    def __array_ufunc__(self, ufunc, method, *inputs, out=None, **options):
        if out is not None:
            options["out"] = tuple(map(_inside, out))
        return _outside(getattr(ufunc, method)(*map(_inside, inputs), **options))

    def __array_function__(self, function, types, args, kwargs):
        return _outside(function(*_inside(args), **_inside(kwargs)))


def _inside(value):
    if isinstance(value, (tuple, list)):
        return type(value)(map(_inside, value))
    if isinstance(value, dict):
        return {key: _inside(part) for key, part in value.items()}
    if type(value) is np.ndarray and value.ndim:
        raise TypeError(f"an array of the host, {value.dtype}{list(value.shape)}, beside one of the GPU")
    return value.view(np.ndarray) if type(value) is There else value


def _outside(value):
    if isinstance(value, (tuple, list)):
        return type(value)(map(_outside, value))
    return np.asarray(value).view(There) if isinstance(value, (np.ndarray, np.generic)) else value


class Library:
    """`cupy`."""

    ndarray = There
    cuda = SimpleNamespace(PinnedMemoryPointer=None, Device=lambda index: contextlib.nullcontext())
    lib = SimpleNamespace(
        stride_tricks=SimpleNamespace(
            as_strided=lambda *args: np.lib.stride_tricks.as_strided(*args).view(There)
        )
    )

    def __getattr__(self, name):
        found = getattr(np, name)
        if isinstance(found, type) or not callable(found):
            return found
        return lambda *args, **kwargs: _outside(found(*args, **kwargs))

    def asarray(self, array, *rest):
        return np.array(array, *rest, order="K").view(There)


LIBRARY = Library()


def _tensor_core_matmul(xp, x, y):
    wide = np.float32 if x.dtype.itemsize == 2 else x.dtype
    return (x.astype(wide) @ y.astype(wide)).astype(x.dtype)


def install(monkeypatch):
    """There is a GPU now."""
    of_host, namespace, meta_of = arrays.device_of_array, arrays.namespace, arrays.meta_of_array

    def meta_of_array(array, requires_grad=False):
        meta = meta_of(array, requires_grad)
        if type(array) is not There:
            return meta
        return TensorMeta(meta.shape, meta.dtype, meta.strides, GPU, requires_grad)

    changes = {
        "cupy": lambda: LIBRARY,
        "namespace": lambda device: LIBRARY if device == GPU else namespace(device),
        "device_of_array": lambda array: GPU if type(array) is There else of_host(array),
        "meta_of_array": meta_of_array,
        "namespace_of": lambda array: LIBRARY if type(array) is There else np,
        "GPU_TYPES": {There},
        "PLAIN_TYPES": {np.ndarray, There},
    }
    monkeypatch.setattr(formulas, "tensor_core_matmul", _tensor_core_matmul)  # cuBLAS's
    monkeypatch.setitem(sys.modules, "cupyx", SimpleNamespace(errstate=lambda **_: contextlib.nullcontext()))
    for name, value in changes.items():
        monkeypatch.setattr(arrays, name, value)
