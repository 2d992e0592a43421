"""VariableBuilder: a real object and the Source that reaches it become an abstract value and its guards.

Input: arguments, globals, closure cells, defaults, attributes and items, as the interpreter reads them.
Only types and identities are looked at here, and the values of Python constants; no user code
runs.
"""

from __future__ import annotations

import datetime
import enum
import functools
import re
import types
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

from stage0_eager.library.custom_op import CustomOpDef
from stage0_eager.nn import Module, Parameter
from stage0_eager.optim import Optimizer
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor, is_traced
from stage0_eager.transforms.vmap import is_transformed
from stage0_eager.triton.kernels import is_triton_kernel
from stage1_capture.state.graph_builder import OutputGraph, is_users
from stage1_capture.state.mro import MISSING, class_lookup
from stage1_capture.variables.base import (
    CellVariable,
    ConstantVariable,
    ConstDictVariable,
    LazyVariable,
    ListVariable,
    ObjectKey,
    SetVariable,
    SliceVariable,
    TensorVariable,
    TransformVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    UserFunctionVariable,
    UserMethodVariable,
    Variable,
)
from stage1_capture.variables.builder_containers import (
    HASHED,
    contents_of,
    dict_items,
    sequence_items,
    wrap_defaultdict,
    wrap_deque,
    wrap_partial,
)
from stage1_capture.variables.derived import constant_of, python_base
from stage1_capture.variables.number import NumberVariable
from stage_contracts.controls import register
from stage_contracts.device import Device
from stage_contracts.dtype import DType
from stage_contracts.guard_constants import is_told_by_equality
from stage_contracts.guards import OpenMeta, TensorOf
from stage_contracts.source import ArgSource, AttrSource, ItemSource, KeySource, RegisteredSource, Source
from stage_contracts.tensor_meta import TensorMeta

# Every write to these dicts of a Module bumps the structure epoch.
REGISTRIES = ("_parameters", "_buffers", "_modules", "_forward_hooks", "_forward_pre_hooks")


# Objects of C's that never change, whose methods only compute: they are constants.
IMMUTABLE = (
    complex, re.Pattern, datetime.date, datetime.time, datetime.datetime, datetime.timedelta, datetime.timezone,
    types.CodeType,
)  # fmt: skip


def wrap(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    """The abstract value of `real`. `source` None: an object of the library, trusted not to change."""
    builder = _EXACT.get(type(real))
    if builder is None:
        builder = next((BY_CLASS[c] for c in type(real).__mro__ if c in BY_CLASS), wrap_object)
    return builder(output, real, source)


def lazily(output: OutputGraph, real: Any, source: Source | None) -> LazyVariable:
    """As `wrap`, when somebody looks."""
    return LazyVariable(lambda: wrap(output, real, source), real=real, source=source)


def _wrap_constant(kind: str) -> Callable[[OutputGraph, Any, Source | None], Variable]:
    def build(output: OutputGraph, real: Any, source: Source | None) -> Variable:
        output.guard(kind, source, real, source in output.epoch_sources)
        return ConstantVariable(real)

    return build


_fixed_number = _wrap_constant("EQUALS")


def _wrap_tensor(output: OutputGraph, real: Tensor, source: Source | None) -> Variable:
    if source is None or is_traced(real) or type(real) not in (Tensor, Parameter):
        return wrap_object(output, real, source)  # nothing is done with it here
    under = source in output.epoch_sources and isinstance(real, Parameter)
    meta, fact = real.meta, ("TENSOR", TensorOf(type(real), real.meta))
    if not isinstance(real, Parameter) and id(real) not in output.known:
        meta, fact = open_meta(output, real, source)
    elif id(real) in output.known:  # a second way to it: that it is the same object says everything
        return once(output, real, source, lambda: TensorVariable(meta, real=real, source=source))
    output.guard(fact[0], source, fact[1], under)
    return once(output, real, source, lambda: TensorVariable(meta, real=real, source=source))


def open_meta(output: OutputGraph, real: Tensor, source: Source) -> tuple[TensorMeta, tuple[str, TensorOf]]:
    """The tensor's meta with the sizes that the policy leaves open, and the guard for what is not."""
    meta = real.meta
    dims = output.policy.open_dims(source.expression(), real)
    order = tuple(sorted(range(meta.ndim), key=lambda d: -meta.strides[d]))
    fixed = tuple(None if d in dims else size for d, size in enumerate(meta.shape))
    guard = OpenMeta(meta.dtype, meta.device, meta.requires_grad, fixed, order)
    if not dims or guard.strides(meta.shape) != meta.strides:  # a layout with gaps: for these sizes only
        return meta, ("TENSOR", TensorOf(type(real), meta))
    shape = [
        output.sizes.open(
            ItemSource(AttrSource(source, "shape"), d), size, dims[d].name, dims[d].low, dims[d].high
        )
        if d in dims
        else size
        for d, size in enumerate(meta.shape)
    ]
    output.strict |= {size.expr: (source, d) for d, size in enumerate(shape) if d in dims and dims[d].strict}
    opened = meta.with_(shape=tuple(shape), strides=guard.strides(tuple(shape)))
    return opened, ("OPEN_TENSOR", TensorOf(type(real), guard))


def _wrap_number(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    """A number in an argument, or in a container of one, stays open until something needs to know it.

    One found elsewhere (an attribute, a global, a closure) is fixed at first, for most never change, and open from
    its first change on: a counter is compiled twice.
    """
    under_epoch = source in output.epoch_sources
    differs = _in_arguments(output, source) and not under_epoch
    if source is None or not (differs or output.policy.opens_number(source.expression(), real)):
        return _fixed_number(output, real, source)
    if isinstance(source, ItemSource) and isinstance(source.base, KeySource):
        same = output.alike.setdefault((source.base.base, source.key, type(real), real), source)
        if same != source and is_told_by_equality(
            real
        ):  # the step of every parameter, say: while they are equal, one input of the graph
            output.guard("EQUALS", source, same)
            source = same
    output.guard("TYPE", source, type(real), under_epoch)
    if type(real) is int and output.policy.opens(source.expression(), real):  # it is used as a size
        output.guard("SHAPE", None, f"{source.expression()} >= 0")
        return NumberVariable(output, real, source, (), output.sizes.open(source, real))
    return NumberVariable(output, real, source, ((source, real),))


def _in_arguments(output: OutputGraph, source: Source | None, optimizers: bool = True) -> bool:
    """Whether a number is where calls differ: an argument, or an item in one or in an attribute of one.

    What a module holds describes the model, and is a constant; what an optimizer holds changes from step to step.
    """
    if isinstance(source, ItemSource):
        while isinstance(source, (ItemSource, AttrSource, KeySource)):
            source = source.base
            if source in output.module_sources:
                return False
            if source in output.optimizer_sources:
                return optimizers
    return isinstance(source, ArgSource)


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


def _wrap_sequence(kind: type) -> Callable[[OutputGraph, Any, Source | None], Variable]:
    def build(output: OutputGraph, real: Any, source: Source | None) -> Variable:
        output.guard("TYPE", source, type(real), source in output.epoch_sources)
        if source is not None and _holds_parameters(output, real, source):
            output.guard("ITEMS", source, tuple(real))
            output.epoch_sources.update(ItemSource(source, i) for i in range(len(real)))
        else:
            output.guard("LENGTH", source, len(real))
        items = [lazily(output, v, source and ItemSource(source, i)) for i, v in enumerate(real)]
        return once(output, real, source, lambda: kind(items, source=source))

    return build


def _holds_parameters(output: OutputGraph, real: Any, source: Source) -> bool:
    """Whether it is a row of parameters, as an optimizer has: guarded as these very objects, which tell the epoch what
    changes about them. In an argument it may be another row at the next call."""
    many = len(real) > 1 and all(isinstance(item, Parameter) for item in real)
    return many and not _in_arguments(output, ItemSource(source, 0), False)


def _wrap_slice(output: OutputGraph, real: slice, source: Source | None) -> Variable:
    output.guard("TYPE", source, slice, source in output.epoch_sources)
    fields = ("start", "stop", "step")
    items: list[Variable] = [
        lazily(output, getattr(real, name), source and AttrSource(source, name)) for name in fields
    ]
    return SliceVariable(items, source=source)


def _wrap_dict(output: OutputGraph, real: dict, source: Source | None) -> Variable:
    keys = tuple(real)
    registry = (
        isinstance(source, AttrSource) and source.base in output.module_sources and source.name in REGISTRIES
    )
    if registry and keys and not all(type(k) is str for k in keys):
        return _wrap_hooks(output, real, source)
    if registry:  # which Module made itself
        output.epoch_sources |= {ItemSource(source, key) for key in keys}  # type: ignore[arg-type]
    items = dict_items(output, real, source)
    if items is None:
        return wrap_object(output, real, source)
    if not registry:
        output.guard("TYPE", source, type(real), source in output.epoch_sources)
    output.guard("KEYS", source, keys, registry)
    return once(output, real, source, lambda: ConstDictVariable(items, type(real), source=source))


def _wrap_hooks(output: OutputGraph, real: dict, source: Source | None) -> Variable:
    """A module's hooks: their keys are objects of their own, which no other hook ever gets."""
    output.guard("KEYS", source, tuple(real), under_epoch=True)
    hooks: dict[Any, Variable] = {}
    for key, hook in real.items():
        known = wrap(output, key, RegisteredSource(register(key)))
        hooks[ObjectKey(known, id(known))] = lazily(output, hook, RegisteredSource(register(hook)))
    return once(output, real, source, lambda: ConstDictVariable(hooks, type(real), source=source))


def _wrap_set(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    if not all(type(e) in HASHED or type(e) is type for e in real):
        return wrap_object(output, real, source)
    output.guard("EQUALS", source, type(real)(real))
    return once(output, real, source, lambda: SetVariable(set(real), type(real), source=source))


def wrap_identity(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    """What is guarded to be this very object: a class, module, builtin, operator, enum member."""
    return _identical(output, real, source, lambda: UserDefinedObjectVariable(real, source=source))


def _identical(output: OutputGraph, real: Any, source: Source | None, build: Callable[[], Any]) -> Any:
    """The one variable of an object that each source of it is guarded to lead to."""
    output.guard("IDENTITY", source, real, source in output.epoch_sources)
    known = output.known.get(id(real))
    if known is None:
        known = output.known[id(real)] = build()
        output.kept.append(real)
    elif known.source is None:  # the library had it before
        known.source = source
    return known


def _wrap_enum(output: OutputGraph, real: enum.Enum, source: Source | None) -> Variable:
    """A member; one that is a string or a number too holds that. Its class can change, as any object's."""
    output.guard("TYPE", source, type(real), source in output.epoch_sources)
    known = wrap_identity(output, real, source)
    base = python_base(type(real))
    if base is not None and known.base is None:  # type: ignore[attr-defined]
        known.base = constant_of(real, base)  # type: ignore[attr-defined]
    return known


def _wrap_module(output: OutputGraph, real: Module, source: Source | None) -> Variable:
    refuse_watched(output, type(real))
    if source is not None:
        output.module_sources.add(source)
    output.guard("TYPE", source, type(real), True)  # `module.__class__ = Other` moves the epoch
    return _identical(output, real, source, lambda: UserDefinedObjectVariable(real, source=source))


def _wrap_function(output: OutputGraph, real: types.FunctionType, source: Source | None) -> Variable:
    return _identical(output, real, source, lambda: _function(output, real, source))


def _function(output: OutputGraph, real: types.FunctionType, source: Source | None) -> Variable:
    if is_transformed(real):  # func.grad(f), made outside
        transform, inner, options = real.__transform__[1:]  # type: ignore[attr-defined]
        inside = wrap(output, inner, source and ItemSource(AttrSource(source, "__transform__"), 2))
        return TransformVariable(transform, inside, options, source=source)
    return function_variable(output, real, source)


def function_variable(
    output: OutputGraph, real: types.FunctionType, source: Source | None
) -> UserFunctionVariable:
    """A function as code, globals, and defaults and closure that are read when used."""
    cells = source and AttrSource(source, "__closure__")
    closure = [
        cell_variable(output, cell, cells and ItemSource(cells, i))
        for i, cell in enumerate(real.__closure__ or ())
    ]
    count = len(real.__defaults__ or ())
    defaults_source = source and AttrSource(source, "__defaults__")
    defaults: list[Variable] = [
        # counted from the end, so that the source means the same parameter whatever comes before
        lazily(output, value, defaults_source and ItemSource(defaults_source, i - count))
        for i, value in enumerate(real.__defaults__ or ())
    ]
    kw_source = source and AttrSource(source, "__kwdefaults__")
    kwdefaults: dict[str, Variable] = {
        name: lazily(output, value, kw_source and ItemSource(kw_source, name))
        for name, value in (real.__kwdefaults__ or {}).items()
    }
    module = source and AttrSource(source, "__globals__")
    return UserFunctionVariable(
        real.__code__,
        real.__globals__,
        real.__name__,
        defaults,
        kwdefaults,
        closure,
        module,
        real,
        source=source,
    )


def cell_variable(output: OutputGraph, cell: types.CellType, source: Source | None) -> CellVariable:
    """A cell from outside: one variable however many functions share it."""
    known = output.known.get(id(cell))
    if known is not None:
        return known
    try:
        contents = lazily(output, cell.cell_contents, source and AttrSource(source, "cell_contents"))
    except ValueError:  # an empty cell: its variable is not assigned yet
        contents = None
    output.kept.append(cell)
    made = output.known[id(cell)] = CellVariable(contents, source=source)
    return made


def _wrap_cell(output: OutputGraph, real: types.CellType, source: Source | None) -> Variable:
    return cell_variable(output, real, source)


def _wrap_method(output: OutputGraph, real: types.MethodType, source: Source | None) -> Variable:
    output.guard("TYPE", source, types.MethodType, source in output.epoch_sources)
    function = wrap(output, real.__func__, source and AttrSource(source, "__func__"))
    receiver = wrap(output, real.__self__, source and AttrSource(source, "__self__"))
    return UserMethodVariable(function, receiver, source=source)


# Those whose bound methods are asked of the receiver: its contents decide what they do.
_RECEIVERS = (list, tuple, dict, OrderedDict, set, frozenset, str, bytes)


def _wrap_builtin(output: OutputGraph, real: types.BuiltinFunctionType, source: Source | None) -> Variable:
    """`len`, or a bound method: `items.append` is another object each time it is asked for."""
    if real.__self__ is None or isinstance(real.__self__, (types.ModuleType, type)):
        return wrap_identity(output, real, source)
    output.guard("TYPE", source, type(real), source in output.epoch_sources)
    output.guard("EQUALS", source and AttrSource(source, "__name__"), real.__name__)
    owner = source and AttrSource(source, "__self__")
    if type(real.__self__) not in _RECEIVERS:
        output.guard("IDENTITY", owner, real.__self__)
        return once(output, real, source, lambda: UserDefinedObjectVariable(real, source=source))
    receiver = wrap(output, real.__self__, owner)
    return UserMethodVariable(real.__name__, receiver, source=source)


def refuse_watched(output: OutputGraph, cls: type) -> None:
    """A user-defined class that sees every read of an attribute would see those of guards, and of capture, too."""
    asked = class_lookup(cls, "__getattribute__")
    if isinstance(asked, types.FunctionType) and is_users(asked.__globals__):
        output.unsupported("GB0052", f"an object of class {cls.__name__}, which has a __getattribute__")
    if class_lookup(type(cls), "__getattribute__") is not type.__getattribute__:
        output.unsupported(
            "GB0052", f"an object of class {cls.__name__}, whose metaclass has a __getattribute__"
        )


def _wrap_class(output: OutputGraph, real: type, source: Source | None) -> Variable:
    if class_lookup(type(real), "__getattribute__") is not type.__getattribute__:
        output.unsupported("GB0052", f"the class {real.__name__}, whose metaclass has a __getattribute__")
    return wrap_identity(output, real, source)


def wrap_object(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    """A user's instance: its class is guarded now, its attributes as they are read."""
    if is_triton_kernel(real):
        return wrap_identity(output, real, source)
    refuse_watched(output, type(real))
    output.guard("TYPE", source, type(real), source in output.epoch_sources)
    if is_named_tuple(type(real)):
        items = sequence_items(output, real, source)
        return once(output, real, source, lambda: TupleVariable(items, type(real), source=source))

    def build() -> UserDefinedObjectVariable:
        made = UserDefinedObjectVariable(real, source=source)
        made.base = contents_of(output, real, source)
        if made.base is not None:
            made.base.part_of = made
        return made

    return once(output, real, source, build)


def is_named_tuple(cls: type) -> bool:
    """As Python makes them: what only adds methods to one; not what holds attributes too, or reads its items itself."""
    named = issubclass(cls, tuple) and class_lookup(cls, "_fields") is not MISSING
    return named and cls.__dictoffset__ == 0 and not any(
        isinstance(class_lookup(cls, name), types.FunctionType)
        for name in ("__getitem__", "__iter__", "__len__", "__eq__", "__hash__", "__bool__", "__contains__",
                     "__getattr__", "__setattr__")
    )  # fmt: skip


def _wrap_optimizer(output: OutputGraph, real: Any, source: Source | None) -> Variable:
    if source is not None:
        output.optimizer_sources.add(source)
    return wrap_object(output, real, source)


_EXACT: dict[type, Callable[[OutputGraph, Any, Source | None], Variable]] = {
    **dict.fromkeys((bool, type(None), type(...), type(NotImplemented), DType), _wrap_constant("IDENTITY")),
    **dict.fromkeys((int, float), _wrap_number),
    **dict.fromkeys((str, bytes, range, Device), _wrap_constant("EQUALS")),
    **dict.fromkeys(IMMUTABLE, _wrap_constant("EQUALS")),
    slice: _wrap_slice,
    list: _wrap_sequence(ListVariable),
    tuple: _wrap_sequence(TupleVariable),
    dict: _wrap_dict,
    OrderedDict: _wrap_dict,
    types.FunctionType: _wrap_function,
    types.MethodType: _wrap_method,
    **dict.fromkeys((types.ModuleType, Operator, CustomOpDef), wrap_identity),
    types.BuiltinFunctionType: _wrap_builtin,
    types.CellType: _wrap_cell,
    defaultdict: wrap_defaultdict,
    deque: wrap_deque,
    functools.partial: wrap_partial,
    set: _wrap_set,
    frozenset: _wrap_set,
}
# variables/ndarray.py adds arrays and what else is NumPy's
BY_CLASS: dict[type, Callable[[OutputGraph, Any, Source | None], Variable]] = {
    Tensor: _wrap_tensor,
    Module: _wrap_module,
    Optimizer: _wrap_optimizer,
    type: _wrap_class,
    enum.Enum: _wrap_enum,
}
