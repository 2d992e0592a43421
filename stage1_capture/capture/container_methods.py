"""Methods of lists, dicts and iterators, applied to the abstract items.

Input: the receiver is args[0]. A method that changes its receiver needs one that was made inside.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage1_capture.capture.builtin_functions import dict_, next_
from stage1_capture.capture.calls import METHODS, Args, Builtin, Kwargs, attempt, iterate, must_be_local
from stage1_capture.capture.symbolic_convert import InstructionTranslator
from stage1_capture.capture.variables import (
    NONE,
    ConstDictVariable,
    DictViewVariable,
    IteratorVariable,
    ListVariable,
    TupleVariable,
    Variable,
    from_constant,
)

Tx = InstructionTranslator

# ---- methods of containers -----------------------------------------------------------------------


def _on_items(name: str, *, changes: bool) -> Builtin:
    """A method that Python's own list or dict has, applied to the items."""

    def call(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
        receiver, *rest = args
        assert isinstance(receiver, (ListVariable, ConstDictVariable))
        if changes:
            must_be_local(tx, receiver, f"the method {name}")
        keyed = isinstance(receiver, ConstDictVariable) or name in ("pop", "insert")
        words: list[Any] = [tx.constant(w, name) if keyed and i == 0 else w for i, w in enumerate(rest)]
        found = attempt(tx, name, lambda: getattr(receiver.items, name)(*words, **kwargs))
        return NONE if found is None else found if isinstance(found, Variable) else type(receiver)(found)

    return call


def _extend(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    must_be_local(tx, args[0], "the method extend")
    args[0].items.extend(iterate(tx, args[1]))  # type: ignore[attr-defined]
    return NONE


def _update(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    must_be_local(tx, args[0], "the method update")
    args[0].items.update({**dict_(tx, *args[1:]).items, **kwargs})  # type: ignore[attr-defined]
    return NONE


def _view(pick: Callable[[Any, Variable], Variable]) -> Builtin:
    def call(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
        assert isinstance(args[0], ConstDictVariable)
        return DictViewVariable(args[0], pick)

    return call


VIEWS: dict[str, Callable[[Any, Variable], Variable]] = {
    "keys": lambda key, value: from_constant(key),
    "values": lambda key, value: value,
    "items": lambda key, value: TupleVariable([from_constant(key), value]),
}

METHODS.update(
    {(ListVariable, n): _on_items(n, changes=True) for n in ("append", "insert", "pop", "reverse", "clear")}
)
METHODS.update({(ConstDictVariable, n): _on_items(n, changes=True) for n in ("pop", "setdefault", "clear")})
METHODS.update(
    {(kind, "copy"): _on_items("copy", changes=False) for kind in (ListVariable, ConstDictVariable)}
)
METHODS.update({(ConstDictVariable, name): _view(pick) for name, pick in VIEWS.items()})
METHODS[ConstDictVariable, "get"] = _on_items("get", changes=False)
METHODS[ListVariable, "extend"] = _extend
METHODS[ConstDictVariable, "update"] = _update
METHODS[IteratorVariable, "__next__"] = lambda tx, args, kwargs: next_(tx, *args)
