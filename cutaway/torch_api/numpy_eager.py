"""torch._numpy: NumPy as a compiled function sees it, one call at a time, to debug a NumPy program eagerly.

Input: a program that says `import torch._numpy as np`. Each function, operator and method runs as `compile` would run
it, alone and at once; what capture leaves to NumPy, NumPy runs. Arrays are NumPy's, of a class of their own.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

import cutaway
from stage0_eager.numpy_api import ROWS
from stage0_eager.tensor import Tensor


class ndarray(np.ndarray):
    """An array whose operators and functions are computed by Cutaway."""

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        return _computed(ufunc if method == "__call__" else getattr(ufunc, method), *inputs, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        return _computed(func, *args, **kwargs)

    @property
    def tensor(self) -> Tensor:
        """The tensor on the same memory."""
        return cutaway.from_numpy(_plain(self))


def _method(name: str) -> Callable[..., Any]:
    def call(array: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(array, name)(*args, **kwargs)

    @functools.wraps(getattr(np.ndarray, name))
    def method(self: ndarray, *args: Any, **kwargs: Any) -> Any:
        return _computed(call, self, *args, **kwargs)

    return method


for _name in [row.name for row in ROWS.values() if row.method and hasattr(np.ndarray, row.name)]:
    setattr(ndarray, _name, _method(_name))


def _computed(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """The call as a compiled function makes it. It is compiled for itself, so that no earlier call decides anything."""

    def call(args: Any, kwargs: Any) -> Any:
        return function(*args, **kwargs)

    run = cutaway.compile(call, backend="eager", dynamic=False)
    return _each(np.ndarray, lambda a: a.view(ndarray), run(_plain(args), _plain(kwargs)))


def _plain(tree: Any) -> Any:
    """Tensors and our arrays as plain arrays of NumPy's."""
    arrays = _each(Tensor, lambda tensor: tensor.detach().numpy(), tree)
    return _each(np.ndarray, lambda array: array.view(np.ndarray), arrays)


def _each(kind: Any, change: Callable[[Any], Any], tree: Any) -> Any:
    if isinstance(tree, kind):
        return change(tree)
    if type(tree) in (list, tuple):
        return type(tree)(_each(kind, change, item) for item in tree)
    if type(tree) is dict:
        return {key: _each(kind, change, item) for key, item in tree.items()}
    return tree


class _Function:
    """A function of NumPy's; what else it has (`np.add.reduce`) is NumPy's own."""

    def __init__(self, real: Callable[..., Any]) -> None:
        functools.update_wrapper(self, real, updated=())
        self.real = real

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return _computed(self.real, *args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.real, name)

    def __repr__(self) -> str:
        return f"<torch._numpy's {self.real!r}>"


class _Namespace(ModuleType):
    """The names of a module of NumPy's; its functions are computed by Cutaway."""

    def __init__(self, name: str, source: Any) -> None:
        super().__init__(name, f"Cutaway's {name}")
        self.__dict__["_source"] = source

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        found = getattr(self._source, name)
        if isinstance(found, ModuleType):
            found = _Namespace(f"{self.__name__}.{name}", found)
        elif callable(found) and not isinstance(found, type):
            found = _Function(found)
        self.__dict__[name] = found
        return found

    def __dir__(self) -> list[str]:
        return dir(self._source)


def module() -> ModuleType:
    """torch._numpy."""
    made = _Namespace("torch._numpy", np)
    made.__dict__["ndarray"] = ndarray
    return made
