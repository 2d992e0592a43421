"""A cache on disk: what was compiled once is found again, and whatever is wrong with it, nothing wrong is loaded.

Input: the parts that decide what an artifact is (source, flags, compiler, ...), and its files as bytes. An entry is a
folder named by the hash of the parts. Any number of processes may read and write at once, and each may die at any time.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

FORMAT = "1"  # of an entry: change it when entries change, and old ones are no longer found
RECORD = "entry.json"  # written into each entry: {file name: digest}
Files = Mapping[str, bytes]


# ---- what you write ----------------------------------------------------------------------------------------------


def key_of(parts: Mapping[str, str]) -> str:
    """The name of the entry for these parts: a hash, 64 hexadecimal digits. FORMAT belongs to it.

    The order in which the parts are given does not matter. Their names and the borders between them do.
    """
    # lab: begin key
    text = json.dumps({**parts, "format": FORMAT}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
    # lab: end


def store(root: Path, key: str, files: Files) -> None:
    """Keep files as the entry `key`, with a record of their digests.

    Another process sees the whole entry or none. If it is there already, or cannot be written, nothing changes.
    """
    # lab: begin store
    made = Path(tempfile.mkdtemp(prefix="new-", dir=root))  # 0700
    try:
        for name, data in files.items():
            (made / name).write_bytes(data)
        record = {name: digest_of(data) for name, data in files.items()}
        (made / RECORD).write_text(json.dumps(record), encoding="utf-8")
        made.rename(root / key)
    except OSError:
        pass  # the disk is full, or another process was first
    finally:
        shutil.rmtree(made, ignore_errors=True)
    # lab: end


def load(root: Path, key: str) -> dict[str, bytes] | None:
    """The files of an entry, or None if it is not there, or if anything is wrong with it. It counts as used now."""
    # lab: begin load
    folder = root / key
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        files = {name: (folder / name).read_bytes() for name in record}
        if any(digest_of(files[name]) != digest for name, digest in record.items()):
            return None
        os.utime(folder)
        return files
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    # lab: end


def evict(root: Path, limit: int, keep: str) -> None:
    """Remove entries, those that were not used for longest first, until all together have at most `limit` bytes.

    The entry `keep` stays. Another process may remove entries at the same time.
    """
    # lab: begin evict
    found = []
    for folder in entries(root):
        try:
            found.append((folder.stat().st_mtime_ns, sum(p.stat().st_size for p in folder.iterdir()), folder))
        except OSError:
            continue
    total = sum(size for _, size, _ in found)
    for _, size, folder in sorted(found):
        if total > limit and folder.name != keep:
            shutil.rmtree(folder, ignore_errors=True)
            total -= size
    # lab: end


def get_or_make(
    root: Path, parts: Mapping[str, str], make: Callable[[], Files], limit: int = 1 << 30
) -> Files:
    """The files for these parts: from the cache, or made now and kept. Without a private root, always made."""
    # lab: begin get_or_make
    if not is_private(root):
        return make()
    key = key_of(parts)
    found = load(root, key)
    if found is not None:
        return found
    files = make()
    shutil.rmtree(root / key, ignore_errors=True)  # a broken entry would stay for ever
    store(root, key, files)
    evict(root, limit, key)
    return files
    # lab: end


def what_differs(parts: Mapping[str, str], others: Mapping[str, str]) -> list[str]:
    """The names of the parts that differ, in alphabetical order: what to say about a miss."""
    # lab: begin differs
    return sorted(name for name in {*parts, *others} if parts.get(name) != others.get(name))
    # lab: end


# ---- what is given -----------------------------------------------------------------------------------------------


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def entries(root: Path) -> list[Path]:
    """The folders of the entries."""
    return [path for path in root.iterdir() if len(path.name) == 64]


def is_private(root: Path) -> bool:
    """Whether the folder exists, is this user's, and nobody else may write to it."""
    try:
        about = os.lstat(root)
    except OSError:
        return False
    mine = not hasattr(os, "getuid") or about.st_uid == os.getuid()
    return stat.S_ISDIR(about.st_mode) and mine and not about.st_mode & 0o022
