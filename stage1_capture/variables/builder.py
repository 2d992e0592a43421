"""VariableBuilder: a real object and the Source that reaches it become an abstract value and its guards.

Input: arguments, globals, closure cells, defaults, attributes and items, as the interpreter reads them. The file of
each kind of value has the function that makes it, and enters it into the tables here. Only types and identities are
looked at, and the values of Python constants; no user code runs.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from opcode import opmap
from typing import Any

from stage1_capture.state.graph_builder import OutputGraph, is_users
from stage1_capture.state.machine import KINDS, Tx
from stage1_capture.variables.base import LazyVariable, Variable
from stage_contracts.class_lookup import class_lookup, made_by_python
from stage_contracts.controls import register
from stage_contracts.source import ArgSource, AttrSource, ItemSource, KeySource, Source, WatchedSource

# Every write to these dicts of a Module bumps the structure epoch.
REGISTRIES = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")


Builder = Callable[[OutputGraph, Any, Source | None], Variable]
# Objects of exactly this class -> what makes their value (each kind has its rows); and of a class derived from it:
# that of `object` is for all others.
BUILDERS: dict[type, Builder] = {}
BUILDERS_BY_CLASS: dict[type, Builder] = {}


def object_of(real: Any, source: Source | None = None) -> Any:
    """An object known by what it is: a class, a module, a function of C's."""
    return KINDS["object"](real, source=source)


def wrap_as_object(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    """An object of the general kind: its attributes are read as the program asks for them."""
    return BUILDERS_BY_CLASS[object](output, real, source)


def wrap(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    """The abstract value of `real`. `source` None: an object of the library, trusted not to change."""
    builder = BUILDERS.get(type(real))
    if builder is None:
        builder = next(BUILDERS_BY_CLASS[c] for c in type(real).__mro__ if c in BUILDERS_BY_CLASS)
        if builder is BUILDERS_BY_CLASS[object] and watches_quietly(type(real)):
            source = source and WatchedSource(source, register(object.__getattribute__))
        else:
            refuse_watched(output, type(real))
    return builder(output, real, source)


def watching(cls: type) -> types.FunctionType | None:
    """The `__getattribute__` of a user-defined class, which sees every read of an attribute."""
    asked = class_lookup(cls, "__getattribute__")
    return asked if isinstance(asked, types.FunctionType) and is_users(asked.__globals__) else None


def watches_quietly(cls: type) -> bool:
    """Whether a class sees reads, but only says by another name what object.__getattribute__ says: such a function may
    be run by capture's own reads, and be followed. It is known by its code, which asks and calls nothing else."""
    told = [vars(c).get("__getattribute__") for c in cls.__mro__ if c is not object]
    plain = all(made_by_python(c) for c in cls.__mro__ if c is not object)
    return watching(cls) is not None and plain and all(asked is None or _is_quiet(asked) for asked in told)


def _is_quiet(asked: Any) -> bool:
    if not isinstance(asked, types.FunctionType):
        return False
    if f"{asked.__module__}.{asked.__qualname__}" in _KNOWN_QUIET:
        return True
    if not _ASKS.issuperset(asked.__code__.co_names):
        return False
    code = asked.__code__
    writes = not _WRITING.isdisjoint(code.co_code[::2])
    inner = any(isinstance(constant, types.CodeType) for constant in code.co_consts)
    return not writes and not inner and {"__class__"}.issuperset(code.co_freevars)


_WRITING = frozenset(opmap[name] for name in ("STORE_SUBSCR", "DELETE_SUBSCR", "IMPORT_NAME"))
_ASKS = frozenset(("__getattribute__", "object", "super"))
# Of libraries: read and found quiet, though the code alone does not say so. This one raises, or warns, for a config
# whose layers differ, when it is asked for an attribute that each layer has its own of; capture asks for none itself.
_KNOWN_QUIET = frozenset(
    ["transformers.integrations.heterogeneity.configuration_utils.HeterogeneousConfigMixin.__getattribute__"]
)


def refuse_watched(output: OutputGraph, cls: type) -> None:
    """A user-defined class that sees every read of an attribute would see those of guards, and of capture, too."""
    if watching(cls) is not None:
        output.unsupported("GB0052", f"an object of class {cls.__name__}, which has a __getattribute__")
    if class_lookup(type(cls), "__getattribute__") is not type.__getattribute__:
        output.unsupported(
            "GB0052", f"an object of class {cls.__name__}, whose metaclass has a __getattribute__"
        )


def lazily(output: OutputGraph, real: Any, source: Source | None) -> LazyVariable:
    """As `wrap`, but only when something reads it."""
    return LazyVariable(lambda: wrap(output, real, source), real=real, source=source)


def in_arguments(output: OutputGraph, source: Source | None, optimizers: bool = True) -> bool:
    """Whether a number is where calls differ: an argument, or an item in one or in an attribute of one.

    What a module holds describes the model, and is a constant; what an optimizer holds changes from step to step.
    """
    if isinstance(source, ItemSource) or getattr(source, "name", "") == "cell_contents":
        while isinstance(source, (ItemSource, AttrSource, KeySource)):
            source = source.base
            if source in output.module_sources:
                return False
            if source in output.optimizer_sources:
                return optimizers
    return isinstance(source, ArgSource)


def is_given(output: OutputGraph, source: Source | None) -> bool:
    """Whether the caller may pass another function here at each call: in an argument, not in a module or a class."""
    while isinstance(source, (ItemSource, AttrSource, KeySource)):
        if source in output.module_sources or getattr(source, "name", "") in _FIXED:
            return False
        source = source.base
    return isinstance(source, ArgSource) and source not in output.module_sources


_FIXED = ("__class__", "__func__", "__globals__")


def once(output: OutputGraph, real: Any, source: Source | None, build: Callable[[], Variable]) -> Variable:
    """One object, one variable: a second source of it is guarded to be the same object again."""
    known = output.known.get(id(real))
    if known is None:
        known = build()
        known.trusted = source is None
        output.known[id(real)] = known
        output.kept.append(real)
    elif source is not None and known.source is not None and source != known.source:
        under = source in output.epoch_sources and known.source in output.epoch_sources
        output.guard("ALIASED", source, known.source, under)
    return known


def identical(output: OutputGraph, real: Any, source: Source | None, build: Callable[[], Any]) -> Any:
    """The one variable of an object that each source of it is guarded to lead to."""
    output.guard("IDENTITY", source, real, source in output.epoch_sources)
    known = output.known.get(id(real))
    if known is None:
        known = output.known[id(real)] = build()
        output.kept.append(real)
    elif known.source is None:  # the library had it before
        known.source = source
    return known


def class_variable(tx: Tx, value: Variable, cls: type) -> Variable:
    """The class of an object, as a value: the one there is of it, or one that the object's own guards describe."""
    if cls is types.ModuleType:  # one of Python's modules may become one of a derived class
        tx.output.guard("TYPE", value.source, cls)
    known = tx.output.known.get(id(cls))
    if known is None:
        known = object_of(cls)
        known.source = value.class_place()
        tx.output.known[id(cls)] = known
        tx.output.kept.append(cls)
    elif known.source is None:
        known.source = value.class_place()
    return known


def wrap_identity(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    """What is guarded to be this very object: a class, module, builtin, operator, enum member."""
    return identical(output, real, source, lambda: object_of(real, source))
