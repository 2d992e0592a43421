"""Abstract values: what the symbolic interpreter holds where Python would hold an object. Named as in Dynamo.

Input: variables/builder.py makes one from a real object and the Source that reaches it; opcodes and calls make the
rest. A value with `source` comes from outside the function and must not be changed; one without was made
inside.
"""

from __future__ import annotations

import enum
import functools
import itertools
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor
from stage1_capture.state.machine import Tx
from stage1_capture.state.mro import made_inside
from stage_contracts.graph import Node
from stage_contracts.source import Source
from stage_contracts.symbolic import SymInt
from stage_contracts.tensor_meta import TensorMeta

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


@dataclass(eq=False)
class LazyVariable(Variable):
    """A value from outside that nobody has looked at yet, so that no guard is needed so far."""

    build: Callable[[], Variable]
    value: Variable | None = None
    real: Any = None  # the object, for who only asks what would become of it


@dataclass(eq=False)
class ConstantVariable(Variable):
    """A number, string, None, dtype, device, range: an immutable value the graph is specialised on."""

    value: Any

    def python_type(self, tx: Tx) -> type:
        return type(self.value)


@dataclass(eq=False)
class TensorVariable(Variable):
    """A tensor: its meta, and the node that yields it (for an input, made at first use)."""

    meta: TensorMeta
    node: Node | None = None
    real: Any = None  # the tensor itself, for an input: its identity and class, never its data
    attrs: dict[str, Variable] = field(default_factory=dict)  # what the program stored on it: `grad`

    def python_type(self, tx: Tx) -> type:
        """One from outside may be a Parameter: guarded."""
        if self.real is None:
            return Tensor
        tx.output.guard("TYPE", self.source, type(self.real))
        return type(self.real)


@dataclass(eq=False)
class NumpyNdarrayVariable(Variable):
    """An ndarray of the program's: a tensor in the graph, of which Python sees an array.

    scalar: NumPy has a scalar here, which no write changes. real: the object itself, for an input.
    base: the array whose memory this one may show. frozen: NumPy makes it read-only.
    view: (array, index) of a reversed slice: a copy in the graph, made again as the view it is for Python.
    derived: a view of such a copy, which cannot be made again.
    """

    tensor: TensorVariable
    scalar: bool = False
    real: Any = None
    base: NumpyNdarrayVariable | None = None
    frozen: bool = False
    view: tuple[NumpyNdarrayVariable, Variable] | None = None
    derived: bool = False

    @property
    def root(self) -> NumpyNdarrayVariable:
        return self.base or self

    @property
    def meta(self) -> TensorMeta:
        return self.tensor.meta

    def python_type(self, tx: Tx) -> type:
        return self.meta.dtype.numpy.type if self.scalar else np.ndarray


@dataclass(eq=False)
class TritonLaunchVariable(Variable):
    """`kernel[grid]`, not called yet."""

    kernel: Any
    grid: Variable


@dataclass(eq=False)
class ListVariable(Variable):
    items: list[Variable]

    def python_type(self, tx: Tx) -> type:
        return list


@dataclass(eq=False)
class TupleVariable(Variable):
    items: list[Variable]
    kind: type = tuple  # or a named tuple's class
    class_source: Source | None = None  # where the program found that

    def python_type(self, tx: Tx) -> type:
        return self.kind


@dataclass(eq=False)
class ConstDictVariable(Variable):
    """A dict (or OrderedDict: `kind`) whose keys are constants."""

    items: dict[Any, Variable]
    kind: type = dict

    def python_type(self, tx: Tx) -> type:
        return self.kind


@dataclass(eq=False)
class ObjectDictVariable(ConstDictVariable):
    """The `__dict__` of its owner."""


@dataclass(eq=False)
class IdVariable(Variable):
    """id(of): only ever compared, or a key."""

    of: Variable = field(default_factory=Variable)


@dataclass(eq=False)
class DefaultDictVariable(ConstDictVariable):
    """A defaultdict: `factory` makes what is missing."""

    factory: Variable | None = None


@dataclass(eq=False)
class DequeVariable(ListVariable):
    """A collections.deque."""

    limit: int | None = None

    def python_type(self, tx: Tx) -> type:
        return deque


@dataclass(eq=False)
class PartialVariable(Variable):
    """functools.partial(function, *args, **kwargs)."""

    function: Variable
    args: list[Variable]
    kwargs: dict[str, Variable]

    def python_type(self, tx: Tx) -> type:
        return functools.partial


@dataclass(eq=False)
class SetVariable(Variable):
    """A set (or frozenset: `kind`) of constants. Its order is Python's own, for the elements are."""

    items: set[Any]
    kind: type = set

    def python_type(self, tx: Tx) -> type:
        return self.kind


@dataclass(eq=False)
class DictViewVariable(Variable):
    """d.keys(), d.values(), d.items(): sees later changes of d."""

    mapping: ConstDictVariable
    name: str  # "keys", "values" or "items"

    def pick(self, key: Any, value: Variable) -> Variable:
        """What it shows of a key and its value."""
        if self.name == "values":
            return value
        return from_constant(key) if self.name == "keys" else TupleVariable([from_constant(key), value])

    @property
    def items(self) -> list[Variable]:
        return [self.pick(key, value) for key, value in self.mapping.items.items()]

    def python_type(self, tx: Tx) -> type:
        return type(getattr({}, self.name)())


@dataclass(eq=False)
class SliceVariable(Variable):
    items: list[Variable]  # start, stop, step

    def python_type(self, tx: Tx) -> type:
        return slice


@dataclass(eq=False)
class IteratorVariable(Variable):
    """Base class of iterators: variables/iterator.py has one for each kind that Python has.

    `advance(tx)` gives the next value, or None at the end.
    """

    def advance(self, tx: Any) -> Variable | None:
        raise NotImplementedError


@dataclass(eq=False)
class CellVariable(Variable):
    """A variable shared between functions. One from outside has a source; storing to it is a side effect."""

    contents: Variable | None = None

    def python_type(self, tx: Tx) -> type:
        return types.CellType


@dataclass(eq=False)
class UserFunctionVariable(Variable):
    """A Python function, real or made inside by a def or lambda."""

    code: types.CodeType
    globals: dict[str, Any]
    name: str
    defaults: list[Variable]
    kwdefaults: dict[str, Variable]
    closure: list[CellVariable]
    globals_source: Source | None = None  # how its module's globals are reached again
    real: Any = None
    attrs: dict[str, Variable] = field(default_factory=dict)  # what the program stored on it
    annotations: dict[str, Variable] = field(default_factory=dict)  # of one made inside

    def python_type(self, tx: Tx) -> type:
        return types.FunctionType


@dataclass(eq=False)
class GeneratedFunctionVariable(UserFunctionVariable):
    """A method that a decorator of Python's wrote into a class made inside, where it is found again."""

    owner: Any = None
    attribute: str = ""

    def python_type(self, tx: Tx) -> type:
        tx.unsupported("GB0048", f"the class of {describe(self)}")


@dataclass(eq=False)
class TransformVariable(Variable):
    """`func.grad(f)` or `func.vmap(f)`, not called yet."""

    transform: Callable
    function: Variable
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(eq=False)
class UserMethodVariable(Variable):
    """A callable (function, operator, or the name of a builtin container's method) with its self."""

    function: Variable | str
    receiver: Variable

    def python_type(self, tx: Tx) -> type:
        named = isinstance(self.function, str) and not isinstance(self.receiver, TensorVariable)
        of_c = isinstance(getattr(self.function, "real", None), types.MethodDescriptorType)
        return types.BuiltinFunctionType if named or of_c else types.MethodType


@dataclass(eq=False)
class UserDefinedObjectVariable(Variable):
    """Any other object, known by what it is: a module, a class, a builtin, an operator, a user's instance.

    attrs: what the program stored on it (None: deleted), over what `real` has.
    fresh: made inside. `real` is then an instance of its class without any attribute.
    base: what it holds as an instance of a class of Python's (a dict's items, a string), for a class derived from one.
    """

    real: Any
    attrs: dict[str, Variable | None] = field(default_factory=dict)
    fresh: bool = False
    private: bool = False  # made by the capture for the program, which must not hand it on
    class_source: Source | None = None  # of a fresh one: where its class was found
    base: Any = None
    namespace: Any = None  # its `__dict__`, once the program asked for it
    again: set[str] = field(default_factory=set)  # what it deleted and stored again, which is last then

    def python_type(self, tx: Tx) -> type:
        return type(self.real)


@dataclass(eq=False)
class LocalClassVariable(UserDefinedObjectVariable):
    """A class that the program defined. `real` is its prototype: variables/local_classes.py.

    names: what its body stored, in order; `cell`: what `__class__` and super() find it in.
    attrs: what was stored on it later.
    """

    name: str = ""
    bases: list[Variable] = field(default_factory=list)
    names: dict[str, Variable] = field(default_factory=dict)
    cell: CellVariable | None = None
    options: dict[str, Any] | None = None  # of a dataclass


@dataclass(eq=False)
class WrapperVariable(UserDefinedObjectVariable):
    """A property, classmethod or staticmethod made inside; `real` is one of the stand-ins of `parts`."""

    parts: list[Variable] = field(default_factory=list)


@dataclass(eq=False)
class FieldVariable(UserDefinedObjectVariable):
    """dataclasses.field(**options)."""

    options: dict[str, Variable] = field(default_factory=dict)


@dataclass(eq=False)
class HandleVariable(UserDefinedObjectVariable):
    """What registering a hook returns.

    node: holds the hook of a value computed inside, `tensor`.
    call: what the residual code does for a tensor from outside: the tensor, the method, its arguments.
    """

    node: Node | None = None
    tensor: TensorVariable | None = None
    call: tuple[TensorVariable, str, tuple[Variable, ...]] | None = None


@dataclass(eq=False)
class SuperVariable(Variable):
    """super(): attribute lookup on `receiver` that starts after `owner` in the class order."""

    owner: type
    receiver: Variable


@dataclass(eq=False)
class NestedFunctionVariable(Variable):
    """A user function that is called in Python: its compiled version stands in."""

    function: Variable


@dataclass(eq=False)
class InstructionVariable(Variable):
    """A function of breaks/special_methods.py that is called in place of an instruction, with what the instruction
    says."""

    run: Any
    detail: Any


class ObjectKey:
    """An object as a key of a dict or an element of a set: it is equal to what has the same `identity`."""

    __slots__ = ("identity", "variable")

    def __init__(self, variable: Variable, identity: Any) -> None:
        self.variable, self.identity = variable, identity

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ObjectKey) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)


def holds_object(key: Any) -> bool:
    """Whether a key is or has an object, so that Python's own operations on it say nothing."""
    return isinstance(key, ObjectKey) or (isinstance(key, tuple) and any(map(holds_object, key)))


class NullVariable(Variable):
    """What CALL finds below its callable when there is no self."""


NULL = NullVariable()
NONE = ConstantVariable(None)

# Constants that may be folded: immutable, with operations that run no user code.
CONSTANT_TYPES = (bool, int, float, str, bytes, type(None), type(...), range, frozenset, complex)


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
    """The Python value of a constant, or of a container or slice of constants. Raises NotConstant."""
    match realize(variable):
        case ConstantVariable(value=value):
            return value
        case TupleVariable(items=items):
            return tuple(map(as_constant, items))
        case DequeVariable(items=items, limit=limit):
            return deque(map(as_constant, items), limit)
        case ListVariable(items=items):
            return list(map(as_constant, items))
        case ConstDictVariable(items=items, kind=kind) if kind in (dict, OrderedDict) and not any(
            map(holds_object, items)
        ):
            return kind((key, as_constant(value)) for key, value in items.items())
        case SliceVariable(items=items):
            return slice(*map(as_constant, items))
        case SetVariable(items=elements, kind=kind) if not any(map(holds_object, elements)):
            return kind(elements)
    raise NotConstant(variable)


def from_constant(value: Any) -> Variable:
    """A value that Python code made while folding, as a variable without a source."""
    if type(value) is SymInt:
        return value.env.number(value)  # type: ignore[attr-defined]
    if isinstance(value, ObjectKey):
        return realize(value.variable)
    if type(value) is tuple:
        return TupleVariable([from_constant(v) for v in value])
    if type(value) is list:
        return ListVariable([from_constant(v) for v in value])
    if type(value) is dict:
        return ConstDictVariable({k: from_constant(v) for k, v in value.items()})
    if type(value) in (set, frozenset):
        return SetVariable(set(value), type(value))
    if isinstance(value, type) and (known := made_inside(value)) is not None:
        return known
    if type(value) is slice:
        return SliceVariable([from_constant(v) for v in (value.start, value.stop, value.step)])
    if isinstance(value, (type, types.ModuleType, types.BuiltinFunctionType, enum.Enum)):
        return UserDefinedObjectVariable(value)
    return ConstantVariable(value)


_NAMED = (type, types.ModuleType, types.BuiltinFunctionType, types.MethodDescriptorType, Operator)


def describe(variable: Any) -> str:
    """What a message calls the value."""
    match variable:
        case ConstantVariable(value=value):
            return repr(value)
        case TensorVariable(meta=meta):
            return f"a tensor {meta}"
        case NumpyNdarrayVariable(tensor=tensor):
            return f"an array {tensor.meta}"
        case UserFunctionVariable(name=name):
            return f"the function {name}"
        case UserDefinedObjectVariable(real=real) if isinstance(real, _NAMED):
            return real.__name__
        case UserDefinedObjectVariable(real=real):
            return f"an object of class {type(real).__name__}"
        case UserMethodVariable(function=function, receiver=receiver):
            name = function if isinstance(function, str) else describe(function)
            return f"the method {name} of {describe(receiver)}"
    return "a " + type(variable).__name__.removesuffix("Variable").removeprefix("Const").lower()
