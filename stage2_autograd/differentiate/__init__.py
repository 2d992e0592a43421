"""The seam `differentiate`: forward and backward of a functional graph in one joint graph.

Input: the result of functionalize.
"""

from stage2_autograd.differentiate.joint_graph import differentiate

__all__ = ["differentiate"]
