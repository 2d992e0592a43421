"""A cuDNN made of NumPy: the functions of its C interface that the runtime calls, on host memory.

Input: what ctypes hands over. Descriptors are read as cuDNN documents them; sums are float64, one place of the kernel at
a time. What cuDNN would refuse, or answer with another result, fails an assertion.
"""

import ctypes
import itertools
from types import SimpleNamespace

import ml_dtypes
import numpy as np

DTYPES = {0: np.float32, 1: np.float64, 2: np.float16, 9: ml_dtypes.bfloat16}
BAD_PARAM, NOT_SUPPORTED = 2000, 3000


class FakeCudnn:
    """`listed`: rows (algorithm, status, bytes, deterministic, math) that the heuristics answer with."""

    def __init__(self, listed=((1, 0, 1000, 1, 1),)):
        self.listed, self.made, self.calls, self.asked = listed, {}, [], []
        for operation in ("Forward", "BackwardData", "BackwardFilter"):
            for name, measured in (("Get{}Algorithm_v7", False), ("Find{}Algorithm", True)):
                full = "cudnn" + name.format(f"Convolution{operation}")
                setattr(self, full, self._lister(operation, measured))
            setattr(self, f"cudnnConvolution{operation}", self._runner(operation))
        for kind in ("", "TensorDescriptor", "FilterDescriptor", "ConvolutionDescriptor"):
            setattr(self, f"cudnnCreate{kind}", self._creator(kind or "Handle"))

        known = {0: b"CUDNN_STATUS_SUCCESS", BAD_PARAM: b"CUDNN_STATUS_BAD_PARAM"}

        def words(status):
            return known.get(status, b"CUDNN_STATUS_NOT_SUPPORTED")

        self.cudnnGetErrorString = words

    def _creator(self, kind):
        def create(place):
            place._obj.value = 1000 + len(self.made)
            self.made[place._obj.value] = SimpleNamespace(kind=kind, groups=1)
            return 0

        return create

    def _of(self, pointer, kind):
        found = self.made[pointer.value]
        assert found.kind == kind
        return found

    def cudnnSetStream(self, handle, stream):
        self._of(handle, "Handle").stream = stream.value
        return 0

    def cudnnSetTensorNdDescriptor(self, place, kind, rank, shape, strides):
        assert 4 <= rank == len(shape) == len(strides) <= 5
        self._of(place, "TensorDescriptor").__dict__.update(
            dtype=DTYPES[kind], shape=tuple(shape), strides=tuple(strides)
        )
        return 0

    def cudnnSetFilterNdDescriptor(self, place, kind, form, rank, shape):
        assert 4 <= rank == len(shape) <= 5
        order = (0, *range(2, rank), 1) if form == 1 else tuple(range(rank))
        strides, step = [0] * rank, 1
        for d in reversed(order):
            strides[d], step = step, step * shape[d]
        self._of(place, "FilterDescriptor").__dict__.update(
            dtype=DTYPES[kind], shape=tuple(shape), strides=tuple(strides)
        )
        return 0

    def cudnnSetConvolutionNdDescriptor(self, place, rank, padding, stride, dilation, mode, sums):
        assert 2 <= rank <= 3 and mode == 1
        self._of(place, "ConvolutionDescriptor").__dict__.update(
            padding=tuple(padding), stride=tuple(stride), dilation=tuple(dilation), sums=sums
        )
        return 0

    def cudnnSetConvolutionMathType(self, place, math):
        self._of(place, "ConvolutionDescriptor").math = math
        return 0

    def cudnnSetConvolutionGroupCount(self, place, groups):
        self._of(place, "ConvolutionDescriptor").groups = groups
        return 0

    # ---- algorithms and convolutions --------------------------------------------------------------------------

    ORDER = {"Forward": "xwy", "BackwardData": "wyx", "BackwardFilter": "xyw"}

    def _parts(self, operation, first, second, how, result):
        """x, w and y by name; None where they are no convolution."""
        kinds = {"x": "TensorDescriptor", "y": "TensorDescriptor", "w": "FilterDescriptor"}
        given = zip(self.ORDER[operation], (first, second, result), strict=True)
        parts = {name: self._of(place, kinds[name]) for name, place in given}
        how = self._of(how, "ConvolutionDescriptor")
        x, w, y = (parts[name].shape for name in "xwy")
        assert len({part.dtype for part in parts.values()}) == 1
        assert how.sums == (1 if parts["x"].dtype == np.float64 else 0), "halves add up in float32"
        windows = zip(x[2:], w[2:], how.stride, how.padding, how.dilation, strict=True)
        sizes = tuple((n + 2 * p - d * (k - 1) - 1) // s + 1 for n, k, s, p, d in windows)
        fits = x[0] == y[0] and y[1] == w[0] and x[1] == w[1] * how.groups and sizes == y[2:]
        return (parts, how) if fits and w[0] % how.groups == 0 else None

    def _lister(self, operation, measured):
        def algorithms(handle, first, second, how, result, most, count, listed):
            assert self._of(handle, "Handle").stream is not None
            if self._parts(operation, first, second, how, result) is None:
                return BAD_PARAM
            self.asked.append((operation, measured))
            for row, values in zip(listed, self.listed[:most], strict=False):
                row.algorithm, row.status, row.memory, row.deterministic, row.math = values
            count._obj.value = min(len(self.listed), most)
            return 0

        return algorithms

    def _runner(self, operation):
        def run(handle, alpha, first, a, second, b, how, algorithm, work, nbytes, beta, result, out):
            parts, how = self._parts(operation, first, second, how, result)
            (row,) = [r for r in self.listed if r[0] == algorithm]
            wide = ctypes.c_double if parts["x"].dtype == np.float64 else ctypes.c_float
            assert wide.from_address(alpha.value).value == 1 and wide.from_address(beta.value).value == 0
            if nbytes.value < row[2]:
                return BAD_PARAM
            ctypes.memset(work.value, 0xAB, nbytes.value) if nbytes.value else None
            places = dict(zip(self.ORDER[operation], (a, b, out), strict=True))
            arrays = {name: _array(places[name].value, part) for name, part in parts.items()}
            self.calls.append((operation, algorithm, how.math, self.made[handle.value].stream))
            OPERATIONS[operation](arrays, how)
            return 0

        return run


def _array(place, part):
    dtype = np.dtype(part.dtype)
    span = 1 + sum((n - 1) * s for n, s in zip(part.shape, part.strides, strict=True))
    raw = np.ctypeslib.as_array((ctypes.c_uint8 * (span * dtype.itemsize)).from_address(place))
    strides = tuple(s * dtype.itemsize for s in part.strides)
    return np.lib.stride_tricks.as_strided(raw.view(dtype), part.shape, strides)


def _places(x, w, y, how):
    """(place of the kernel, the elements of the padded x that it sees) for each place, as slices."""
    for place in itertools.product(*map(range, w.shape[2:])):
        yield (
            place,
            tuple(
                slice(k * d, k * d + (n - 1) * s + 1, s)
                for k, d, s, n in zip(place, how.dilation, how.stride, y.shape[2:], strict=True)
            ),
        )


def _padded(x, how):
    wide = [(p, p + s * d) for p, s, d in zip(how.padding, how.stride, how.dilation, strict=True)]
    return np.pad(x.astype(np.float64), [(0, 0), (0, 0), *wide])


def _forward(arrays, how):
    x, w, y = arrays["x"], arrays["w"], arrays["y"]
    wide, g = _padded(x, how), how.groups
    total = np.zeros((y.shape[0], g, y.shape[1] // g, *y.shape[2:]))
    for place, seen in _places(x, w, y, how):
        part = wide[(slice(None), slice(None), *seen)].reshape(y.shape[0], g, w.shape[1], *y.shape[2:])
        taps = w[(slice(None), slice(None), *place)].astype(np.float64).reshape(g, -1, w.shape[1])
        total += np.einsum("ngc...,goc->ngo...", part, taps)
    y[...] = total.reshape(y.shape)


def _backward_data(arrays, how):
    x, w, y = arrays["x"], arrays["w"], arrays["y"]
    g, wide = how.groups, np.zeros_like(_padded(x, how))
    grads = y.astype(np.float64).reshape(y.shape[0], g, y.shape[1] // g, *y.shape[2:])
    for place, seen in _places(x, w, y, how):
        taps = w[(slice(None), slice(None), *place)].astype(np.float64).reshape(g, -1, w.shape[1])
        part = np.einsum("ngo...,goc->ngc...", grads, taps)
        wide[(slice(None), slice(None), *seen)] += part.reshape(x.shape[0], x.shape[1], *y.shape[2:])
    inside = tuple(slice(p, p + n) for p, n in zip(how.padding, x.shape[2:], strict=True))
    x[...] = wide[(slice(None), slice(None), *inside)]


def _backward_filter(arrays, how):
    x, w, y = arrays["x"], arrays["w"], arrays["y"]
    wide, g = _padded(x, how), how.groups
    grads = y.astype(np.float64).reshape(y.shape[0], g, y.shape[1] // g, -1)
    for place, seen in _places(x, w, y, how):
        part = wide[(slice(None), slice(None), *seen)].reshape(y.shape[0], g, w.shape[1], -1)
        made = np.einsum("ngop,ngcp->goc", grads, part).reshape(w.shape[:2])
        w[(slice(None), slice(None), *place)] = made


OPERATIONS = {"Forward": _forward, "BackwardData": _backward_data, "BackwardFilter": _backward_filter}
