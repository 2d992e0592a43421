"""Sequential and ModuleList: modules under the numbers 0, 1, 2, ..., with the methods of a list.

Input: modules. What is taken out or put in renumbers the rest, and moves the structure epoch.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from stage0_eager.nn.module import Module, bump_structure_epoch


class _Numbered(Module):
    """What both share: a list's methods, on the registry of modules."""

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __len__(self) -> int:
        return len(self._modules)

    def _at(self, index: int) -> Any:
        modules = list(self._modules.values())
        if not -len(modules) <= index < len(modules):
            raise IndexError(f"index {index} is out of range")
        return modules[index]

    def __setitem__(self, index: int, module: Module) -> None:
        self._at(index)
        self._modules[list(self._modules)[index]] = module
        bump_structure_epoch()

    def _renumber(self, modules: Iterable[Module]) -> None:
        kept = [(str(i), module) for i, module in enumerate(modules)]
        self._modules.clear()
        for name, module in kept:
            self.add_module(name, module)
        bump_structure_epoch()

    def __delitem__(self, index: int | slice) -> None:
        modules = list(self._modules.values())
        if not isinstance(index, slice):
            self._at(index)
        del modules[index]
        self._renumber(modules)

    def append(self, module: Module) -> Any:
        """`module` at the end; returns self."""
        self.add_module(str(len(self._modules)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> Any:
        """`modules` at the end; returns self."""
        if not isinstance(modules, Iterable):
            kind = type(self).__name__
            raise TypeError(
                f"{kind}.extend should be called with an iterable, but got {type(modules).__name__}"
            )
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: int, module: Module) -> Any:
        """`module` before what is at `index`; returns self."""
        modules = list(self._modules.values())
        modules.insert(index, module)
        self._renumber(modules)
        return self

    def pop(self, index: int) -> Module:
        """The module at `index`, which is taken out."""
        module = self._at(index)
        del self[index]
        return module

    def __iadd__(self, modules: Iterable[Module]) -> Any:
        return self.extend(modules)

    def __add__(self, modules: Iterable[Module]) -> Any:
        return type(self)().extend(self).extend(modules)


class Sequential(_Numbered):
    """Modules applied one after another. Takes modules, or one OrderedDict of them."""

    def __init__(self, *args: Any):
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)

    def forward(self, input):
        for module in self:
            input = module(input)
        return input

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._at(index)


class ModuleList(_Numbered):
    """A list whose modules are registered."""

    def __init__(self, modules: Iterable[Module] = ()):
        super().__init__()
        self.extend(() if modules is None else modules)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._modules.values())[index])
        return self._at(index)

    def __repr__(self) -> str:
        """Equal neighbours are said once: (0-5): 6 x Linear(...)."""
        if not self._modules:
            return f"{type(self).__name__}()"
        lines, at = [], 0
        for text, group in itertools.groupby(map(repr, self)):
            count = len(list(group))
            body = text.replace("\n", "\n  ")
            lines.append(f"({at}): {body}" if count == 1 else f"({at}-{at + count - 1}): {count} x {body}")
            at += count
        return f"{type(self).__name__}(\n  " + "\n  ".join(lines) + "\n)"
