"""Calls of operators: the one place where the graph grows.

Input: an Operator and abstract arguments. The operator's meta rule says what the result is; nothing is
computed. An operator that writes records a node too, and yields the tensor it wrote to.
"""

from __future__ import annotations

import functools
import operator as python
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NoReturn

import numpy as np

from stage0_eager import TABLE, is_grad_enabled, set_grad_enabled
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import root
from stage0_eager.transforms.shadow_tape import whole_of
from stage0_eager.transforms.trace import map_tensors
from stage1_capture.state.graph_builder import Restart, SkipFrame
from stage1_capture.state.machine import CALLED_BY_CLASS, Args, Kwargs, Tx
from stage1_capture.variables import autocast
from stage1_capture.variables.base import SEQUENCES, Variable, realize
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.known_results import meta_and_returned, viewed_once
from stage1_capture.variables.ndarray import NumpyNdarrayVariable
from stage1_capture.variables.scalar_inputs import scalars_as_inputs
from stage1_capture.variables.sequence import ListVariable, TupleVariable
from stage1_capture.variables.tensor import TensorVariable, note_write
from stage_contracts.breaks import Unsupported
from stage_contracts.graph import Node
from stage_contracts.source import ArraySource, AttrSource, RegisteredSource
from stage_contracts.tensor_meta import TensorMeta
from stage_contracts.unbacked import DataDependentError

# Of numbers that only the data knows: what variables/unbacked.py has to say before a call, and before its node.
UNKNOWN: dict[str, Callable[..., Any]] = {}
# Operators whose result the data sizes -> how they are recorded (builtins/torch/data_sized.py); None: as any other.
DATA_SIZED: dict[str, Callable[[Tx, Operator, Args, Kwargs], Variable | None]] = {}


def call_operator(tx: Tx, op: Operator, args: Args, kwargs: Kwargs) -> Variable:
    """Record `op(*args, **kwargs)` and return what it yields."""
    kwargs = op.spelled(kwargs) if kwargs else kwargs
    if "out" in kwargs and "out" not in op.params:
        return _call_into_out(tx, op, args, dict(kwargs))
    if not tx.output.graph.has_calls:
        tx.output.graph_mode = tx.output.grad_enabled or tx.output.options.graph_mode
    if tx.output.modes["autocast"]:
        args, kwargs = autocast.with_casts(tx, op, args, kwargs, _call_in_mode)
    autocast.check_inference(tx, op, args, kwargs)
    args, kwargs = UNKNOWN["operands"](tx, op, args, kwargs)
    if op.name in DATA_SIZED and (found := DATA_SIZED[op.name](tx, op, args, kwargs)) is not None:
        return found
    args, kwargs = scalars_as_inputs(tx, op, args, kwargs)
    result = _call_in_mode(tx, op, args, kwargs)
    autocast.mark_inference(tx, result, args, kwargs)
    return result


def _call_in_mode(tx: Tx, op: Operator, args: Args, kwargs: Kwargs) -> Variable:
    if tx.output.grad_enabled is not tx.output.graph_mode:
        with set_grad_enabled(tx.output.grad_enabled):
            return _call_in_other_mode(tx, op, args, kwargs)
    if is_grad_enabled() is tx.output.graph_mode:
        return _call(tx, op, args, kwargs)
    with set_grad_enabled(tx.output.graph_mode):
        return _call(tx, op, args, kwargs)


def _call_in_other_mode(tx: Tx, op: Operator, args: Args, kwargs: Kwargs) -> Variable:
    """The graph runs in the grad mode it began in; inside no_grad its operators get detached tensors."""
    if tx.output.grad_enabled:
        raise Restart(replace(tx.output.options, graph_mode=True))
    detached = [detached_of(tx, a) for a in args]
    result = _call(tx, op, detached, {k: detached_of(tx, v) for k, v in kwargs.items()})
    back = {id(new): old for new, old in zip(detached, args, strict=True)}
    return back.get(id(result), result)  # x.add_() is x


def detached_of(tx: Tx, value: Variable) -> Variable:
    value = realize(value)
    if not value.is_tensor():
        return value if value.family() not in SEQUENCES else value.mapped(lambda v: detached_of(tx, v))
    if not value.meta.requires_grad:
        return value
    detached = _call(tx, TABLE["cutaway.detach"], [value], {})
    node = tx.output.node_of(detached)  # type: ignore[arg-type]
    node.meta["stands_for_no_grad"] = True  # the program has no such call
    tx.output.detached_inside.add(node)
    if value.source is not None:
        tx.output.mutable_through[detached] = value  # type: ignore[index,assignment]
    return detached


def _call(tx: Tx, op: Operator, args: Args, kwargs: Kwargs) -> Variable:
    metas = [argument(tx, op, a, lambda t: t.meta) for a in args]
    kwmetas = {k: argument(tx, op, v, lambda t: t.meta) for k, v in kwargs.items()}
    try:
        if op.opaque:
            return _call_opaque(tx, op, args, kwargs, op.meta(*metas, **kwmetas))
        known = tx.output.known_results
        result, same = meta_and_returned(known, op, op.bind(*metas, **kwmetas))
    except Unsupported as refusal:
        broken = refusal.graph_break
        tx.unsupported(broken.code, broken.reason)
    except DataDependentError as question:
        tx.unsupported("GB0016", f"{op.name}: {question}")
    except Exception as error:  # the user's mistake, such as shapes that do not fit: eager raises it
        tx.unsupported("GB0066", f"{op.name} raises {type(error).__name__}: {error}")
    if op.mutates:
        return _call_in_place(tx, op, args, kwargs, result)
    # Python can tell that `y is x`: such a call must not become a node that makes a new tensor.
    if same is not None:
        return op.bind(*args, **kwargs)[same]
    return results_of(tx, _record(tx, op, args, kwargs, result), result)


def _call_into_out(tx: Tx, op: Operator, args: Args, kwargs: Kwargs) -> Variable:
    """`op(..., out=x)` as two nodes, the call and the write; only eager resizes, or refuses as torch does."""
    out = realize(kwargs.pop("out"))
    if out.is_none():
        return call_operator(tx, op, args, kwargs)
    with tx.output.having(modes={**tx.output.modes, "autocast": ()}):  # it leaves out= alone
        result = call_operator(tx, op, args, kwargs)
    fits = (
        out.is_tensor()
        and result.is_tensor()
        and out.meta.shape == result.meta.shape
        and out.meta.dtype.category >= result.meta.dtype.category
        and not (is_grad_enabled() and (out.meta.requires_grad or result.meta.requires_grad))
    )
    if not fits:
        tx.unsupported("GB0067", f"{op.name} into an `out` of another shape or kind")
    return call_operator(tx, TABLE["cutaway.copy_"], [out, result], {})


def argument(tx: Tx, op: Operator, variable: Variable, leaf: Callable[[TensorVariable], Any]) -> Any:
    """An argument for a node (leaf: its node) or for a meta rule (leaf: its meta)."""
    variable = realize(variable)
    if type(variable) is TensorVariable:  # as most are
        return leaf(variable)
    if type(variable) is ConstantVariable:
        return variable.value

    def refuse(other: Variable) -> NoReturn:
        code = "GB0005" if other.source is not None else "GB0069"
        tx.unsupported(code, f"{op.name} with {other.describe()} as an argument")

    def placed(value: Variable) -> Any:
        if value.is_open():
            return tx.output.node_of_size(value) if leaf == tx.output.node_of else value.sym  # type: ignore[arg-type]
        scalar = value.is_array() and isinstance(value.real, np.generic) and op.namespace == "cutaway"
        return known_scalar(tx, value) if scalar else leaf(value.tensor if value.is_array() else value)  # type: ignore[arg-type]

    return variable.as_proxy(placed, refuse)


def known_scalar(tx: Tx, scalar: NumpyNdarrayVariable) -> Any:
    """The number that a NumPy scalar from outside is, guarded."""
    if not isinstance(scalar.source, RegisteredSource):
        tx.output.guard("EQUALS", scalar.source, scalar.real)
    return scalar.real.item()


def _record(tx: Tx, op: Operator, args: Args, kwargs: Kwargs, val: Any) -> Any:
    if tx.output.sizes.deferred and op.name != "check":
        UNKNOWN["deferred"](tx)
    nodes = [argument(tx, op, a, tx.output.node_of) for a in args]
    kwnodes = {k: argument(tx, op, v, tx.output.node_of) for k, v in kwargs.items()}
    silent = tx.output.graph_mode and not tx.output.grad_enabled
    marks: dict[str, Any] = {"writes_silently" if op.mutates else "no_grad": True} if silent else {}
    return tx.output.graph.call_function(op, nodes, kwnodes, val=val, origins=_origins(tx), **marks)


def record_node(tx: Tx, op: Operator, args: Args, kwargs: Kwargs, val: Any) -> Variable:
    """One call of an operator whose result metas are known: its node, and the value it yields."""
    return results_of(tx, _record(tx, op, args, kwargs, val), val)


def _origins(tx: Tx) -> tuple:
    return (tx.output.origin(),)


def results_of(tx: Tx, node: Any, result: Any) -> Variable:
    if isinstance(result, TensorMeta):
        return TensorVariable(result, node)
    graph, origins = tx.output.graph, _origins(tx)
    items = [
        TensorVariable(meta, graph.call_function(python.getitem, (node, i), val=meta, origins=origins))
        for i, meta in enumerate(result)
    ]
    return TupleVariable(list(items), type(result) if hasattr(result, "_fields") else tuple)


def _call_opaque(tx: Tx, op: Any, args: Args, kwargs: Kwargs, result: Any) -> Variable:
    """A custom operator. What it writes to is checked as for any other write."""
    bound = dict(zip(op.params, op.bind(*args, **kwargs)))
    for name in op.mutates:
        for target in realize(bound[name]).tensors():
            if target.meta.requires_grad and is_grad_enabled():
                tx.unsupported("GB0090", f"{op.name} writes to a tensor that requires grad")
            _check_write(tx, op, target)
            tx.output.mutated[target] = None
    node = _record(tx, op, args, kwargs, result)
    if result is None:
        return NONE
    made = results_of(tx, node, result)
    return ListVariable(made.items) if op.listed else made


def _check_write(tx: Tx, op: Operator, target: TensorVariable) -> None:
    """Break where eager would put what the target is a view of on the tape. Memory alone is seen to at the call."""
    whole = tx.output.mutable_through.get(target)
    if whole is not None:
        tx.output.mutated[whole] = None
    if target.source is not None and target.real._base is not None:
        _check_view(tx, op, target)
    inside = tx.output.detached_inside
    if inside and is_grad_enabled() and _whole_of(tx, tx.output.node_of(target)) in inside:
        reason = f"{op.name} writes to a view that was made under no_grad"
        raise SkipFrame(reason, tx.output.origin(), code="GB0090")  # eager raises its error


def _check_view(tx: Tx, op: Operator, target: TensorVariable) -> None:
    """A view from outside: its memory may be written, but nothing behind it may come onto the tape."""
    assert target.source is not None
    if target.meta.requires_grad and not is_grad_enabled():
        return
    if isinstance(target.source, ArraySource) or target.real._base.requires_grad:
        tx.unsupported("GB0090", f"{op.name} writes to a view of a tensor that requires grad")
    base = AttrSource(target.source, "_base")
    tx.output.guard("NOT_ALIASED", base, None)
    tx.output.guard("IDENTITY", AttrSource(base, "requires_grad"), False)


def _whole_of(tx: Tx, node: Node) -> Node:
    """The node whose memory this one's is."""
    return whole_of(tx.output.graph, node, functools.partial(viewed_once, tx.output.known_results))


def _check_leaf(tx: Tx, op: Operator, target: TensorVariable) -> None:
    """Break where eager would refuse to write through a view of a leaf: what came before must have happened."""
    node = _whole_of(tx, tx.output.node_of(target))
    if node.op == "call_function" and getattr(node.target, "name", "") != "hook":
        return  # no input: of these, only one with a hook is what a call gives
    bases = [root(t.real) for t in tx.output.known.values() if t.is_tensor() and t.node is node]
    if any(base.requires_grad and base.is_leaf for base in bases):
        tx.unsupported("GB0090", f"{op.name} writes to a view of a leaf that requires grad")


def _check_alone(tx: Tx, op: Operator, node: Node) -> None:
    """Break where a write puts other tensors on the tape too: what they are views of, or what is a view of them."""
    others = [_whole_of(tx, n) for n in node.users if n.op == "call_function"]
    whole, reason = _whole_of(tx, node), f"{op.name} puts a tensor and its views on the tape"
    if whole is not node and getattr(whole.target, "name", "") == "detach":
        # after a break each of them would be made anew from what was detached, and be no view of the other
        raise SkipFrame(reason, tx.output.origin(), code="GB0090")
    if whole is not node or node in others:
        tx.unsupported("GB0090", reason)


def _call_in_place(tx: Tx, op: Operator, args: Args, kwargs: Kwargs, result: TensorMeta | None) -> Variable:
    """A write to a tensor. Its own shape and dtype stay; whether it requires grad may change."""
    target = dict(zip(op.params, op.bind(*args, **kwargs)))[op.mutates[0]]
    tx.output.must_be_new(target)
    note_write(tx.output, target)
    tx.output.written.append(target)
    meta = target.meta
    if tx.output.reversals and op.namespace == "cutaway":
        tx.unsupported("GB0030", f"{op.name} writes to a tensor, beside a reversed view of an array")
    _check_write(tx, op, target)
    if meta.requires_grad and is_grad_enabled():
        if target.source is not None:
            tx.unsupported("GB0090", f"{op.name} writes to an input that requires grad")
        _check_leaf(tx, op, target)
    if (
        _is_recorded(args, kwargs, result)
        and is_grad_enabled()
        and meta.dtype.is_floating_point
        and not meta.requires_grad
    ):
        if target.source is not None:
            tx.unsupported("GB0090", f"{op.name} puts an input on the tape")
        _check_alone(tx, op, tx.output.node_of(target))
        target.meta = meta.with_(requires_grad=True, strides=meta.strides)
    _record(tx, op, args, kwargs, result)
    tx.output.mutated[target] = None
    return NONE if result is None else target


def _is_recorded(args: Args, kwargs: Kwargs, result: TensorMeta | None) -> bool:
    """Whether the target is part of the tape after the write, where gradients are recorded."""
    if result is not None:
        return result.requires_grad
    return any(t.meta.requires_grad for a in (*args, *kwargs.values()) for t in realize(a).tensors())


__all__ = ["argument", "call_operator", "map_tensors"]


CALLED_BY_CLASS[Operator] = lambda tx, function, args, kwargs: call_operator(tx, function.real, args, kwargs)
