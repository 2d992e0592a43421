"""cuDNN by its C interface: the library, the handles, and one prepared call a convolution.

Input: a `Convolution` (convolution.py), which says what is fixed of a step. What each call needs besides (descriptors
and the algorithm) is made once. Memory that cuDNN works in belongs to a stream, so that a capture allocates nothing.
"""

from __future__ import annotations

import ctypes
import importlib.util
import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from stage_contracts.errors import DeviceError

WORKSPACE = 256 << 20  # bytes: an algorithm that needs more is not taken
NAMES = ("libcudnn.so.9", "libcudnn.so")
MOST_ALGORITHMS = 10

# dtype -> (cudnnDataType_t, that of the sums, the type of alpha and beta): halves add up in float32
TYPES: dict[str, tuple[int, int, Any]] = {
    "float16": (2, 0, ctypes.c_float),
    "bfloat16": (9, 0, ctypes.c_float),
    "float32": (0, 0, ctypes.c_float),
    "float64": (1, 1, ctypes.c_double),
}
HALVES = ("float16", "bfloat16")
_BY_ROWS, _CHANNELS_LAST = 0, 1  # cudnnTensorFormat_t, of kernels
_CROSS_CORRELATION = 1  # cudnnConvolutionMode_t: what every framework calls a convolution
_DEFAULT_MATH, _TENSOR_CORES, _NO_TENSOR_CORES = 0, 1, 3  # cudnnMathType_t; the default takes float32 as TF32

# What a step computes: cuDNN's name for it, its three descriptors in cuDNN's order (the last is the result), and the
# place of each of cuDNN's operands among the step's. x is the convolution's input, w its kernel, y its result.
KINDS: dict[str, tuple[str, str, tuple[int, int]]] = {
    "y": ("Forward", "xwy", (0, 1)),
    "x": ("BackwardData", "wyx", (1, 0)),
    "w": ("BackwardFilter", "xyw", (0, 1)),
}
# Names of algorithms, by cuDNN's numbers. In half precision only those that add up products: the others
# transform the operands first, and round what they transform.
ALGORITHMS: dict[str, tuple[str, ...]] = {
    "y": ("implicit gemm", "implicit precomputed gemm", "gemm", "direct", "fft", "fft in tiles", "winograd",
          "winograd, not fused"),
    "x": ("0, atomic", "1", "fft", "fft in tiles", "winograd", "winograd, not fused"),
    "w": ("0, atomic", "1", "fft", "3, atomic", "winograd", "winograd, not fused", "fft in tiles"),
}  # fmt: skip
_TRANSFORMS = ("fft", "winograd")


class Performance(ctypes.Structure):
    """cudnnConvolution{Fwd,BwdData,BwdFilter}AlgoPerf_t, which are alike."""

    _fields_ = (
        ("algorithm", ctypes.c_int),
        ("status", ctypes.c_int),
        ("milliseconds", ctypes.c_float),
        ("memory", ctypes.c_size_t),
        ("deterministic", ctypes.c_int),
        ("math", ctypes.c_int),
        ("reserved", ctypes.c_int * 3),
    )


@dataclass(frozen=True)
class Convolution:
    """What is fixed of a step, in the words of the convolution y = x * w that it belongs to. `makes`: x, w or y."""

    makes: str
    dtype: str
    channels_last: bool
    x: tuple[int, ...]
    w: tuple[int, ...]
    y: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int


@dataclass(frozen=True)
class Choice:
    """An algorithm, the bytes that it needs beside the operands, and how it was found."""

    algorithm: int
    memory: int
    math: int
    name: str


class CudnnError(RuntimeError):
    """cuDNN refused; the text has its words for why."""


class Cudnn:
    """The library, with an exception in place of a status."""

    def __init__(self, library: Any) -> None:
        self.library = library

    def __call__(self, name: str, *args: Any) -> None:
        function = getattr(self.library, name, None)
        if function is None:
            raise CudnnError(f"this cuDNN has no {name}")
        if status := function(*args):
            raise CudnnError(f"{name}: {self.words(status)}")

    def words(self, status: int) -> str:
        self.library.cudnnGetErrorString.restype = ctypes.c_char_p
        text = self.library.cudnnGetErrorString(status)
        return f"{text.decode() if text else 'unknown'} (status {status})"

    def made(self, name: str, *args: Any) -> ctypes.c_void_p:
        """A new handle or descriptor. Descriptors live as long as the process: they are kept and reused."""
        place = ctypes.c_void_p()
        self(f"cudnnCreate{name}", ctypes.byref(place))
        return place


def _ints(values: Sequence[int]) -> Any:
    return (ctypes.c_int * len(values))(*values)


def strides_of(shape: Sequence[int], channels_last: bool) -> tuple[int, ...]:
    """The strides of (N, C, *space) row by row, or with the channels innermost."""
    order = (0, *range(2, len(shape)), 1) if channels_last else range(len(shape))
    found, step = [0] * len(shape), 1
    for d in reversed(order):
        found[d] = step
        step *= shape[d]
    return tuple(found)


class Prepared:
    """A convolution's descriptors. Read only once they are made, so that threads share them."""

    def __init__(self, cudnn: Cudnn, of: Convolution, allow_tf32: bool) -> None:
        self.of, self.cudnn = of, cudnn
        kind, sums, self.scalar = TYPES[of.dtype]
        x, w, y = (self._four(shape) for shape in (of.x, of.w, of.y))
        self.x, self.y = self._tensor(x, kind), self._tensor(y, kind)
        self.w = cudnn.made("FilterDescriptor")
        form = _CHANNELS_LAST if of.channels_last else _BY_ROWS
        cudnn("cudnnSetFilterNdDescriptor", self.w, kind, form, len(w), _ints(w))
        self.how = cudnn.made("ConvolutionDescriptor")
        rank = len(of.stride)
        padding, stride, dilation = (
            (fill,) * (rank == 1) + given
            for fill, given in ((0, of.padding), (1, of.stride), (1, of.dilation))
        )
        cudnn(
            "cudnnSetConvolutionNdDescriptor", self.how, len(stride), _ints(padding), _ints(stride),
            _ints(dilation), _CROSS_CORRELATION, sums,
        )  # fmt: skip
        cudnn("cudnnSetConvolutionGroupCount", self.how, of.groups)
        plain = _DEFAULT_MATH if allow_tf32 or of.dtype != "float32" else _NO_TENSOR_CORES
        self.is_half = of.dtype in HALVES
        cudnn("cudnnSetConvolutionMathType", self.how, _TENSOR_CORES if self.is_half else plain)
        name, order, self.places = KINDS[of.makes]
        self.call, self.descriptors = f"cudnnConvolution{name}", tuple(getattr(self, d) for d in order)

    @staticmethod
    def _four(shape: tuple[int, ...]) -> tuple[int, ...]:
        """cuDNN has no convolution along one dimension: it is one of images of height 1."""
        return (*shape[:2], 1, *shape[2:]) if len(shape) == 3 else shape

    def _tensor(self, shape: tuple[int, ...], kind: int) -> ctypes.c_void_p:
        made = self.cudnn.made("TensorDescriptor")
        strides = strides_of(shape, self.of.channels_last)
        self.cudnn("cudnnSetTensorNdDescriptor", made, kind, len(shape), _ints(shape), _ints(strides))
        return made

    def choose(self, handle: int, deterministic: bool, measure: bool) -> Choice:
        """The first algorithm that cuDNN lists and that may be taken. Raises CudnnError where there is none.

        One that adds in another order at each run is taken where it was measured to be the fastest, or nothing else is
        there. `deterministic`: not even then.
        """
        listed = (Performance * MOST_ALGORITHMS)()
        count = ctypes.c_int()
        name = KINDS[self.of.makes][0]
        measure = measure and not deterministic
        ask = f"cudnnFindConvolution{name}Algorithm" if measure else f"cudnnGetConvolution{name}Algorithm_v7"
        first, second, result = self.descriptors
        self.cudnn(ask, ctypes.c_void_p(handle), first, second, self.how, result, MOST_ALGORITHMS,
                   ctypes.byref(count), listed)  # fmt: skip
        fit = [row for row in listed[: count.value] if row.status == 0 and row.memory <= WORKSPACE]
        fit = [row for row in fit if self._rounds_once(row) and (row.deterministic or not deterministic)]
        if fit:
            row = next((r for r in fit if r.deterministic and not measure), fit[0])
            return Choice(row.algorithm, row.memory, row.math, self.name(row.algorithm))
        refused = [f"{self.name(row.algorithm)}: {self.cudnn.words(row.status)}, {row.memory} bytes"
                   for row in listed[: count.value]]  # fmt: skip
        raise CudnnError(f"no algorithm for {self.of}; cuDNN lists {'; '.join(refused) or 'none'}")

    def _rounds_once(self, row: Performance) -> bool:
        return not (self.is_half and self.name(row.algorithm).startswith(_TRANSFORMS))

    def name(self, algorithm: int) -> str:
        names = ALGORITHMS[self.of.makes]
        return names[algorithm] if 0 <= algorithm < len(names) else f"number {algorithm}"

    def bound(self, choice: Choice, on: Handles) -> Callable[..., None]:
        """`call(stream, *addresses)`: the step's operands, then its result."""
        if self.is_half:
            self.cudnn("cudnnSetConvolutionMathType", self.how, choice.math)
        one, zero = self.scalar(1), self.scalar(0)
        alpha, beta = (ctypes.c_void_p(ctypes.addressof(number)) for number in (one, zero))
        first, second, result = self.descriptors
        (one_at, other_at), of, how = self.places, on.of, self.how
        run, pointer, memory, algorithm = (
            getattr(self.cudnn.library, self.call), ctypes.c_void_p, choice.memory, choice.algorithm,
        )  # fmt: skip
        nbytes = ctypes.c_size_t(memory)

        def call(stream: int, *places: int, _kept: tuple = (one, zero)) -> None:
            handle, work = of(stream, memory)
            status = run(
                pointer(handle), alpha, first, pointer(places[one_at]), second, pointer(places[other_at]), how,
                algorithm, pointer(work), nbytes, beta, result, pointer(places[2]),
            )  # fmt: skip
            if status:
                raise DeviceError(f"{self.call} of {self.of}: {self.cudnn.words(status)}")

        return call


class Handles:
    """A handle for each thread, device and stream, with memory to work in that grows to what is asked.

    Memory that was outgrown is kept, for a captured graph may use it. Sizes double, so that it all is at most twice the
    largest. The run before a capture makes handle and memory.
    """

    def __init__(self, cp: Any, cudnn: Cudnn) -> None:
        self.cp, self.cudnn = cp, cudnn

    def of(self, stream: int, memory: int) -> tuple[int, int]:
        """(handle, where its memory is)."""
        known = vars(_THREAD).setdefault("handles", {})
        key = self.cp.cuda.runtime.getDevice(), stream
        found = known.get(key)
        if found is None:
            handle = self.cudnn.made("")
            self.cudnn("cudnnSetStream", handle, ctypes.c_void_p(stream))
            found = known[key] = [int(handle.value or 0), 0, 0, []]
        if memory > found[2]:
            size = 1 << math.ceil(math.log2(memory))
            block = self.cp.cuda.Memory(size)  # not of a pool, which a graph's capture may own
            found[1:3] = block.ptr, size
            found[3].append(block)
        return found[0], found[1]


_THREAD = threading.local()


@cache
def cudnn() -> Cudnn | None:
    """The library: by its name, else in the Python package nvidia.cudnn; None where there is none."""
    for name in (*NAMES, *_of_the_package()):
        try:
            return Cudnn(ctypes.CDLL(name))
        except OSError:
            continue
    return None


def _of_the_package() -> list[str]:
    try:
        found = importlib.util.find_spec("nvidia.cudnn")
    except ImportError:  # no package nvidia
        return []
    folders = [Path(place) / "lib" for place in (found and found.submodule_search_locations) or ()]
    return [str(path) for folder in folders for name in NAMES if (path := folder / name).exists()]
