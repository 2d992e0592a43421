"""The step of a program's own loop, as far as CUDA graphs must know it: `cudagraph_mark_step_begin`.

Input: the program's word that a step begins. cuda_graph.py reads STEP.
"""

from __future__ import annotations

STEP = [0]  # how many steps began


def mark_step_begin() -> None:
    """From here on graphs may write over the results of earlier steps, also over those that are still in use."""
    STEP[0] += 1
