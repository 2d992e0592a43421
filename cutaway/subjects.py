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
}


def no_attribute(path: str, known: Iterable[str]) -> str:
    """What to say where `path` ("torch.hub") is not here and its module has `known`."""
    module, _, name = path.rpartition(".")
    if name in SUBJECTS:
        return say("subject_missing", path=path, sentence=SUBJECTS[name])
    found = near(name, known)
    hint = f"; the nearest it has is {module}.{found}" if found else ""
    return say("no_attribute", path=path, hint=hint)
