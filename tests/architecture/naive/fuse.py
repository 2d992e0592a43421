"""A fuse that fuses nothing: a kernel for each loop nest, in order. Correct, and as slow as it gets.

Input: the contract of `fuse`, and a LoweredGraph.
"""

from stage_contracts.device import CPU
from stage_contracts.loop_ir import ExternCall, buffer_refs
from stage_contracts.program import Buffer, External, Kernel, Launch, Program, Return


def fuse(lowered):
    kernels, steps, written = {}, [], set()
    for node in lowered.nodes:
        written |= set(node.writes)
        if isinstance(node, ExternCall):
            steps.append(External(node.target, node.args, node.kwargs, node.outputs, origins=node.origins))
            continue
        params = tuple(dict.fromkeys((*node.reads, *node.writes)))
        name = f"kernel{len(kernels)}_{node.name}"
        kernels[name] = Kernel(name, (node,), params, ())
        steps.append(Launch(name, params))
    steps.append(Return(lowered.outputs))
    roles = dict.fromkeys(written, "temporary")
    roles |= dict.fromkeys((ref.name for ref in buffer_refs(lowered.outputs)), "output")
    roles |= dict.fromkeys(lowered.constants, "constant") | dict.fromkeys(lowered.inputs, "input")
    buffers = {
        name: Buffer(name, meta, roles[name]) for name, meta in lowered.buffers.items() if name in roles
    }
    device = next((meta.device for meta in lowered.buffers.values() if meta.device != CPU), CPU)
    return Program(lowered.name, device, lowered.inputs, buffers, kernels, tuple(steps)).verify()
