"""The scheduler's nodes as torch prints them in ir_pre_fusion.txt and ir_post_fusion.txt, each with its loop body.

Input: the graph that `lower` made, or the program that `fuse` made; the dependencies are the scheduler's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from stage3_lowering.lowering.legality import scheduler_node
from stage_contracts.loop_ir import ExternCall, LoopNest, LoweredGraph, buffer_refs, print_index
from stage_contracts.loop_text import print_nest
from stage_contracts.program import External, Kernel, Launch, Program
from stage_contracts.scheduler_ir import MemoryDep


def pre_fusion(lowered: LoweredGraph) -> str:
    """Every node on its own, in order."""
    users = _users(lowered.nodes, lowered.outputs)
    inputs = {*lowered.inputs, *lowered.constants}
    texts = [_node(node, f"op{i}", lowered.buffers, users, inputs) for i, node in enumerate(lowered.nodes)]
    return "\n\n".join(texts) + "\n"


def post_fusion(program: Program, lowered: LoweredGraph) -> str:
    """Every kernel with the nodes that became it, by the names they have before fusion, and the calls between."""
    metas = {name: buffer.meta for name, buffer in program.buffers.items()}
    inputs = {*lowered.inputs, *lowered.constants}
    number = {buffer: i for i, node in enumerate(lowered.nodes) for buffer in node.writes}
    users = _users(lowered.nodes, lowered.outputs)
    kept = {name for kernel in program.kernels.values() for name in (*kernel.internal, *_written(kernel))}
    texts = []
    for step in [inner for outer in program.steps for inner in getattr(outer, "steps", (outer,))]:
        if isinstance(step, Launch):
            kernel = program.kernels[step.kernel]
            ops = _ops_of(kernel, lowered, number, kept)
            name, snodes = "_".join(f"op{i}" for i in ops), ",".join(f"op{i}" for i in ops)
            kind = f"FusedSchedulerNode({snodes})" if len(ops) > 1 else "SchedulerNode(ComputedBuffer)"
            texts.append(f"{name}: {kind}\n{name}.kernel = {step.kernel}")
            texts += [_node(nest, name, metas, users, inputs, header=False) for nest in kernel.nests]
        elif isinstance(step, External):
            call = ExternCall(step.outputs, step.target, step.args, step.kwargs, step.origins)
            texts.append(_node(call, f"op{number.get(call.name, '')}", metas, users, inputs))
    return "\n\n".join(texts) + "\n"


def _written(kernel: Kernel) -> set[str]:
    return {name for nest in kernel.nests for name in nest.writes}


def _ops_of(kernel: Kernel, lowered: LoweredGraph, number: Mapping[str, int], kept: set[str]) -> list[int]:
    """The nodes that became a kernel: those whose buffers it makes, and those that went into their readers whole."""
    ops = {number[name] for name in (*kernel.internal, *_written(kernel)) if name in number}
    for i in range(len(lowered.nodes) - 1, -1, -1):
        readers = {j for j, node in enumerate(lowered.nodes) if lowered.nodes[i].name in node.reads}
        if lowered.nodes[i].name not in kept and readers & ops and isinstance(lowered.nodes[i], LoopNest):
            ops.add(i)
    return sorted(ops)


def _node(
    node: LoopNest | ExternCall,
    name: str,
    metas: Mapping[str, Any],
    users: Mapping[str, list[str]],
    inputs: set[str],
    header: bool = True,
) -> str:
    deps = scheduler_node(node)
    kinds = ("ExternKernelSchedulerNode", "ExternKernel") if isinstance(node, ExternCall) else None
    kind, made = kinds or ("SchedulerNode", "ComputedBuffer")
    lines = [f"{name}: {kind}({made})"] if header else []
    lines += [
        f"{name}.writes = {_deps(deps.writes)}",
        f"{name}.unmet_dependencies = {_deps(d for d in deps.reads if d.buffer not in inputs)}",
        f"{name}.met_dependencies = {_deps(d for d in deps.reads if d.buffer in inputs)}",
        f"{name}.outputs = [",
    ]
    for buffer in node.writes:
        lines += [f"    {buffer}: {made}"]
        if buffer in metas:
            lines += [f"    {buffer}.layout = {_layout(metas[buffer])}"]
        named = ", ".join(f"NodeUser(node={user})" for user in users.get(buffer, ()))
        lines += [f"    {buffer}.users = [{named}]"]
    lines += ["]"]
    if isinstance(node, ExternCall):
        return "\n".join([*lines, f"{name}.node.kernel = {node.target}"])
    ranges = (_sizes(node.ranges), _sizes(node.reduction_ranges))
    lines += [f"{name}.sizes = ([{', '.join(ranges[0])}], [{', '.join(ranges[1])}])"]
    return "\n".join([*lines, print_nest(node).rstrip()])


def _deps(deps: Iterable[MemoryDep]) -> str:
    return "[" + ", ".join(map(_dep, deps)) + "]"


def _dep(dep: MemoryDep) -> str:
    if dep.index is None or isinstance(dep.index, str):
        return f"StarDep({dep.buffer!r})"
    return f"MemoryDep({dep.buffer!r}, {print_index(dep.index)}, [{', '.join(_sizes(dep.sizes))}])"


def _layout(meta: Any) -> str:
    if not hasattr(meta, "dtype"):
        return str(meta)
    sizes, strides = ", ".join(_sizes(meta.shape)), ", ".join(_sizes(meta.strides))
    return f"FixedLayout('{meta.device}', {meta.dtype.name}, size=[{sizes}], stride=[{strides}])"


def _sizes(sizes: Iterable[Any]) -> list[str]:
    return [str(size) for size in sizes]


def _users(nodes: Sequence[LoopNest | ExternCall], outputs: Any) -> dict[str, list[str]]:
    """Who reads each buffer; OUTPUT is the caller."""
    users: dict[str, list[str]] = {}
    for number, node in enumerate(nodes):
        for buffer in node.reads:
            users.setdefault(buffer, []).append(f"SchedulerNode(name='op{number}')")
    for ref in buffer_refs(outputs):
        users.setdefault(ref.name, []).append("OUTPUT")
    return users
