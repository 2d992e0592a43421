"""Containers by name and of parameters: ModuleDict, ParameterList, ParameterDict.

Input: modules or tensors; what they hold is registered, under the key or the number it has.
"""

from __future__ import annotations

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
