"""utils.checkpoint.checkpoint inside a captured function: the function is inlined and its nodes are marked.

Input: a function and its arguments as abstract values. meta["checkpoint"], a number per call, tells stage 2's
partitioner to compute these nodes again in the backward rather than to save them.
"""

from __future__ import annotations

from stage0_eager.autograd import checkpoint
from stage1_capture.state.machine import Tx, builtin
from stage1_capture.variables.base import Variable, realize
from stage1_capture.variables.constant import NONE, ConstantVariable

TRUE = ConstantVariable(True)


@builtin(checkpoint.checkpoint)
def checkpoint_(
    tx: Tx,
    function: Variable,
    *args: Variable,
    use_reentrant: Variable = NONE,
    preserve_rng_state: Variable = TRUE,
    **kwargs: Variable,
) -> Variable:
    """What `function` returns. A checkpoint inside it counts as part of this one."""
    graph = tx.output.graph
    before = set(graph.calls)
    result = tx.call(realize(function), list(args), kwargs)
    inside = [node for node in graph.calls if node not in before]
    for node in inside:
        node.meta["checkpoint"] = len(before)  # of two calls that record anything, never the same
    return result
