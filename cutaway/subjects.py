"""Subjects of torch's that are not here: one sentence each, which says what there is instead or whether it will come.

Input: a path that published code asks for and Cutaway has not. Where no subject matches, a name that is surely meant.
"""

from __future__ import annotations

from collections.abc import Iterable

from stage_contracts.messages import near, say

SUBJECTS = {
    "hub": "models from the network are not planned; load your own state_dict with torch.load",
    "distributions": "probability distributions are not planned; torch.normal, rand and multinomial draw numbers",
    "fft": "Fourier transforms need complex numbers, which are not here",
    "distributed": "several processes are planned; today a program runs in one",
    "jit": "TorchScript is not planned; torch.compile captures Python as it is",
    "onnx": "export to other formats is not planned; the artifacts of a compiled function are its graphs",
    "export": "export is not planned; fn.artifacts holds the graphs of a compiled function",
    "sparse": "sparse tensors are not planned; masks and index operators work on dense ones",
    "quantization": "quantised numbers are not planned; bfloat16 and float16 are the narrow types",
    "ao": "quantised numbers are not planned; bfloat16 and float16 are the narrow types",
    "profiler": "a profiler is planned; cutaway.explain shows compile times, CUTAWAY_LOGS=compile_times each pass",
    "multiprocessing": "several processes are planned; Python's own multiprocessing starts them today",
    "fx": "graphs are not torch.fx's; what a backend receives has the same words (graph.nodes, node.target, .code)",
    "nested": "nested tensors are not planned; pad the rows and pass a mask",
    "masked": "masked tensors are not planned; torch.where and masked_fill take masks",
    "mps": "the machines are CPUs and NVIDIA's GPUs",
    "xpu": "the machines are CPUs and NVIDIA's GPUs",
    "package": "packages of models are not planned; torch.save keeps a state_dict",
    "overrides": "__torch_function__ is not planned; a function of yours can be an operator (cutaway.library)",
    "complex": "complex numbers are not here; hold the two parts in a last dimension of 2",
    "complex64": "complex numbers are not here; hold the two parts in a last dimension of 2",
    "complex128": "complex numbers are not here; hold the two parts in a last dimension of 2",
    "stft": "Fourier transforms need complex numbers, which are not here",
    "istft": "Fourier transforms need complex numbers, which are not here",
    "tensorboard": "writing to TensorBoard is not planned",
    "cpp_extension": "building C++ extensions is not planned; cutaway.library registers functions as operators",
    "accelerator": "a choice of accelerator is not planned; torch.cuda and device= name the machine",
    "benchmark": "timers are not planned; time.perf_counter around a few calls measures them",
    "bottleneck": "a profiler is planned; cutaway.explain shows compile times",
    "deterministic": "the setting runtime.deterministic of cutaway.config chooses nothing by measurement",
    "dlpack": "the exchange of memory by DLPack is not planned; numpy() and from_numpy share memory",
    "flop_counter": "a counter of operations is not planned; fn.artifacts holds the graphs of a compiled function",
    "futures": "several processes are planned; today a program runs in one",
    "mobile_optimizer": "other machines than CPUs and NVIDIA's GPUs are not planned",
    "model_zoo": "models from the network are not planned; load your own state_dict with torch.load",
    "monitor": "counters for a monitor are not planned; torch._dynamo.utils.counters counts what was compiled",
    "mtia": "the machines are CPUs and NVIDIA's GPUs",
    "quantized": "quantised numbers are not planned; bfloat16 and float16 are the narrow types",
    "quasirandom": "quasi-random numbers are not planned; torch.rand draws numbers",
    "signal": "windows and filters are not planned; torch.cos and torch.arange make a window",
    "storage": "storages are not here; a tensor's memory is its numpy()",
    "testing": "torch's helpers for tests are not planned; torch.allclose and numpy.testing compare",
    "types": "torch's names for type checkers are not planned; annotate with torch.Tensor",
}


PRIVATE = "torch's private modules are not here; what is public has its public name"


def no_attribute(path: str, known: Iterable[str]) -> str:
    """What to say where `path` ("torch.hub") is not here and its module has `known`."""
    name = path.rpartition(".")[2]
    if name in SUBJECTS:
        return say("subject_missing", path=path, sentence=SUBJECTS[name])
    return say("no_attribute", path=path, hint=_nearest(path, known))


def no_import(path: str, known: Iterable[str], whole_module: bool) -> str:
    """As no_attribute, where an import asks: `import torch.hub`, or `from torch import hub` if not `whole_module`."""
    name = path.rpartition(".")[2]
    sentence = SUBJECTS.get(name) or (PRIVATE if name[0] == "_" else "")
    private = f": {PRIVATE}" if "._" in path else ""  # inside torch._inductor, of which little is here
    hint = f": {sentence}" if sentence else _nearest(path, known) or private
    if whole_module:
        return say("module_missing", path=path, hint=hint)
    return say("name_missing", path=path, hint=hint)


def _nearest(path: str, known: Iterable[str]) -> str:
    module, _, name = path.rpartition(".")
    found = near(name, known)
    return f"; the nearest it has is {module}.{found}" if found else ""
