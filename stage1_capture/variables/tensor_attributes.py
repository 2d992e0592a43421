"""Attributes of tensors: facts of the meta are constants, methods are operators, properties are inlined.

Input: a TensorVariable and a name. What reads a tensor's data or changes its place on the tape is a break. `x.data` is
a detach node as long as nothing in the frame is written in place: eager's shares memory but no version counter, so a
write through it does not spoil gradients that are still to come, and a graph cannot say that. A frame that writes
breaks at the read instead, and so does one that lets out what may be a view of the data.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, cast

from stage0_eager import TABLE
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor
from stage1_capture.state.graph_builder import OutputGraph, Restart, SkipFrame
from stage1_capture.state.machine import Tx
from stage1_capture.state.mro import MISSING, class_lookup
from stage1_capture.variables.base import Variable, from_constant, realize
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.object_dict import refuse_second_way
from stage_contracts.graph import Node
from stage_contracts.source import AttrSource
from stage_contracts.tensor_meta import TensorMeta

if TYPE_CHECKING:
    from stage1_capture.variables.tensor import TensorVariable


# What a tensor's guard fixes: attributes and methods that are constants of the capture.
TENSOR_FACTS: dict[str, Callable[[TensorMeta], Any]] = {
    "shape": lambda m: m.shape,
    "ndim": lambda m: m.ndim,
    "dtype": lambda m: m.dtype,
    "device": lambda m: m.device,
    "requires_grad": lambda m: m.requires_grad,
    "is_cuda": lambda m: m.device.type == "cuda",
}
TENSOR_FACT_METHODS: dict[str, Callable[..., Any]] = {
    "size": lambda m, dim=None: m.shape if dim is None else m.shape[dim],
    "stride": lambda m, dim=None: m.strides if dim is None else m.strides[dim],
    "dim": lambda m: m.ndim,
    "numel": lambda m: m.numel,
    "is_contiguous": lambda m: m.is_contiguous,
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


def note_write(output: OutputGraph) -> None:
    """To be called at each write to a tensor."""
    if output.data_of:
        raise Restart(replace(output.options, data_is_written=True))


def note_escape(output: OutputGraph, tensor: TensorVariable) -> None:
    """To be called for each tensor that Python gets, but data itself."""
    sources = {data.node for data in output.data_of}
    if sources and tensor.node is not None and _may_share(tensor.node, sources, set()):
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
