"""The `__dict__` of an object as a value: what the program reads and stores there it reads and stores on the object.

Input: an abstract object whose attributes lie in a dict. Reading one costs its own guard; walking over all of them
costs one on the names.
"""

from __future__ import annotations

import types
from collections.abc import Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from stage0_eager.nn import Module
from stage1_capture.state.graph_builder import OutputGraph, is_library_class
from stage1_capture.variables.base import Variable
from stage1_capture.variables.binding import (
    guard_class,
    guard_getters,
    guard_plain,
    guard_present,
    guard_storing,
)
from stage1_capture.variables.builder import REGISTRIES, lazily
from stage1_capture.variables.mapping import ObjectDictVariable
from stage_contracts.class_lookup import MISSING, class_lookup
from stage_contracts.source import AttrSource, ItemSource, Source

if TYPE_CHECKING:
    from stage1_capture.variables.user_object import UserDefinedObjectVariable


def dict_of(output: OutputGraph, owner: UserDefinedObjectVariable) -> ObjectDictVariable:
    """`owner.__dict__`, the same one each time."""
    if owner.namespace is None:
        owner.namespace = ObjectDictVariable(ObjectDict(output, owner), part_of=owner)  # type: ignore[arg-type]
    return owner.namespace


def own_dict(real: Any) -> dict[str, Any]:
    """The `__dict__` of a real object, past any code of its class; empty where it has none."""
    try:
        found = object.__getattribute__(real, "__dict__")
    except AttributeError:
        return {}
    return found if isinstance(found, dict) else {}


def refuse_second_way(output: OutputGraph, real: Any) -> None:
    """After a break the program may hold an object's `__dict__` as a dict of its own, and change it there."""
    known = output.known.get(id(own_dict(real)))
    if known is not None and id(known) in output.effects.changed:
        output.unsupported("GB0051", "an attribute of an object whose __dict__ the program changed as a dict")


def described(cls: type, name: str) -> bool:
    """Whether storing `name` on an instance asks the class: a property, a descriptor with `__set__` or `__delete__`."""
    found = class_lookup(cls, name)
    slot = found is MISSING or isinstance(found, types.MemberDescriptorType)
    return not slot and any(class_lookup(type(found), n) is not MISSING for n in ("__set__", "__delete__"))


def read_by_class(cls: type, name: str) -> bool:
    """Whether reading it asks the class before the object's own dict: the descriptor has a `__get__` too."""
    return described(cls, name) and class_lookup(type(class_lookup(cls, name)), "__get__") is not MISSING


def attribute_source(output: OutputGraph, owner: UserDefinedObjectVariable, name: str) -> Source | None:
    if owner.source is None:
        return None
    cls = type(owner.real)
    guard_getters(output, owner)
    guard_plain(output, owner, name)
    guard_present(output, owner, name)
    child: Source = AttrSource(owner.source, name)
    slot = isinstance(class_lookup(cls, name), types.MemberDescriptorType)
    if (
        slot
        or read_by_class(cls, name)
        or isinstance(class_lookup(cls, "__getattribute__"), types.FunctionType)
    ):
        child = ItemSource(AttrSource(owner.source, "__dict__"), name)
    own = name in REGISTRIES or name == "training" or is_library_class(cls)
    if issubclass(cls, Module) and own:  # what else lies there is written past Module.__setattr__ too
        output.epoch_sources.add(child)
    return child


class ObjectDict(MutableMapping):
    """What `ConstDictVariable.items` is for the `__dict__` of an object."""

    def __init__(self, output: OutputGraph, owner: UserDefinedObjectVariable) -> None:
        self.output, self.owner = output, owner

    @property
    def _own(self) -> dict[str, Any]:
        return {} if self.owner.fresh else own_dict(self.owner.real)

    def _stored(self) -> dict[str, Variable | None]:
        """What the program stored there: not in slots."""
        cls = type(self.owner.real)
        return {
            name: value
            for name, value in self.owner.attrs.items()
            if not isinstance(class_lookup(cls, name), types.MemberDescriptorType)
        }

    def __getitem__(self, name: Any) -> Variable:
        stored = self._stored()
        if name in stored:
            if (value := stored[name]) is None:
                raise KeyError(name)
            return value
        if name in self._own:
            return lazily(self.output, self._own[name], attribute_source(self.output, self.owner, name))
        self._guard("ABSENT_KEY", name)
        raise KeyError(name)

    def __contains__(self, name: Any) -> bool:
        stored = self._stored()
        if name in stored:
            return stored[name] is not None
        if name in self._own:
            self._guard("KEYS", tuple(self._own))
            return True
        self._guard("ABSENT_KEY", name)
        return False

    def __setitem__(self, name: Any, value: Variable) -> None:
        self._refuse_slot(name)
        guard_class(self.output, self.owner, name)
        guard_storing(self.output, self.owner, "__setattr__")
        if self.owner.attrs.get(name, value) is None:  # deleted before: it is last now
            del self.owner.attrs[name]
            self.owner.again.add(name)
        self.owner.attrs[name] = value

    def __delitem__(self, name: Any) -> None:
        if name not in self:
            raise KeyError(name)
        self._refuse_slot(name)
        guard_class(self.output, self.owner, name)
        guard_storing(self.output, self.owner, "__delattr__")
        if self.deletes(name):
            self.owner.attrs[name] = None
        else:
            del self.owner.attrs[name]

    def deletes(self, name: str) -> bool:
        """Whether there is something to delete when the frame ends, or only what the program stored; guarded, for a
        name that was stored first was never looked for."""
        if self.owner.fresh:
            return False
        there = name in self._own
        if self.owner.source is not None:  # nothing tells the epoch of what a `__dict__` loses
            keys = tuple(self._own) if there else name
            place = AttrSource(self.owner.source, "__dict__")
            self.output.guard("KEYS" if there else "ABSENT_KEY", place, keys)
        return there

    def _refuse_slot(self, name: str) -> None:
        """An object has two things of one name where its class has a slot, or a module such a parameter: `attrs` holds
        one."""
        if isinstance(class_lookup(type(self.owner.real), name), types.MemberDescriptorType):
            self.output.unsupported("GB0051", f"a change of {name} in a __dict__ beside the slot {name}")
        if isinstance(self.owner.real, Module) and any(name in self._own.get(r, ()) for r in REGISTRIES[:3]):
            self.output.unsupported(
                "GB0051", f"a change of {name} in a __dict__ beside the registered {name}"
            )

    def __iter__(self) -> Iterator[str]:
        self._guard("KEYS", tuple(self._own))
        stored = self._stored()
        yield from [n for n in self._own if stored.get(n, n) is not None]
        yield from [n for n, value in stored.items() if value is not None and n not in self._own]

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _guard(self, kind: str, expected: Any) -> None:
        if not self.owner.fresh and self.owner.source is not None:
            place = AttrSource(self.owner.source, "__dict__")
            # a user-defined class may write past __setattr__
            trusted = isinstance(self.owner.real, Module) and is_library_class(type(self.owner.real))
            self.output.guard(kind, place, expected, trusted)
