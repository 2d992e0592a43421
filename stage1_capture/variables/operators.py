"""Calls of operators: the one place where the graph grows.

Input: an Operator and abstract arguments. The operator's meta rule says what the result is; nothing is
computed. An operator that writes records a node too, and yields the tensor it wrote to.
"""

from __future__ import annotations

import operator as python
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from stage0_eager import TABLE, is_grad_enabled, set_grad_enabled
from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor, root
from stage0_eager.transforms.trace import TracedArray, Tracer, interpreting, map_tensors
from stage1_capture.state import modes
from stage1_capture.state.graph_builder import Restart, SkipFrame
from stage1_capture.state.machine import Tx
from stage1_capture.state.shadow_tape import whole_of
from stage1_capture.variables.base import (
    NONE,
    ConstantVariable,
    ConstDictVariable,
    ListVariable,
    NumpyNdarrayVariable,
    SliceVariable,
    TensorVariable,
    TupleVariable,
    UserDefinedObjectVariable,
    Variable,
    as_constant,
    describe,
    realize,
)
from stage1_capture.variables.data_reads import note_write
from stage1_capture.variables.number import EXACT, NumberVariable, text_of
from stage_contracts import dtype as dt
from stage_contracts.breaks import Unsupported
from stage_contracts.device import Device
from stage_contracts.graph import Node
from stage_contracts.source import ArraySource, AttrSource, RegisteredSource, ScalarSource
from stage_contracts.symbolic import same_shape
from stage_contracts.tensor_meta import TensorMeta


def call_operator(tx: Tx, op: Operator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """Record `op(*args, **kwargs)` and return what it yields."""
    kwargs = op.spelled(kwargs)
    if "out" in kwargs and "out" not in op.params:
        return _call_into_out(tx, op, args, dict(kwargs))
    if not tx.output.graph.has_calls:
        tx.output.graph_mode = tx.output.grad_enabled or tx.output.options.graph_mode
    if tx.output.modes["autocast"]:
        args, kwargs = modes.with_casts(tx, op, args, kwargs, _call_in_mode)
    modes.check_inference(tx, op, args, kwargs)
    args, kwargs = scalars_as_inputs(tx, op, args, kwargs)
    result = _call_in_mode(tx, op, args, kwargs)
    modes.mark_inference(tx, result, args, kwargs)
    return result


def _call_in_mode(tx: Tx, op: Operator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    if tx.output.grad_enabled is not tx.output.graph_mode:
        with set_grad_enabled(tx.output.grad_enabled):
            return _call_in_other_mode(tx, op, args, kwargs)
    with set_grad_enabled(tx.output.graph_mode):
        return _call(tx, op, args, kwargs)


def _call_in_other_mode(tx: Tx, op: Operator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """The graph runs in the grad mode it began in; inside no_grad its operators get detached tensors."""
    if tx.output.grad_enabled:
        raise Restart(replace(tx.output.options, graph_mode=True))
    detached = [detached_of(tx, a) for a in args]
    result = _call(tx, op, detached, {k: detached_of(tx, v) for k, v in kwargs.items()})
    back = {id(new): old for new, old in zip(detached, args, strict=True)}
    return back.get(id(result), result)  # x.add_() is x


def detached_of(tx: Tx, value: Variable) -> Variable:
    value = realize(value)
    match value:
        case TensorVariable(meta=meta) if meta.requires_grad:
            detached = _call(tx, TABLE["cutaway.detach"], [value], {})
            node = tx.output.node_of(detached)  # type: ignore[arg-type]
            node.meta["stands_for_no_grad"] = True  # the program has no such call
            tx.output.detached_inside.add(node)
            if value.source is not None:
                tx.output.mutable_through[detached] = value  # type: ignore[index]
            return detached
        case ListVariable(items=items):
            return ListVariable([detached_of(tx, i) for i in items])
        case TupleVariable(items=items, kind=kind):
            return TupleVariable([detached_of(tx, i) for i in items], kind)
    return value


def _call(tx: Tx, op: Operator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    metas = [argument(tx, op, a, lambda t: t.meta) for a in args]
    kwmetas = {k: argument(tx, op, v, lambda t: t.meta) for k, v in kwargs.items()}
    try:
        result = op.meta(*metas, **kwmetas)
        if op.opaque:
            return _call_opaque(tx, op, args, kwargs, result)
        same = _returned_argument(op, op.bind(*metas, **kwmetas), result)
    except Unsupported as refusal:
        broken = refusal.graph_break
        tx.unsupported(broken.code, broken.reason)
    except Exception as error:  # the user's mistake, such as shapes that do not fit: eager raises it
        tx.unsupported("GB0066", f"{op.name} raises {type(error).__name__}: {error}")
    if same is not None:
        found = op.bind(*args, **kwargs)[same]
        assert isinstance(found, TensorVariable)
        return found
    if op.mutates:
        return _call_in_place(tx, op, args, kwargs, result)
    return results_of(tx, _record(tx, op, args, kwargs, result), result)


def _call_into_out(tx: Tx, op: Operator, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    """`op(..., out=x)` as two nodes, the call and the write; only eager resizes, or refuses as torch does."""
    out = realize(kwargs.pop("out"))
    if isinstance(out, ConstantVariable) and out.value is None:
        return call_operator(tx, op, args, kwargs)
    with modes.without_casts(tx):
        result = call_operator(tx, op, args, kwargs)
    fits = (
        isinstance(out, TensorVariable)
        and isinstance(result, TensorVariable)
        and out.meta.shape == result.meta.shape
        and out.meta.dtype.category >= result.meta.dtype.category
        and not (is_grad_enabled() and (out.meta.requires_grad or result.meta.requires_grad))
    )
    if not fits:
        tx.unsupported("GB0067", f"{op.name} into an `out` of another shape or kind")
    return call_operator(tx, TABLE["cutaway.copy_"], [out, result], {})


# Operators in which a number means the same as a tensor without dimensions, where the dtype of the result agrees.
ARITHMETIC = frozenset(
    f"{name}{end}"
    for name in "add sub mul div rsub rdiv maximum minimum lerp addcmul addcdiv".split()
    for end in ("", "_")
)


def scalars_as_inputs(
    tx: Tx, op: Operator, args: list[Variable], kwargs: dict[str, Variable]
) -> tuple[list[Variable], dict[str, Variable]]:
    """Open numbers among the operands of arithmetic, as tensors without dimensions: inputs of the graph."""
    everything = [*args, *kwargs.values()]
    device = next((a.meta.device for a in everything if isinstance(a, TensorVariable)), None)
    numbers = [a for a in everything if isinstance(a, NumberVariable)]
    exact = all(abs(n.hint) <= EXACT for n in numbers if type(n.hint) is int)
    if op.opaque or op.name not in ARITHMETIC or device is None or not numbers or not exact:
        return args, kwargs

    def replaced(value: Variable) -> Variable:
        return scalar_input(tx, value, device) if isinstance(value, NumberVariable) else value

    new_args, new_kwargs = [replaced(a) for a in args], {k: replaced(v) for k, v in kwargs.items()}
    try:
        fixed = op.meta(*_metas(args), **dict(zip(kwargs, _metas(list(kwargs.values())))))
        open_ = op.meta(*_metas(new_args), **dict(zip(kwargs, _metas(list(new_kwargs.values())))))
    except Exception:  # it looks at the number, or the call is wrong: as if the number were known
        return args, kwargs
    wide = isinstance(fixed, TensorMeta) and fixed.dtype in (dt.float32, dt.float64, dt.int64)
    if not wide or fixed != open_:
        return args, kwargs
    for number in numbers:
        text = text_of(number)
        drawn = any(text == draw.name for draw in tx.output.draws)  # within its bounds
        if type(number.hint) is int and not drawn:
            tx.output.guard("SHAPE", None, f"-{EXACT} <= {text} <= {EXACT}")
    return new_args, new_kwargs


def _metas(values: list[Variable]) -> list[Any]:
    """Operands for a meta rule, open numbers as their values in this call."""
    return [
        v.meta
        if isinstance(v, TensorVariable)
        else v.hint
        if isinstance(v, NumberVariable)
        else as_constant(v)
        for v in values
    ]


def scalar_input(tx: Tx, number: NumberVariable, device: Device) -> TensorVariable:
    """The tensor without dimensions that holds an open number; one per expression and device."""
    assert number.source is not None
    dtype = dt.int64 if type(number.hint) is int else dt.float64
    source = ScalarSource(number.source, dtype.name, str(device))
    if source not in tx.output.scalars:
        meta = TensorMeta((), dtype, device=device)
        tx.output.scalars[source] = TensorVariable(meta, source=source)
    return tx.output.scalars[source]


def argument(tx: Tx, op: Operator, variable: Variable, leaf: Callable[[TensorVariable], Any]) -> Any:
    """An argument for a node (leaf: its node) or for a meta rule (leaf: its meta)."""
    again = lambda v: argument(tx, op, v, leaf)  # noqa: E731
    match realize(variable):
        case TensorVariable() as tensor:
            return leaf(tensor)
        case NumpyNdarrayVariable(real=np.generic()) as scalar if op.namespace == "cutaway":
            return known_scalar(tx, scalar)  # a number to the functions of tensors
        case NumpyNdarrayVariable(tensor=tensor):
            return leaf(tensor)
        case NumberVariable(sym=sym) as number if sym is not None:
            return tx.output.node_of_size(number) if leaf == tx.output.node_of else sym
        case ConstantVariable(value=value):
            return value
        case TupleVariable(items=items):
            return tuple(map(again, items))
        case ListVariable(items=items):
            return list(map(again, items))
        case SliceVariable(items=items):
            return slice(*map(again, items))
        case ConstDictVariable(items=items):
            return {k: again(v) for k, v in items.items()}
        case UserDefinedObjectVariable(base=base) if base is not None:
            return again(base)
        case other:
            code = "GB0005" if other.source is not None else "GB0069"
            tx.unsupported(code, f"{op.name} with {describe(other)} as an argument")


def known_scalar(tx: Tx, scalar: NumpyNdarrayVariable) -> Any:
    """The number that a NumPy scalar from outside is, guarded."""
    if not isinstance(scalar.source, RegisteredSource):
        tx.output.guard("EQUALS", scalar.source, scalar.real)
    return scalar.real.item()


def _record(tx: Tx, op: Operator, args: list[Variable], kwargs: dict[str, Variable], val: Any) -> Any:
    nodes = [argument(tx, op, a, tx.output.node_of) for a in args]
    kwnodes = {k: argument(tx, op, v, tx.output.node_of) for k, v in kwargs.items()}
    silent = tx.output.graph_mode and not tx.output.grad_enabled
    marks: dict[str, Any] = {"writes_silently" if op.mutates else "no_grad": True} if silent else {}
    return tx.output.graph.call_function(op, nodes, kwnodes, val=val, origins=_origins(tx), **marks)


def record_node(
    tx: Tx, op: Operator, args: list[Variable], kwargs: dict[str, Variable], val: Any
) -> Variable:
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


def _call_opaque(tx: Tx, op: Any, args: list[Variable], kwargs: dict[str, Variable], result: Any) -> Variable:
    """A custom operator. What it writes to is checked as for any other write."""
    bound = dict(zip(op.params, op.bind(*args, **kwargs)))
    for name in op.mutates:
        for target in _tensors_in(bound[name]):
            if target.meta.requires_grad and is_grad_enabled():
                tx.unsupported("GB0090", f"{op.name} writes to a tensor that requires grad")
            _check_write(tx, op, target)
            tx.output.mutated[target] = None
    node = _record(tx, op, args, kwargs, result)
    if result is None:
        return NONE
    made = results_of(tx, node, result)
    return ListVariable(made.items) if op.listed else made  # type: ignore[attr-defined]


def _tensors_in(value: Any) -> list[TensorVariable]:
    value = realize(value) if isinstance(value, Variable) else value
    if isinstance(value, (ListVariable, TupleVariable)):
        return [t for item in value.items for t in _tensors_in(item)]
    return [value] if isinstance(value, TensorVariable) else []


def _check_write(tx: Tx, op: Operator, target: TensorVariable) -> None:
    """Break where eager would put what the target is a view of on the tape. Memory alone is seen to at the call."""
    whole = tx.output.mutable_through.get(target)
    if whole is not None:
        tx.output.mutated[whole] = None
    if target.source is not None and target.real._base is not None:
        _check_view(tx, op, target)
    inside = tx.output.detached_inside
    if inside and is_grad_enabled() and whole_of(tx.output.graph, tx.output.node_of(target)) in inside:
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


def _check_leaf(tx: Tx, op: Operator, target: TensorVariable) -> None:
    """Break where eager would refuse to write through a view of a leaf: what came before must have happened."""
    node = whole_of(tx.output.graph, tx.output.node_of(target))
    known = (t for t in tx.output.known.values() if isinstance(t, TensorVariable) and t.node is node)
    bases = [root(t.real) for t in known]
    if any(base.requires_grad and base.is_leaf for base in bases):
        tx.unsupported("GB0090", f"{op.name} writes to a view of a leaf that requires grad")


def _check_alone(tx: Tx, op: Operator, node: Node) -> None:
    """Break where a write puts other tensors on the tape too: what they are views of, or what is a view of them."""
    others = [whole_of(tx.output.graph, n) for n in node.users if n.op == "call_function"]
    whole, reason = whole_of(tx.output.graph, node), f"{op.name} puts a tensor and its views on the tape"
    if whole is not node and getattr(whole.target, "name", "") == "detach":
        # after a break each of them would be made anew from what was detached, and be no view of the other
        raise SkipFrame(reason, tx.output.origin(), code="GB0090")
    if whole is not node or node in others:
        tx.unsupported("GB0090", reason)


def _call_in_place(
    tx: Tx, op: Operator, args: list[Variable], kwargs: dict[str, Variable], result: TensorMeta | None
) -> Variable:
    """A write to a tensor. Its own shape and dtype stay; whether it requires grad may change."""
    target = dict(zip(op.params, op.bind(*args, **kwargs)))[op.mutates[0]]
    assert isinstance(target, TensorVariable)
    tx.output.must_be_new(target)
    note_write(tx.output)
    tx.output.written.append(target)
    meta = target.meta
    if tx.output.reversals and op.namespace == "cutaway":
        tx.unsupported("GB0030", f"{op.name} writes to a tensor, beside a reversed view of an array")
    _check_write(tx, op, target)
    if target.source is not None and meta.requires_grad and is_grad_enabled():
        tx.unsupported("GB0090", f"{op.name} writes to an input that requires grad")
    if target.source is None and meta.requires_grad and is_grad_enabled():
        _check_leaf(tx, op, target)
    value = [t for a in (*args, *kwargs.values()) for t in _tensors_in(a)]
    recorded = result.requires_grad if result is not None else any(t.meta.requires_grad for t in value)
    if recorded and is_grad_enabled() and meta.dtype.is_floating_point and not meta.requires_grad:
        if target.source is not None:
            tx.unsupported("GB0090", f"{op.name} puts an input on the tape")
        _check_alone(tx, op, tx.output.node_of(target))
        target.meta = meta.with_(requires_grad=True, strides=meta.strides)
    _record(tx, op, args, kwargs, result)
    tx.output.mutated[target] = None
    return NONE if result is None else target


def _returned_argument(op: Operator, metas: tuple, result: Any) -> int | None:
    """Which argument an operator hands back as it is (`cast` to the dtype there is, `dropout` in eval).

    Python can tell that `y is x`, so such a call must not become a node that makes a new tensor.
    """
    if op.body is None or op.mutates or not isinstance(result, TensorMeta):
        return None
    candidates = [i for i, m in enumerate(metas) if isinstance(m, TensorMeta) and _same_array(m, result)]
    if not candidates:
        return None
    wrapped = tuple(_on_metas(m) for m in metas)
    with interpreting(Tracer(None)):
        out = op._run_body(wrapped)
    return next((i for i in candidates if wrapped[i] is out), None)


def _same_array(a: TensorMeta, b: TensorMeta) -> bool:
    same = same_shape(a.shape, b.shape) and same_shape(a.strides, b.strides)
    return same and a.dtype is b.dtype and a.device == b.device


def _on_metas(value: Any) -> Any:
    if isinstance(value, TensorMeta):
        return Tensor(TracedArray(value))
    return type(value)(map(_on_metas, value)) if type(value) in (tuple, list) else value


__all__ = ["argument", "call_operator", "map_tensors"]
