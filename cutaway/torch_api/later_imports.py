"""`import torch` inside a function of a module that was imported under as_torch(): Cutaway, also after the block.

Input: the files that are imported in the block, which adds LATER as a finder. Their modules get an `__import__` of
their own before they run, as Python allows: a function takes the builtins of the module that it is defined in.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.machinery import ModuleSpec, SourceFileLoader
from types import ModuleType
from typing import Any

from stage_contracts.controls import OWN_IMPORTS

_OWN = ("cutaway", "stage")  # this project's packages import no torch


class _Loader(SourceFileLoader):
    """Runs a module with `names` for builtins."""

    names: dict[str, Any]

    def exec_module(self, module: ModuleType) -> None:
        module.__dict__["__builtins__"] = self.names
        super().exec_module(module)


def _are_torch(modules: dict[str, ModuleType]) -> bool:
    """Whether some thread is in the block: this one may not wait for it."""
    return sys.modules.get("torch") is modules.get("torch")


class Later:
    """A finder that finds what the finders after it find. `block` makes the block in which `modules` are torch's."""

    def __init__(
        self, block: Callable[[], AbstractContextManager[Any]], modules: dict[str, ModuleType]
    ) -> None:
        def imported(name: str, *args: Any, **kwargs: Any) -> Any:
            level = kwargs.get("level", args[3] if len(args) > 3 else 0)
            if level or name.partition(".")[0] != "torch" or _are_torch(modules):
                return builtins.__import__(name, *args, **kwargs)
            with block():
                return builtins.__import__(name, *args, **kwargs)

        self.names = {**vars(builtins), "__import__": imported}
        OWN_IMPORTS[imported] = modules

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.startswith(_OWN) or name.partition(".")[0] == "torch":
            return None
        # in a block inside a block this finder stands there twice
        after = [f for f in sys.meta_path[sys.meta_path.index(self) + 1 :] if f is not self]
        found = (f.find_spec(name, path, target) for f in after if hasattr(f, "find_spec"))
        spec = next((spec for spec in found if spec is not None), None)
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
            spec.loader.names = self.names
        return spec
