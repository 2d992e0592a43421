"""Differentiation as an operator, so that a graph can hold a call of autograd.grad.

Input: tensors on the tape. Eager code calls `autograd.grad` itself; capture records this in its place.
"""

from __future__ import annotations

from stage0_eager import tape
from stage0_eager.core import core as c
from stage0_eager.operator import operator


@operator
def autograd_grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False):
    """autograd.grad with every input used: a tuple of gradients, constants unless create_graph."""
    found = tape.grad(outputs, inputs, grad_outputs, retain_graph, create_graph)
    # under a Tracer the walk leaves ordinary nodes, through which a later derivative would flow
    return found if create_graph else tuple(c.detach(g) for g in found)
