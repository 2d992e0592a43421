"""What stages 2 and 3 both know of attention kernels: the matrices that they take.

Input: none. Stage 2 writes gradients as such a kernel computes them where there will be one, and stage 3 makes it.
"""

FEWEST_ROWS = 16  # of a product on tensor cores
LARGEST_WIDTH = 256  # of queries, keys and values: a block of them stays in registers or shared memory
