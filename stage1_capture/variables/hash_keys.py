"""Keys of dicts and elements of sets: Python's constants are themselves, an object stands for itself as an ObjectKey.

Input: abstract values that the program uses as keys; each says by `hash_key` what stands for it.
"""

from __future__ import annotations

from dataclasses import field
from itertools import chain
from typing import Any

from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import FROM_CONSTANT, Variable, from_constant, is_same, realize, yes
from stage_contracts.source import RegisteredSource


class ObjectKey:
    """An object as a key of a dict or an element of a set: it is equal to what has the same `identity`."""

    __slots__ = ("identity", "variable")

    def __init__(self, variable: Variable, identity: Any) -> None:
        self.variable, self.identity = variable, identity

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKey) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)


FROM_CONSTANT[ObjectKey] = lambda value: realize(value.variable)


def holds_object(key: Any) -> bool:
    """Whether a key is or has an object, so that Python's own operations on it say nothing."""
    return isinstance(key, ObjectKey) or (isinstance(key, tuple) and any(map(holds_object, key)))


def object_keys(keys: Any) -> list[Variable]:
    """The objects among keys."""
    return [from_constant(key) for key in keys if holds_object(key)]


def hashable(tx: Tx, key: Variable) -> Any:
    """What stands for the key in a Python dict: a constant, or an ObjectKey."""
    return realize(key).hash_key(tx)


def by_identity(tx: Tx, key: Variable) -> ObjectKey:
    """Objects from outside that are different keys here must be different ones at every call."""
    if key.source is not None:
        keys = tx.output.keys
        numbered = isinstance(key.source, RegisteredSource)
        place = key.source if numbered else None
        if key not in keys.get(place, ()):
            # two numbers of the register are two objects
            beside = (keys.get(None, {}), keys.get(place, {})) if numbered else keys.values()
            for other in chain.from_iterable(beside):
                if type(other) is type(key):
                    tx.output.guard("NOT_ALIASED", key.source, other.source)
            keys.setdefault(place, {})[key] = None
    return ObjectKey(key, id(key))


class IdVariable(Variable):
    """id(of): only ever compared, or a key. That of an object which is guarded to be the very same is its number, which
    a dict from outside may have as a key."""

    of: Variable = field(default_factory=Variable)
    is_compared_by_identity = yes

    def same_as(self, tx: Tx, other: Variable) -> bool | None:
        return is_same(tx, self.of, other.of) if isinstance(other, IdVariable) else None

    def hash_key(self, tx: Tx) -> Any:
        key = by_identity(tx, self.of)
        if ("IDENTITY", self.of.source, None) in tx.output.guards:
            return id(self.of.known_object())
        return ObjectKey(self, ("id", key.identity))
