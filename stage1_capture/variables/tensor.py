"""Tensors: a meta, and the node of the graph that yields it.

Input: variables/builder.py makes one of a tensor from outside, variables/operators.py one of each result. Of its
attributes, facts of the meta are constants, methods are operators, properties are inlined; what reads its data or
changes its place on the tape is a break. `x.data` is a detach node as long as the frame does not write to what a
gradient may need: eager's shares memory but no version counter, so a write through it does not spoil gradients that are
still to come, and a graph cannot say that. A frame that does breaks at the read instead, and so does one that lets out
what may be a view of the data.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import field, replace
from operator import attrgetter
from typing import Any, NoReturn, cast

from stage0_eager import TABLE
from stage0_eager.nn import Parameter
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor, is_traced
from stage1_capture.state.graph_builder import OutputGraph, Restart, SkipFrame
from stage1_capture.state.machine import KINDS, Args, Kwargs, Tx
from stage1_capture.variables.base import Variable, from_constant, realize, yes
from stage1_capture.variables.builder import BUILDERS_BY_CLASS, class_variable, once, wrap_as_object
from stage1_capture.variables.hash_keys import by_identity
from stage1_capture.variables.iterator import IteratorVariable
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.object_dict import refuse_second_way
from stage_contracts import config
from stage_contracts.array_guards import CAPTURED_DTYPES
from stage_contracts.class_lookup import MISSING, class_lookup
from stage_contracts.graph import Node
from stage_contracts.guards import OpenMeta, TensorOf
from stage_contracts.memory_format import laid_out
from stage_contracts.source import AttrSource, ItemSource, RegisteredSource, Source
from stage_contracts.tensor_meta import TensorMeta

# The methods that read data, and what they give where the data need not be known: variables/unbacked.py.
DATA_READS: dict[str, Callable[[Tx, Any], Variable]] = {}


def can_be_array(tensor: TensorVariable) -> bool:
    """Whether `tensor.numpy()` gives an array that can be followed."""
    meta = tensor.meta
    captured = meta.dtype.numpy.num in CAPTURED_DTYPES and config.current().capture.trace_numpy
    return captured and not meta.requires_grad and meta.device.type == "cpu"


class DataVariable(Variable):
    """What tensors and arrays have in common: of their data only the meta is known."""

    has_data = yes

    def truth(self, tx: Tx) -> bool:
        tx.unsupported("GB0003", f"a branch on {self.describe()}")

    def iterator(self, tx: Tx) -> Variable:
        return RowIterator(tensor=self) if self.meta.shape else super().iterator(tx)

    def as_proxy(self, leaf: Callable[[Any], Any], refuse: Callable[[Variable], NoReturn]) -> Any:
        return leaf(self)

    def defines(self, name: str) -> bool:
        return True


class TensorVariable(DataVariable):
    """A tensor: its meta, and the node that yields it (for an input, made at first use)."""

    meta: TensorMeta
    node: Node | None = None
    real: Any = None  # the tensor itself, for an input: its identity and class, never its data
    attrs: dict[str, Variable] = field(default_factory=dict)  # what the program stored on it: `grad`
    is_tensor = yes
    is_plain_data = yes
    is_compared_by_identity = yes

    def python_type(self, tx: Tx) -> type:
        """One from outside may be a Parameter: guarded."""
        if self.real is None:
            return Tensor
        tx.output.guard("TYPE", self.source, type(self.real))
        return type(self.real)

    def describe(self) -> str:
        return f"a tensor {self.meta}"

    def class_name(self) -> str:
        return "Tensor" if self.real is None else type(self.real).__name__

    def var_getattr(self, tx: Tx, name: str) -> Variable | None:
        if name == "__class__":
            return class_variable(tx, self, self.python_type(tx))
        return tensor_attribute(tx, self, name)

    def store_attribute(self, tx: Tx, name: str, value: Variable) -> None:
        """`tensor.grad = value`, of a tensor from outside."""
        if name != "grad" or self.real is None:
            tx.unsupported("GB0101", f"an assignment to the attribute {name} of {self.describe()}")
        self.store_gradient(tx, value)

    def store_gradient(self, tx: Tx, value: Variable) -> None:
        if self.source is None or not (value.is_none() or value.is_tensor()):
            what = f"the gradient of {self.describe()}"
            tx.unsupported("GB0101", f"an assignment of {value.describe()} to {what}")
        tx.output.will_change(self)
        self.attrs["grad"] = value

    def special_method(self, tx: Tx, name: str) -> Variable | None:
        return tensor_attribute(tx, self, name)

    def call_method(self, tx: Tx, name: str, args: Args, kwargs: Kwargs) -> Variable:
        if name == "numpy" and can_be_array(self):
            return KINDS["array"](self)
        if name in DATA_READS and config.current().capture.capture_scalar_outputs:
            return DATA_READS[name](tx, self)
        if name in TENSOR_REFUSALS:
            refuse(tx, name, self)
        return tx.fold(lambda *a, **k: TENSOR_FACT_METHODS[name](self.meta, *a, **k), args, kwargs)

    def tensors(self) -> list[Any]:
        return [self]

    def hash_key(self, tx: Tx) -> Any:
        return by_identity(tx, self)

    def snapshot(self) -> Any:
        return None


def _wrap_tensor(output: OutputGraph, real: Tensor, source: Source | None) -> Variable:
    if source is None or is_traced(real) or type(real) not in (Tensor, Parameter):
        return wrap_as_object(output, real, source)  # nothing is done with it here
    if isinstance(source, RegisteredSource) and isinstance(real, Parameter):
        output.epoch_sources.add(source)  # which leads to this very object or to none: an optimizer's key
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
    shape: list[Any] = list(meta.shape)
    for d in sorted(dims):
        place = ItemSource(AttrSource(source, "shape"), d)
        shape[d] = output.sizes.open(place, meta.shape[d], dims[d].name, dims[d].low, dims[d].high)
    output.strict |= {size.expr: (source, d) for d, size in enumerate(shape) if d in dims and dims[d].strict}
    opened = meta.with_(shape=tuple(shape), strides=guard.strides(tuple(shape)))
    return opened, ("OPEN_TENSOR", TensorOf(type(real), guard))


BUILDERS_BY_CLASS[Tensor] = _wrap_tensor


class RowIterator(IteratorVariable):
    """iter(tensor), iter(array): its rows, as views."""

    tensor: Any = None
    index: int = 0
    holds = ("tensor",)

    def advance(self, tx: Any) -> Variable | None:
        if self.index >= self.tensor.meta.shape[0]:
            return None
        self.index += 1
        return self.tensor.subscript(tx, from_constant(self.index - 1))

    def rebuild(self, r: Any) -> str:
        tensor = r.expression(self.tensor)
        return f"iter([{tensor}[i] for i in range({self.index}, len({tensor}))])"


# What a tensor's guard fixes: attributes and methods that are constants of the capture.
TENSOR_FACTS: dict[str, Callable[[TensorMeta], Any]] = {
    **{name: attrgetter(name) for name in ("shape", "ndim", "dtype", "device", "requires_grad")},
    "is_cuda": lambda m: m.device.type == "cuda",
}
TENSOR_FACT_METHODS: dict[str, Callable[..., Any]] = {
    "size": lambda m, dim=None: m.shape if dim is None else m.shape[dim],
    "stride": lambda m, dim=None: m.strides if dim is None else m.strides[dim],
    "dim": lambda m: m.ndim,
    "numel": lambda m: m.numel,
    "is_contiguous": laid_out,
    "is_floating_point": lambda m: m.dtype.is_floating_point,
    "__len__": lambda m: m.shape[0],
}
# What a graph cannot hold: the code of the break, and what is wrong.
TENSOR_REFUSALS: dict[str, tuple[str, str]] = {
    **dict.fromkeys(
        ("item", "tolist", "numpy", "__array__", "__float__", "__int__", "__index__"),
        ("GB0004", "reads its data"),
    ),
    **dict.fromkeys(
        ("grad", "grad_fn", "is_leaf", "_data", "data"), ("GB0050", "is about the tape, not the value")
    ),
    "requires_grad_": ("GB0091", "changes the tensor"),
    "set_": ("GB0091", "replaces its memory"),
    "detach_": ("GB0091", "takes it off the tape, where it is no view"),
}


def tensor_attribute(tx: Tx, tensor: TensorVariable, name: str) -> Variable | None:
    if name in TENSOR_FACTS:
        return from_constant(TENSOR_FACTS[name](tensor.meta))
    if name in TENSOR_FACT_METHODS:
        return UserMethodVariable(name, tensor)
    if name in tensor.attrs:
        return realize(tensor.attrs[name])
    if name == "grad" and tensor.real is not None and tensor.source is not None:
        return tx.wrap(tensor.real.grad, AttrSource(tensor.source, name))
    found = class_lookup(type(tensor.real) if tensor.real is not None else Tensor, name)
    if isinstance(found, (Operator, types.FunctionType)) and name[:2] != "__":
        shadow = _users_own(tx, tensor, name)
        if shadow is not None:
            return shadow
    if name == "data" and not tx.output.options.data_is_written and isinstance(found, property):
        return read_data(tx, tensor)
    if name in TENSOR_REFUSALS and not isinstance(found, types.FunctionType):
        refuse(tx, name)
    return _of_class(tx, tensor, found, name)


def _of_class(tx: Tx, tensor: TensorVariable, found: Any, name: str) -> Variable | None:
    """What lies in the class of tensors: operators, and functions and properties that are followed."""
    if name in TENSOR_REFUSALS:
        return UserMethodVariable(name, tensor)  # it is the call that breaks
    if isinstance(found, property):
        return tx.inline(tx.wrap(found.fget, None), [tensor], {})
    if isinstance(found, (Operator, types.FunctionType)):
        return UserMethodVariable(tx.wrap(found, None), tensor)
    if found is MISSING:
        return _users_own(tx, tensor, name)
    tx.unsupported("GB0022", f"the attribute {name} of a tensor")


def _users_own(tx: Tx, tensor: TensorVariable, name: str) -> Variable | None:
    """What the user stored on the tensor. One that the program made has nothing; for a parameter the epoch tells."""
    if tensor.real is None or tensor.source is None:
        return None
    refuse_second_way(tx.output, tensor.real)
    place = AttrSource(tensor.source, "__dict__")
    if name in vars(tensor.real):
        return tx.wrap(vars(tensor.real)[name], AttrSource(tensor.source, name))
    tx.output.guard("ABSENT_KEY", place, name, tensor.source in tx.output.epoch_sources)
    return None


def refuse(tx: Tx, name: str, tensor: TensorVariable | None = None) -> NoReturn:
    """Break at what a graph cannot hold of a tensor."""
    code, why = TENSOR_REFUSALS[name]
    if name == "detach_" and tensor is not None and tensor.source is None:
        # whether what a graph gives is a view to eager too is not known: all of it runs in Python
        raise SkipFrame(f"the tensor's {name} {why}", tx.output.origin(), code=code)
    tx.unsupported(code, f"the tensor's {name} {why}")


def read_data(tx: Tx, tensor: TensorVariable) -> TensorVariable:
    """`tensor.data`. The caller has asked `tx.output.options.data_is_written` before."""
    found = cast("TensorVariable", tx.call(tx.wrap(TABLE["cutaway.detach"], None), [tensor], {}))
    tx.output.data_of[found] = tensor
    return found


def note_write(output: OutputGraph, target: TensorVariable) -> None:
    """To be called at each write to a tensor."""
    if not output.data_of:
        return
    memory = output.memory_of(output.node_of(target))
    if _spoils_gradients(output, memory):
        raise Restart(replace(output.options, data_is_written=True))
    output.written_memory.add(memory)


def _spoils_gradients(output: OutputGraph, memory: Node) -> bool:
    """Whether a write to this memory, of which the frame has a `.data`, is of what a gradient may still need: of what
    came from outside, or what something on the tape was computed from."""
    if all(data.node is None or output.memory_of(data.node) is not memory for data in output.data_of):
        return False
    if memory.op == "placeholder":
        return True
    there = [n for n in memory.graph.nodes if n.op == "call_function" and output.memory_of(n) is memory]
    return any(getattr(user.val, "requires_grad", True) for node in there for user in node.users)


def note_escape(output: OutputGraph, tensor: TensorVariable) -> None:
    """To be called for each tensor that Python gets, but data itself."""
    sources = {data.node for data in output.data_of}
    if not sources or tensor.node is None:
        return
    counted = output.memory_of(tensor.node) in output.written_memory  # eager's version tells who wrote
    if counted or _may_share(tensor.node, sources, set()):
        raise Restart(replace(output.options, data_is_written=True))


_SHARING = ("view", "identity")  # kinds of core operators


def _may_share(node: Node, sources: set[Node | None], seen: set[Node]) -> bool:
    if node in sources:
        return True
    name = getattr(node.target, "name", "")
    by_core = TABLE.get(f"core.{name}")  # one of another name may be a view, for all that is known here
    computed = by_core is not None and by_core.core is not None and by_core.core.kind not in _SHARING
    if node in seen or computed or name == "clone":
        return False
    seen.add(node)
    return any(_may_share(each, sources, seen) for each in node.all_input_nodes)
