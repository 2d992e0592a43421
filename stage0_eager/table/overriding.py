"""`__torch_function__`: a class of arguments that answers calls of the language's functions itself.

Input: calls of operators. Until a program makes such a class, no call asks for one: `enable` puts the question into
Operator.__call__, when a subclass of Tensor is made, and when a call fails on an object of such a class. NumPy's
`__array_function__` (NEP 18) is the idea; the order of the classes is its too.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stage0_eager import tensor as tensor_module
from stage0_eager.nn.module import Parameter
from stage0_eager.table import operator as operator_module
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor, method
from stage_contracts.dtype import DType

NOT_OVERRIDDEN = object()
_CALL = Operator.__call__
_PLAIN = {Tensor, Parameter, int, float, bool, str, type(None), DType}


class _State(threading.local):
    off: bool = False  # no class is asked
    modes: tuple = ()  # the modes of the blocks around, outermost first


STATE = _State()


def leaves(tree: Any) -> Iterator[Any]:
    """What is in nested tuples, lists, dicts and slices."""
    if isinstance(tree, (tuple, list)):
        for part in tree:
            yield from leaves(part)
    elif isinstance(tree, dict):
        for part in tree.values():
            yield from leaves(part)
    elif isinstance(tree, slice):
        yield from leaves((tree.start, tree.stop, tree.step))
    else:
        yield tree


def _overrides(kind: type) -> bool:
    """Whether a class answers: it has the method, and is neither Tensor nor a class of ours derived from it."""
    if issubclass(kind, Tensor):
        return not kind.__module__.startswith("stage0_eager.")
    return hasattr(kind, "__torch_function__")


def overriding_types(args: tuple, kwargs: dict[str, Any]) -> list[type]:
    """The classes among the arguments that override functions, each once: subclasses first, then left to right."""
    found: list[type] = []
    kinds = {type(arg) for arg in args} | {type(arg) for arg in kwargs.values()}
    if kinds <= _PLAIN:  # the common case, without the walk below
        return found
    for leaf in leaves((args, kwargs)):
        kind = type(leaf)
        if kind not in found and kind not in _PLAIN and _overrides(kind):
            at = next((i for i, other in enumerate(found) if issubclass(kind, other)), len(found))
            found.insert(at, kind)
    return found


def answer(function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What the first class with an answer gives; NOT_OVERRIDDEN if no argument's class overrides functions.

    Raises TypeError if every such class gives NotImplemented.
    """
    types = overriding_types(args, kwargs)
    if STATE.modes:
        mode, STATE.modes = STATE.modes[-1], STATE.modes[:-1]
        try:
            return mode.__torch_function__(function, tuple(types), args, kwargs)
        finally:
            STATE.modes = (*STATE.modes, mode)
    for kind in types:
        result = kind.__torch_function__(function, tuple(types), args, kwargs)  # type: ignore
        if result is not NotImplemented:
            return result
    if types:
        names = ", ".join(kind.__name__ for kind in types)
        raise TypeError(
            f"no implementation found for '{getattr(function, '__name__', function)}' on types that implement "
            f"__torch_function__: [{names}]"
        )
    return NOT_OVERRIDDEN


def _call(self: Operator, *args: Any, **kwargs: Any) -> Any:
    result = NOT_OVERRIDDEN if STATE.off else answer(self, args, kwargs)
    return _CALL(self, *args, **kwargs) if result is NOT_OVERRIDDEN else result


def enable() -> None:
    """From here on, operators ask their arguments' classes."""
    if Operator.__call__ is not _call:
        Operator.__call__ = _call  # type: ignore[method-assign]


@contextmanager
def disabled() -> Iterator[None]:
    """In this block no class is asked: subclasses of Tensor are tensors."""
    before, STATE.off = STATE.off, True
    try:
        yield
    finally:
        STATE.off = before


def _asked_after_failing(function: Operator, args: tuple, kwargs: dict[str, Any]) -> Any:
    """For a call that failed: the answer of an argument's class, if there is one; it is asked first from now on."""
    if STATE.off or not overriding_types(args, kwargs):
        return NOT_OVERRIDDEN
    enable()
    return answer(function, args, kwargs)


operator_module.ANSWERS.append(_asked_after_failing)
tensor_module.ON_SUBCLASS.append(lambda cls: enable() if _overrides(cls) else None)


class TorchFunctionMode:
    """`with mode:` every call of an operator in the block goes to mode.__torch_function__, in which it is off."""

    def __torch_function__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        raise NotImplementedError(f"{type(self).__name__} must define __torch_function__")

    def __enter__(self) -> Any:
        enable()
        STATE.modes = (*STATE.modes, self)
        return self

    def __exit__(self, *_: object) -> None:
        STATE.modes = STATE.modes[:-1]


# ---- subclasses of Tensor ------------------------------------------------------------------------------------------


def _torch_function(
    cls: type, func: Any, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
) -> Any:
    """What a subclass does that defines nothing: the function, with tensors in its result made objects of the class.

    Raises TypeError for a function of PyTorch.
    """
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    if _of_pytorch(func):  # it would ask this class again, without end
        raise TypeError(
            f"PyTorch's own `{getattr(func, '__name__', func)}` was given a tensor of Cutaway, whose data it cannot "
            "read; call Cutaway's function of that name, or give PyTorch its own tensor: torch.from_numpy(x.numpy())"
        )
    with disabled():
        return as_class(func(*args, **kwargs or {}), cls)


def _of_pytorch(func: Any) -> bool:
    """Whether a function is PyTorch's: it asks the classes of its arguments as the language's functions do."""
    owner = getattr(func, "__objclass__", func)  # of a method
    return str(getattr(owner, "__module__", "")).partition(".")[0] == "torch"


Tensor.__torch_function__ = classmethod(_torch_function)  # type: ignore


def as_class(result: Any, cls: type) -> Any:
    """The result with its tensors made objects of a subclass."""
    if isinstance(result, Tensor):
        return as_subclass(result, cls) if type(result) is Tensor and cls is not Tensor else result
    if isinstance(result, (tuple, list)):
        parts = [as_class(part, cls) for part in result]
        return type(result)(*parts) if hasattr(result, "_fields") else type(result)(parts)
    return result


@method
def as_subclass(self: Tensor, cls: type) -> Any:
    """The same data and history as an object of a subclass of Tensor, without calling its __init__.

    Raises TypeError for a class that is none.
    """
    if not issubclass(cls, Tensor):
        raise TypeError(f"as_subclass(): argument 'cls' must be a subclass of Tensor, not {cls.__name__}")
    with disabled():
        made = self.view_as(self)
    made.__class__ = cls
    return made


def _make_subclass(cls: type, data: Tensor, require_grad: bool = False) -> Any:
    """An object of `cls` with the data of a tensor, and no history."""
    with disabled():
        made = data.detach()
    made.__class__ = cls
    made.requires_grad = require_grad
    return made


Tensor._make_subclass = staticmethod(_make_subclass)  # type: ignore
