"""One process builds a unit while the others wait for its entry in the disk cache: a lock for each digest.

Input: a cache key. The ranks of a job compile the same kernels at the same moment; so do two terminals. The lock is the
kernel's, so a builder that dies frees it, and the next one builds. Without a cache nobody waits.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from stage4_runtime.runtime import cache
from stage4_runtime.runtime.private_folder import NotPrivate

try:
    import fcntl
except ImportError:  # not a POSIX system: each process builds for itself
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def one_builder(key: cache.Key) -> Iterator[None]:
    """Hold the key's lock, after whoever has it now."""
    try:
        path = _path(key)
        handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except (NotPrivate, OSError):
        yield
        return
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        path.unlink(missing_ok=True)  # those that wait have it open; who comes later finds the entry
        os.close(handle)


def _path(key: cache.Key) -> Path:
    folder = cache.open_root() / "building"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder / key.digest
