"""How many bytes the disk cache takes, without a look at each entry: every store appends a number to a file.

Input: the cache's folder, and the size of each new entry. The sum may be too large (an entry stored twice counts
twice), or too small (by what another process stored during a walk over all entries); the next walk corrects it.
"""

from __future__ import annotations

import os
from pathlib import Path

NAME = "stored"
RECORD = 8  # bytes of one number; so short a write to the end of a file is never mixed with another's
RECORDS = 4096  # after so many the entries themselves are counted again, so that reading this stays quick


def add(root: Path, size: int) -> int | None:
    """Count a new entry: the bytes in all, or None where only the entries themselves can say."""
    descriptor = os.open(root / NAME, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, size.to_bytes(RECORD, "little"))
        data = os.pread(descriptor, RECORD * (RECORDS + 1), 0)
    finally:
        os.close(descriptor)
    # A file that began with this entry does not know of those before it.
    if len(data) == RECORD or len(data) % RECORD or len(data) > RECORD * RECORDS:
        return None
    return sum(int.from_bytes(data[i : i + RECORD], "little") for i in range(0, len(data), RECORD))


def set_to(root: Path, size: int) -> None:
    """What a walk over all entries found."""
    with (root / NAME).open("wb") as file:  # who reads it while it is empty walks over the entries too
        file.write(bytes(RECORD) + size.to_bytes(RECORD, "little"))
