"""Tiny ahead-of-time autograd: one file per seam, each the seam's idea on one screen.

Input: a captured graph of public operators. It flows through functionalize, differentiate, decompose and
partition; aot_eager runs what comes out, and runtime_wrapper.py puts it on the user's tape.
"""

from stage2_autograd.aot_eager import aot_eager
from stage2_autograd.tiny.decompose import decompose
from stage2_autograd.tiny.differentiate import differentiate
from stage2_autograd.tiny.functionalize import functionalize
from stage2_autograd.tiny.partition import partition

__all__ = ["aot_eager", "decompose", "differentiate", "functionalize", "partition"]
