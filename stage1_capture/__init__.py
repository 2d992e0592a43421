"""Stage 1, capture: Python bytecode to a graph of public operators, guards and residual code."""
