"""A GPU that is simulated: memory with addresses, a stream of kernels, and recording, as CUDA graphs have it.

Input: calls from Python. A launch costs the CPU time; a replay of a whole recording costs as much as one launch. What a
real GPU refuses while it records is refused here with CaptureError.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

LAUNCH = 10  # microseconds of the CPU for a launch, a copy or a replay
KERNELS: dict[str, Any] = {
    "add": lambda a, b: a + b, "mul": lambda a, b: a * b, "relu": lambda a: np.maximum(a, 0), "double": lambda a: a + a,
    "sum": lambda a: a.sum(keepdims=True), "matmul": lambda a, b: a @ b, "copy": lambda a: a,
}  # fmt: skip


class CaptureError(RuntimeError):
    """Something that cannot be done while the stream records."""


@dataclass(eq=False)
class Buffer:
    """Memory on the device: an address, which a recording keeps, and what is there now."""

    address: int
    array: np.ndarray

    @property
    def kind(self) -> tuple[tuple[int, ...], str]:
        """The shape and the dtype."""
        return self.array.shape, str(self.array.dtype)


@dataclass(frozen=True)
class Step:
    """One step of a program: `out = kernel(*inputs)`. A step `on_host` runs on the CPU and waits for the device."""

    kernel: str
    out: str
    inputs: tuple[str, ...]
    on_host: bool = False


@dataclass(frozen=True)
class Program:
    """Steps in order. A step whose `out` is an input writes to that input. sizes: the shape of each other name."""

    steps: tuple[Step, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def written(self) -> tuple[str, ...]:
        """The inputs that the program writes to."""
        return tuple(name for name in self.inputs if any(step.out == name for step in self.steps))


@dataclass
class Device:
    """The simulated GPU, and what it has done so far."""

    cpu_time: int = 0  # microseconds
    launches: int = 0
    copies: int = 0
    replays: int = 0
    host_steps: int = 0
    allocated: int = 0
    loaded: set[str] = field(default_factory=set)
    recording: list[tuple[str, Buffer, tuple[Buffer, ...]]] | None = None

    # ---- memory

    def alloc(self, array: np.ndarray) -> Buffer:
        """New memory with this content. Refused while recording: an address must stay what it is."""
        self._not_while_recording("allocate memory")
        self.allocated += 1
        return Buffer(0x1000 + 0x100 * self.allocated, np.array(array))

    def empty_like(self, buffer: Buffer) -> Buffer:
        """New memory of the same kind."""
        return self.alloc(np.zeros_like(buffer.array))

    def copy(self, to: Buffer, source: Buffer) -> None:
        """Copy the content of one buffer into another of the same kind. Costs as much as a launch."""
        self._not_while_recording("copy from Python")
        if to.kind != source.kind:
            raise ValueError(f"copied {source.kind} into {to.kind}; expected the same shape and dtype")
        self.copies += 1
        self.cpu_time += LAUNCH
        to.array[...] = source.array

    # ---- kernels

    def launch(self, kernel: str, out: Buffer, inputs: Sequence[Buffer]) -> None:
        """Run a kernel, or write it down while recording. Its first launch loads it, which cannot be recorded."""
        if kernel not in self.loaded:
            self._not_while_recording(f"load the kernel {kernel!r}, which was never launched before")
            self.loaded.add(kernel)
        if self.recording is not None:
            self.recording.append((kernel, out, tuple(inputs)))
            return
        self.launches += 1
        self.cpu_time += LAUNCH
        out.array[...] = KERNELS[kernel](*(b.array for b in inputs))

    def host(self, kernel: str, out: Buffer, inputs: Sequence[Buffer]) -> None:
        """Wait for the device, and compute on the CPU."""
        self._not_while_recording("wait for the device")
        self.host_steps += 1
        self.cpu_time += LAUNCH
        out.array[...] = KERNELS[kernel](*(b.array for b in inputs))

    # ---- recording

    def begin(self) -> None:
        """From now on launches are written down, and do not run."""
        self._not_while_recording("begin a recording")
        self.recording = []

    def end(self) -> list[Any]:
        """What was written down since `begin`."""
        if self.recording is None:
            raise CaptureError("end of a recording that has not begun")
        found, self.recording = self.recording, None
        return found

    def replay(self, recording: Sequence[Any]) -> None:
        """Run a recording on the addresses that it has. Costs as much as one launch."""
        self._not_while_recording("replay")
        self.replays += 1
        self.cpu_time += LAUNCH
        for kernel, out, inputs in recording:
            out.array[...] = KERNELS[kernel](*(b.array for b in inputs))

    def _not_while_recording(self, what: str) -> None:
        if self.recording is not None:
            raise CaptureError(f"a stream that records cannot {what}")


def run_step(device: Device, step: Step, buffers: Mapping[str, Buffer]) -> None:
    """Launch a step, or compute it on the host."""
    act = device.host if step.on_host else device.launch
    act(step.kernel, buffers[step.out], [buffers[name] for name in step.inputs])


def allocate(device: Device, program: Program, inputs: Mapping[str, Buffer]) -> dict[str, Buffer]:
    """New memory for everything that the program computes and that is no input."""
    arrays = {name: buffer.array for name, buffer in inputs.items()}
    made: dict[str, Buffer] = {}
    for step in program.steps:
        result = np.zeros_like(KERNELS[step.kernel](*(arrays[name] for name in step.inputs)))
        if step.out not in arrays:
            arrays[step.out] = result
            made[step.out] = device.alloc(result)
    return made


def run_eagerly(device: Device, program: Program, inputs: Mapping[str, Buffer]) -> tuple[Buffer, ...]:
    """One launch for each step."""
    buffers = {**inputs, **allocate(device, program, inputs)}
    for step in program.steps:
        run_step(device, step, buffers)
    return tuple(buffers[name] for name in program.outputs)
