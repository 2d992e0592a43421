"""The first calls of cuBLAS and cuDNN in a process, made early and in threads: what each loads takes 60 to 90 ms.

Input: a program for a GPU, whose kernels are about to be built or loaded. For each kind of step that a library does, a
small one of the same dtype is prepared and run, on memory that nobody reads. `wait` is for whoever runs a program next:
a first call must not meet a graph's capture.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

from stage_contracts.device import Device
from stage_contracts.dtype import DType
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Buffer, External, Program
from stage_contracts.tensor_meta import TensorMeta

# (the shapes of operands and result, the arguments after the operands) of a small step of each operator
SMALL: dict[str, tuple[tuple[tuple[int, ...], ...], tuple]] = {
    "matmul": (((64, 64), (64, 64), (64, 64)), ()),
    "convolution": (
        ((1, 64, 8, 8), (64, 64, 3, 3), (1, 64, 8, 8)),
        ((1, 1), (1, 1), (1, 1), False, (0, 0), 1),
    ),
}
NBYTES = 1 << 19  # more than the largest of these tensors, in any dtype

_BEGUN: dict[tuple[Device, str, DType], threading.Thread] = {}
_LOCK = threading.Lock()


def begin(program: Program) -> None:
    """Begin what this program's steps need and no program before it did."""
    if program.device.type != "cuda":
        return
    for key in {*_called(program)}:
        with _LOCK:
            if key not in _BEGUN:
                _BEGUN[key] = threading.Thread(target=_call, args=key, name=f"cutaway first {key[1]}")
                _BEGUN[key].start()


def wait() -> None:
    """Wait until all that was begun is done."""
    with _LOCK:  # another compile may be between a thread's making and its start
        begun = [*_BEGUN.values()]
    for thread in begun:
        thread.join()


def _called(program: Program) -> Iterator[tuple[Device, str, DType]]:
    for step in program.steps:
        if isinstance(step, External) and step.target in SMALL:
            yield program.device, step.target, program.buffers[step.outputs[0]].meta.dtype


def _call(device: Device, target: str, dtype: DType) -> None:
    from stage4_runtime.runtime import cuda  # a program for the CPU needs it not

    step, program = small(target, dtype, device)
    with contextlib.suppress(Exception):  # what is missing or refuses, the program's own call says
        cp = cuda.import_cupy()
        with cp.cuda.Device(device.index):
            call = _prepared(step, program, cp)
            if call is not None:
                memory, stream = cp.empty(NBYTES, "uint8"), cp.cuda.get_current_stream()
                call(stream.ptr, *[memory.data.ptr] * len(program.buffers))
                stream.synchronize()


def _prepared(step: External, program: Program, cp: Any) -> Callable[..., Any] | None:
    """The step's call as `cuda.routine` prepares it, but no event says which algorithm a convolution has."""
    from stage4_runtime.runtime import convolution, cublas

    if step.target == "convolution":
        return convolution.prepared(step, program, cp)[0]
    return cublas.product_call(step, program, cp)


def small(target: str, dtype: DType, device: Device) -> tuple[External, Program]:
    """The step, and a program that has its buffers: operands, then the result."""
    shapes, rest = SMALL[target]
    names = [f"b{k}" for k, _ in enumerate(shapes)]
    buffers = {
        name: Buffer(name, TensorMeta(shape, dtype, device=device), "input")
        for name, shape in zip(names, shapes, strict=True)
    }
    step = External(target, (*map(BufferRef, names[:-1]), *rest), {}, (names[-1],))
    return step, Program(f"first {target}", device, tuple(names), buffers, {}, (step,))
