"""autograd.grad inside a captured function: one node, whose results are the gradients.

Input: abstract tensors. Stage 2 runs the tape when it meets the node, so that what it computes can itself be
differentiated; `allow_unused` would leave open which results are None, and is a break.
"""

from __future__ import annotations

from stage0_eager import tape
from stage0_eager.operator import TABLE
from stage1_capture.capture.builtin_functions import builtin
from stage1_capture.capture.operators import argument
from stage1_capture.capture.symbolic_convert import InstructionTranslator
from stage1_capture.capture.variables import (
    NONE,
    ConstantVariable,
    ListVariable,
    TensorVariable,
    TupleVariable,
    Variable,
    realize,
)

Tx = InstructionTranslator
OPERATOR = TABLE["cutaway.autograd_grad"]
FALSE = ConstantVariable(False)


@builtin(tape.grad)
def grad_(
    tx: Tx,
    outputs: Variable,
    inputs: Variable,
    grad_outputs: Variable = NONE,
    retain_graph: Variable = NONE,
    create_graph: Variable = FALSE,
    allow_unused: Variable = FALSE,
) -> Variable:
    roots, wanted = _tensors(tx, outputs), _tensors(tx, inputs)
    grad_outputs = realize(grad_outputs)
    given = None if _is(grad_outputs, None) else _tensors(tx, grad_outputs)
    creates = _is(create_graph, True)
    if not _is(allow_unused, False):
        tx.unsupported("GB0002", "autograd.grad with allow_unused")
    if not tx.output.grad_enabled or not all(t.meta.requires_grad for t in [*roots, *wanted]):
        tx.unsupported("GB0002", "autograd.grad of what does not require grad")
    if tx.output.effects.hooks:
        tx.unsupported("GB0002", "autograd.grad after a hook was registered on a tensor from outside")
    if tx.output.mutated:
        tx.unsupported("GB0002", "autograd.grad after a write in the same graph")
    nodes = [[argument(tx, OPERATOR, t, tx.output.node_of) for t in group] for group in (roots, wanted)]
    seeds = None if given is None else [argument(tx, OPERATOR, t, tx.output.node_of) for t in given]
    metas = tuple(t.meta.with_(requires_grad=creates) for t in wanted)
    import operator as python

    graph, origins = tx.output.graph, (tx.output.origin(),)
    node = graph.call_function(
        OPERATOR, (*nodes, seeds), {"retain_graph": True, "create_graph": creates}, val=metas, origins=origins
    )
    items = [
        TensorVariable(meta, graph.call_function(python.getitem, (node, i), val=meta, origins=origins))
        for i, meta in enumerate(metas)
    ]
    return TupleVariable(list(items))


def _tensors(tx: Tx, value: Variable) -> list[TensorVariable]:
    """A tensor, or a list or tuple of them, as a list."""
    value = realize(value)
    items = value.items if isinstance(value, (ListVariable, TupleVariable)) else [value]
    found = [t for t in map(realize, items) if isinstance(t, TensorVariable)]
    if len(found) != len(items):
        tx.unsupported("GB0002", "autograd.grad of what is no tensor")
    return found


def _is(value: Variable, constant: object) -> bool:
    value = realize(value)
    return isinstance(value, ConstantVariable) and value.value is constant
