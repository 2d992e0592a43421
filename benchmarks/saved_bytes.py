"""Bytes saved for the backward, and the time it takes to build both graphs: this partitioner and torch's default one.

Input: the four models of tests/models, the same files on both sides, in one run. torch's numbers are those of
min_cut_rematerialization_partition with inductor's decompositions; compiling stops there on both sides, nothing runs.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from benchmarks.quick import unless_quick
from stage0_eager import no_grad
from stage0_eager.state import interpreting
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import TracedArray, Tracer
from stage2_autograd.decompose import decompose
from stage2_autograd.differentiate import differentiate
from stage2_autograd.functionalize import functionalize
from stage2_autograd.partition import PARTITIONERS, partition
from stage_contracts.graph import Graph
from stage_contracts.joint import JointGraph
from stage_contracts.tests.report_heading import heading
from tests.models.cases import FULL, Case, load_file, tensors

ROUNDS = unless_quick(2, 1)
CASES = [case for case in FULL if "ResNeXt" not in case.name]  # which is ResNet-50 three times over


# ---- here --------------------------------------------------------------------------------------------------------


def graph_of(case: Case) -> Graph:
    """The loss of a model as one graph of public operators; its parameters, buffers and batch are the inputs."""
    import cutaway

    module = load_file(case.file, True)
    model = case.build(module)
    graph = Graph()
    tracer = Tracer(graph, keep=lambda op: True)
    state = [*model.parameters(), *model.buffers()]
    state = list({id(t): t for t in state}.values())
    real = [t._data for t in state]
    for i, t in enumerate(state):
        node = graph.placeholder(f"state{i}", t.meta)
        t._data = TracedArray(t.meta.with_(requires_grad=False, strides=t.stride()), node)
    batch = tensors(cutaway, case.batch(np.random.default_rng(0)), "float32")
    inputs = [tracer.placeholder(f"batch{i}", t.meta) for i, t in enumerate(batch)]
    try:
        with no_grad(), interpreting(tracer):
            loss: Tensor = case.run(module, model, tuple(inputs))[1]
    finally:
        for t, data in zip(state, real, strict=True):
            t._data = data
    graph.output([tracer.node_of(loss)])
    return graph.verify()


def here(case: Case) -> tuple[dict[str, int], float]:
    """Bytes saved by each partitioner, and the best time, in seconds, of functionalize to partition."""
    graph = graph_of(case)
    best, joint = min((timed(graph) for _ in range(ROUNDS)), key=lambda pair: pair[0])
    return {name: cut(joint).saved_bytes for name, cut in PARTITIONERS.items()}, best


def timed(graph: Graph) -> tuple[float, JointGraph]:
    start = time.perf_counter()
    joint = differentiate(functionalize(graph))
    joint = replace(joint, graph=decompose(joint.graph))
    partition(joint)
    return time.perf_counter() - start, joint


# ---- torch -------------------------------------------------------------------------------------------------------


def torch_saves(case: Case) -> tuple[int, float]:
    """Bytes saved by torch's default partitioner, and the best time of AOTAutograd (without Dynamo before it)."""
    import torch
    from torch._functorch.aot_autograd import aot_module_simplified
    from torch._functorch.partitioners import min_cut_rematerialization_partition
    from torch._inductor.decomposition import select_decomp_table

    saved: list[int] = []
    times: list[float] = []

    def partition(joint: Any, inputs: Any, *, num_fwd_outputs: int, **options: Any) -> tuple:
        halves = min_cut_rematerialization_partition(
            joint, inputs, num_fwd_outputs=num_fwd_outputs, **options
        )
        (outputs,) = next(n for n in halves[0].graph.nodes if n.op == "output").args
        saved.append(sum(bytes_of(n.meta["val"]) for n in outputs[num_fwd_outputs:]))
        return halves

    def bytes_of(value: Any) -> int:
        return value.numel() * value.element_size() if isinstance(value, torch.Tensor) else 8

    def nothing(graph: Any, inputs: Any) -> Callable:
        return lambda *args: (_ for _ in ()).throw(Done)

    def backend(graph: Any, inputs: Any) -> Callable:
        start = time.perf_counter()
        compiled = aot_module_simplified(
            graph, inputs, fw_compiler=nothing, bw_compiler=nothing, partition_fn=partition,
            decompositions=select_decomp_table(),
        )  # fmt: skip
        times.append(time.perf_counter() - start)
        return compiled

    module = load_file(case.file, False)
    sys.modules[module.__name__] = module  # Dynamo looks it up by name
    model = case.build(module)
    batch = tensors(torch, case.batch(np.random.default_rng(0)), "float32")
    for _ in range(ROUNDS):
        torch._dynamo.reset()
        step = torch.compile(lambda: case.run(module, model, batch)[1], backend=backend, fullgraph=True)
        try:
            step()
        except Done:
            pass
    assert len(set(saved)) == 1, f"torch saved {saved}"
    return saved[0], min(times)


class Done(Exception):
    """Both graphs are made; nothing needs to run."""


# ---- the report --------------------------------------------------------------------------------------------------


def main() -> None:

    title = "Saved for the backward, in KiB, and the time to build both graphs, in ms"
    print(heading(title, "make saved-bytes", 0, "torch", more=f"float32, best of {ROUNDS} rounds"))
    print()
    print(
        f"{'':25}{'min_cut':>8}{'torch':>9}{'ratio':>7}{'everything':>12}{'of it':>7}"
        + f"{'time':>7}{'torch':>7}{'ratio':>7}"
    )
    wrong = []
    for case in unless_quick(CASES, CASES[:1]):
        try:
            ours, seconds = here(case)
            theirs, torch_seconds = torch_saves(case)
        except Exception as error:
            print(f"{case.name:25}{type(error).__name__}: {str(error).splitlines()[0][:90]}")
            wrong.append(case.name)
            continue
        all_of_it = ours["save_everything"]
        print(
            f"{case.name:25}{ours['min_cut'] / 1024:8.0f}{theirs / 1024:9.0f}{ours['min_cut'] / theirs:7.2f}"
            f"{all_of_it / 1024:12.0f}{ours['min_cut'] / all_of_it:7.2f}{seconds * 1e3:7.0f}{torch_seconds * 1e3:7.0f}"
            f"{seconds / torch_seconds:7.2f}"
        )
        if ours["min_cut"] > theirs:
            wrong.append(case.name)
    print(f"\nMore bytes than torch, or no answer: {', '.join(wrong) or 'nowhere'}.")
    raise SystemExit(bool(wrong))


if __name__ == "__main__":
    main()
