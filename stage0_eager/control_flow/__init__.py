"""Branches and loops decided by tensors: the functions, the operators they become, and their derivatives."""
