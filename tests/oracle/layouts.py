"""The layouts an operand may come in: the same values (but for broadcast) under other strides and offsets.

Input: an array. `SHAPES` are layouts of their own shape, for elementwise rows: other rows bring samples of them.
"""

import numpy as np


def strided(array):
    """Every second element of each dimension of something larger."""
    large = np.zeros([2 * s for s in array.shape], array.dtype)
    part = large[tuple(slice(None, None, 2) for _ in array.shape)]
    part[...] = array
    return part


def offset(array):
    """In the middle of a longer buffer."""
    buffer = np.zeros(array.size + 5, array.dtype)
    part = buffer[3 : 3 + array.size].reshape(array.shape)
    part[...] = array
    return part


def permuted(array):
    """The first dimension is the innermost in memory, the others in order."""
    if array.ndim < 3:
        return transposed(array)
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(array, 0, -1)), -1, 0)


def transposed(array):
    return array.T.copy().T


def backwards(array):
    """Negative strides along every dimension."""
    return np.flip(np.flip(array).copy())


def broadcast(array):
    """The first row, seen as often as there are rows: stride 0. These values are not the array's."""
    return np.broadcast_to(array[:1], array.shape) if array.ndim else array


LAYOUTS = {
    "contiguous": np.ascontiguousarray,
    "transposed": transposed,
    "permuted": permuted,
    "strided": strided,
    "backwards": backwards,
    "offset": offset,
    "broadcast": broadcast,
}

SHAPES = {"0-d": lambda shape: (), "empty": lambda shape: (0, *shape[1:])}


def lay_out(name, array):
    """The array in a layout; a 0-d array has only one."""
    return LAYOUTS[name](array) if array.ndim and name in LAYOUTS else array
