"""The seam `functionalize`: a captured graph becomes one that writes to nothing, shares no memory and hides no state.

Input: the graph that capture made, in public operators.
"""

from stage2_autograd.functionalize.functional_graph import functionalize

__all__ = ["functionalize"]
