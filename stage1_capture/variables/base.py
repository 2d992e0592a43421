"""Abstract values: what the symbolic interpreter holds where Python would hold an object, and what each can be asked.

Input: variables/builder.py makes one from a real object and the Source that reaches it; opcodes and calls make the
rest. A value with `source` comes from outside the function and must not be changed; one without was made
inside. `Variable` has the questions, named as in Dynamo; a kind of value is one file, which has its answers.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn, dataclass_transform

from stage1_capture.state.hints import code_of
from stage1_capture.state.machine import (
    CALLED,
    METHODS,
    SPECIAL_METHODS,
    Args,
    Kwargs,
    Raised,
    Tx,
    spread,
)
from stage1_capture.state.polyfills import items_backwards, items_by_index
from stage_contracts.class_lookup import full_name
from stage_contracts.source import AttrSource, Source

SEQUENCES = (list, tuple, deque)  # families of items in a row
BIRTHS = itertools.count()


def same_object(self: Any, tx: Tx, other: Variable) -> bool | None:
    """`same_as` of kinds whose values are known by the very object."""
    alike = self.real is not None and self.real is getattr(other, "real", None) and not other.is_tensor()
    return True if alike else None


def yes(self: Any) -> bool:
    return True


def no(self: Any) -> bool:
    return False


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class _Dataclass:
    """Each class derived from it is a dataclass, whose objects are compared by identity."""

    def __init_subclass__(cls) -> None:
        dataclass(eq=False)(cls)


class Variable(_Dataclass):
    """A value."""

    _: KW_ONLY
    source: Source | None = None
    trusted: bool = False  # an object of the library, without a source: read without a guard, never written
    born: int = field(default_factory=BIRTHS.__next__, repr=False)  # later than all that were there before it
    part_of: Any = None  # of what an object is made of (its dict, the list it derives from): the object
    stands_for: ClassVar[Any] = None  # the class of all objects of this kind, where there is one
    # the fields with the values inside it: None, a value, a list, a dict
    holds: ClassVar[tuple[str, ...]] = ()

    if TYPE_CHECKING:
        # A kind's fields are read where a question has told the kind (`value.is_tensor()`, `value.family() is dict`).
        # mypy narrows by isinstance only, which would name the kinds everywhere: the protocol is there to avoid that.
        def __getattr__(self, name: str) -> Any: ...

    # Questions of yes and no: a kind of which it is true has the line `is_tensor = yes`.
    is_array = no
    is_tensor = no
    has_data = no  # a tensor or an array, of which only the meta is known
    is_none = no
    is_open = no  # a number that the graph need not know
    is_python_constant = no  # a constant as such, no container of some
    is_immutable = no  # it may be computed with, when it is known
    is_plain_data = no  # it binds nothing where it is found in a class
    is_compared_by_identity = no
    is_foreign_iterator = (
        no  # a real iterator of Python's, in whatever state: only Python can take its next item
    )

    def python_type(self, tx: Tx) -> type:
        """The class of the object it stands for."""
        if self.stands_for is None:
            tx.unsupported("GB0048", f"the class of {self.describe()}")
        return self.stands_for

    # ---- attributes --------------------------------------------------------------------------------------

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        """`value.name`, or None when it is not there (guarded, where a later call could find it)."""
        tx.unsupported("GB0022", f"the attribute {name} of {self.describe()}")

    def store_attribute(self, tx: Tx, name: str, value: Variable) -> None:
        """`value.name = other`."""
        tx.unsupported("GB0006", f"an assignment to the attribute {name} of {self.describe()}")

    def special_method(self, tx: Tx, name: str) -> Variable | None:
        """The method Python calls for an operation (`__add__`, `__call__`): looked up on the class only."""
        return None

    def ask(self, tx: Tx, name: str, *args: Variable) -> Any:
        """What the special method answers; None where the class has none."""
        method = self.special_method(tx, name)
        return None if method is None else tx.call(method, list(args), {})

    def lacks(self, name: str) -> str:
        """Python's message for an attribute that is not there."""
        return f"{self.class_name()!r} object has no attribute {name!r}"

    def class_name(self) -> str:
        return full_name(getattr(self, "kind", type(self)))

    def class_place(self) -> Source | None:
        """Where the class of an object is found: of one made inside, where the program found it."""
        return None if self.source is None else AttrSource(self.source, "__class__")

    def child(self, *names: str) -> AttrSource | None:
        """The source of value.name, value.name.other, ...; None where the value has none."""
        source: Any = self.source
        for name in names:
            source = source and AttrSource(source, name)
        return source

    # ---- calls -------------------------------------------------------------------------------------------

    def call_function(self, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
        """`value(*args, **kwargs)`."""
        if type(self) in CALLED:
            return CALLED[type(self)](tx, self, args, kwargs)
        tx.unsupported(code_of(getattr(self, "real", None)), f"a call of {self.describe()}")

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> Variable:
        """A method that the object has from a class of Python's: the tables have them by kind and name."""
        method = next((METHODS[c, name] for c in type(self).__mro__ if (c, name) in METHODS), None)
        if method is not None:
            return method(tx, [self, *args], kwargs)
        if name in SPECIAL_METHODS and self.has_special_method(args):
            return spread(SPECIAL_METHODS[name], name)(tx, [self, *args], kwargs)
        return self.call_other_method(tx, name, args, kwargs)

    def has_special_method(self, args: Args) -> bool:
        """Whether a special method is followed here, rather than called on a constant."""
        return True

    def call_other_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> Variable:
        """A method that no table has."""
        tx.unsupported("GB0071", f"a call of the method {name} of {self.describe()}")

    # ---- truth, items, walking ---------------------------------------------------------------------------

    def truth(self, tx: Tx) -> bool:
        """`bool(value)`, which must be known now."""
        return True

    def length(self, tx: Tx) -> Variable:
        """`len(value)`."""
        return self.ask(tx, "__len__") or tx.fold(len, [self], {})

    def contains(self, tx: Tx, item: Variable) -> bool:
        """`item in value`."""
        tx.unsupported("GB0040", f"in {self.describe()}")

    def subscript(self, tx: Tx, key: Variable) -> Variable:
        """`value[key]`."""
        return self.ask(tx, "__getitem__", key) or tx.unsupported("GB0040", f"an item of {self.describe()}")

    def store_subscript(self, tx: Tx, key: Variable, value: Variable) -> None:
        """`value[key] = other`."""
        if self.ask(tx, "__setitem__", key, value) is None:
            tx.unsupported("GB0100", f"an assignment to an item of {self.describe()}")

    def delete_subscript(self, tx: Tx, key: Variable) -> None:
        """`del value[key]`."""
        tx.unsupported("GB0100", f"a del of an item of {self.describe()}")

    def iterator(self, tx: Tx) -> Variable:
        """`iter(value)`."""
        found = self.ask(tx, "__iter__")
        if found is None and self.special_method(tx, "__getitem__") is not None:
            return tx.call(tx.wrap(items_by_index, None), [self], {})
        if found is None:
            self.refuse_walk(tx)
        made = realize(found)
        if not made.is_iterator(tx):
            tx.throw(TypeError, f"iter() returned non-iterator of type {made.python_type(tx).__name__!r}")
        return made

    def refuse_walk(self, tx: Tx) -> NoReturn:
        tx.unsupported("GB0039", f"a loop over {self.describe()}")

    def is_iterator(self, tx: Tx) -> bool:
        return self.special_method(tx, "__next__") is not None

    def next_variable(self, tx: Tx) -> Variable | None:
        """The next item of an iterator, None at its end."""
        try:
            return self.ask(tx, "__next__") or tx.unsupported("GB0039", f"next of {self.describe()}")
        except Raised as raised:
            if not isinstance(raised.value.real, StopIteration):
                raise
            tx.resume_here()
            return None

    def reversed(self, tx: Tx) -> Variable:
        """`reversed(value)`."""
        found = self.ask(tx, "__reversed__")
        if found is None and self.special_method(tx, "__getitem__") and self.special_method(tx, "__len__"):
            return tx.call(tx.wrap(items_backwards, None), [self, self.length(tx)], {})
        return found or tx.unsupported("GB0039", f"reversed of {self.describe()}")

    # ---- operators (variables/arithmetic.py) ----------------------------------------------------------------

    def operand_class(self) -> type | None:
        """The class of an operand, where it matters who is asked first."""
        return None

    def merged(self, tx: Tx, symbol: str, right: Variable) -> Variable | None:
        """`value | right` of two dicts, before any method of theirs is asked; None for all else."""
        return None

    def binary_in_place(self, tx: Tx, symbol: str, right: Variable) -> Variable | None:
        """`value += right` where that changes the value; None where it is as `value + right`."""
        return None

    def binary(self, tx: Tx, symbol: str, function: Callable[..., Any], right: Variable) -> Variable | None:
        """`value + right` of containers; None where methods decide."""
        return None

    def reflected(self, tx: Tx, symbol: str, function: Callable[..., Any], left: Variable) -> Variable | None:
        """`left + value` of containers, where the left operand knows nothing."""
        return None

    def family(self) -> Any:
        """Containers of one family compare with each other: by their items, keys and values, or elements."""
        return None

    def compare_contents(self, tx: Tx, symbol: str, function: Callable[..., Any], right: Any) -> Variable:
        """A comparison within the family, of contents that are not all constants."""
        raise NotImplementedError

    def elements(self, tx: Tx) -> set[Any] | None:
        """Its elements, as an operand of a set operation."""
        return None

    def union_member(self) -> tuple[Any, ...]:
        """The class that it is in `int | None`, whose `|` is Python's; else nothing."""
        return ()

    def defines(self, name: str) -> bool:
        """Whether its class has a comparison of its own."""
        return False

    def same_as(self, tx: Tx, other: Variable) -> bool | None:
        """`value is other`, of two that are not the same variable; None where only guards can tell."""
        return None

    def ask_length(self, tx: Tx) -> None:
        """The length that list() and tuple() ask for before they iterate."""

    # ---- what it is --------------------------------------------------------------------------------------

    def parts(self) -> list[Variable]:
        """The values inside it, as far as making it again needs them."""
        held = (getattr(self, name) for name in self.holds)
        rows = (v.values() if isinstance(v, dict) else v if isinstance(v, list) else [v] for v in held)
        return [value for row in rows for value in row if value is not None]

    def type_word(self, tx: Tx) -> Any:
        """What it is between the brackets of `list[...]`."""
        return tx.constant(self, "a type")

    def tensors(self) -> list[Any]:
        """The tensors in it, as far as it is one or nests some."""
        return []

    def mapped(self, change: Callable[[Variable], Variable]) -> Variable:
        """Such a container of what `change` makes of each item; anything else is itself."""
        return self

    def as_proxy(self, leaf: Callable[[Any], Any], refuse: Callable[[Variable], NoReturn]) -> Any:
        """An argument of a node or of a meta rule, `leaf` of each tensor in it."""
        refuse(self)

    def known_object(self) -> Any:
        """The object that it is known by: a class, a module, an instance."""
        return None

    def row(self) -> list[Variable]:
        """The items of a tuple, or the one value that stands for them."""
        return [self]

    def will_change(self, tx: Tx, what: str) -> None:
        """To be called before it is changed: the caller sees a change to one from outside."""
        tx.output.will_change(self)

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
        """What stands for it as the key of a dict: a constant, or an `ObjectKey` (variables/hash_keys.py)."""
        constant = tx.constant(self, "a key")
        try:
            hash(constant)
        except TypeError as error:
            tx.throw(TypeError, *error.args)
        return constant

    def describe(self) -> str:
        """What messages call it."""
        return "a " + type(self).__name__.removesuffix("Variable").removeprefix("Const").lower()


class LazyVariable(Variable):
    """A value from outside that nobody has looked at yet, so that no guard is needed so far."""

    build: Callable[[], Variable]
    value: Variable | None = None
    real: Any = None  # the object, for who only asks what would become of it


class NullVariable(Variable):
    """What CALL finds below its callable when there is no self."""


NULL = NullVariable()


class NotConstant(Exception):
    """as_constant met a value that is known only when the graph runs, or an object."""


def realize(variable: Variable) -> Variable:
    """The value itself; a lazy one is looked at now, and guarded."""
    if type(variable) is LazyVariable:
        if variable.value is None:
            variable.value = variable.build()
        return variable.value
    return variable


def as_constant(variable: Variable) -> Any:
    return realize(variable).as_constant()


def load_attribute(tx: Tx, value: Variable, name: str) -> Variable:
    """`value.name`. Raises the program's AttributeError when there is no such thing."""
    found = value.var_getattr(tx, name)
    if found is None:
        tx.throw(AttributeError, value.lacks(name), name=from_constant(name), obj=value)
    return found


def lookup_quietly(tx: Tx, value: Variable, name: str) -> Variable | None:
    """`value.name` for who may go without: an AttributeError of a property says that it is not there."""
    try:
        return value.var_getattr(tx, name)
    except Raised as raised:
        if not isinstance(raised.value.real, AttributeError):
            raise
        tx.resume_here()
        return None


def walked(tx: Tx, values: Variable) -> Iterator[Variable]:
    """The items of `values`, each taken when it is asked for."""
    iterator = values.iterator(tx)
    while (item := iterator.next_variable(tx)) is not None:
        yield realize(item)


def iterate(tx: Tx, value: Variable) -> list[Variable]:
    """All items of something that can be walked, of known length."""
    return list(walked(tx, value))


def gathered(tx: Tx, value: Variable) -> list[Variable]:
    """The items as list(), tuple() and `*value` take them."""
    iterator = value.iterator(tx)
    value.ask_length(tx)
    return iterate(tx, iterator)


def is_same(tx: Tx, left: Variable, right: Variable) -> bool:
    """`left is right`. Two objects from outside that differ are guarded to differ."""
    if left is right:
        return True
    known = left.same_as(tx, right)
    if known is not None:
        return known
    if left.source is not None and right.source is not None and type(left) is type(right):
        tx.output.guard("NOT_ALIASED", left.source, right.source)
    return False


def equal(tx: Tx, left: Variable, right: Variable) -> bool:
    """As containers compare what is in them: the same object, or an equal one."""
    return left is right or tx.compare("==", left, right).truth(tx)


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


class ContainerVariable(Variable):
    """`items` are its contents, `kind` the class of the object."""

    items: Any
    is_plain_data = yes

    def python_type(self, tx: Tx) -> type:
        return self.kind

    def operand_class(self) -> type | None:
        return self.kind

    def truth(self, tx: Tx) -> bool:
        return bool(self.items)

    def length(self, tx: Tx) -> Variable:
        return from_constant(len(self.items))

    def snapshot(self) -> Any:
        return self.items.copy()
