"""The seam `decompose`: a graph in core operators only, by the table of passes in passes.py.

Input: any graph, before or after differentiation.
"""

from stage2_autograd.decompose.run_passes import decompose

__all__ = ["decompose"]
