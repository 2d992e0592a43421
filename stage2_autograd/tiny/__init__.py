"""Tiny ahead-of-time autograd: one file per seam, with the idea of the seam on one screen.

Input: a captured graph of public operators. It passes through functionalize, differentiate, decompose and partition.
Stage 0's core_interpreter.py runs the result, and runtime_wrapper.py puts it on the eager tape.
"""

from stage2_autograd.tiny.decompose import decompose
from stage2_autograd.tiny.differentiate import differentiate
from stage2_autograd.tiny.functionalize import functionalize
from stage2_autograd.tiny.partition import partition

__all__ = ["decompose", "differentiate", "functionalize", "partition"]
