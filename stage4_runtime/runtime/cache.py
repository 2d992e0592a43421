"""The disk cache: content-addressed artifacts in a folder that only this user can write to.

Input: a `Key` (a name, and everything that decides what the artifact is) and files as bytes. An entry is a folder,
published by one rename. It has the digest of each file, authenticated by a key that only this user can read, so a
loaded file is one that this user's compiler made. If anything is wrong with an entry, it is a miss.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from stage4_runtime.runtime import cache_size
from stage4_runtime.runtime.private_folder import NotPrivate, cache_root, private_folder, secret_key
from stage_contracts import config, events

FORMAT = "1"  # part of every key: change it when an entry's meaning changes
ENTRY = "entry.json"
_DAY = 86_400  # seconds
_FULL = 0.9  # of the limit stays when entries are removed


@dataclass(frozen=True)
class Key:
    """What an artifact is made from. `name` is for people: two keys of one name are compared on a miss."""

    name: str
    parts: Mapping[str, str]  # "source", "flags", "compiler", ...: any text

    @cached_property
    def digests(self) -> dict[str, str]:
        parts = {**self.parts, "format": FORMAT}
        return {part: hashlib.sha256(parts[part].encode()).hexdigest() for part in sorted(parts)}

    @cached_property
    def digest(self) -> str:
        return _digest_of(self.digests)


def _digest_of(digests: Mapping[str, str]) -> str:
    return hashlib.sha256(json.dumps(digests).encode()).hexdigest()


class Corrupt(RuntimeError):
    """An entry that must not be used. An internal signal: it ends as the reason of a cache miss."""


def load(key: Key) -> dict[str, bytes] | None:
    """The files of an entry, exactly the bytes that were checked, or None. Records hit or miss."""
    try:
        root = open_root()
        folder = _entry_folder(root, key)
        if folder.is_dir():
            files = check_entry(folder, key, secret_key(root))
            os.utime(folder / ENTRY)  # least recently used goes first
            events.record("cache", "hit", unit=key.name, key=key.digest[:16])
            return files
        reason = _what_differs(root, key)
    except Corrupt as error:
        reason = f"corrupt: {error}"
    except NotPrivate as error:
        reason = str(error)
    except OSError as error:
        reason = f"no disk cache: {error}"
    events.record("cache", "miss", unit=key.name, key=key.digest[:16], reason=reason)
    return None


def load_named(digest: str, name: str) -> dict[str, bytes] | None:
    """The same for an entry that another entry names by its key's digest."""
    try:
        root = open_root()
        folder = _folder_of(root, digest)
        record, files = _checked(folder, secret_key(root))
        if _digest_of(record["digests"]) != digest:
            raise Corrupt("the entry belongs to another key")
        os.utime(folder / ENTRY)
        events.record("cache", "hit", unit=name, key=digest[:16])
        return files
    except (Corrupt, NotPrivate, OSError) as error:
        events.record("cache", "miss", unit=name, key=digest[:16], reason=str(error))
        return None


def there(key: Key) -> bool:
    """Whether there is an entry; `load` says whether it may be used."""
    try:
        return _entry_folder(open_root(), key).is_dir()
    except (NotPrivate, OSError):
        return False


def store(key: Key, files: Mapping[str, bytes]) -> bool:
    """Publish an entry and make room for it. False when that cannot be done; the event log says why."""
    try:
        root = open_root()
        size = sum(map(len, files.values()))
        if size > config.current().runtime.cache_bytes:
            return False
        folder = _entry_folder(root, key)
        _publish_entry(root, folder, key.name, key.digests, files)
        _remember_name(root, key)
        evict(root, config.current().runtime.cache_bytes, keep=folder)
        return True
    except (NotPrivate, OSError) as error:
        events.record("fallback", "disk_cache", unit=key.name, reason=str(error))
        return False


def check_entry(folder: Path, key: Key, secret: bytes) -> dict[str, bytes]:
    """An entry's files by name. Raises Corrupt unless every digest and the MAC hold."""
    record, files = _checked(folder, secret)
    if record["digests"] != key.digests:
        raise Corrupt("the entry belongs to another key")
    return files


def read_entry(root: Path, folder: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """An entry of this user's, whatever its key: its record without the MAC, and its files. Raises Corrupt."""
    return _checked(folder, secret_key(root))


def adopt_entry(record: Mapping[str, Any], files: Mapping[str, bytes]) -> bool:
    """Keep an entry that came from elsewhere and is trusted; False where there is one. Raises Corrupt, OSError."""
    root = open_root()
    if any(Path(name).name != name or name == ENTRY for name in files):
        raise Corrupt("a file's name leads out of the entry")
    if dict(record["files"]) != _file_digests(files):
        raise Corrupt("a file is not what was stored")
    digests = {str(part): str(record["digests"][part]) for part in sorted(record["digests"])}
    name = _digest_of(digests)
    folder = root / "entries" / name[:2] / name
    if folder.is_dir():
        return False
    _publish_entry(root, folder, str(record["name"]), digests, files)
    evict(root, config.current().runtime.cache_bytes, keep=folder)
    return True


def _checked(folder: Path, secret: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    try:
        record = json.loads((folder / ENTRY).read_bytes())
        mac = record.pop("mac")
        if not hmac.compare_digest(mac, _mac(secret, record)):
            raise Corrupt("the entry was not written by this user's cache")
        files = {name: (folder / name).read_bytes() for name in record["files"]}
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Corrupt(f"{type(error).__name__}: {error}") from error
    for name, digest in _file_digests(files).items():
        if record["files"][name] != digest:
            raise Corrupt(f"{name} is not what was stored")
    return record, files


def evict(root: Path, limit: int, keep: Path | None = None) -> None:
    """Count the new entry `keep`. If all entries together exceed `limit` bytes, remove the least recently used, and so
    many that the next stores have room: looking at every entry takes seconds where there are thousands."""
    for leftover in (*root.glob("new-*"), *root.glob("old-*")):  # of processes that died while storing
        with contextlib.suppress(FileNotFoundError):  # of a process that lives: it has renamed it since
            if time.time() - leftover.stat().st_mtime > _DAY:
                shutil.rmtree(leftover, ignore_errors=True)
    known = cache_size.add(root, _age_and_size(keep)[1] if keep else 0)
    if known is not None and known <= limit:
        return
    aged = [(*_age_and_size(folder), folder) for folder in entries(root)]
    total = sum(size for _, size, _ in aged)
    if total > limit:
        for _, size, folder in sorted(aged, key=lambda e: e[0]):
            if total <= limit * _FULL:
                break
            if folder != keep:
                _discard(root, folder)
                total -= size
    cache_size.set_to(root, total)


# ---- inside ----------------------------------------------------------------------------------------------


def open_root() -> Path:
    settings = config.current().runtime
    if not settings.cache or settings.force_disable_caches:
        name = "force_disable_caches" if settings.cache else "cache"
        raise NotPrivate(f"no disk cache: it is switched off (runtime.{name})")
    return private_folder(cache_root())


def _entry_folder(root: Path, key: Key) -> Path:
    return _folder_of(root, key.digest)


def _folder_of(root: Path, digest: str) -> Path:
    return root / f"entries/{digest[:2]}/{digest}"


def entries(root: Path) -> Iterator[Path]:
    yield from (root / "entries").glob("??/*")


def _file_digests(files: Mapping[str, bytes]) -> dict[str, str]:
    return {name: hashlib.sha256(data).hexdigest() for name, data in sorted(files.items())}


def _mac(secret: bytes, record: Mapping[str, Any]) -> str:
    return hmac.digest(secret, json.dumps(record, sort_keys=True).encode(), "sha256").hex()


def _publish_entry(
    root: Path, folder: Path, name: str, digests: Mapping[str, str], files: Mapping[str, bytes]
) -> None:
    record: dict[str, Any] = {"name": name, "digests": dict(digests), "files": _file_digests(files)}
    record["mac"] = _mac(secret_key(root), record)
    _publish(root, folder, {**files, ENTRY: json.dumps(record, indent=1).encode()})


def _publish(root: Path, folder: Path, files: Mapping[str, bytes]) -> None:
    """Write a whole entry beside the others, then give it its name in one step."""
    folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    made = Path(tempfile.mkdtemp(prefix="new-", dir=root))
    try:
        for name, data in files.items():
            (made / name).write_bytes(data)
        try:
            made.rename(folder)
        except OSError:  # another thread or process was first, or a broken entry is in the way
            _discard(root, folder)
            made.rename(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _discard(root: Path, folder: Path) -> None:
    """Remove an entry so that no one sees half of it: rename first, delete then."""
    grave = root / f"old-{secrets.token_hex(8)}"
    try:
        folder.rename(grave)
    except FileNotFoundError:
        return  # someone else removed it
    shutil.rmtree(grave, ignore_errors=True)


def _age_and_size(folder: Path) -> tuple[float, int]:
    try:
        return (folder / ENTRY).stat().st_mtime, sum(p.stat().st_size for p in folder.iterdir())
    except OSError:
        return 0.0, 0  # being removed, or broken: the first to go


def _name_file(root: Path, key: Key) -> Path:
    return root / "names" / hashlib.sha256(key.name.encode()).hexdigest()


def _remember_name(root: Path, key: Key) -> None:
    """The newest key of each name, so that a later miss can say what changed. Never used to load anything."""
    path = _name_file(root, key)
    path.parent.mkdir(exist_ok=True, mode=0o700)
    made = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    made.write_text(json.dumps(key.digests))
    made.replace(path)


def _what_differs(root: Path, key: Key) -> str:
    """The parts of the key that differ from the newest entry of the same name."""
    try:
        known = json.loads(_name_file(root, key).read_text())
        parts = [part for part, digest in key.digests.items() if known.get(part) != digest]
    except (OSError, ValueError, AttributeError):
        return "new source"
    return f"changed: {', '.join(parts)}" if parts else "evicted"
