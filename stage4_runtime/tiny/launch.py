"""Tiny launch: a Program is a list of instructions, and this loop is the machine that runs them.

Input: a planned Program, its built kernels and its constants. Idea: a table from buffer names to arrays; each step adds
to it, reads it or removes from it. A kernel takes bare addresses and has the shapes built in, so arrays are checked
before they enter the table. The full version writes this loop as Python, and keeps pools.
"""

from __future__ import annotations

import ctypes
import inspect
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import numpy as np

from stage0_eager import eager_kernel
from stage4_runtime.tiny.plan_memory import span
from stage_contracts import config
from stage_contracts.breaks import Unsupported
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.device import Device
from stage_contracts.kernel_tables import arguments
from stage_contracts.loop_ir import BufferRef, SubgraphRef
from stage_contracts.program import Allocate, Copy, External, Free, Kernel, Launch, Program, Return
from stage_contracts.tensor_meta import TensorMeta

KNOWN = (Allocate, Launch, External, Copy, Free, Return)


def launch(
    program: Program, kernels: Mapping[str, Any], constants: Mapping[str, Any]
) -> Callable[..., tuple]:
    """A callable: arrays of the program's device, one per input, to a tuple of new arrays."""
    for step in program.steps:
        if not isinstance(step, KNOWN) or getattr(step, "stream", False):
            raise Unsupported(f"the step {step}", code="GB0089")
    device = OnHost() if program.device.type == "cpu" else OnGpu(program.device)
    ready = {name: device.ready(kernels[name]) for name in program.kernels}
    fixed = {
        name: entering(program, name, getattr(constants[name], "_data", constants[name]), device)
        for name, buffer in program.buffers.items()
        if buffer.role == "constant"
    } | {name: value for name, value in constants.items() if callable(value)}  # subgraphs

    def run(*arrays: Any) -> tuple:
        with device.current:
            values = dict(fixed)
            for name, array in zip(program.inputs, arrays, strict=True):
                values[name] = entering(program, name, array, device)
            pools = [device.memory(nbytes) for nbytes in program.pools]
            for step in program.steps:
                match step:
                    case Allocate(buffer=name):
                        meta, slot = program.buffers[name].meta, program.buffers[name].slot
                        pool, at = (pools[slot.pool], slot.offset) if slot else (device.memory(span(meta)), 0)
                        values[name] = device.view(pool, at, meta.dtype.numpy, meta.shape, strides_of(meta))
                    case Launch(kernel=kernel, buffers=names):
                        of = program.kernels[kernel]
                        if ready[kernel](*arguments(of, names, lambda name: device.address(values[name]))):
                            raise out_of_range(of)
                    case External(outputs=outputs):
                        results = call(step, values, device)
                        for name, result in zip(outputs, results, strict=True):
                            array = device.xp.asarray(result)
                            values[name] = entering(program, name, array, device, strict=False)
                    case Copy(source=source, destination=destination):
                        device.xp.copyto(values[destination], values[source])
                    case Free(buffer=name):
                        del values[name]
        return resolve(program.return_step.values, values, device)

    run.source_text = str(program)  # type: ignore[attr-defined]  # what the tools show: the steps
    return run


def call(step: External, values: Mapping[str, Any], device: OnHost) -> tuple:
    """The results of a library routine that writes `into` planned memory, or of an operator's eager kernel."""
    args = resolve(step.args, values, device)
    kwargs = {name: resolve(value, values, device) for name, value in step.kwargs.items()}
    if step.into:
        return (getattr(device.xp, step.target)(*args, **kwargs, out=values[step.outputs[0]]),)
    params = CORE_OPS[step.target].params if step.target in CORE_OPS else "*args, **kwargs"
    bound = inspect.signature(eval(f"lambda {params}: None")).bind(*args, **kwargs)
    result = eager_kernel(step.target)(device.xp, *bound.args, **bound.kwargs)
    return result if isinstance(result, tuple) else (result,)


def resolve(value: Any, values: Mapping[str, Any], device: OnHost) -> Any:
    """The same nested value with arrays, or views of them, where buffers are named."""
    if isinstance(value, BufferRef):
        array = values[value.name]
        if value.shape is None:
            return array
        strides = tuple(stride * array.itemsize for stride in value.strides or ())
        return device.view(array, value.offset * array.itemsize, array.dtype, value.shape, strides)
    if isinstance(value, tuple | list):
        return type(value)(resolve(item, values, device) for item in value)
    return values[value.name] if isinstance(value, SubgraphRef) else value


def entering(program: Program, name: str, array: Any, device: OnHost, strict: bool = True) -> Any:
    """The array if it is what its meta says, at an address kernels can read; else a copy that is.

    Raises TypeError for another type, dtype or shape and, when strict, for other strides: another program's input.
    """
    meta, expected = program.buffers[name].meta, device.xp.ndarray
    where = f"program {program.name}: {program.buffers[name].role} {name} is"
    if not isinstance(array, expected):
        found = f"{type(array).__module__}.{type(array).__qualname__}"
        raise TypeError(
            f"{where} a {found}, expected a {expected.__module__}.{expected.__qualname__} ({meta})"
        )
    strides = zip(meta.shape, array.strides, strides_of(meta), strict=False)
    in_place = array.size == 0 or all(size == 1 or have == want for size, have, want in strides)
    if array.dtype != meta.dtype.numpy or array.shape != meta.shape or (strict and not in_place):
        found = f"{array.dtype}[{', '.join(map(str, array.shape))}]"
        found += "" if array.flags.c_contiguous else f" with strides {array.strides} in bytes"
        raise TypeError(f"{where} {found}, expected {meta}; compile again for this input, or convert it")
    if in_place and device.address(array) % max(array.itemsize, device.alignment) == 0:
        return array
    fresh = device.view(device.memory(span(meta)), 0, meta.dtype.numpy, meta.shape, strides_of(meta))
    device.xp.copyto(fresh, array)
    return fresh


def strides_of(meta: TensorMeta) -> tuple[int, ...]:
    return tuple(stride * meta.dtype.itemsize for stride in meta.strides)  # in bytes


def out_of_range(kernel: Kernel) -> IndexError:
    lines = "\n".join(origin.caret() for origin in kernel.origins) or f"  in kernel {kernel.name}"
    return IndexError(f"in the computation of\n{lines}\nindex out of range: check the index tensor's values")


class OnHost:
    """NumPy: where memory comes from, and how it is addressed and viewed."""

    xp: Any = np
    current: Any = nullcontext()
    alignment = 1  # what kernels assume of addresses, besides the size of an element

    def memory(self, nbytes: int) -> Any:
        """Uninitialised bytes that start at a multiple of 64."""
        room = self.xp.empty(nbytes + 64, "uint8")
        start = -self.address(room) % 64
        return room[start : start + nbytes]

    def address(self, array: Any) -> int:
        return array.ctypes.data

    def view(self, array: Any, offset: int, dtype: Any, shape: tuple, strides: tuple) -> Any:
        """An array `offset` bytes into another's memory."""
        reach = (
            1 + sum((n - 1) * s for n, s in zip(array.shape, array.strides, strict=True)) // array.itemsize
        )
        as_strided = np.lib.stride_tricks.as_strided
        flat = as_strided(array, (reach if array.size else 0,), (array.itemsize,))
        return as_strided(flat[offset // array.itemsize :].view(dtype), shape, strides)

    def ready(self, loaded: Any) -> Callable[..., Any]:
        return loaded


class OnGpu(OnHost):
    """CuPy: the same on one GPU, and kernels that the CUDA driver launches."""

    alignment = 16  # what build promised Triton of every pointer

    def __init__(self, device: Device) -> None:
        if config.current().runtime.cuda_graphs:
            raise Unsupported("a CUDA graph", code="GB0089")
        import cupy

        self.xp, self.current = cupy, cupy.cuda.Device(device.index)

    def address(self, array: Any) -> int:
        return array.data.ptr

    def view(self, array: Any, offset: int, dtype: Any, shape: tuple, strides: tuple) -> Any:
        return self.xp.ndarray(shape, dtype, array.data + offset, strides=strides)

    def ready(self, loaded: Any) -> Callable[..., Any]:
        driver = self.xp.cuda.driver
        with self.current:
            module = driver.moduleLoadData(loaded.cubin)
            function = driver.moduleGetFunction(module, loaded.name)
            if loaded.shared > 48 * 1024:  # more shared memory than a kernel gets without asking
                driver.funcSetAttribute(function, 8, loaded.shared)  # MAX_DYNAMIC_SHARED_SIZE_BYTES

        def run(*addresses: int, module: Any = module) -> None:  # unloading the module unloads the function
            packed = (ctypes.c_uint64 * (len(addresses) + 2))(*addresses)  # two scratch pointers: 0
            where = [ctypes.addressof(packed) + 8 * k for k in range(len(packed))]
            pointers = (ctypes.c_void_p * len(where))(*where)
            stream = self.xp.cuda.get_current_stream().ptr
            shape = (*loaded.grid, 32 * loaded.num_warps, 1, 1, loaded.shared)
            driver.launchKernel(function, *shape, stream, ctypes.addressof(pointers), 0)

        return run
