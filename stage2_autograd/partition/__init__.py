"""The seam `partition`: a joint graph cut in two, and what is saved from the forward for the backward.

Input: a joint graph in core operators.
"""

from stage2_autograd.partition.partitioners import (
    PARTITIONERS,
    partition,
    recompute_pointwise,
    save_everything,
)

__all__ = ["PARTITIONERS", "partition", "recompute_pointwise", "save_everything"]
