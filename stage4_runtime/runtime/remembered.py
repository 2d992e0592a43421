"""What takes long to find out and changes only with some files: kept in the cache folder, with the files' state.

Input: a question, how the files were seen that its answer depends on, and how to find the answer. An answer is believed
only if this user's cache wrote it (the secret of private_folder.py), as entries are.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

from stage4_runtime.runtime import cache
from stage4_runtime.runtime.private_folder import NotPrivate, secret_key

# A file that changed so lately may change again without the system giving it another time.
RECENT = 2.0  # seconds
State = tuple[int, int, int, int]  # when its content and when its record changed (ns), its size, its number


def state_of(found: os.stat_result) -> State:
    return found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino


class Seen(NamedTuple):
    """How files were when somebody looked at them."""

    digest: str  # of the state of each
    lately: int  # when the last of them changed (ns)


def seen(files: Iterable[tuple[str, State]]) -> Seen:
    known = list(files)
    digest = hashlib.sha256(json.dumps(known).encode()).hexdigest()
    return Seen(digest, max((max(at[:2]) for _, at in known), default=0))


def remembered(question: str, files: Seen, find: Callable[[], str]) -> str:
    """The answer that was found while these files were as they are now; else `find()`, which is kept."""
    state = files.digest
    try:
        root = cache.open_root()
        path, secret = _path(root, question), secret_key(root)
    except (NotPrivate, OSError):
        return find()
    if (answer := _read(path, secret, question, state)) is not None:
        return answer
    answer = find()
    if files.lately < (time.time() - RECENT) * 1e9:
        _write(path, secret, question, state, answer)
    return answer


def _path(root: Path, question: str) -> Path:
    return root / "answers" / hashlib.sha256(question.encode()).hexdigest()


def _read(path: Path, secret: bytes, question: str, state: str) -> str | None:
    try:
        kept = json.loads(path.read_bytes())
        answer = str(kept["answer"])
        return answer if hmac.compare_digest(kept["mac"], _mac(secret, question, state, answer)) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, secret: bytes, question: str, state: str, answer: str) -> None:
    kept: dict[str, Any] = {"answer": answer, "mac": _mac(secret, question, state, answer)}
    made = path.with_name(f"{path.name}.{secrets.token_hex(4)}")
    try:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        made.write_text(json.dumps(kept))
        made.replace(path)
    except OSError:  # no space: it is found again next time
        made.unlink(missing_ok=True)


def _mac(secret: bytes, question: str, state: str, answer: str) -> str:
    return hmac.digest(secret, json.dumps([question, state, answer]).encode(), "sha256").hex()
