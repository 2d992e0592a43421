"""Which software this process runs: a text that changes with any file that decides what a compile makes.

Input: files and folders of this repository. They are looked at when the stages are loaded, by `watch`, and not when a
key is made: a process that was started before somebody changed a file computes as that file said before.
"""

from __future__ import annotations

import hashlib
import os
import secrets
from functools import cache as once
from pathlib import Path

from stage4_runtime.runtime.remembered import Seen, State, remembered, seen, state_of

ROOT = Path(__file__).parents[2]
Files = list[tuple[str, State]]
Places = tuple[str, ...]
# Folders that decide nothing: what is in a tiny one runs in its own pipeline only, which uses no cache.
ASIDE = frozenset(("tests", "tiny", "__pycache__"))
_LOADED: dict[tuple[Places, Places], tuple[Files, Seen]] = {}
_LOOKED_AT: dict[str, Files] = {}  # by place: two lists of places name some in common


def watch(deciding: Places, without: Places = ()) -> None:
    """Look at these files now, while the modules that they are get loaded. Where there are none, as in an archive,
    `software` tells no two processes that they are alike."""
    try:
        for place in deciding:
            if place not in _LOOKED_AT:
                _LOOKED_AT[place] = _sources(ROOT / place)
    except OSError:
        return
    files = _kept([file for place in deciding for file in _LOOKED_AT[place]], ROOT, without)
    _LOADED[deciding, without] = files, seen(files)


@once
def software(deciding: Places, without: Places = ()) -> str:
    """What changes with any of these files, and with any file below one of these folders: as they were loaded."""
    if (deciding, without) not in _LOADED:
        watch(deciding, without)
    if (deciding, without) not in _LOADED:
        return _of_this_process("not to be found")
    return _text(ROOT, deciding, without, *_LOADED[deciding, without])


def _of_this_process(why: str) -> str:
    """Nobody can say what was loaded: no other process has this key."""
    return f"{why}, {secrets.token_hex(16)}"


def software_of(root: Path, deciding: Places, without: Places = ()) -> str:
    """The same of the files as they are now, below another root."""
    files = _files(root, deciding, without)
    return _text(root, deciding, without, files, seen(files))


def _text(root: Path, deciding: Places, without: Places, files: Files, when: Seen) -> str:
    """A digest of the contents. To ask whether files changed takes a third of the time to read them."""

    def digest() -> str:
        whole = hashlib.sha256()
        for path, _ in files:
            content = Path(path).read_bytes()
            whole.update(f"{os.path.relpath(path, root)} {len(content)}\n".encode() + content)
        if _files(root, deciding, without) != files:
            raise _Changed
        return whole.hexdigest()

    try:
        return remembered(f"software of {root} {deciding} {without}", when, digest)
    except (_Changed, OSError):
        return _of_this_process("changed since it was loaded")


class _Changed(Exception):
    """The files are not those that were loaded."""


def _files(root: Path, deciding: Places, without: Places) -> Files:
    return _kept([file for place in deciding for file in _sources(root / place)], root, without)


def _kept(files: Files, root: Path, without: Places) -> Files:
    left_out = tuple(f"{root / folder}{os.sep}" for folder in without)
    return [file for file in files if not file[0].startswith(left_out)] if left_out else files


def _sources(place: Path) -> Files:
    """The Python files at or below a place, and what the system says of each. It is asked about hundreds of files in
    each process that compiles, so there is no call that can be left out."""
    if place.suffix:
        return [(str(place), state_of(place.stat()))]
    found, folders = [], [str(place)]
    for folder in folders:
        with os.scandir(folder) as inside:
            for entry in inside:
                name = entry.name
                if name[-3:] == ".py":
                    found.append((entry.path, state_of(entry.stat())))
                elif "." not in name and name not in ASIDE and entry.is_dir():
                    folders.append(entry.path)
    return sorted(found)
