"""A compiled function whose graphs are also lowered as for a GPU, on a machine without one.

Input: a function to compile, as a test calls it. Within `lowered_for_gpu` the passes of stage 2 take every value for one
on a GPU; each graph's Triton program is handed to `check`, and the graph itself runs on NumPy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

from cutaway import inductor
from cutaway.artifacts import HalfArtifacts
from stage2_autograd.decompose import aligned_products, attention_again
from stage2_autograd.partition import rematerialization
from stage4_runtime.runtime import launch_on_numpy
from stage_contracts.device import CPU, Device
from stage_contracts.graph import Graph
from stage_contracts.pipeline import Pipeline
from stage_contracts.program import Program, Target
from stage_contracts.tensor_meta import TensorMeta

CUDA = Device("cuda", 0)
TARGET = Target("triton", CUDA, "sm_90")
ASKED = (aligned_products, attention_again, rematerialization)  # these ask where a value is


def moved(value: Any, device: Device) -> Any:
    if isinstance(value, TensorMeta):
        return value.with_(device=device)
    return tuple(moved(v, device) for v in value) if isinstance(value, tuple) else value


def on(device: Device, graph: Graph) -> Graph:
    for node in graph.nodes:
        if node.op != "output":
            node.meta["val"] = moved(node.val, device)
    return graph


@contextmanager
def lowered_for_gpu(check: Callable[[Graph, Program], None]) -> Iterator[None]:
    def lower_and_build(
        core: Graph, device: Device, pipeline: Pipeline, updates: Sequence[tuple[int, int]] = ()
    ) -> Callable[[], HalfArtifacts]:
        half = HalfArtifacts(on(CUDA, core), pipeline, TARGET, updates)
        program = pipeline.emit(half.planned, TARGET).verify()
        half.run = launch_on_numpy(on(CPU, core))
        check(core, program)
        return lambda: half

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(inductor, "lower_and_build", lower_and_build))
        for module in ASKED:
            stack.enter_context(mock.patch.object(module, "on_gpu", lambda nodes: True))
        yield
