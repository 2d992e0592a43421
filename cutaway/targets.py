"""What a graph is compiled for: the device of its tensors, and the target for that device.

Input: a graph, or a device. For Triton, the target includes the GPU's architecture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from stage_contracts import config
from stage_contracts.device import CPU, Device
from stage_contracts.graph import Graph
from stage_contracts.tensor_meta import TensorMeta

if TYPE_CHECKING:
    from stage_contracts.program import Target


def device_of_graph(graph: Graph) -> Device:
    """The device of a graph's tensors: a GPU if any tensor is on one."""
    metas = (n.meta.get("val") for n in graph.nodes)
    devices = {
        id(m.device): m.device for m in metas if isinstance(m, TensorMeta)
    }  # by identity: there are thousands
    return next((d for d in sorted(devices.values(), key=str) if d.type != "cpu"), CPU)


def target_for(device: Device) -> Target:
    return target_named("cpp" if device.type == "cpu" else "triton", device)


def target_named(name: str, device: Device) -> Target:
    """A Target. Triton's has the architecture of the GPU, or sm_90 without a GPU."""
    from stage_contracts.program import Target

    if name == "cpp":
        return Target("cpp", CPU)
    arch = "sm_90"
    if device.type == "cuda":
        from stage4_runtime.runtime import gpu_architecture

        arch = gpu_architecture(device)
    settings = config.current().runtime
    options = {
        "max_autotune": settings.max_autotune and not settings.deterministic,
        "tf32": settings.matmul_allow_tf32,
    }
    return Target("triton", device, arch, {name: True for name, asked in options.items() if asked})
