"""Abstract values: what the symbolic interpreter holds where Python would hold an object, and what each can be asked.

Input: variables/builder.py makes one from a real object and the Source that reaches it; opcodes and calls make the
rest. A value with `source` comes from outside the function and must not be changed; one without was made
inside. `Variable` has the questions, named as in Dynamo; a kind of value is one file, which has its answers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stage1_capture.state.machine import Tx
from stage_contracts.source import Source

BIRTHS = itertools.count()


@dataclass(eq=False, kw_only=True)
class Variable:
    source: Source | None = None
    trusted: bool = False  # an object of the library, without a source: read without a guard, never written
    born: int = field(default_factory=BIRTHS.__next__, repr=False)  # later than all that were there before it
    part_of: Any = None  # of what an object is made of (its dict, the list it derives from): the object

    def python_type(self, tx: Tx) -> type:
        """The class of the object it stands for."""
        tx.unsupported("GB0048", f"the class of {describe(self)}")

    def unwrapped(self) -> Variable:
        """What it holds, for an object of a class derived from one of Python's; else itself."""
        return self

    def snapshot(self) -> Any:
        """What it holds, kept before the program first writes to it."""
        raise AssertionError(f"a write to {self}")

    def changed_one(self) -> Variable:
        """What a write to it changes."""
        return self

    def as_constant(self) -> Any:
        """The Python value of a constant, or of a container or slice of constants. Raises NotConstant."""
        raise NotConstant(self)

    def hash_key(self, tx: Tx) -> Any:
        """What stands for it as the key of a dict: a constant, or an `ObjectKey` (variables/keys.py)."""
        constant = tx.constant(self, "a key")
        try:
            hash(constant)
        except TypeError as error:
            tx.throw(TypeError, *error.args)
        return constant

    def describe(self) -> str:
        """What a message calls it."""
        return "a " + type(self).__name__.removesuffix("Variable").removeprefix("Const").lower()


@dataclass(eq=False)
class LazyVariable(Variable):
    """A value from outside that nobody has looked at yet, so that no guard is needed so far."""

    build: Callable[[], Variable]
    value: Variable | None = None
    real: Any = None  # the object, for who only asks what would become of it


@dataclass(eq=False)
class IteratorVariable(Variable):
    """Base class of iterators: variables/iterator.py has one for each kind that Python has.

    `advance(tx)` gives the next value, or None at the end.
    """

    def advance(self, tx: Any) -> Variable | None:
        raise NotImplementedError


class NullVariable(Variable):
    """What CALL finds below its callable when there is no self."""


NULL = NullVariable()


class NotConstant(Exception):
    """as_constant met a value that is known only when the graph runs, or an object."""


def realize(variable: Variable) -> Variable:
    """The value itself; a lazy one is looked at now, and guarded."""
    if isinstance(variable, LazyVariable):
        if variable.value is None:
            variable.value = variable.build()
        return variable.value
    return variable


def as_constant(variable: Variable) -> Any:
    return realize(variable).as_constant()


def describe(variable: Variable) -> str:
    return variable.describe()


# What a value that Python code made is as a variable: of exactly this class, or of a class derived from it.
FROM_CONSTANT: dict[type, Callable[[Any], Variable]] = {}
FROM_CONSTANT_BY_CLASS: dict[type, Callable[[Any], Variable]] = {}


def from_constant(value: Any) -> Variable:
    """A value that Python code made while folding, as a variable without a source."""
    make = FROM_CONSTANT.get(type(value))
    if make is None:
        make = next(
            (FROM_CONSTANT_BY_CLASS[c] for c in type(value).__mro__ if c in FROM_CONSTANT_BY_CLASS), None
        )
    assert make is not None
    return make(value)
