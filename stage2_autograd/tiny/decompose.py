"""Decompose: the same graph in core operators only.

Input: any graph, before or after differentiation. The table of passes in passes.py is the whole of it: run
the bodies of composites, merge what is computed twice, drop what nobody reads.
"""

from __future__ import annotations

import operator

from stage2_autograd.passes import PASSES, run_passes
from stage2_autograd.subgraphs import within
from stage_contracts.core_ops import CORE_OPS
from stage_contracts.graph import Graph


def decompose(graph: Graph) -> Graph:
    """`graph` in core operators; placeholders, outputs, origins and marks as they were."""
    return within(run_passes(graph, PASSES), decompose).verify(allowed=is_core)


def is_core(target: object) -> bool:
    """Whether a call target is what stage 3 accepts: one of CORE_OPS, an opaque operator, or one result of several."""
    return (
        target is operator.getitem
        or getattr(target, "opaque", False)
        or getattr(target, "namespace", None) == "core"
        and getattr(target, "name", None) in CORE_OPS
    )
