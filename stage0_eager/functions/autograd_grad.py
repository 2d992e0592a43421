"""Differentiation as an operator, so that a graph can contain a call of autograd.grad.

Input: tensors on the tape. Eager code calls `autograd.grad` itself; capture records this operator instead.
"""

from __future__ import annotations

from stage0_eager.autograd import backward_pass
from stage0_eager.state import STATE
from stage0_eager.table.core import core as c
from stage0_eager.table.operator import operator


@operator
def autograd_grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    allow_unused=False,
    for_leaves=False,
):
    """autograd.grad as a tuple of gradients, constants unless create_graph; for an unused input, None.

    for_leaves: as backward leaves them in `.grad`, each in memory of its own, which lies as the leaf's.
    """
    found = backward_pass.grad(
        outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused=allow_unused
    )
    if for_leaves:
        leaves = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
        laid = (backward_pass.laid_out_as(*pair, create_graph) for pair in zip(leaves, found, strict=True))
        found = tuple(backward_pass.own_memory(laid, grad_outputs, create_graph))
    # under a Tracer the walk leaves ordinary nodes, through which a later derivative would flow
    traced = STATE.interpreter is not None
    return tuple(
        c.detach(g) if g is not None and not create_graph and (traced or g.requires_grad) else g
        for g in found
    )
