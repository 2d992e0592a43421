"""The language under torch's module paths, so that a file written for torch runs on Cutaway unchanged.

Input: the public names of `cutaway`. Under `with as_torch():`, `import torch` and its submodules give the modules made
here, also in files that are imported inside; afterwards a real torch is restored.
"""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from types import ModuleType
from typing import Any

import cutaway
from cutaway.subjects import no_attribute
from cutaway.torch_api import (
    absent,
    aten,
    attention,
    composed,
    distributed,
    distributions,
    foreach,
    fx,
    hub,
    jit,
    legacy,
    numpy_eager,
    overrides,
    pytree,
    repro_names,
    type_names,
)
from cutaway.torch_api import machine as torch_machine
from cutaway.torch_api.checks import CHECKS
from cutaway.torch_api.dynamo import compiler_modules
from cutaway.torch_api.imported import VERSION, give_specs
from cutaway.torch_api.later_imports import Later
from cutaway.torch_api.missing import MISSING
from cutaway.torch_api.operator_library import Library
from cutaway.torch_api.profiler import PROFILER_PATHS
from cutaway.torch_api.settings import SETTINGS
from cutaway.torch_api.size import Size
from stage0_eager import nn, optim, torch_archive, torch_archive_reading
from stage0_eager.autograd import checkpoint
from stage0_eager.namespaces import amp, autograd
from stage0_eager.nn import fusion, parametrizations, parametrize
from stage0_eager.transforms import func
from stage0_eager.utils import data
from stage_contracts.dtype import DTYPES, NAMED_DTYPES, DType
from stage_contracts.symbolic import SymBool, SymFloat, SymInt

_LOCK = threading.RLock()  # held while `import torch` gives Cutaway
_MODULES: dict[str, ModuleType] = {}


class TorchModule(ModuleType):
    """A module of torch with the names of a Cutaway module, or with names given one by one."""

    def __init__(self, name: str, source: Any = None, **names: Any) -> None:
        super().__init__(name, f"Cutaway's {name}")
        self.__path__: list[str] = []  # so that it is a package; its submodules are only in sys.modules
        # ordinary attributes, so that compiled code can read them as such
        self.__dict__.update({k: v for k, v in vars(source).items() if k[0] != "_"} if source else {})
        self.__dict__["_source"] = source
        # As attributes of its own, not by __getattr__ alone: capture reads and guards a module's dictionary.
        self.__dict__.update(
            {name: v for name, v in vars(source or self).items() if not name.startswith("_")}
        )
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        source = self.__dict__.get("_source")
        if source is not None and not name.startswith("__") and hasattr(source, name):
            return getattr(source, name)
        if name.startswith("__"):
            raise AttributeError(name)
        raise AttributeError(no_attribute(f"{self.__name__}.{name}", dir(self)))

    def __dir__(self) -> list[str]:
        names = {*self.__dict__, *dir(self.__dict__["_source"])}
        return sorted(n for n in names if not n.startswith("_"))


def _top() -> dict[str, Any]:
    """The names of `torch` that `cutaway` does not have, or has under another name."""
    short = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32",
             "short": "int16", "bool": "bool", "cfloat": "complex64", "cdouble": "complex128"}  # fmt: skip
    return {
        **{name: DTYPES[dtype] for name, dtype in short.items()},
        **torch_machine.TOP,
        **SETTINGS,
        **CHECKS,
        **composed.FUNCTIONS,
        **legacy.NAMES,
        **foreach.FUNCTIONS,
        **NAMED_DTYPES,
        "_assert": _assert,
        "SymInt": SymInt, "SymFloat": SymFloat, "SymBool": SymBool,
        "dtype": DType, "Size": Size, "inf": math.inf, "nan": math.nan, "pi": math.pi, "e": math.e,
        "vmap": func.vmap, "GradScaler": amp.GradScaler, "ops": aten.ops,
        "save": torch_archive.save, "load": torch_archive_reading.load,
        "__version__": VERSION,
    }  # fmt: skip


def _assert(condition: Any, message: Any) -> None:
    """Python's assert, as a function."""
    assert condition, message


def _paths() -> dict[str, tuple[Any, dict[str, Any]]]:
    """torch's module paths: for each, the Cutaway module (None if there is none), and further names."""
    return {
        "torch": (cutaway, _top()),
        "torch.nn": (nn, {}),
        "torch.nn.functional": (nn.functional, composed.NN),
        "torch.nn.init": (nn.init, {"_calculate_fan_in_and_fan_out": nn.init.fans}),
        "torch.nn.utils": (nn.utils, NORMS),
        "torch.nn.utils.parametrize": (parametrize, {}),
        "torch.nn.utils.parametrizations": (
            None,
            {
                name: getattr(parametrizations, name)
                for name in ("orthogonal", "spectral_norm", "weight_norm")
            },
        ),
        "torch.nn.utils.weight_norm": (None, {**NORMS, "WeightNorm": parametrizations.WeightNorm}),
        "torch.nn.utils.spectral_norm": (None, {**NORMS, "SpectralNorm": parametrizations.SpectralNorm}),
        "torch.nn.utils.fusion": (fusion, {}),
        "torch.nn.parameter": (None, {"Parameter": nn.Parameter}),
        "torch.nn.modules": (nn, {}),
        **{f"torch.nn.modules.{part}": (nn, {}) for part in _PARTS_OF_NN},
        "torch.nn.modules.utils": (None, {f"_{name}": partial(ntuple, n) for n, name in _TUPLES.items()}),
        "torch.nn.modules.module": (None, {"Module": nn.Module, "_EXTRA_STATE_KEY_SUFFIX": "_extra_state"}),
        "torch.nn.modules.batchnorm": (nn, {"_BatchNorm": nn.normalization._BatchNorm}),
        "torch.optim": (optim, {}),
        "torch.optim.optimizer": (None, {"Optimizer": optim.Optimizer}),
        "torch.optim.lr_scheduler": (optim.lr_scheduler, {}),
        "torch.optim.swa_utils": (optim.swa_utils, {}),
        "torch.autograd": (autograd, {}),
        "torch.autograd.function": (autograd.function, {}),
        "torch.autograd.graph": (autograd.graph, {}),
        "torch.autograd.functional": (autograd.functional, {}),
        "torch.func": (func, {}),
        "torch.library": (cutaway.library, {"Library": Library}),
        "torch.random": (None, {name: SETTINGS.get(name) or getattr(cutaway, name) for name in _RANDOM}),
        "torch.utils": (None, {}),
        "torch.utils.checkpoint": (checkpoint, {}),
        "torch.fft": (cutaway.fft, {}),
        "torch.linalg": (cutaway.linalg, {}),
        "torch.special": (cutaway.special, composed.SPECIAL),
        "torch.cuda": (None, torch_machine.CUDA),
        "torch.accelerator": (None, torch_machine.ACCELERATOR),
        "torch.xpu": (None, {"is_available": lambda: False, "device_count": lambda: 0}),
        "torch.cpu": (None, {"is_available": lambda: True, "device_count": lambda: 1}),
        **{path: (None, names) for path, names in torch_machine.AMP_PATHS.items()},
        "torch.version": (
            None,
            {"__version__": VERSION, "cuda": None, "hip": None},
        ),
        **{path: (None, names) for path, names in PROFILER_PATHS.items()},
    }


NORMS = {
    "weight_norm": parametrizations.old_weight_norm,
    "spectral_norm": parametrizations.old_spectral_norm,
    "remove_weight_norm": parametrizations.remove_weight_norm,
    "remove_spectral_norm": parametrizations.remove_spectral_norm,
}
_PARTS_OF_NN = (
    "activation container conv dropout instancenorm linear loss normalization padding pooling rnn sparse transformer"
).split()
_TUPLES = {1: "single", 2: "pair", 3: "triple", 4: "quadruple"}


def ntuple(n: int, value: Any) -> tuple:
    """`value` as a tuple: itself if it is iterable, else n times itself."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * n


_RANDOM = "seed manual_seed initial_seed get_rng_state set_rng_state default_generator fork_rng".split()


def modules() -> dict[str, ModuleType]:
    """torch's module paths and Cutaway's module for each, made once."""
    with _LOCK:
        if not _MODULES:
            for name, (source, names) in _paths().items():
                if source is not None or names or name == "torch.utils":
                    _MODULES[name] = TorchModule(name, source, **names)
            _MODULES.update(distributed.paths(TorchModule, data))
            _MODULES.update(compiler_modules(TorchModule))
            _MODULES.update(torch_machine.backends())
            _MODULES["torch._numpy"] = numpy_eager.module()
            for paths in (
                overrides.PATHS,
                type_names.PATHS,
                attention.PATHS,
                distributions.PATHS,
                fx.PATHS,
                hub.PATHS,
                jit.PATHS,
                pytree.PATHS,
                repro_names.PATHS,
                absent.PATHS,
            ):
                _complete(paths)
            for name, module in _MODULES.items():
                parent, _, last = name.rpartition(".")
                if parent:
                    _MODULES[parent].__dict__[last] = module
            _MODULES["torch.nn.utils"].__dict__.update(NORMS)  # a function each, and a module of its name
            give_specs(_MODULES)
            fx.naming.MODULES.update(_MODULES)
        return _MODULES


def _complete(paths: dict[str, dict[str, Any]]) -> None:
    """Add modules, or names that a module does not have yet."""
    for path, names in paths.items():
        module = _MODULES.setdefault(path, TorchModule(path))
        for name, value in names.items():
            module.__dict__.setdefault(name, value)


def _is_torch(name: str) -> bool:
    return name == "torch" or name.startswith("torch.")


@contextmanager
def as_torch() -> Iterator[ModuleType]:
    """In this block, `import torch` gives Cutaway. Yields that module. Afterwards, a real torch in sys.modules is
    restored.

    Only one thread can be in such a block; another one waits. Files that are imported already keep their torch. Those
    that are imported in the block keep Cutaway, also where a function of theirs imports torch later.
    """
    with _LOCK:
        before = be_torch()
        try:
            yield modules()["torch"]
        finally:
            for finder in (MISSING, LATER):
                sys.meta_path.remove(finder)
            _replace(before)


def be_torch() -> dict[str, ModuleType]:
    """From here on `import torch` gives Cutaway, to the end of the process. Returns the modules that it gave before."""
    before = {name: module for name, module in sys.modules.items() if _is_torch(name)}
    _replace(modules())
    sys.meta_path[:0] = [MISSING, LATER]
    return before


LATER = Later(as_torch, _MODULES)


def _replace(wanted: dict[str, ModuleType]) -> None:
    for name in [name for name in sys.modules if _is_torch(name)]:
        del sys.modules[name]
    sys.modules.update(wanted)


torch = modules()["torch"]

__all__ = ["TorchModule", "as_torch", "be_torch", "modules", "torch"]
