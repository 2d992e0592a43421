"""Philox-4x32-10: random words as a function of (seed, counter, flat index), so that order never matters.

Input: core.random_bits' arguments. The generator and its constants are from Salmon, Moraes, Dror, Shaw,
"Parallel random numbers: as easy as 1, 2, 3" (SC 2011).
"""

from __future__ import annotations

from typing import Any

import numpy as np

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
WEYL = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
MASK = 0xFFFFFFFF
AT_ONCE = 1 << 13  # blocks: what a round makes stays in the cache


def philox_block(xp: Any, key: tuple[int, int], words: tuple) -> list:
    """Ten rounds on four uint64 arrays that hold 32-bit words; returns four such arrays."""
    c0, c1, c2, c3 = words
    k0, k1 = key
    for _ in range(ROUNDS):
        p0, p1 = c0 * np.uint64(MULTIPLIERS[0]), c2 * np.uint64(MULTIPLIERS[1])
        high = np.uint64(32)
        mask = np.uint64(MASK)
        c0, c1, c2, c3 = (
            (p1 >> high) ^ c1 ^ np.uint64(k0),
            p1 & mask,
            (p0 >> high) ^ c3 ^ np.uint64(k1),
            p0 & mask,
        )
        k0, k1 = (k0 + WEYL[0]) & MASK, (k1 + WEYL[1]) & MASK
    return [c0, c1, c2, c3]


def philox_words(xp: Any, rng: Any, offset: int, shape: tuple) -> Any:
    """Words in 0..2**32-1 as int64. `rng` is int64[2]: seed and call counter; `offset` is added to the counter.

    Key: the seed's low and high word. Counter: (flat index // 4) in words 0 and 1, the call counter in 2 and 3.
    Element i takes word i % 4 of block i // 4.
    """
    seed, counter = (int(v) for v in rng.tolist())
    counter += offset
    count = int(np.prod(shape, dtype=np.int64))
    blocks = -(-count // 4)
    out = xp.empty((blocks, 4), np.int64)
    step = AT_ONCE if xp is np else max(blocks, 1)
    for start in range(0, blocks, step):
        block = xp.arange(start, min(start + step, blocks), dtype=np.uint64)
        fixed = [xp.full(block.shape, (counter >> shift) & MASK, np.uint64) for shift in (0, 32)]
        words = (block & np.uint64(MASK), block >> np.uint64(32), fixed[0], fixed[1])
        for i, word in enumerate(philox_block(xp, (seed & MASK, (seed >> 32) & MASK), words)):
            out[start : start + step, i] = word
    return out.reshape(-1)[:count].reshape(shape)
