"""`__torch_function__`: a class of arguments that answers calls of the language's functions itself.

Input: calls of operators. Until a program makes such a class, no call asks for one: `enable` puts the question into
Operator.__call__. NumPy's `__array_function__` (NEP 18) is the idea; the order of the classes is its too.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor
from stage_contracts.dtype import DType

NOT_OVERRIDDEN = object()
_CALL = Operator.__call__
_PLAIN = {Tensor, int, float, bool, str, type(None), DType}


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


def overriding_types(args: tuple, kwargs: dict[str, Any]) -> list[type]:
    """The classes among the arguments that override functions, each once: subclasses first, then left to right."""
    found: list[type] = []
    kinds = {type(arg) for arg in args} | {type(arg) for arg in kwargs.values()}
    if kinds <= _PLAIN:  # the common case, without the walk below
        return found
    for leaf in leaves((args, kwargs)):
        kind = type(leaf)
        if kind not in found and kind is not Tensor and hasattr(kind, "__torch_function__"):
            at = next((i for i, other in enumerate(found) if issubclass(kind, other)), len(found))
            found.insert(at, kind)
    return found


def answer(function: Any, args: tuple, kwargs: dict[str, Any]) -> Any:
    """What the first class with an answer gives; NOT_OVERRIDDEN if no argument's class overrides functions.

    Raises TypeError if every such class gives NotImplemented.
    """
    types = overriding_types(args, kwargs)
    for kind in types:
        result = kind.__torch_function__(function, tuple(types), args, kwargs)  # type: ignore[attr-defined]
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
    result = answer(self, args, kwargs)
    return _CALL(self, *args, **kwargs) if result is NOT_OVERRIDDEN else result


def enable() -> None:
    """From here on, operators ask their arguments' classes."""
    if Operator.__call__ is not _call:
        Operator.__call__ = _call  # type: ignore[method-assign]
