"""The language under torch's module paths, so that a file written for torch runs on Cutaway unchanged.

Input: the public names of `cutaway`. `with as_torch():` makes `import torch` and its submodules, in files imported
inside, resolve to the modules made here; a real torch is put back afterwards.
"""

from __future__ import annotations

import difflib
import math
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import cutaway
from cutaway.torch_dynamo import compiler_modules
from stage0_eager import autograd, checkpoint, func, nn, optim
from stage0_eager.tensor import Tensor
from stage_contracts.dtype import DTYPES, DType

_LOCK = threading.RLock()  # held as long as sys.modules says that torch is Cutaway
_MODULES: dict[str, ModuleType] = {}


class TorchModule(ModuleType):
    """A module of torch's whose names are those of one of ours, or given one by one."""

    def __init__(self, name: str, source: Any = None, **names: Any) -> None:
        super().__init__(name, f"Cutaway's {name}")
        self.__path__: list[str] = []  # a package: its submodules are in sys.modules or nowhere
        self.__dict__["_source"] = source
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        source = self.__dict__.get("_source")
        if source is not None and not name.startswith("__") and hasattr(source, name):
            return getattr(source, name)
        if name.startswith("__"):
            raise AttributeError(name)
        near = difflib.get_close_matches(name, dir(self), n=1, cutoff=0.5)
        raise AttributeError(
            f"Cutaway has no {self.__name__}.{name}"
            + (f"; the nearest it has is {self.__name__}.{near[0]}" if near else "")
        )

    def __dir__(self) -> list[str]:
        names = {*self.__dict__, *dir(self.__dict__["_source"])}
        return sorted(n for n in names if not n.startswith("_"))


def is_tensor(obj: Any) -> bool:
    return isinstance(obj, Tensor)


def is_floating_point(input: Tensor) -> bool:
    return input.is_floating_point()


def numel(input: Tensor) -> int:
    return input.numel()


def _cuda_is_available() -> bool:
    from stage0_eager.arrays import cupy

    try:
        return bool(cupy().cuda.runtime.getDeviceCount() > 0)
    except RuntimeError:
        return False


def _top() -> dict[str, Any]:
    """What `torch` has and `cutaway` has not, or has under another name."""
    short = {"float": "float32", "double": "float64", "half": "float16", "long": "int64", "int": "int32",
             "short": "int16", "bool": "bool"}  # fmt: skip
    return {
        **{name: DTYPES[dtype] for name, dtype in short.items()},
        "dtype": DType, "Size": tuple, "inf": math.inf, "nan": math.nan, "pi": math.pi,
        "e": math.e, "is_tensor": is_tensor, "is_floating_point": is_floating_point, "numel": numel,
        "__version__": f"0+cutaway.{cutaway.__version__}",
    }  # fmt: skip


def modules() -> dict[str, ModuleType]:
    """torch's module paths and the modules that stand there, made once."""
    with _LOCK:
        if not _MODULES:
            sources = {
                "torch": cutaway,
                "torch.nn": nn,
                "torch.nn.functional": nn.functional,
                "torch.nn.init": nn.init,
                "torch.nn.utils": getattr(nn, "utils", None),
                "torch.optim": optim,
                "torch.optim.lr_scheduler": getattr(optim, "lr_scheduler", None),
                "torch.autograd": autograd,
                "torch.autograd.function": autograd.function,
                "torch.autograd.graph": autograd.graph,
                "torch.func": func,
                "torch.utils.checkpoint": checkpoint,
                "torch.linalg": cutaway.linalg,
                "torch.special": cutaway.special,
            }
            _MODULES.update(
                {name: TorchModule(name, source) for name, source in sources.items() if source is not None}
            )
            _MODULES["torch"].__dict__.update(_top())
            _MODULES["torch.utils"] = TorchModule("torch.utils")
            _MODULES.update(compiler_modules(TorchModule))
            _MODULES["torch.cuda"] = TorchModule("torch.cuda", is_available=_cuda_is_available)
            _MODULES["torch.nn.parameter"] = TorchModule("torch.nn.parameter", Parameter=nn.Parameter)
            _MODULES["torch.nn.modules"] = TorchModule("torch.nn.modules", nn)
            for name, module in _MODULES.items():
                parent, _, last = name.rpartition(".")
                if parent:
                    _MODULES[parent].__dict__[last] = module
        return _MODULES


def _is_torch(name: str) -> bool:
    return name == "torch" or name.startswith("torch.")


@contextmanager
def as_torch() -> Iterator[ModuleType]:
    """In this block `import torch` gives Cutaway; yields that module. A real torch in sys.modules is put back.

    One thread at a time: another that enters waits. Files already imported keep the torch that they have.
    """
    with _LOCK:
        ours = modules()
        before = {name: module for name, module in sys.modules.items() if _is_torch(name)}
        _replace(ours)
        try:
            yield ours["torch"]
        finally:
            _replace(before)


def _replace(wanted: dict[str, ModuleType]) -> None:
    for name in [name for name in sys.modules if _is_torch(name)]:
        del sys.modules[name]
    sys.modules.update(wanted)


torch = modules()["torch"]

__all__ = ["TorchModule", "as_torch", "modules", "torch"]
