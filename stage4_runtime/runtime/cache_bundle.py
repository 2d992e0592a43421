"""A bundle: the disk cache in one file, to carry compiled programs to another process, user or machine.

Input: your own cache folder for `save_cache`, a file for `load_cache`. A bundle has native code, which runs with the
rights of whoever loads it. Nothing in the file can prove that it is harmless, so the caller must say that it is
trusted.
"""

from __future__ import annotations

import json
import os
import zipfile
from pathlib import Path

from stage4_runtime.runtime import cache
from stage_contracts import events

_RECORD = cache.ENTRY


def save_cache(path: str | os.PathLike[str]) -> int:
    """Write every sound entry of this user's cache into one zip file; how many. Raises OSError, NotPrivate."""
    root = cache.open_root()
    place, count = Path(path), 0
    made = place.with_name(f"{place.name}.{os.getpid()}")
    try:
        with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as bundle:
            for folder in cache.entries(root):
                try:
                    record, files = cache.read_entry(root, folder)
                except cache.Corrupt:
                    continue
                bundle.writestr(f"{folder.name}/{_RECORD}", json.dumps(record))
                for name, data in files.items():
                    bundle.writestr(f"{folder.name}/{name}", data)
                count += 1
        made.replace(place)
    finally:
        made.unlink(missing_ok=True)
    return count


def load_cache(path: str | os.PathLike[str], *, trust: bool) -> int:
    """Put a bundle's entries into this user's cache; how many. Damaged ones are left out, and the event log says so.

    trust: must be True. Raises PermissionError without it, ValueError for a file that is no bundle, OSError and
    NotPrivate.
    """
    if trust is not True:
        raise PermissionError(
            f"load_cache({str(path)!r}): a bundle holds native code that will run as you; "
            "pass trust=True if you know who made it"
        )
    count = 0
    try:
        with zipfile.ZipFile(path) as bundle:
            for name in bundle.namelist():
                folder, _, file = name.partition("/")
                if file == _RECORD:
                    count += _load_entry(bundle, folder)
    except zipfile.BadZipFile as error:
        raise ValueError(
            f"{path} is not a bundle of the cache ({error}); make one with save_cache"
        ) from error
    return count


def _load_entry(bundle: zipfile.ZipFile, folder: str) -> bool:
    """One entry under a MAC of this user's own. Its place in the folder comes from its key, never from the file."""
    try:
        record = json.loads(bundle.read(f"{folder}/{_RECORD}"))
        files = {name: bundle.read(f"{folder}/{name}") for name in record["files"]}
        return cache.adopt_entry(record, files)
    except (cache.Corrupt, KeyError, ValueError, TypeError, AttributeError, zipfile.BadZipFile) as error:
        events.record("cache", "miss", unit=folder[:16], reason=f"corrupt: {type(error).__name__}: {error}")
        return False
