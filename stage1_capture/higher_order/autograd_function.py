"""autograd.Function inside a captured function: forward is inlined, backward becomes a graph, and one node joins them.

Input: the class and abstract arguments. Both halves are followed now, so what backward reads, from ctx, globals or
closures, is guarded, or an input of the graph; the tensors it reads are what the node saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from stage0_eager import TABLE
from stage0_eager.autograd.custom_gradient import BackwardGraph, custom_gradient
from stage0_eager.autograd.function import Function, FunctionCtx
from stage0_eager.functions.inplace import kept
from stage1_capture.higher_order.subgraph import follow_backward
from stage1_capture.state.graph_builder import Restart
from stage1_capture.state.machine import Args, Tx, builtin
from stage1_capture.variables.base import Variable, from_constant, iterate, load_attribute, realize
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.operators import call_operator, record_node
from stage1_capture.variables.sequence import TupleVariable
from stage1_capture.variables.tensor import TensorVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.tensor_meta import TensorMeta

Tensors = list[TensorVariable]


@builtin(Function.apply.__func__)  # type: ignore[attr-defined]
def function_apply(tx: Tx, cls: Variable, *given: Variable) -> Variable:
    """What forward returns, on the tape with backward as its derivative where an argument requires grad."""
    name = realize(cls).real.__name__
    args = [realize(a) for a in given]
    inputs = [a for a in args if a.is_tensor() and a.meta.requires_grad]
    recording = tx.output.grad_enabled and bool(inputs)
    if tx.output.taken is not None and tx.output.follows_since is None:
        tx.unsupported("GB0026", f"{name}.apply in a function whose arguments have no place on the tape yet")
    if (
        recording
        and not (tx.output.graph_mode and tx.output.graph.calls)
        and not tx.output.options.graph_mode
    ):
        raise Restart(replace(tx.output.options, graph_mode=True))
    ctx = _new_context(args)
    result = _run_forward(tx, cls, ctx, args, name)
    if not recording:
        return result
    return _on_the_tape(tx, cls, ctx, args, result, name)


@builtin(kept)
def kept_(tx: Tx, input: Variable, others: Variable) -> Variable:
    """What nn.LeakyReLU(inplace=True) and its like read of a tensor that they write to: a copy where the tape runs."""
    operands = [v for v in map(realize, (input, *iterate(tx, others))) if v.is_tensor()]
    saved = tx.output.grad_enabled and any(v.meta.requires_grad for v in operands)
    return call_operator(tx, TABLE["cutaway.clone"], [realize(input)], {}) if saved else input


def _new_context(args: list[Variable]) -> UserDefinedObjectVariable:
    """A FunctionCtx of this call. The program may store on it, not hand it on."""
    fields = {name: from_constant(value) for name, value in vars(FunctionCtx()).items()}
    needs = [ConstantVariable(a.is_tensor() and a.meta.requires_grad) for a in args]
    fields["needs_input_grad"] = TupleVariable(list(needs))
    return UserDefinedObjectVariable(object.__new__(FunctionCtx), dict(fields), fresh=True, private=True)


def _run_forward(
    tx: Tx, cls: Variable, ctx: UserDefinedObjectVariable, args: list[Variable], name: str
) -> Variable:
    """forward, and setup_context where the class has its own, under no_grad as in eager."""
    with tx.output.having(grad_enabled=False):
        forward, setup = load_attribute(tx, cls, "forward"), load_attribute(tx, cls, "setup_context")
        if getattr(setup, "real", None) is Function.setup_context:
            result = realize(tx.call(forward, [ctx, *args], {}))
        else:
            result = realize(tx.call(forward, args, {}))
            tx.call(setup, [ctx, TupleVariable(args), result], {})
    if _items(ctx, "_dirty"):
        tx.unsupported("GB0026", f"{name}.forward writes to its arguments (mark_dirty)")
    return result


def _returned_tensors(tx: Tx, args: list[Variable], result: Variable, name: str) -> list[Any]:
    outputs = [realize(out) for out in result.row()]
    for out in outputs:
        if not out.is_tensor():
            tx.unsupported("GB0026", f"{name}.forward returns {out.describe()}")
        if any(out is a for a in args):
            tx.unsupported("GB0084", f"{name}.forward returns an argument as it is")
    return outputs


def _on_the_tape(
    tx: Tx, cls: Variable, ctx: UserDefinedObjectVariable, args: Args, result: Variable, name: str
) -> Variable:
    """The results again, those with a derivative as computed by one node from the arguments."""
    flat = _items(ctx, "_non_differentiable")
    outputs = _returned_tensors(tx, args, result, name)
    kept = [o for o in outputs if o.meta.dtype.is_differentiable and not any(o is f for f in flat)]
    if len(set(map(id, kept))) < len(kept):
        tx.unsupported("GB0026", f"{name}.forward returns one tensor twice")
    if not kept:
        return result
    backward, saved = _follow_backward(tx, cls, ctx, args, outputs, kept, name)
    op = custom_gradient(name, backward)
    metas = [o.meta.with_(requires_grad=True, strides=o.meta.strides) for o in kept]
    inputs = [args[i] for i in _differentiable(args)]
    operands = [TupleVariable(list(inputs)), TupleVariable(list(kept)), *saved]
    made = record_node(tx, op, operands, {}, metas[0] if len(metas) == 1 else tuple(metas))
    new = made.row()
    final = [next((n for n, k in zip(new, kept) if k is o), o) for o in outputs]
    return TupleVariable(list(final)) if result.family() is tuple else final[0]


def _differentiable(args: Sequence[Variable]) -> list[int]:
    return [i for i, a in enumerate(args) if a.is_tensor() and a.meta.requires_grad]


def _follow_backward(
    tx: Tx,
    cls: Variable,
    ctx: UserDefinedObjectVariable,
    args: Args,
    outputs: Tensors,
    kept: Tensors,
    name: str,
) -> tuple[BackwardGraph, list[TensorVariable]]:
    """backward as a graph, and the tensors that it takes from around it, to be saved."""
    wanted = _differentiable(args)
    materialize = tx.constant(_field(ctx, "_materialize"), "set_materialize_grads")
    if not materialize and len(kept) > 1:
        tx.unsupported("GB0026", f"{name} with several results and set_materialize_grads(False)")

    def run(gradients: list[TensorVariable]) -> list[Variable]:
        left = iter(gradients)
        slots: list[Variable] = []
        for out in outputs:
            if any(out is k for k in kept):
                slots.append(next(left))
            else:  # a result without derivative: its gradient is zeros, or None
                slots.append(_zeros(tx, out.meta) if materialize else NONE)
        made = realize(tx.call(load_attribute(tx, cls, "backward"), [ctx, *slots], {}))
        found = [realize(v) for v in made.items] if made.family() is tuple else [made]
        if len(found) < len(args) or any(not realize(v).is_none() for v in found[len(args) :]):
            tx.unsupported(
                "GB0026", f"{name}.backward returns {len(found)} gradients for {len(args)} arguments"
            )
        return [found[i] for i in wanted]

    targets = [args[i].meta for i in wanted]
    return follow_backward(tx, f"{name}.backward", kept, targets, run)


def _zeros(tx: Tx, meta: TensorMeta) -> Variable:
    size = TupleVariable([from_constant(s) for s in meta.shape])
    more: dict[str, Variable] = {
        "dtype": ConstantVariable(meta.dtype),
        "device": ConstantVariable(meta.device),
    }
    return call_operator(tx, TABLE["cutaway.full_of_shape"], [size, ConstantVariable(0)], more)


def _items(ctx: UserDefinedObjectVariable, field: str) -> list[Variable]:
    value = _field(ctx, field)
    return [realize(v) for v in value.items] if value.family() is tuple else []


def _field(ctx: UserDefinedObjectVariable, name: str) -> Variable:
    return realize(ctx.attrs[name])  # type: ignore[arg-type]
