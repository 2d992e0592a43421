"""CUDA graphs: record the launches of a program once, and replay them all with one call.

Input: programs of steps for the simulated GPU of device.py. A recording has addresses, not values. So inputs are copied
to where the recording reads them, and results are copied away before the next replay writes over them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .device import Buffer, Device, Program, Step, allocate, run_eagerly, run_step

LIMIT = 4  # recordings of one program; after that, other shapes run eagerly


@dataclass(frozen=True)
class Recorded:
    """A program recorded for inputs of one kind.

    buffers: the memory that the recording uses, by name. parts: in order, a recording of the device (a list), or a
    Step that runs on the host.
    """

    program: Program
    buffers: Mapping[str, Buffer]
    parts: tuple[Any, ...]
    static: tuple[str, ...]


# ---- what you write ----------------------------------------------------------------------------------------------


def segments(steps: Sequence[Step]) -> list[list[Step]]:
    """The steps in groups, in order: each host step alone, and all steps between two of them together."""
    # lab: begin segments
    groups: list[list[Step]] = []
    for step in steps:
        if step.on_host or not groups or groups[-1][0].on_host:
            groups.append([])
        groups[-1].append(step)
    return groups
    # lab: end


def record(
    device: Device, program: Program, inputs: Mapping[str, Buffer], static: tuple[str, ...]
) -> Recorded:
    """Record a program on memory of its own. The inputs named in `static` are used where they are.

    The user's inputs keep their values, whatever the program writes.
    """
    # lab: begin record
    own = {name: b if name in static else device.alloc(b.array) for name, b in inputs.items()}
    buffers = {**own, **allocate(device, program, own)}
    kept = {name: device.alloc(own[name].array) for name in program.written if name in static}
    for step in program.steps:  # warm up: the first launch of a kernel loads it
        run_step(device, step, buffers)
    for name, value in kept.items():
        device.copy(own[name], value)
    parts: list[Any] = []
    for group in segments(program.steps):
        if group[0].on_host:
            parts.append(group[0])
            continue
        device.begin()
        for step in group:
            run_step(device, step, buffers)
        parts.append(device.end())
    return Recorded(program, buffers, tuple(parts), static)
    # lab: end


def replay(device: Device, recorded: Recorded, inputs: Mapping[str, Buffer]) -> tuple[Buffer, ...]:
    """Run a recording on these inputs. The results are new memory; inputs that the program writes get their value."""
    # lab: begin replay
    program, buffers = recorded.program, recorded.buffers
    moving = [name for name in program.inputs if name not in recorded.static]
    for name in moving:
        device.copy(buffers[name], inputs[name])
    for part in recorded.parts:
        if isinstance(part, list):
            device.replay(part)
        else:
            run_step(device, part, buffers)
    for name in program.written:
        if name in moving:
            device.copy(inputs[name], buffers[name])
    results = []
    for name in program.outputs:
        result = device.empty_like(buffers[name])
        device.copy(result, buffers[name])
        results.append(result)
    return tuple(results)
    # lab: end


def graphed(
    device: Device, program: Program, static: tuple[str, ...] = ()
) -> Callable[..., tuple[Buffer, ...]]:
    """The program as a function of its inputs' buffers. It records at most LIMIT times, then it runs eagerly.

    A recording is right for inputs of one kind, and for static inputs at one address.
    """
    # lab: begin graphed
    recordings: dict[Any, Recorded] = {}

    def run(*given: Buffer) -> tuple[Buffer, ...]:
        inputs = dict(zip(program.inputs, given, strict=True))
        key = tuple(
            (buffer.kind, buffer.address if name in static else None) for name, buffer in inputs.items()
        )
        if key not in recordings:
            if len(recordings) == LIMIT:
                return run_eagerly(device, program, inputs)
            recordings[key] = record(device, program, inputs, static)
        return replay(device, recordings[key], inputs)

    return run
    # lab: end
