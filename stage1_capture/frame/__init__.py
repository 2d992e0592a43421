"""One frame run on abstract values: the translator, its opcodes, inlined calls, generators."""
