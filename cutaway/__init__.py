"""Cutaway: a reference compiler for array programs. `cutaway.compile(fn)`, and torch's names for the language.

The way a call takes: compile.py, compiled_function.py, compile_frame.py, backends.py. This file only gathers the
public names.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from cutaway import compiler, library
from cutaway.backends import list_backends
from cutaway.compile import compile
from cutaway.compiled_function import reset
from cutaway.explain import explain
from cutaway.logs import logs_of_environment as _logs_of_environment
from cutaway.pipelines import default_pipeline, tiny_pipeline
from cutaway.subjects import no_attribute as _no_attribute
from stage0_eager import (
    Tensor,
    amp,
    autograd,
    core,
    enable_grad,
    func,
    is_grad_enabled,
    linalg,
    nn,
    no_grad,
    optim,
)
from stage0_eager import autocast as _autocast
from stage0_eager import checkpoint as _checkpoint
from stage0_eager import control_flow as _control_flow
from stage0_eager import defaults as _defaults
from stage0_eager import printing as _printing
from stage0_eager import random as _random
from stage0_eager import torch_special as special
from stage0_eager import type_info as _type_info
from stage0_eager.functions import creation as _creation
from stage0_eager.functions import distributions as _distributions
from stage0_eager.functions import einsum as _einsum
from stage0_eager.functions import matrices as _matrices
from stage0_eager.functions import pieces as _pieces
from stage0_eager.functions import sequences as _sequences
from stage0_eager.functions import signal_windows as _signal_windows
from stage0_eager.functions import special_values as _special_values
from stage0_eager.library import ops
from stage0_eager.operator import TABLE, Operator
from stage0_eager.serialization import load, save
from stage0_eager.state import inference_mode, is_inference_mode_enabled, set_grad_enabled
from stage_contracts import config
from stage_contracts.breaks import GraphBreak, Unsupported
from stage_contracts.device import Device
from stage_contracts.device import Device as device
from stage_contracts.dtype import DTYPES, DType

__version__ = "0.1.0"

# Every public operator under its name: cutaway.relu, cutaway.add, ...
globals().update({op.name: op for op in TABLE.values() if op.namespace == "cutaway"})
globals().update(DTYPES)  # cutaway.float32, cutaway.bool, ...

_PLAIN = {
    _creation: "tensor from_numpy from_dlpack as_tensor arange full zeros ones empty full_like zeros_like ones_like "
    "eye empty_like rand randn rand_like randn_like randint",
    _special_values: "allclose equal",
    _distributions: "normal randint_like",
    _sequences: "scalar_tensor meshgrid cartesian_prod tril_indices triu_indices",
    _einsum: "einsum",
    _control_flow: "cond while_loop scan map",
    _random: "manual_seed initial_seed get_rng_state set_rng_state randperm Generator default_generator",
    _defaults: "get_default_dtype set_default_dtype get_default_device set_default_device",
    _type_info: "finfo iinfo promote_types result_type can_cast is_tensor is_floating_point is_complex numel",
    _printing: "set_printoptions get_printoptions printoptions",
    _pieces: "block_diag broadcast_shapes broadcast_tensors combinations hsplit vsplit dsplit gradient",
    _autocast: "autocast get_autocast_dtype is_autocast_enabled set_autocast_dtype set_autocast_enabled "
    "clear_autocast_cache is_autocast_available is_autocast_cache_enabled set_autocast_cache_enabled",
    _matrices: "chain_matmul",
    _signal_windows: "bartlett_window blackman_window hamming_window hann_window kaiser_window",
}
globals().update({name: getattr(module, name) for module, names in _PLAIN.items() for name in names.split()})

utils = ModuleType("cutaway.utils", "What torch keeps in torch.utils.")
utils.checkpoint = _checkpoint  # type: ignore[attr-defined]

# The language's modules under this package's path: `from cutaway.nn import functional as F`.
sys.modules.update(
    {
        "cutaway.nn": nn,
        "cutaway.nn.functional": nn.functional,
        "cutaway.nn.init": nn.init,
        "cutaway.nn.utils": nn.utils,
        "cutaway.optim": optim,
        "cutaway.amp": amp,
        "cutaway.autograd": autograd,
        "cutaway.func": func,
        "cutaway.linalg": linalg,
        "cutaway.special": special,
        "cutaway.utils": utils,
        "cutaway.utils.checkpoint": _checkpoint,
        "cutaway.optim.lr_scheduler": optim.lr_scheduler,
        "cutaway.config": config,
        "cutaway.compiler": compiler,
        "cutaway.library": library,
    }
)

# The stages themselves are loaded when a pipeline is first needed, so that `import cutaway` stays quick.
_LAZY: dict[str, Callable[[], Any]] = {
    "DEFAULT_PIPELINE": default_pipeline,
    "TINY_PIPELINE": tiny_pipeline,
    "torch_api": lambda: importlib.import_module("cutaway.torch_api"),
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return _LAZY[name]()
    known = [n for n in (*globals(), *_LAZY) if not n.startswith("_")]
    raise AttributeError(_no_attribute(f"cutaway.{name}", known))


_logs_of_environment()

__all__ = [
    "DEFAULT_PIPELINE", "DTYPES", "DType", "Device", "GraphBreak", "Operator", "TINY_PIPELINE", "Tensor",
    "Unsupported", "amp", "autograd", "compile", "compiler", "config", "core", "device", "enable_grad", "explain",
    "func", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "library", "linalg", "list_backends",
    "load", "nn", "no_grad", "ops", "optim", "reset", "save", "set_grad_enabled", "special", "utils",
]  # fmt: skip
