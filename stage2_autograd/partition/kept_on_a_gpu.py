"""What is saved on a GPU although it is cheap to compute: what a call reads in both halves, and a channel's statistics.

Input: the problem of the minimum cut. There a second run costs more than arithmetic: a pass over memory, or a kernel.
"""

from __future__ import annotations

from stage2_autograd.core_calls import kind_of
from stage2_autograd.devices import on_gpu
from stage2_autograd.partition.min_cut import Problem
from stage_contracts.graph import Node
from stage_contracts.tensor_meta import TensorMeta

CHANNELS = 1 << 16  # elements of the largest value that counts as one for each channel, or for each row
_AS_IT_IS = ("view", "identity")


def kept_on_a_gpu(task: Problem) -> set[Node]:
    """The values that do not run again; none on the CPU."""
    return {n for n in task.values if why_kept(n)} if on_gpu(task.values) else set()


def why_kept(node: Node) -> str:
    """Why a value is saved on a GPU; "" if it may be computed again. Attention's kernels compute what they read."""
    if kind_of(node) != "pointwise" or _in_attention(node) or not on_gpu([node]):
        return ""
    # the forward writes it for its own call; the backward would have to write it once more, for its call
    if {n.meta.get("region") for n in _calls_that_read(node)} == {"forward", "backward"}:
        return "in memory for a call of the forward, and a call of the backward reads it"
    # computed in a reduction's loops it would stand between them, and they could not be shared by a whole GPU
    if _is_of_channels(node.val) and _made_of_reductions(node):
        return "a few numbers that the forward reduced"
    return ""


def _calls_that_read(node: Node) -> list[Node]:
    """The contractions that read a value or a view of it."""
    found = []
    for user in node.users:
        if kind_of(user) in _AS_IT_IS:
            found += _calls_that_read(user)
        elif kind_of(user) == "contraction" and not _in_attention(user):
            found.append(user)
    return found


def _in_attention(node: Node) -> bool:
    return str(node.meta.get("pattern", "")).startswith("attention")


def _made_of_reductions(node: Node) -> bool:
    """Whether it is computed, number by number, of what a reduction gave."""
    return any(
        kind_of(n) == "reduction" or (kind_of(n) in ("pointwise", *_AS_IT_IS) and _made_of_reductions(n))
        for n in node.all_input_nodes
        if _is_of_channels(n.val)
    )


def _is_of_channels(val: object) -> bool:
    """Whether it is small, and for sure: its sizes are known."""
    if not isinstance(val, TensorMeta) or not all(type(n) is int for n in val.shape):
        return False
    return 1 < val.numel <= CHANNELS
