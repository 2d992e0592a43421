"""Batches of digits as tensors: pixels scaled to 0..1, half of the training images moved by up to one
pixel.

Input: the arrays of digits.py. A moved image shows the same digit, so it is additional training data. The held-out
images are never moved.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import cutaway

MOVED = 0.5  # share of the training images that move


def as_tensors(images: np.ndarray, labels: np.ndarray, device: str) -> tuple[Any, Any]:
    """Images uint8 [n, 64] (0 to 16) and labels int64 [n] as tensors: float32 [n, 64] (0 to 1), int64 [n]."""
    pixels = images.astype(np.float32) / 16
    return cutaway.from_numpy(pixels).to(device), cutaway.from_numpy(labels).to(device)


def batches(
    images: np.ndarray, labels: np.ndarray, size: int, random: np.random.RandomState, device: str
) -> Iterator[tuple[Any, Any]]:
    """One epoch in random order. The last, smaller batch is left out, so that every batch has one shape."""
    order = random.permutation(len(labels))
    for start in range(0, len(order) - size + 1, size):
        chosen = order[start : start + size]
        yield as_tensors(move_some(images[chosen], random), labels[chosen], device)


def move_some(images: np.ndarray, random: np.random.RandomState) -> np.ndarray:
    """A copy of [n, 64] images, some of them moved by up to a pixel in each direction. New pixels at the edge are
    white."""
    count = len(images)
    padded = np.zeros((count, 10, 10), images.dtype)
    padded[:, 1:9, 1:9] = images.reshape(count, 8, 8)
    by = random.randint(0, 3, size=(count, 2))
    by[random.rand(count) >= MOVED] = 1
    rows = (by[:, 0, None] + np.arange(8))[:, :, None]
    columns = (by[:, 1, None] + np.arange(8))[:, None, :]
    return padded[np.arange(count)[:, None, None], rows, columns].reshape(count, 64)
