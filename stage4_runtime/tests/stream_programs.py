"""Programs with branches, drawn or written by hand, and their memory planned as a setting of `parallel_streams` asks.

Input: a random generator, or how many branches.
"""

import numpy as np

from stage4_runtime.runtime import plan_memory
from stage4_runtime.tests.programs import (
    external,
    meta,
    program,
    sum_kernel,
)
from stage_contracts import config
from stage_contracts.device import Device
from stage_contracts.program import (
    Copy,
    External,
    Launch,
    WaitEvent,
    step_accesses,
)
from stage_contracts.stream_order import stream_of

CUDA = Device("cuda")
SIZE = 64


def planned(of, how="force", **more):
    with config.patch({"runtime.parallel_streams": how, **more}):
        return plan_memory(of.with_(device=CUDA))


def branches(count, length=1, size=SIZE):
    """x -> `count` chains of kernels -> their sum, y."""
    kernels, lasts, temporaries = [], [], {}
    for b in range(count):
        last = "x"
        for k in range(length):
            kernels.append(sum_kernel(f"k{b}_{k}", f"b{b}_{k}", [last], size))
            last = f"b{b}_{k}"
            temporaries[last] = meta(size)
        lasts.append(last)
    kernels.append(sum_kernel("total", "y", lasts, size))
    steps = [Launch(kernel.name, kernel.params) for kernel in kernels]
    return program({"x": meta(size)}, temporaries, {"y": meta(size)}, kernels, steps, ["y"])


def streams_of(of):
    return [stream_of(s) for s in of.steps if isinstance(s, Launch | External | Copy)]


def waits_of(of):
    return [s for s in of.steps if isinstance(s, WaitEvent)]


def drawn(draw, calls=True):
    """Kernels, products and eager calls that read what is there. What nobody reads is returned; some are updates."""
    names, kernels, steps, temporaries = ["x", "w"], [], [], {}
    for k in range(draw.randint(3, 12)):
        out, sources = f"t{k}", draw.sample(names, min(len(names), draw.randint(1, 3)))
        kind = draw.random() if calls else 1.0
        if kind < 0.1:
            steps.append(external(draw.choice(["neg", "abs"]), sources[0], out=out))
        elif kind < 0.25:
            steps.append(external("matmul", sources[0], sources[-1], out=out))
        else:
            kernels.append(sum_kernel(f"k{k}", out, sources, SIZE))
            steps.append(Launch(f"k{k}", kernels[-1].params))
        names.append(out)
        temporaries[out] = meta(8, 8)
    read = {name for step in steps for name in step_accesses(step, {k.name: k for k in kernels})[0]}
    returned = [name for name in names[2:] if name not in read]
    outputs = {name: temporaries.pop(name) for name in returned}
    of = program({"x": meta(8, 8), "w": meta(8, 8)}, temporaries, outputs, kernels, steps, returned)
    return of.with_(updates={returned[0]: "x"}) if calls and draw.random() < 0.3 else of


def numbers(draw):
    return [np.array([draw.randint(-1, 1) for _ in range(SIZE)], np.float32).reshape(8, 8) for _ in "xw"]


def evaluated(of, given):
    """The results, by NumPy, step by step."""
    values = dict(zip(of.inputs, (a.copy() for a in given), strict=True))
    for step in of.steps:
        if isinstance(step, Launch):
            *sources, out = step.buffers
            values[out] = sum((values[name] for name in sources), np.ones((8, 8), np.float32))
        elif isinstance(step, External):
            args = [values[ref.name] for ref in step.args]
            values[step.outputs[0]] = {"neg": np.negative, "abs": np.abs, "matmul": np.matmul}[step.target](
                *args
            )
    return [values[ref.name] for ref in of.return_step.values]


def same(fake, results, wanted):
    """Whether the results are as wanted once the caller's stream has done what it was given."""
    fake.queues.drain(fake.streams[-1].ptr)
    return all(np.array_equal(a, b) for a, b in zip(results, wanted, strict=True))
