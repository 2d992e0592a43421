"""Stage 3, lowering: a graph of core operators becomes loop nests, fused kernels and their source."""
