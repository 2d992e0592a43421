"""Which of several small programs is the fastest on this machine's GPU: what passes of stage 3 may ask for.

Input: the seams and a target that asks for `max_autotune`. Each program is built and run as it would be inside a larger
one, in memory made for it; stage 4 keeps the answer (autotune.py), so that the same question is measured once ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stage_contracts.measured import Fastest, answering

if TYPE_CHECKING:
    from stage_contracts.pipeline import Pipeline
    from stage_contracts.program import Program, Target


def fastest_on(pipeline: Pipeline, target: Target) -> Fastest | None:
    """What answers on this target by measuring; None where nothing is measured."""
    if not target.options.get("max_autotune") or target.device.type != "cuda":
        return None
    from stage4_runtime.runtime.autotune import product_choice  # nothing else needs it

    def fastest(question: str, programs: Sequence[Program]) -> int:
        return product_choice(
            named(programs[0]),
            question,
            target,
            [program.name for program in programs],
            lambda: times_of(programs, pipeline, target),
        )

    return fastest


def named(program: Program) -> str:
    """What the program computes, for people: `matmul (4096, 1024) (1024, 4096)`, then what else it takes."""
    shapes = [str(tuple(program.buffers[name].meta.shape)) for name in program.inputs]
    return " ".join(["matmul", program.buffers[program.inputs[0]].meta.dtype.name, *shapes])


def times_of(programs: Sequence[Program], pipeline: Pipeline, target: Target) -> Sequence[float | None]:
    """The milliseconds of each program; None for one that cannot be built or does not run."""
    from stage4_runtime.runtime.cuda import import_cupy
    from stage4_runtime.runtime.layout import byte_strides, span
    from stage4_runtime.runtime.measuring import milliseconds, scratch

    cp = import_cupy()
    with cp.cuda.Device(target.device.index), scratch(cp) as array:
        calls = []
        for program in programs:
            arrays = []
            for meta in (program.buffers[name].meta for name in program.inputs):
                memory = array(meta.dtype.name, math.ceil(span(meta) / meta.dtype.itemsize))
                arrays.append(cp.ndarray(meta.shape, meta.dtype.numpy, memory.data, byte_strides(meta)))
            calls.append(_call(finished(program, pipeline, target), arrays))
        return milliseconds(cp, calls)


def finished(program: Program, pipeline: Pipeline, target: Target) -> Callable[..., tuple]:
    """The rest of stages 3 and 4. No pass asks anything meanwhile."""
    with answering(None):
        planned = pipeline.plan_memory(pipeline.schedule(program, target))
        emitted = pipeline.emit(planned, target)
    kernels: dict[str, Any] = {}
    for unit in emitted.units:
        kernels.update(pipeline.build(unit))
    from stage4_runtime.runtime.launch import launch

    return launch(emitted, kernels, {}, cuda_graph=False)


def _call(run: Callable[..., tuple], arrays: Sequence[Any]) -> Callable[[int], Any]:
    return lambda stream: run(*arrays)
