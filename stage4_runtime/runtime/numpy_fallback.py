"""Without a compiler: runs the core graph op by op on NumPy, with the kernels that eager uses.

Input: a graph of core operators, as `lower` would get it. You call the result like a launched Program, so
cutaway/inductor.py can use it instead when `build` raises CompilerMissing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage0_eager.core_interpreter import interpreter
from stage_contracts.graph import Graph


def launch_on_numpy(graph: Graph) -> Callable[..., tuple]:
    """A callable: NumPy arrays, one per placeholder, to a tuple of arrays."""
    interpret = interpreter(graph)

    def run(*arrays: Any) -> tuple:
        return interpret(*arrays)

    run.source_text = str(graph)  # type: ignore[attr-defined]
    return run
