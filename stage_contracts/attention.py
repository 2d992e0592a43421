"""What stages 2 and 3 both know of attention kernels: the matrices that they take.

Input: a dtype. Stage 2 writes gradients as such a kernel computes them where there will be one, and stage 3 makes it.
"""

from stage_contracts.dtype import DType

FEWEST_ROWS = 16  # of a product on tensor cores


def largest_width(dtype: DType) -> int:
    """Of queries, keys and values: a block of them stays in registers or shared memory.

    Tensor cores multiply float32 in three products of tf32 and cut their sum off after each few terms. Measured on an
    H200, the mean error is .5 to 1.5 times eager's for widths up to 128, 2.0 for 130 and 2.2 for 256. Multiplied in
    float32, such a kernel takes a minute to build.
    """
    return 256 if dtype.itemsize <= 2 else 128
