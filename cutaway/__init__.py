"""Cutaway: a reference compiler for array programs. `cutaway.compile(fn)`, and torch's names for the language.

A call passes through compile.py, compiled_function.py, compile_frame.py and inductor.py (the map). This file only
collects the public names.
"""

# ruff: noqa: F401, F405  (this file gathers names)

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cutaway import compiler, library
from cutaway.backends import list_backends
from cutaway.compile import compile
from cutaway.compiled_function import reset
from cutaway.debug import start as _start_tools
from cutaway.explain import explain
from cutaway.pipelines import default_pipeline, tiny_pipeline
from cutaway.subjects import no_attribute as _no_attribute
from cutaway.version import __version__
from stage0_eager import Tensor, enable_grad, is_grad_enabled, nn, no_grad, optim
from stage0_eager.amp.autocast import (
    autocast,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_available,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from stage0_eager.autograd import checkpoint as _checkpoint
from stage0_eager.control_flow.functions import cond, map, scan, while_loop
from stage0_eager.defaults import get_default_device, get_default_dtype, set_default_device, set_default_dtype
from stage0_eager.functions.comparison import allclose, equal
from stage0_eager.functions.creation import (
    arange,
    as_tensor,
    empty,
    empty_like,
    eye,
    from_dlpack,
    from_numpy,
    full,
    full_like,
    ones,
    ones_like,
    rand,
    rand_like,
    randint,
    randn,
    randn_like,
    tensor,
    zeros,
    zeros_like,
)
from stage0_eager.functions.linalg.decompositions import chain_matmul
from stage0_eager.functions.linalg.einsum import einsum
from stage0_eager.functions.other_operations import (
    block_diag,
    broadcast_shapes,
    broadcast_tensors,
    cartesian_prod,
    combinations,
    gradient,
    meshgrid,
    scalar_tensor,
    tril_indices,
    triu_indices,
)
from stage0_eager.functions.random_sampling import normal, randint_like
from stage0_eager.functions.slicing import dsplit, hsplit, vsplit
from stage0_eager.functions.spectral import (
    bartlett_window,
    blackman_window,
    hamming_window,
    hann_window,
    kaiser_window,
)
from stage0_eager.library.custom_op import ops
from stage0_eager.namespaces import amp, autograd, fft, linalg, special
from stage0_eager.printing import get_printoptions, printoptions, set_printoptions
from stage0_eager.random.generator import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    randperm,
    set_rng_state,
)
from stage0_eager.serialization import load, save
from stage0_eager.state import inference_mode, is_inference_mode_enabled, set_grad_enabled
from stage0_eager.table.core import core
from stage0_eager.table.operator import Operator
from stage0_eager.table.registry import TABLE
from stage0_eager.transforms import func
from stage0_eager.type_info import (
    can_cast,
    finfo,
    iinfo,
    is_complex,
    is_floating_point,
    is_tensor,
    numel,
    promote_types,
    result_type,
)
from stage_contracts import config
from stage_contracts.breaks import GraphBreak, Unsupported
from stage_contracts.device import Device
from stage_contracts.device import Device as device
from stage_contracts.dtype import DTYPES, DType

# Every public operator under its name: cutaway.relu, cutaway.add, ...
# names.pyi lists them for editors and type checkers (`make stubs` writes it).
_ROWS = {op.name: op for op in TABLE.values() if op.namespace == "cutaway"} | DTYPES
GATHERED = {name: value for name, value in _ROWS.items() if name not in globals()}
globals().update(GATHERED)
if TYPE_CHECKING:
    from cutaway.names import *  # noqa: F403

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
        "cutaway.fft": fft,
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
    "profiler": lambda: importlib.import_module("cutaway.profiler"),
    "distributed": lambda: importlib.import_module("cutaway.distributed"),
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return _LAZY[name]()
    known = [n for n in (*globals(), *_LAZY) if not n.startswith("_")]
    raise AttributeError(_no_attribute(f"cutaway.{name}", known))


_start_tools()

__all__ = [
    "DEFAULT_PIPELINE", "DTYPES", "DType", "Device", "GraphBreak", "Operator", "TINY_PIPELINE", "Tensor",
    "Unsupported", "amp", "autograd", "compile", "compiler", "config", "core", "device", "enable_grad", "explain",
    "fft", "func", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "library", "linalg",
    "list_backends", "load", "nn", "no_grad", "ops", "optim", "reset", "save", "set_grad_enabled", "special", "utils",
]  # fmt: skip
