"""The drawing of lab 14's page: what another process sees under the entry's name, before and after the rename.

Input: the files that the reference's `store` leaves in a folder, and those that it has while it writes.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from ..drawings import box, head, height_of, path, svg
from . import caches

STEP = 250


def draw() -> dict[str, str]:
    """The drawings of the page, by file name."""
    shots: list[list[str]] = []
    key = caches.key_of({"source": "int f();"})
    with tempfile.TemporaryDirectory() as folder:
        root, original = Path(folder), caches.digest_of

        def look(data: bytes) -> str:
            shots.append(seen(root, key))
            return original(data)

        caches.digest_of = look
        try:
            caches.store(root, key, {"library": b"machine code"})
        finally:
            caches.digest_of = original
        shots = [["(empty)"], shots[-1], seen(root, key)]
    titles = ("before", "while it is written", "after the rename")
    parts = []
    for k, (title, lines) in enumerate(zip(titles, shots, strict=True)):
        x = 20 + k * STEP
        parts += [head(x, 30, title), box(x, 45, STEP - 50, lines, "box" if k < 2 else "back")]
        if k < 2:
            parts.append(path("arrow", (x + STEP - 50, 65), (x + STEP, 65)))
    height = 60 + max(map(height_of, shots))
    return {"rename.svg": svg("The entry has its name only when it is whole", 20 + 3 * STEP, height, parts)}


def seen(root: Path, key: str) -> list[str]:
    """The folder's content, with names that are the same each time."""
    lines = []
    for folder in sorted(root.iterdir()):
        lines.append(f"{key[:8]}.../" if folder.name == key else "new-.../")
        lines += [f"  {file.name}" for file in sorted(folder.iterdir())]
    return lines
