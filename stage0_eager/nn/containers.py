"""Containers: Sequential and ModuleList under numbers, ModuleDict by name, ParameterList and ParameterDict.

Input: modules or parameters. A change of a container's contents changes the structure epoch.
"""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Any

from stage0_eager.nn.module import Module, Parameter, bump_structure_epoch
from stage0_eager.tensor import Tensor


def _pairs(items: Any) -> Iterable[tuple[str, Any]]:
    return items.items() if hasattr(items, "items") else items


class ModuleDict(Module):
    """A dictionary whose modules are registered."""

    def __init__(self, modules: Any = None):
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Module:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]
        bump_structure_epoch()

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def keys(self) -> Any:
        return self._modules.keys()

    def values(self) -> Any:
        return self._modules.values()

    def items(self) -> Any:
        return self._modules.items()

    def update(self, modules: Any) -> None:
        for key, module in _pairs(modules):
            self[key] = module

    def pop(self, key: str) -> Module:
        module = self[key]
        del self[key]
        return module

    def clear(self) -> None:
        self._modules.clear()
        bump_structure_epoch()


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


class ParameterList(Module):
    """A list whose tensors are registered as parameters."""

    def __init__(self, values: Iterable[Any] = ()):
        super().__init__()
        self.extend(values)

    def append(self, value: Any) -> ParameterList:
        self.register_parameter(str(len(self)), _as_parameter(value))
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        for value in values:
            self.append(value)
        return self

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self._parameters.values())[index])
        return list(self._parameters.values())[index]

    def __iadd__(self, values: Iterable[Any]) -> ParameterList:
        return self.extend(values)

    def __setitem__(self, index: int, value: Any) -> None:
        self.register_parameter(list(self._parameters)[index], _as_parameter(value))

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._parameters.values())


class ParameterDict(Module):
    """A dictionary whose tensors are registered as parameters."""

    def __init__(self, parameters: Any = None):
        super().__init__()
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return self._parameters[key]

    def __setitem__(self, key: str, value: Any) -> None:
        self.register_parameter(key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._parameters[key]
        bump_structure_epoch()

    def __len__(self) -> int:
        return len(self._parameters)

    def __iter__(self) -> Iterator[str]:
        return iter(self._parameters)

    def __contains__(self, key: str) -> bool:
        return key in self._parameters

    def keys(self) -> Any:
        return self._parameters.keys()

    def values(self) -> Any:
        return self._parameters.values()

    def items(self) -> Any:
        return self._parameters.items()

    def update(self, parameters: Any) -> None:
        for key, value in _pairs(parameters):
            self[key] = value

    def get(self, key: str, default: Any = None) -> Any:
        return self._parameters.get(key, default)

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        key = list(self)[-1]
        return key, self.pop(key)

    def clear(self) -> None:
        for key in list(self):
            del self[key]

    def copy(self) -> ParameterDict:
        """Another dictionary of the same parameters."""
        return type(self)(self.items())

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        return type(self)([(key, default) for key in keys])

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self))

    def __or__(self, other: ParameterDict) -> ParameterDict:
        return self.copy().__ior__(other)

    def __ror__(self, other: ParameterDict) -> ParameterDict:
        return other.copy().__ior__(self)

    def __ior__(self, other: ParameterDict) -> ParameterDict:
        self.update(other)
        return self


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
