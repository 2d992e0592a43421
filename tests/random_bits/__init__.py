"""Random draws, bit for bit: every public name that draws, in eager, C++ of several builds, Triton and recomputed."""
