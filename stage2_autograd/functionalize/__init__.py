"""The default ahead-of-time autograd: one file per seam, the whole language.

Input: a captured graph of public operators. `stage2_autograd.tiny` has the same seams, one screen each.
"""

from stage2_autograd.autograd.decompose import decompose
from stage2_autograd.autograd.differentiate import differentiate
from stage2_autograd.autograd.functionalize import functionalize
from stage2_autograd.autograd.partition import partition

__all__ = ["decompose", "differentiate", "functionalize", "partition"]
