"""Parts of torch that Cutaway leaves out: a sentence for each says what to use instead, or that it is planned.

Input: a path that published code uses and Cutaway does not have. If no part matches, the message suggests a similar
name.
"""

from __future__ import annotations

from collections.abc import Iterable

from stage_contracts.messages import near, say

SUBJECTS = {
    "distributed": "data-parallel training is in torch.distributed; sharding, meshes and RPC are planned",
    "jit": "TorchScript is not planned; use torch.compile, which captures plain Python",
    "onnx": "export to other formats is not planned; fn.artifacts has the graphs of a compiled function",
    "export": "export is not planned; fn.artifacts has the graphs of a compiled function",
    "sparse": "sparse tensors are not planned; use masks and index operators on dense ones",
    "quantization": "quantised numbers are not planned; the narrow types are bfloat16 and float16",
    "ao": "quantised numbers are not planned; the narrow types are bfloat16 and float16",
    "multiprocessing": "several processes are planned; today use Python's multiprocessing",
    "nested": "nested tensors are not planned; pad the rows and pass a mask",
    "masked": "masked tensors are not planned; torch.where and masked_fill take masks",
    "mps": "the devices are CPUs and NVIDIA GPUs",
    "xpu": "the devices are CPUs and NVIDIA GPUs",
    "package": "packages of models are not planned; save a state_dict with torch.save",
    "tensorboard": "writing to TensorBoard is not planned",
    "cpp_extension": "building C++ extensions is not planned; cutaway.library registers functions as operators",
    "accelerator": "a choice of accelerator is not planned; use torch.cuda and device=",
    "benchmark": "timers are not planned; measure a few calls with time.perf_counter",
    "bottleneck": "not planned; use torch.profiler.profile, and cutaway.explain for compile times",
    "deterministic": "use runtime.deterministic of cutaway.config: with it, no measurement decides what runs",
    "dlpack": "DLPack is not planned; numpy() and from_numpy share memory",
    "flop_counter": "a counter of operations is not planned; fn.artifacts has the graphs of a compiled function",
    "futures": "futures are planned; today a collective with async_op=True gives a Work to wait for",
    "mobile_optimizer": "devices other than CPUs and NVIDIA GPUs are not planned",
    "monitor": "counters for a monitor are not planned; torch._dynamo.utils.counters counts compiles",
    "mtia": "the devices are CPUs and NVIDIA GPUs",
    "quantized": "quantised numbers are not planned; the narrow types are bfloat16 and float16",
    "quasirandom": "quasi-random numbers are not planned; use torch.rand",
    "signal": "windows and filters are not planned; make a window with torch.cos and torch.arange",
    "storage": "there are no storages; read a tensor's memory with numpy()",
    "testing": "torch's helpers for tests are not planned; use torch.allclose and numpy.testing",
    "types": "torch's names for type checkers are not planned; annotate with torch.Tensor",
}


PRIVATE = "torch's private modules are not available; use the public name"


def no_attribute(path: str, known: Iterable[str]) -> str:
    """The message for a `path` ("torch.hub") that Cutaway does not have. `known`: the names that its module has."""
    name = path.rpartition(".")[2]
    if name in SUBJECTS:
        return say("subject_missing", path=path, sentence=SUBJECTS[name])
    return say("no_attribute", path=path, hint=_nearest(path, known))


def no_import(path: str, known: Iterable[str], whole_module: bool) -> str:
    """The same as no_attribute for an import: `import torch.hub` or, if not `whole_module`, `from torch import hub`."""
    name = path.rpartition(".")[2]
    sentence = SUBJECTS.get(name) or (PRIVATE if name[0] == "_" else "")
    private = f": {PRIVATE}" if "._" in path else ""  # inside a private module, such as torch._inductor
    hint = f": {sentence}" if sentence else _nearest(path, known) or private
    if whole_module:
        return say("module_missing", path=path, hint=hint)
    return say("name_missing", path=path, hint=hint)


def _nearest(path: str, known: Iterable[str]) -> str:
    module, _, name = path.rpartition(".")
    found = near(name, known)
    return f"; the nearest it has is {module}.{found}" if found else ""
