"""What a GPU would be given of a function and its gradients, made here: the graphs, said to be on a GPU, and programs.

Input: a function and tensors on the CPU. The steps are those of cutaway/inductor.py, up to the seam `emit`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import cutaway
from stage_contracts.device import Device
from stage_contracts.graph import Graph
from stage_contracts.joint import Partition
from stage_contracts.program import Launch, Program, Target
from stage_contracts.tensor_meta import TensorMeta

CUDA = Device("cuda", 0)
TARGET = Target("triton", CUDA, "sm_90")


class _Enough(Exception):
    pass


def captured(function: Callable[..., Any], given: Sequence[Any]) -> tuple[Graph, list[Any]]:
    """The graph of a call that is not run, and its inputs."""
    kept: list[tuple[Graph, list[Any]]] = []

    def backend(graph: Any, inputs: Any) -> Any:
        kept.append((graph.graph, [*inputs]))
        raise _Enough

    try:
        cutaway.compile(function, backend=backend, fullgraph=True)(*given)
    except Exception:
        if not kept:
            raise
    return kept[0]


def on(device: Device, graph: Graph) -> Graph:
    """The graph, its tensors said to be on that device."""
    for node in graph.nodes:
        if node.op != "output":
            node.meta["val"] = _moved(node.val, device)
        args = tuple(device if isinstance(a, Device) else a for a in node.args)
        kwargs = {name: device if isinstance(a, Device) else a for name, a in node.kwargs.items()}
        if node.op == "call_function" and (args, kwargs) != (node.args, node.kwargs):
            graph.set_args(node, args, kwargs)
    return graph


def _moved(value: Any, device: Device) -> Any:
    if isinstance(value, TensorMeta):
        return value.with_(device=device)
    return tuple(_moved(one, device) for one in value) if isinstance(value, tuple) else value


def _functional(graph: Graph) -> Any:
    """Stage 2's first artifact of the graph on a GPU: what operators are made of may depend on the device."""
    functional = cutaway.DEFAULT_PIPELINE.functionalize(on(CUDA, graph))
    on(CUDA, functional.graph)
    return functional


def training_graphs(function: Callable[..., Any], given: Sequence[Any]) -> tuple[Partition, list[Any]]:
    """The forward and the backward graph, and the inputs."""
    seams = cutaway.DEFAULT_PIPELINE
    graph, inputs = captured(function, given)
    functional = _functional(graph)
    joint = seams.differentiate(functional)
    return seams.partition(replace(joint, graph=seams.decompose(joint.graph)).verify()).verify(), inputs


def inference_graph(function: Callable[..., Any], given: Sequence[Any]) -> tuple[Graph, list[Any]]:
    """The graph, and the inputs."""
    seams = cutaway.DEFAULT_PIPELINE
    graph, inputs = captured(function, given)
    return seams.decompose(_functional(graph).graph).verify(), inputs


def program_of(graph: Graph, target: Target = TARGET) -> Program:
    seams = cutaway.DEFAULT_PIPELINE
    return seams.schedule(seams.fuse(seams.lower(graph)), target)


def emitted(program: Program, arch: str = "sm_90", **options: bool) -> Program:
    seams, target = cutaway.DEFAULT_PIPELINE, Target("triton", CUDA, arch, options)
    return seams.emit(seams.plan_memory(program), target)


def launched(program: Program) -> list[str]:
    """The template of each kernel that is launched, "loops" for one without; the target of each call."""
    return [
        (program.kernels[s.kernel].template or "loops") if isinstance(s, Launch) else s.target
        for s in program.steps
        if isinstance(s, Launch) or hasattr(s, "target")
    ]


UNITS = {"float32": 2.0**-20, "float16": 2.0**-9, "bfloat16": 2.0**-6}


def check_alike(got: Sequence[Any], eager: Sequence[Any], dtype: str) -> None:
    """Each array within roundings of eager's. A gradient that is zero but for rounding is held against the others."""
    pairs = [(a, b) for a, b in zip(got, eager, strict=True) if isinstance(b, np.ndarray)]
    largest = max(float(np.abs(b.astype(np.float64)).max(initial=0)) for _, b in pairs)
    for a, b in pairs:
        assert a.dtype == b.dtype and a.shape == b.shape
        wide, want = a.astype(np.float64), b.astype(np.float64)
        scale = np.abs(want).max(initial=0) + 1e-2 * largest
        assert np.abs(wide - want).max(initial=0) <= 8 * UNITS[dtype] * scale
