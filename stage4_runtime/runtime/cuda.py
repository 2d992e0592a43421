"""The one adapter to CuPy: its arrays as an ArrayLibrary, and a launcher for compiled Triton kernels.

Input: a device and kernels as data (TritonKernel). Kernels are launched through the driver API with arguments that are
packed once (about 3 us a launch). Triton is not imported, and CuPy only when needed.
"""

from __future__ import annotations

import ctypes
import struct
import threading
from collections.abc import Callable
from functools import partial
from types import ModuleType
from typing import Any

from stage4_runtime.runtime.arrays import ArrayLibrary
from stage4_runtime.runtime.convolution import convolution_call
from stage4_runtime.runtime.cublas import product_call
from stage4_runtime.runtime.cublas_lt import product_with_row_call
from stage4_runtime.runtime.cuda_tables import TableLauncher
from stage4_runtime.runtime.issue import Ready, issuer
from stage4_runtime.runtime.joining import cat_call
from stage4_runtime.runtime.layout import byte_strides, round_up, slot_alignment, span
from stage4_runtime.runtime.scatter import say_how_it_adds, scatter_call
from stage4_runtime.runtime.side_streams import side_streams
from stage4_runtime.runtime.triton_units import TritonKernel
from stage_contracts.device import Device
from stage_contracts.errors import BuildError
from stage_contracts.index_expr import parse_index, print_index
from stage_contracts.program import External, Kernel, Program
from stage_contracts.tensor_meta import TensorMeta

KERNEL_ALIGNMENT = 16  # what triton_compile.py promises of every pointer; bind_arrays.py keeps the promise


def import_cupy() -> Any:
    """CuPy, or an ImportError that says how to get it."""
    try:
        import cupy
    except ImportError as error:
        raise ImportError(
            "a program for a CUDA device needs CuPy, which is not installed; pip install 'cutaway[cuda]'"
        ) from error
    return cupy


def gpu_architecture(device: Device) -> str:
    """`sm_90`: the architecture to compile for, as Target.arch wants it."""
    return f"sm_{import_cupy().cuda.Device(device.index).compute_capability}"


def cupy_library(device: Device, allocate: Callable[[int], Any] | None = None) -> ArrayLibrary:
    """What launch code needs of CuPy on one device.

    `allocate(nbytes)` gives a uint8 array; the default is CuPy's memory pool in force at the call.
    """
    cp = import_cupy()
    get = allocate or (lambda nbytes: cp.empty(nbytes, "uint8"))
    alignment = slot_alignment(device)

    def allocate_pool(nbytes: int) -> tuple[Any, int]:
        memory = get(max(nbytes, 1))
        if memory.data.ptr % alignment:  # a user's own allocator may promise less than cudaMalloc
            memory = get(nbytes + alignment)
        return memory, round_up(memory.data.ptr, alignment)

    def at(memory: Any, offset: int, shape: tuple, dtype: Any, strides: tuple) -> Any:
        return cp.ndarray(shape, dtype, memory.data + offset, strides=strides)

    def lend(array: Any, token: Any) -> Any:
        memory = cp.cuda.UnownedMemory(array.data.ptr, max(array.nbytes, 1), token, device.index)
        return cp.ndarray(array.shape, array.dtype, cp.cuda.MemoryPointer(memory, 0), array.strides)

    def maker(meta: TensorMeta) -> Callable[[], Any]:
        """What makes an array: what can be known before is, for a call makes its outputs anew."""
        dtype, strides, nbytes = meta.dtype.numpy, byte_strides(meta), max(span(meta), 1)
        if allocate is None and meta.is_contiguous:
            return partial(cp.ndarray, meta.shape, dtype)
        shape, memory = meta.shape, cp.cuda.alloc if allocate is None else lambda n: get(n).data
        return lambda: cp.ndarray(shape, dtype, memory(nbytes), strides)

    def bind(loaded: TritonKernel, kernel: Kernel) -> Callable[..., None]:
        say_how_it_adds(kernel)
        with cp.cuda.Device(device.index):
            launch = kernel_launcher(cp.cuda.driver, loaded)
            return TableLauncher(cp, launch, loaded) if loaded.columns else launch

    return ArrayLibrary(
        xp=cp,
        array_type=cp.ndarray,
        address=lambda array: array.data.ptr,
        allocate=allocate_pool,
        empty=lambda meta: maker(meta)(),
        maker=maker,
        slot_view=lambda memory, start, meta: at(
            memory, start - memory.data.ptr, meta.shape, meta.dtype.numpy, byte_strides(meta)
        ),
        view=lambda array, shape, strides, offset: at(array, offset, shape, array.dtype, strides),
        bind=bind,
        kernel_alignment=KERNEL_ALIGNMENT,
        current_stream=_current_stream(cp),
        side_streams=partial(side_streams, cp),
        column=lambda *pointers: pointers,  # cuda_tables.py writes them
        routine=lambda step, program: routine(step, program, cp),
        issuer=lambda: issuer(cp),
        refused=lambda code: _refused(cp, code),
        lend=lend,
    )


def _current_stream(cp: Any) -> Callable[[], int]:
    """What tells the current stream's address: CuPy's own function, where this CuPy has it under that name."""

    current = cp.cuda.get_current_stream

    def ask() -> Any:
        return current().ptr

    if not isinstance(cp, ModuleType):  # a stand-in
        return ask
    try:
        from cupy_backends.cuda.stream import get_current_stream_ptr
    except ImportError:
        return ask
    found: Callable[[], int] = get_current_stream_ptr
    return found


def _refused(cp: Any, code: int) -> None:
    """What CuPy raises when the driver refuses a launch."""
    raise cp.cuda.driver.CUDADriverError(code)


def routine(step: External, program: Program, cp: Any) -> Callable | None:
    """A call of addresses that does a step faster than the operator's eager kernel; None where there is none."""
    make = ROUTINES.get(step.target)
    return make(step, program, cp) if make is not None else None


ROUTINES: dict[str, Callable[[External, Program, Any], Callable | None]] = {
    "convolution": convolution_call,
    "convolution_weight_gradient": convolution_call,
    "matmul": product_call,
    "matmul_add_row": product_with_row_call,
    "scatter_add": scatter_call,
    "cat": cat_call,
}


def on_device(run: Callable[..., tuple], device: Device) -> Callable[..., tuple]:
    """The same callable with its device as the current one, as a single GPU always is: CuPy launches there."""
    cp = import_cupy()
    if cp.cuda.runtime.getDeviceCount() == 1:
        return run
    cuda_device, current = cp.cuda.Device(device.index), cp.cuda.runtime.getDevice

    def call(*arrays: Any) -> tuple:
        if current() == device.index:
            return run(*arrays)
        with cuda_device:
            return run(*arrays)

    vars(call).update(vars(run))
    return call


# ---- launching -------------------------------------------------------------------------------------------

# How `struct` packs each run-time parameter. Pointers, of any type, are 64 bits; halves come as their 16 bits.
_PACKED = {
    "i1": "B", "u1": "B", "i8": "b", "u8": "B", "i16": "h", "u16": "H", "fp16": "H", "bf16": "H",
    "i32": "i", "u32": "I", "fp32": "f", "i64": "q", "u64": "Q", "fp64": "d",
}  # fmt: skip
_MAX_DYNAMIC_SHARED_SIZE = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
_SHARED_WITHOUT_ASKING = 48 * 1024
_SCRATCH_POINTERS = 2  # Triton appends a global and a profiling scratch pointer to every kernel


def kernel_launcher(driver: Any, kernel: TritonKernel) -> Callable[..., None]:
    """`launcher(stream, *addresses)`: one kernel, loaded on the current device.

    The arguments' memory and the array of pointers to it are made once; a call packs new values into it, all at
    once, and launches. The driver copies them before it returns, so the lock is held only that long.
    """
    if kernel.scratch:
        raise BuildError(
            f"kernel {kernel.name} needs {kernel.scratch} bytes of scratch memory; there is none"
        )
    module = driver.moduleLoadData(kernel.cubin)
    function = driver.moduleGetFunction(module, kernel.name)
    if kernel.shared > _SHARED_WITHOUT_ASKING:
        try:
            driver.funcSetAttribute(function, _MAX_DYNAMIC_SHARED_SIZE, kernel.shared)
        except RuntimeError as error:
            raise BuildError(
                f"kernel {kernel.name} needs {kernel.shared} bytes of shared memory, more than a block has ({error})"
            ) from None
    codes = ["Q" if t.startswith("*") else _PACKED[t] for t in kernel.types]
    ends = [struct.calcsize("".join(codes[: k + 1])) for k in range(len(codes))]
    starts = [end - struct.calcsize(code) for end, code in zip(ends, codes, strict=True)]
    scratch = -(-(ends or [0])[-1] // 8) * 8  # two pointers of zeros
    values = ctypes.create_string_buffer(scratch + 8 * _SCRATCH_POINTERS)
    places = [*starts, *(scratch + 8 * k for k in range(_SCRATCH_POINTERS))]
    at = ctypes.addressof(values)
    pointers = (ctypes.c_void_p * len(places))(*[at + place for place in places])
    # what a call needs, as names of this function: they are quicker than fields of an object
    pack, address, lock, run = (
        struct.Struct("".join(codes)).pack_into,
        ctypes.addressof(pointers),
        threading.Lock(),
        driver.launchKernel,
    )
    (x, y, z), threads, shared = kernel.grid, 32 * kernel.num_warps, kernel.shared
    fixed, blocks_at, sizes = x if isinstance(x, int) else None, _blocks_at(kernel), len(kernel.sizes)

    def launch(stream: int, *arguments: Any) -> None:
        blocks = max(blocks_at(*arguments[-sizes:]), 1) if fixed is None else fixed
        with lock:
            try:
                pack(values, 0, *arguments)
            except struct.error as error:
                raise TypeError(
                    f"kernel {kernel.name} takes {len(kernel.types)} arguments, got {len(arguments)} "
                    f"({error}); its signature and the Kernel's params disagree"
                ) from None
            run(function, blocks, y, z, threads, 1, 1, shared, stream, address, 0)

    launch.kept = module, pointers  # type: ignore[attr-defined]  # unloading it would unload the function
    launch.ready = _ready(kernel, codes, function, blocks_at)  # type: ignore[attr-defined]
    return launch


def _ready(
    kernel: TritonKernel, codes: list[str], function: int, blocks_at: Callable[..., int]
) -> Ready | None:
    """The kernel for launches by C, which gives arguments of 64 bits and no others."""
    if not {*codes} <= {"Q", "q"}:
        return None
    x, y, z = kernel.grid
    grid, blocks = ((x, y, z), None) if isinstance(x, int) else ((1, y, z), blocks_at)
    return Ready(function, grid, 32 * kernel.num_warps, kernel.shared, len(codes), blocks)


def _blocks_at(kernel: TritonKernel) -> Callable[..., int]:
    """A function from the open sizes to the number of blocks. Raises ValueError for text that is no expression."""
    text = print_index(parse_index(str(kernel.grid[0])))
    return eval(f"lambda {', '.join(kernel.sizes)}: {text}")
