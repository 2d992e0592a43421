"""The user's private cache folder: where it is, whether to trust it, and the secret in it.

Input: configuration and the environment. Native code is loaded from here, so a folder that another user owns or can
write to is refused: NotPrivate says why, and the runtime goes on without a disk cache.
"""

from __future__ import annotations

import os
import secrets
import stat
import sys
import time
from pathlib import Path

from stage_contracts import config

SECRET_BYTES = 32


class NotPrivate(RuntimeError):
    """The cache folder cannot be used. An internal signal: it ends as the reason of a cache miss."""


def cache_root() -> Path:
    """config runtime.cache_dir, else the user's cache folder. Never in a shared temporary folder."""
    configured = config.current().runtime.cache_dir
    if configured:
        return Path(configured).expanduser()
    try:
        # imported late: a machine that only runs programs may lack it
        from platformdirs import user_cache_path
    except ImportError:
        home = Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache")
        return Path(os.environ.get("XDG_CACHE_HOME") or home) / "cutaway"
    return user_cache_path("cutaway")


def private_folder(path: Path) -> Path:
    """The folder, made with mode 0700 if it is new. Raises NotPrivate or OSError."""
    try:  # a key asks several times, and it is nearly always there
        link = path.lstat()
    except FileNotFoundError:
        path.mkdir(parents=True, exist_ok=True, mode=0o700)
        link = path.lstat()
    found = path.stat() if stat.S_ISLNK(link.st_mode) else link
    if not stat.S_ISDIR(found.st_mode):
        raise NotPrivate(f"no disk cache: {path} is not a folder")
    if hasattr(os, "getuid") and stat.S_ISLNK(link.st_mode) and link.st_uid != os.getuid():
        raise NotPrivate(
            f"no disk cache: {path} is a link that user {link.st_uid} made, expected {os.getuid()}"
        )
    if hasattr(os, "getuid") and found.st_uid != os.getuid():
        raise NotPrivate(f"no disk cache: {path} belongs to user {found.st_uid}, expected {os.getuid()}")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise NotPrivate(
            f"no disk cache: others may write to {path} (mode {found.st_mode & 0o777:o}); chmod 700 it"
        )
    return path


def secret_key(root: Path) -> bytes:
    """The key that authenticates entries: made once, mode 0600. A damaged or readable one is replaced."""
    path = root / "secret"
    for _ in range(10):
        try:
            mode = path.stat().st_mode
            data = path.read_bytes()
            if len(data) == SECRET_BYTES and not mode & 0o077:
                return data
            path.unlink(missing_ok=True)
        except FileNotFoundError:
            pass
        _make_secret(path)
        time.sleep(0.001)
    raise NotPrivate(f"no disk cache: {path} cannot be kept private")


def _make_secret(path: Path) -> None:
    """Write it aside, then link it to its name: whoever is first wins, and no process reads half a key."""
    made = path.with_name(f"secret-{secrets.token_hex(8)}")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(SECRET_BYTES))
        try:
            os.link(made, path)
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            made.replace(path)
    finally:
        made.unlink(missing_ok=True)
