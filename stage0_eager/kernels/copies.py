"""Many copies between arrays, such as an optimizer's new values into its parameters: on a GPU, in one launch.

Input: pairs (memory, its new values). One copy after another costs 5 to 10 us of the host each, whatever its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from stage0_eager import arrays

CHUNK = 1 << 14  # bytes that one block of threads copies
THREADS = 256
FEW = 4  # pairs for which a table does not pay

# table: for each pair its first block, then where it goes, where it comes from, and its bytes
SOURCE = """
extern "C" __global__ void copy_many(const long long* table, int pairs) {
  int low = 0, high = pairs - 1;
  while (low < high) {
    int middle = (low + high + 1) / 2;
    if (table[middle] <= (long long)blockIdx.x) low = middle; else high = middle - 1;
  }
  char* to = (char*)table[pairs + low];
  const char* from = (const char*)table[2 * pairs + low];
  long long begin = ((long long)blockIdx.x - table[low]) * CHUNK, end = table[3 * pairs + low];
  if (end > begin + CHUNK) end = begin + CHUNK;
  if (((size_t)to | (size_t)from) % 16 == 0) {
    for (long long i = begin + 16 * threadIdx.x; i + 16 <= end; i += 16 * blockDim.x)
      *(int4*)(to + i) = *(const int4*)(from + i);
    begin = end - end % 16;
  }
  for (long long i = begin + threadIdx.x; i < end; i += blockDim.x) to[i] = from[i];
}
"""


def copy_many(copies: Sequence[tuple[Any, Any]]) -> None:
    """Copy each pair's values into its memory, as if one after another."""
    together = [pair for pair in copies if _is_plain(*pair)] if len(copies) > FEW else []
    if len(together) <= FEW or not _apart(copies):
        together = []
    alone = copies if not together else [pair for pair in copies if not _is_plain(*pair)]
    for memory, new in alone:
        memory[...] = new
    if together:
        table, blocks = table_of([(m.data.ptr, n.data.ptr, m.nbytes) for m, n in together])
        copy_table(arrays.cupy().asarray(table), blocks, len(together))


def copy_table(table: Any, blocks: int, pairs: int) -> None:
    """One launch for a table of table_of, which is on the GPU."""
    _kernel()((blocks,), (THREADS,), (table, pairs))


def _is_plain(memory: Any, new: Any) -> bool:
    """Whether the copy is one of bytes on a GPU."""
    if isinstance(memory, np.ndarray) or not arrays.is_array(new) or isinstance(new, np.ndarray):
        return False
    same = memory.dtype == new.dtype and memory.shape == new.shape and memory.strides == new.strides
    return same and memory.flags.c_contiguous and memory.nbytes > 0


def _apart(copies: Sequence[tuple[Any, Any]]) -> bool:
    """Whether no pair reads what another writes, and none writes what another does."""
    if not all(arrays.is_array(array) and hasattr(array.data, "ptr") for pair in copies for array in pair):
        return False
    spans = [[arrays.bounds(array) for array in pair] for pair in copies]
    written = sorted(span for span, _ in spans)
    if any(a[1] > b[0] for a, b in zip(written, written[1:], strict=False)):
        return False
    starts, ends = (np.array([span[k] for span in written]) for k in (0, 1))
    read_starts, read_ends = (np.array([new[k] for _, new in spans]) for k in (0, 1))
    before = np.searchsorted(starts, read_ends) - 1  # the last that begins before the read ends
    return not ((before >= 0) & (ends[before] > read_starts)).any()


def table_of(pairs: Sequence[tuple[int, int, int]]) -> tuple[np.ndarray, int]:
    """The kernel's table for (where to, where from, bytes), and how many blocks there are."""
    to, source, nbytes = np.array(pairs, np.int64).T
    blocks = -(-nbytes // CHUNK)
    first = np.cumsum(blocks) - blocks
    return np.concatenate([first, to, source, nbytes]), int(blocks.sum())


@cache
def _kernel() -> Any:
    return arrays.cupy().RawKernel(SOURCE.replace("CHUNK", f"{CHUNK}LL"), "copy_many")
