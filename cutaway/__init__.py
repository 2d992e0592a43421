"""Cutaway: a reference compiler for array programs. `cutaway.compile(fn)`, and torch's names for the language.

The pipeline is one screen: compile.py. This file only gathers the public names.
"""

from __future__ import annotations

import sys
from typing import Any

from cutaway.backends import list_backends
from cutaway.compile import compile, default_pipeline, reset, tiny_pipeline
from cutaway.explain import explain
from stage0_eager import Tensor, core, enable_grad, is_grad_enabled, nn, no_grad, optim, set_grad_enabled
from stage0_eager import random as _random
from stage0_eager.functions import creation as _creation
from stage0_eager.functions import einsum as _einsum
from stage0_eager.operator import TABLE, Operator
from stage_contracts import config
from stage_contracts.breaks import GraphBreak, Unsupported
from stage_contracts.device import Device
from stage_contracts.device import device_of as device
from stage_contracts.dtype import DTYPES, DType

__version__ = "0.1.0"

# Every public operator under its name: cutaway.relu, cutaway.add, ...
globals().update({op.name: op for op in TABLE.values() if op.namespace == "cutaway"})
globals().update(DTYPES)  # cutaway.float32, cutaway.bool, ...

_PLAIN = {
    _creation: "tensor from_numpy as_tensor arange full zeros ones empty full_like zeros_like ones_like eye rand "
    "randn rand_like randn_like randint",
    _einsum: "einsum",
    _random: "manual_seed randperm Generator default_generator",
}
globals().update({name: getattr(module, name) for module, names in _PLAIN.items() for name in names.split()})

# The language's modules under this package's path: `from cutaway.nn import functional as F`.
sys.modules.update(
    {
        "cutaway.nn": nn,
        "cutaway.nn.functional": nn.functional,
        "cutaway.nn.init": nn.init,
        "cutaway.nn.utils": nn.utils,
        "cutaway.optim": optim,
        "cutaway.optim.lr_scheduler": optim.lr_scheduler,
        "cutaway.config": config,
    }
)

# The stages themselves are loaded when a pipeline is first needed, so that `import cutaway` stays quick.
_LAZY = {
    "DEFAULT_PIPELINE": default_pipeline,
    "TINY_PIPELINE": tiny_pipeline,
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return _LAZY[name]()
    import difflib

    near = difflib.get_close_matches(name, [*globals(), *_LAZY], n=1)
    raise AttributeError(
        f"module 'cutaway' has no attribute {name!r}" + (f"; did you mean {near[0]!r}?" if near else "")
    )


__all__ = [
    "DEFAULT_PIPELINE", "DTYPES", "DType", "Device", "GraphBreak", "Operator", "TINY_PIPELINE", "Tensor",
    "Unsupported", "compile", "config", "core", "device", "enable_grad", "explain", "is_grad_enabled",
    "list_backends", "nn", "no_grad", "optim", "reset", "set_grad_enabled",
]  # fmt: skip
