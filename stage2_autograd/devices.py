"""What a graph's device changes in its passes.

Input: nodes of a graph.
"""

from __future__ import annotations

from collections.abc import Iterable

from stage_contracts.graph import Node
from stage_contracts.tensor_meta import TensorMeta


def on_gpu(nodes: Iterable[Node]) -> bool:
    """Whether memory costs so much more than arithmetic there that a function of a value is computed again."""
    return any(isinstance(n.val, TensorMeta) and n.val.device.type == "cuda" for n in nodes)
