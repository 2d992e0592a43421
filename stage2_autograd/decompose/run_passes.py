"""Runs decompose: the same graph in core operators only, cleaned up by the table in passes.py.

Input: any graph, before or after differentiation, and `config.autograd`: which passes are off, which are dumped, and
whether to check each by interpreting the graph before and after it.
"""

from __future__ import annotations

from stage2_autograd.core_calls import is_core
from stage2_autograd.decompose.passes import DECOMPOSE
from stage2_autograd.subgraphs import within
from stage2_autograd.verify import verify_pass
from stage_contracts.graph import Graph
from stage_contracts.graph_module import CoreModule


def decompose(graph: Graph) -> Graph:
    """`graph` in core operators. Placeholders, outputs, origins and marks stay the same.

    Raises ValueError if `config.autograd` names a pass that does not exist, or switches off one that is needed. With
    `verify_passes`, raises GraphError with the name of a pass that changes what the graph computes.
    """
    made = DECOMPOSE.run_as_configured(graph.copy(), verify=verify_pass)
    return within(made, decompose, but=(CoreModule,)).verify(allowed=is_core)
