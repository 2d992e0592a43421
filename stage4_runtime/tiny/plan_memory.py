"""Tiny memory planning: runs malloc and free at compile time, and writes down the addresses that they return.

Input: a Program's steps in order. Idea: all allocations are known before anything runs. So walk over the steps once as
an allocator would (first fit: the lowest gap that is large enough), and every temporary gets its place in one pool. The
full version chooses among gaps, plans for several streams, and lets matmul write to planned memory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from stage_contracts.breaks import Unsupported
from stage_contracts.program import Allocate, External, Free, Kernel, PoolSlot, Program, step_accesses
from stage_contracts.tensor_meta import TensorMeta

# Where a slot may start, in bytes: a cache line on the CPU; on the GPU what cudaMalloc itself promises.
ALIGNMENT = {"cpu": 64, "cuda": 512}


def plan_memory(program: Program) -> Program:
    """Give every temporary a pool slot and add the allocate and free steps."""
    # lab: begin plan_memory
    steps = [step for step in program.steps if not isinstance(step, Allocate | Free)]
    last = last_uses(steps, program.kernels)
    buffers = {name: replace(buffer, slot=None) for name, buffer in program.buffers.items()}
    live: dict[str, range] = {}  # the bytes of the pool in use, by the buffer that uses them
    made: set[str] = set()
    pool_bytes = 0
    planned: list[Any] = []
    for number, step in enumerate(steps):
        if getattr(step, "stream", False):
            raise Unsupported(f"{step}: another stream", code="GB0089")
        for name in step_accesses(step, program.kernels)[1]:
            if name in made or buffers[name].role not in ("temporary", "output"):
                continue
            made.add(name)
            if isinstance(step, External) and not step.into:
                continue  # an eager kernel brings the memory of its result
            planned.append(Allocate(name))
            if last[name] < len(steps) - 1:  # what the caller gets has memory of its own, safe to keep
                nbytes = span(buffers[name].meta)
                live[name] = first_fit(live, nbytes, ALIGNMENT[program.device.type])
                buffers[name] = replace(buffers[name], slot=PoolSlot(0, live[name].start, nbytes))
                pool_bytes = max(pool_bytes, live[name].stop)
        planned.append(step)
        for name in [n for n in buffers if n in made and last[n] == number < len(steps) - 1]:
            planned.append(Free(name))
            live.pop(name, None)
    pools = (pool_bytes,) if pool_bytes else ()
    return program.with_(buffers=buffers, steps=tuple(planned), pools=pools).verify()
    # lab: end


def last_uses(steps: Sequence[Any], kernels: Mapping[str, Kernel]) -> dict[str, int]:
    """The number of the last step that needs each buffer. What that of Return, the last step, needs escapes.

    The result of an eager kernel may be a view of an operand: then the operand lives as long as the result.
    Walking backwards, the result's own last use is known by the time its maker is met.
    """
    # lab: begin last_uses
    last: dict[str, int] = {}
    for number, step in reversed(list(enumerate(steps))):
        reads, writes = step_accesses(step, kernels)
        for name in (*reads, *writes):
            last.setdefault(name, number)
        if isinstance(step, External) and not step.into:
            for name in reads:
                last[name] = max(last[name], *(last[result] for result in step.outputs))
    return last
    # lab: end


def first_fit(live: Mapping[str, range], nbytes: int, alignment: int) -> range:
    """The lowest free bytes of the pool that hold `nbytes`, from one multiple of `alignment` to another."""
    # lab: begin first_fit
    size = -(-max(nbytes, 1) // alignment) * alignment
    start = 0
    for taken in sorted(live.values(), key=lambda r: r.start):
        if start + size <= taken.start:
            break
        start = taken.stop
    return range(start, start + size)
    # lab: end


def span(meta: TensorMeta) -> int:
    """Bytes from the first element to the end of the last: gaps between elements count."""
    if not all(type(size) is int for size in (*meta.shape, *meta.strides)):
        raise Unsupported(f"a size known only at run time ({meta})", code="GB0011")
    if 0 in meta.shape:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(meta.shape, meta.strides, strict=True))
    return (last + 1) * meta.dtype.itemsize
