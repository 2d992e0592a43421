"""Tiny ahead-of-time autograd: one file per seam, each the seam's idea on one screen.

Input: a captured graph of public operators. It flows through functionalize, differentiate, decompose and
partition; stage 0's core_interpreter.py runs what comes out, and runtime_wrapper.py puts it on the user's tape.
"""

from stage2_autograd.tiny.decompose import decompose
from stage2_autograd.tiny.differentiate import differentiate
from stage2_autograd.tiny.functionalize import functionalize
from stage2_autograd.tiny.partition import partition

__all__ = ["decompose", "differentiate", "functionalize", "partition"]
