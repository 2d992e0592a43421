"""The seam `partition`: cuts a joint graph in two and chooses what the forward saves for the backward.

Input: a joint graph in core operators.
"""

from stage2_autograd.partition.partitioners import (
    PARTITIONERS,
    partition,
    recompute_pointwise,
    save_everything,
)

__all__ = ["PARTITIONERS", "partition", "recompute_pointwise", "save_everything"]
