"""Other partitioners: `--swap partition=stage2_autograd.partitioners:recompute_pointwise`, or by `pipeline=`.

Input: a joint graph in core operators, as `tiny.partition` takes it.
"""

from __future__ import annotations

from stage2_autograd.tiny.partition import split, to_save
from stage_contracts.joint import JointGraph, Partition

# Kinds of operators that cost little to compute again next to reading their result from memory. Random bits
# are a function of the state at entry and an index, so a second draw gives the same bits.
RECOMPUTED_KINDS = ("pointwise", "view", "creation", "random", "identity")


def recompute_pointwise(joint: JointGraph) -> Partition:
    """Save inputs and the results of reductions, contractions and gathers; compute what is between again.

    The same values as save-everything, bit for bit: the backward repeats the same operators on the same
    operands.
    """
    return split(joint, to_save(joint, RECOMPUTED_KINDS))
