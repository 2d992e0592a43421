"""From abstract values back to objects: the Python expressions that make them when the graph has run.

Input: the values that live on after a frame or a break. A value from outside is read where it was found; of what the
program made, each object is made once: what occurs twice gets a name, and what may hold itself is filled later.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from stage0_eager import TABLE
from stage0_eager.autograd.backward_pass import spent
from stage0_eager.tensor import with_base_made_in_inference
from stage1_capture.frame.bytecode import Instruction
from stage1_capture.state.graph_builder import is_users
from stage1_capture.state.prototypes import made_inside
from stage1_capture.variables.base import LazyVariable, Variable, from_constant, realize
from stage1_capture.variables.class_ import FieldVariable, LocalClassVariable, WrapperVariable
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.derived import FIXED, python_base
from stage1_capture.variables.exception import ExceptionVariable, remember_outside
from stage1_capture.variables.function import (
    CellVariable,
    GeneratedFunctionVariable,
    InstructionVariable,
    NestedFunctionVariable,
    PartialVariable,
    UserFunctionVariable,
)
from stage1_capture.variables.hash_keys import IdVariable, holds_object
from stage1_capture.variables.iterator import IteratorVariable
from stage1_capture.variables.mapping import (
    ConstDictVariable,
    DefaultDictVariable,
    DictViewVariable,
    ObjectDictVariable,
)
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.ndarray import NumpyNdarrayVariable
from stage1_capture.variables.object_dict import described
from stage1_capture.variables.sequence import DequeVariable, ListVariable, SliceVariable, TupleVariable
from stage1_capture.variables.set import SetVariable
from stage1_capture.variables.tensor import TensorVariable, note_escape
from stage1_capture.variables.unbacked import (
    UnbackedBoolVariable,
    UnbackedFloatVariable,
    UnbackedIntVariable,
)
from stage1_capture.variables.user_object import HandleVariable, SuperVariable, UserDefinedObjectVariable
from stage_contracts.capture import CapturedFrame
from stage_contracts.class_lookup import class_lookup
from stage_contracts.graph import Node
from stage_contracts.size_text import python_text

if TYPE_CHECKING:
    from stage1_capture.residual.codegen import PyCodegen


_INLINE = (bool, int, str, bytes, type(None))
_PLAIN = (*_INLINE, float)


class Rebuilder:
    """`lines` make what has a name; `outputs` are the nodes the graph must return."""

    def __init__(self, codegen: PyCodegen) -> None:
        self.codegen = codegen
        self.resume = codegen.resume
        self.lines: list[str] = []
        self.outputs: dict[Node, int] = {}
        self.outputs_name = codegen.name_of("outputs")
        codegen.claim(self.outputs_name)
        self.seen: Counter[int] = Counter()
        self.names: dict[int, str] = {}  # values that have a local name
        self.making: list[Variable] = []  # classes whose contents are being made
        self.waiting: list[Callable[[], None]] = []  # what is filled when they are there

    # ---- which objects occur twice ---------------------------------------------------------------

    def count(self, values: list[Variable]) -> None:
        for value in values:
            if value.source is None:
                value = realize(value)
                self.seen[id(value)] += 1
                if self.seen[id(value)] == 1:
                    self.count_contents(value)

    def count_contents(self, value: Variable) -> None:
        self.count(value.parts())

    # ---- expressions -----------------------------------------------------------------------------

    def expression(self, value: Variable) -> str:
        """Python that is the value, when `lines` have run."""
        found = self.from_outside(value) or self.from_outside(realize(value))
        if found is not None:
            return found
        value = realize(value)
        if id(value) in self.names:
            return self.names[id(value)]
        make = _MAKE.get(type(value)) or next((m for c, m in _MAKE.items() if isinstance(value, c)), None)
        if make is None:
            return self.unsupported(value)
        often = self.seen[id(value)] > 1 or self.making  # what a class holds may hold the class
        shared = often and not isinstance(value, (ConstantVariable, TensorVariable))
        if shared and type(value) in _FILL:
            empty, fill = _FILL[type(value)]
            name = self.name(value, empty(self, value))
            self.later(lambda: fill(self, value, name))
            return name
        text = make(self, value)
        return self.name(value, text) if shared or id(value) in self.names else text

    def from_outside(self, value: Variable) -> str | None:
        """The expression that reaches a value from outside; None for any other value."""
        if isinstance(value, LazyVariable) and value.value is not None and value.value.is_open():
            value = value.value
        if value.source is None:
            return None
        return self.codegen.source(value.source, early=value.is_open())  # the arguments may change later

    def later(self, fill: Callable[[], None]) -> None:
        """Fill something now, or when the classes under way are made, which may lie in it."""
        if self.making:
            self.waiting.append(fill)
        else:
            fill()

    def name(self, value: Variable, text: str) -> str:
        """Give what `text` makes a name, by which the value is known from now on.

        A class in it that holds the value may have needed and made it meanwhile.
        """
        if id(value) in self.names:
            return self.names[id(value)]
        name = self.names[id(value)] = self.codegen.name_of(f"value_{len(self.names)}")
        self.lines.append(f"{name} = {text}")
        return name

    def all(self, values: Sequence[Variable]) -> str:
        return ", ".join(map(self.expression, values))

    def constant(self, value: Any) -> str:
        plain = type(value) in _INLINE or (type(value) is float and math.isfinite(value))
        return repr(value) if plain else self.codegen.named(value)

    def named(self, value: Any) -> str:
        if isinstance(value, type) and (made := made_inside(value)) is not None:
            return self.expression(made)
        return self.codegen.named(value)

    def called_back(self, function: Variable) -> str:
        """A function that C code will call. A user-defined one is compiled on its own."""
        text = self.expression(function)
        real = function.real if isinstance(function, UserFunctionVariable) else None
        users = real is not None and function.source is not None and is_users(real.__globals__)
        return f"{CapturedFrame.nested_name}({text})" if users else text

    def key(self, key: Any) -> str:
        """A dict's key or a set's element."""
        return self.expression(from_constant(key)) if holds_object(key) else self.constant(key)

    def unsupported(self, value: Variable) -> Any:
        self.codegen.output.unsupported("GB0053", f"returning {value.describe()}")


# ---- one maker per kind of value -----------------------------------------------------------------

Make = Callable[[Rebuilder, Any], str]


def _tensor(r: Rebuilder, value: TensorVariable) -> str:
    if value.node is None:
        return r.unsupported(value)
    if value in r.codegen.output.data_of:
        return r.name(value, f"{r.expression(r.codegen.output.data_of[value])}.data")
    note_escape(r.codegen.output, value)
    operator = r.codegen.output.is_spent(value)
    if operator is None:
        index = r.outputs.setdefault(value.node, len(r.outputs))
        text = f"{r.outputs_name}[{index}]"
        inference = r.codegen.output.in_inference(value)
        return f"{r.named(with_base_made_in_inference)}({text})" if inference else text
    # its history was walked and freed in the graph, and is that only in name to who asks for it outside
    graph = r.codegen.output.graph
    meta = value.meta.with_(requires_grad=False, strides=value.meta.strides)
    alone = graph.call_function(
        TABLE["cutaway.detach"], (value.node,), {}, val=meta, origins=value.node.origins
    )
    index = r.outputs[alone] = len(r.outputs)
    return r.name(value, f"{r.named(spent)}({r.outputs_name}[{index}], {operator!r})")


def _array(r: Rebuilder, value: NumpyNdarrayVariable) -> str:
    """The array under the tensor. Python code that follows a break sees a scalar where NumPy has one."""
    if value.derived:
        r.unsupported(value)
    if value.view is not None:
        array, index = value.view
        return f"{r.expression(array)}[{_index(r, realize(index))}]"
    # an array of a graph on a GPU (under a device context) is NumPy's own again once Python has it
    force = "force=True" if value.meta.device.type == "cuda" else ""
    text = f"{r.expression(value.tensor)}.numpy({force})"
    return f"{text}[()]" if value.scalar and r.codegen.output.breaks_here else text


def _index(r: Rebuilder, index: Variable) -> str:
    """An index of a view, in which a computed int is a scalar: an array without dimensions would copy."""
    match index:
        case TupleVariable(items=items):
            words = [_index(r, realize(i)) for i in items]
            return f"({', '.join(words)}{',' * (len(words) == 1)})"
        case NumpyNdarrayVariable(tensor=tensor, source=None):
            return f"{r.expression(tensor)}.numpy()[()]"
    return r.expression(index)


def _tuple(r: Rebuilder, value: TupleVariable) -> str:
    if value.kind is tuple:
        return f"({r.all(value.items)}{',' * (len(value.items) == 1)})"
    # not by `_make`, which asks a `__len__` of the class's own
    items = f"({r.all(value.items)}{',' * (len(value.items) == 1)})"
    return f"{r.named(tuple.__new__)}({r.named(value.kind)}, {items})"


def _dict(r: Rebuilder, value: ConstDictVariable) -> str:
    words = [f"{r.key(k)}: {r.expression(v)}" for k, v in value.items.items()]
    text = f"{{{', '.join(words)}}}"
    if value.kind is dict:
        return text
    text = f"{r.named(value.kind)}({text})"
    if not value.attrs:
        return text
    name = r.name(value, text)
    r.later(lambda: _set_on_dict(r, value, name))
    return name


def _set_on_dict(r: Rebuilder, value: ConstDictVariable, name: str) -> None:
    for key, attribute in value.attrs.items():
        r.lines.append(f"{name}.{key} = {r.expression(attribute)}")


def _set(r: Rebuilder, value: SetVariable) -> str:
    if value.kind is set and all(type(element) in _PLAIN for element in value.items):
        return f"{r.named(value.items.copy())}.copy()"  # a copy is walked in the same order
    return f"{r.named(value.kind)}([{', '.join(map(r.key, value.items))}])"


def _cell(r: Rebuilder, value: CellVariable) -> str:
    inside = "" if value.contents is None else r.expression(value.contents)
    return f"{r.named(types.CellType)}({inside})"


def _fill_cell(r: Rebuilder, value: CellVariable, name: str) -> None:
    if value.contents is not None:
        r.lines.append(f"{name}.cell_contents = {r.expression(value.contents)}")


def _fill_dict(r: Rebuilder, value: ConstDictVariable, name: str) -> None:
    for key, item in value.items.items():
        r.lines.append(f"{name}[{r.key(key)}] = {r.expression(item)}")
    _set_on_dict(r, value, name)


def _fill_list(r: Rebuilder, value: ListVariable, name: str) -> None:
    if value.items:
        r.lines.append(f"{name} += [{r.all(value.items)}]")


def _function(r: Rebuilder, value: UserFunctionVariable) -> str:
    if value.real is not None:
        return r.named(value.real)
    defaults = f"({r.all(value.defaults)},)" if value.defaults else "None"
    closure = f"({r.all(value.closure)},)" if value.closure else "None"
    made = (
        f"{r.named(types.FunctionType)}({r.named(value.code)}, {r.named(value.globals)}, "
        f"{value.name!r}, {defaults}, {closure})"
    )
    name = r.name(value, made)
    r.later(lambda: _set_on_function(r, value, name))
    return name


def _set_on_function(r: Rebuilder, value: UserFunctionVariable, name: str) -> None:
    if value.kwdefaults:
        words = [f"{k!r}: {r.expression(v)}" for k, v in value.kwdefaults.items()]
        r.lines.append(f"{name}.__kwdefaults__ = {{{', '.join(words)}}}")
    if value.annotations and "__annotations__" not in value.attrs:
        words = [f"{k!r}: {r.expression(v)}" for k, v in value.annotations.items()]
        r.lines.append(f"{name}.__annotations__ = {{{', '.join(words)}}}")
    for key, attribute in value.attrs.items():
        r.lines.append(f"{name}.{key} = {r.expression(attribute)}")


def _method(r: Rebuilder, value: UserMethodVariable) -> str:
    if isinstance(value.function, str):
        return f"{r.expression(value.receiver)}.{value.function}"
    return f"{r.named(types.MethodType)}({r.expression(value.function)}, {r.expression(value.receiver)})"


def _object(r: Rebuilder, value: UserDefinedObjectVariable) -> str:
    if value.private:
        r.unsupported(value)
    if not value.fresh:
        return r.named(value.real)
    cls = type(value.real)
    base = python_base(cls)
    maker = object if base is None else base
    fixed = f", {r.expression(value.base)}" if base in FIXED else ""
    name = r.name(value, f"{r.named(maker)}.__new__({r.named(cls)}{fixed})")
    if value.base is not None and base not in FIXED:
        limit = f", {value.base.limit}" if isinstance(value.base, DequeVariable) else ""
        r.lines.append(f"{r.named(base)}.__init__({name}, {r.expression(value.base)}{limit})")
    r.later(lambda: set_attributes(r, value, name))
    return name


def _handle(r: Rebuilder, value: HandleVariable) -> str:
    """The call that registers the hook; one that is in the graph has no object."""
    if value.call is None:
        return r.unsupported(value)
    tensor, method, hooks = value.call
    return r.name(value, f"{r.expression(tensor)}.{method}({r.all(hooks)})")


def set_attributes(r: Rebuilder, value: UserDefinedObjectVariable, name: str) -> None:
    """Store what the program stored, past any `__setattr__`, which was followed when it happened."""
    for key, attribute in value.attrs.items():
        if attribute is not None and described(type(value.real), key):
            r.lines.append(f"{name}.__dict__[{key!r}] = {r.expression(attribute)}")
        elif attribute is not None:
            r.lines.append(f"{r.named(object.__setattr__)}({name}, {key!r}, {r.expression(attribute)})")


def _exception(r: Rebuilder, value: ExceptionVariable) -> str:
    if not value.fresh:
        return r.named(value.real)
    cls = type(value.real)
    if not isinstance(class_lookup(cls, "__init__"), types.FunctionType):
        made = f"{r.named(cls)}({r.all(value.args)})"
    else:
        made = f"{r.named(BaseException.__new__)}({r.named(cls)}, {r.all(value.args)})"
    name = r.name(
        value, f"{made}.with_traceback({r.named(traceback_of(r, value.passed))})" if value.passed else made
    )
    set_attributes(r, value, name)
    if value.cause is not None:
        r.lines.append(f"{name}.__cause__ = {r.expression(value.cause)}")
    if value.context is not None:
        r.lines.append(f"{name}.__context__ = {r.expression(value.context)}")
    if value.outside:
        r.lines.append(f"{r.named(remember_outside)}({name})")
    if value.suppress:
        r.lines.append(f"{name}.__suppress_context__ = True")
    return name


def traceback_of(r: Rebuilder, passed: list[Instruction]) -> types.TracebackType | None:
    """The traceback of an exception that passed these instructions. Its frames never ran, and hold nothing."""
    found = None
    for instruction in passed:
        frame, shift = r.resume.never_run(instruction.code, instruction.code.co_filename)
        line = instruction.origin.line
        found = types.TracebackType(found, frame, instruction.start + shift, line)
    return found


def _default_dict(r: Rebuilder, value: DefaultDictVariable, text: str) -> str:
    factory = "None" if value.factory is None else r.expression(value.factory)
    return f"{r.named(defaultdict)}({factory}, {text})"


def _partial(r: Rebuilder, value: PartialVariable) -> str:
    words = [r.expression(value.function), *map(r.expression, value.args)]
    words += [f"{name}={r.expression(v)}" for name, v in value.kwargs.items()]
    return f"{r.named(functools.partial)}({', '.join(words)})"


def _local_class(r: Rebuilder, value: LocalClassVariable) -> str:
    """The class, of the names its body stored. What they hold is filled when it is there: it may be the class."""
    if value in r.making:
        return r.unsupported(value)
    r.making.append(value)
    names = dict(value.names)
    if value.cell is not None:
        names["__classcell__"] = value.cell
    words = [f"{k!r}: {r.expression(v)}" for k, v in names.items()]
    bases = f"({r.all(value.bases)}{',' * (len(value.bases) == 1)})"
    name = r.name(value, f"{r.named(type)}({value.name!r}, {bases}, {{{', '.join(words)}}})")
    r.making.pop()
    r.waiting.append(lambda: _finish_class(r, value, name))
    if not r.making:
        waiting, r.waiting = r.waiting, []
        for fill in waiting:
            fill()
    return name


def _data_field(r: Rebuilder, value: FieldVariable) -> str:
    words = [f"{name}={r.expression(option)}" for name, option in value.options.items()]
    return r.name(value, f"{r.named(dataclasses.field)}({', '.join(words)})")


def _finish_class(r: Rebuilder, value: LocalClassVariable, name: str) -> None:
    if value.options is not None:
        words = [name, *(f"{option}={r.constant(v)}" for option, v in value.options.items())]
        r.lines.append(f"{r.named(dataclasses.dataclass)}({', '.join(words)})")
    for key, attribute in value.attrs.items():
        if attribute is not None:
            r.lines.append(f"{name}.{key} = {r.expression(attribute)}")


def _unbacked(r: Rebuilder, sym: Any) -> str:
    """A number that only the data knew: each of its symbols is read from the tensor that shows it."""
    sizes = sym.env

    def shown(symbol: Any) -> str:
        if symbol not in sizes.makers:
            return r.codegen.source(sizes.sources[symbol], early=True)
        tensor = sizes.makers[symbol]
        return f"{r.expression(tensor)}.{'shape[0]' if tensor.meta.shape else 'item()'}"

    return python_text(sym.expr, shown)


_MAKE: dict[type, Make] = {
    TensorVariable: _tensor,
    NumpyNdarrayVariable: _array,
    ConstantVariable: lambda r, v: r.constant(v.value),
    TupleVariable: _tuple,
    ListVariable: lambda r, v: f"[{r.all(v.items)}]",
    ConstDictVariable: _dict,
    DefaultDictVariable: lambda r, v: _default_dict(r, v, _dict(r, ConstDictVariable(v.items))),
    DequeVariable: lambda r, v: f"{r.named(deque)}([{r.all(v.items)}], {v.limit})",
    PartialVariable: _partial,
    SetVariable: _set,
    ObjectDictVariable: lambda r, v: f"{r.expression(v.part_of)}.__dict__",
    IdVariable: lambda r, v: f"{r.named(id)}({r.expression(v.of)})",
    SliceVariable: lambda r, v: f"{r.named(slice)}({r.all(v.items)})",
    DictViewVariable: lambda r, v: f"{r.expression(v.mapping)}.{v.name}()",
    CellVariable: _cell,
    UserFunctionVariable: _function,
    UserMethodVariable: _method,
    ExceptionVariable: _exception,
    HandleVariable: _handle,
    LocalClassVariable: _local_class,
    WrapperVariable: lambda r, v: r.name(v, f"{r.named(type(v.real))}({r.all(v.functions)})"),
    FieldVariable: _data_field,
    GeneratedFunctionVariable: lambda r, v: f"{r.expression(v.owner)}.{v.attribute}",
    UserDefinedObjectVariable: _object,
    UnbackedIntVariable: lambda r, v: _unbacked(r, v.sym),
    UnbackedFloatVariable: lambda r, v: f"{r.expression(v.tensor)}.item()",
    UnbackedBoolVariable: lambda r, v: (
        _unbacked(r, v.sym) if v.tensor is None else f"{r.expression(v.tensor)}.item()"
    ),
    SuperVariable: lambda r, v: f"{r.named(super)}({r.named(v.owner)}, {r.expression(v.receiver)})",
    IteratorVariable: lambda r, v: v.rebuild(r) or r.unsupported(v),
    NestedFunctionVariable: lambda r, v: f"{CapturedFrame.nested_name}({r.expression(v.function)})",
    InstructionVariable: lambda r, v: (
        f"{r.named(functools.partial)}({r.named(v.run)}, {CapturedFrame.nested_name}, {v.detail!r})"
    ),
}
# What may hold itself: made empty, filled when its contents are there.
_FILL: dict[type, tuple[Make, Callable[[Rebuilder, Any, str], None]]] = {
    ListVariable: (lambda r, v: "[]", _fill_list),
    DequeVariable: (lambda r, v: f"{r.named(deque)}((), {v.limit})", _fill_list),
    DefaultDictVariable: (lambda r, v: _default_dict(r, v, "{}"), _fill_dict),
    ConstDictVariable: (lambda r, v: f"{r.named(v.kind)}()", _fill_dict),
    CellVariable: (lambda r, v: f"{r.named(types.CellType)}()", _fill_cell),
}
