"""Tiny ahead-of-time autograd: one file per seam, each the seam's idea on one screen.

Input: a captured graph of public operators. It flows through functionalize, differentiate, decompose, partition.
"""

from stage2_autograd.tiny.decompose import decompose
from stage2_autograd.tiny.differentiate import differentiate
from stage2_autograd.tiny.functionalize import functionalize
from stage2_autograd.tiny.partition import partition

__all__ = ["decompose", "differentiate", "functionalize", "partition"]
