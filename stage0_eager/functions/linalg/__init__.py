"""Matrices, by the groups of torch.linalg: products, matrix properties, decompositions and solvers."""
