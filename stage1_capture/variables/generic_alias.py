"""Classes with types in brackets: `list[int]`, `Generic[T]`, `typing.Optional[int]`.

Input: an abstract class or form and what is in the brackets. It is made now, by Python.
"""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING, Any

from stage1_capture.state.graph_builder import is_users
from stage1_capture.state.machine import Tx
from stage1_capture.state.mro import MISSING, class_lookup
from stage1_capture.variables.base import Variable, realize
from stage1_capture.variables.builder import object_of

if TYPE_CHECKING:
    from stage1_capture.variables.user_object import UserDefinedObjectVariable


_FORMS = (type(typing.Optional), type(typing.List), types.GenericAlias, type(typing.List[int]))  # noqa: UP006


def takes_types(real: Any) -> bool:
    """list, a generic class, typing.Optional: what is in brackets says types."""
    generic = isinstance(real, type) and class_lookup(type(real), "__getitem__") is MISSING
    own = class_lookup(real, "__class_getitem__") if generic else MISSING
    own = getattr(own, "__func__", own)
    return isinstance(real, _FORMS) or (generic and own is not MISSING and not is_users(_globals_of(own)))


def _globals_of(function: Any) -> dict[str, Any]:
    return getattr(function, "__globals__", {"__name__": "builtins"})


def parametrised(tx: Tx, generic: UserDefinedObjectVariable, key: Variable) -> Variable:
    keys = [realize(k) for k in key.items] if key.family() is tuple else [key]
    words = [k.type_word(tx) for k in keys]
    made = generic.real[tuple(words) if key.family() is tuple else words[0]]
    return object_of(made)
