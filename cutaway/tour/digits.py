"""The handwritten digits that the tour learns to read, as NumPy arrays.

Input: `data/digits.txt` beside this file (UCI optical digits, CC BY 4.0; `data/README.md` describes it). Output:
`load_digits()` returns images and labels; `split()` holds some of them out to measure accuracy.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

DATA_FILE = Path(__file__).parent / "data" / "digits.txt"
DIGEST = "6eef11a2bd50b260deb1edbab60fa69ee013cba36ccb3e4d5893c42ad561b3ea"  # SHA-256 of the file's bytes
COUNT = 1797

# A line is "L rrrrrrrr rrrrrrrr ... rrrrrrrr\n": a label and eight rows of eight pixels, 74 characters.
LINE_LENGTH = 74
PIXEL_COLUMNS = np.array([2 + 9 * row + column for row in range(8) for column in range(8)])


class DigitsError(RuntimeError):
    """The file of digits cannot be read, or is not the one this code was written for."""


def load_digits(path: Path = DATA_FILE) -> tuple[np.ndarray, np.ndarray]:
    """Read the digits: `images`, uint8 [1797, 64], 0 (white) to 16 (black); `labels`, int64 [1797], 0 to 9.

    `images[i].reshape(8, 8)` is the picture, top row first. Raises `DigitsError` when the file is missing or
    its bytes have another digest: a model trained on damaged data would fail later, and far from the cause.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DigitsError(
            f"cannot read the digits at {path} ({error.strerror or error}); expected the file that comes "
            "with cutaway. Install cutaway again, or restore the file from the repository."
        ) from error
    seen = hashlib.sha256(data).hexdigest()
    if seen != DIGEST:
        raise DigitsError(
            f"the digits at {path} are damaged: {len(data)} bytes with SHA-256 {seen[:12]}..., expected "
            f"{COUNT * LINE_LENGTH} bytes with SHA-256 {DIGEST[:12]}... Restore the file from the repository."
        )
    lines = np.frombuffer(data, dtype=np.uint8).reshape(COUNT, LINE_LENGTH)
    labels = (lines[:, 0] - ord("0")).astype(np.int64)
    characters = lines[:, PIXEL_COLUMNS]
    images = np.where(characters <= ord("9"), characters - ord("0"), characters - (ord("a") - 10))
    return images.astype(np.uint8), labels


def split(
    images: np.ndarray, labels: np.ndarray, held_out: int = 360, seed: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Set `held_out` images aside: returns (train_images, train_labels, held_images, held_labels).

    The split is stratified: every label has the same share in both parts, to within one image. The same arguments give
    the same split with every NumPy (RandomState's numbers never change, default_rng's may). Both parts keep the order
    of the file; shuffle the training part yourself. A writer's digits may be in both parts, because the file does not
    name the writers. Raises ValueError if a part would be empty, or if the lengths differ.
    """
    if len(images) != len(labels):
        raise ValueError(
            f"got {len(images)} images and {len(labels)} labels; expected the same number of both"
        )
    if not 0 < held_out < len(labels):
        raise ValueError(
            f"held_out is {held_out}; expected 1 to {len(labels) - 1}, so that neither part is empty"
        )
    random = np.random.RandomState(seed)
    classes, counts = np.unique(labels, return_counts=True)
    # Round the shares down; the remaining images go to the labels with the largest fractions.
    exact = counts * (held_out / len(labels))
    shares = np.floor(exact).astype(int)
    shares[np.argsort(shares - exact, kind="stable")[: held_out - shares.sum()]] += 1
    held = np.zeros(len(labels), dtype=bool)
    for label, share in zip(classes, shares, strict=True):
        held[random.permutation(np.flatnonzero(labels == label))[:share]] = True
    return images[~held], labels[~held], images[held], labels[held]
