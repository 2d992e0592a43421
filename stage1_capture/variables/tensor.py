"""Tensors: a meta, and the node of the graph that yields it.

Input: variables/builder.py makes one of a tensor from outside, variables/operators.py one of each result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from stage0_eager.nn import Parameter
from stage0_eager.tensor import Tensor, is_traced
from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import KINDS, Args, Kwargs, Tx
from stage1_capture.variables.base import Variable, describe, from_constant, yes
from stage1_capture.variables.builder import BUILDERS_BY_CLASS, class_variable, once, wrap_as_object
from stage1_capture.variables.hash_keys import by_identity
from stage1_capture.variables.iterator import IteratorVariable
from stage1_capture.variables.tensor_attributes import (
    TENSOR_FACT_METHODS,
    TENSOR_REFUSALS,
    refuse,
    tensor_attribute,
)
from stage_contracts import config
from stage_contracts.array_guards import CAPTURED_DTYPES
from stage_contracts.graph import Node
from stage_contracts.guards import OpenMeta, TensorOf
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
        tx.unsupported("GB0003", f"a branch on {describe(self)}")

    def iterator(self, tx: Tx) -> Variable:
        return RowIterator(tensor=self) if self.meta.shape else super().iterator(tx)

    def as_proxy(self, leaf: Callable[[Any], Any], refuse: Callable[[Variable], NoReturn]) -> Any:
        return leaf(self)

    def defines(self, name: str) -> bool:
        return True


@dataclass(eq=False)
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
            tx.unsupported("GB0101", f"an assignment to the attribute {name} of {describe(self)}")
        self.store_gradient(tx, value)

    def store_gradient(self, tx: Tx, value: Variable) -> None:
        if self.source is None or not (value.is_none() or value.is_tensor()):
            what = f"the gradient of {describe(self)}"
            tx.unsupported("GB0101", f"an assignment of {describe(value)} to {what}")
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


BUILDERS_BY_CLASS[Tensor] = _wrap_tensor


@dataclass(eq=False)
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
