"""The modules that a compile imports, early or late: a first call is timed with all of them loaded, in each framework.

Input: a process that has compiled once and keeps the names; a later one that imports them before it measures.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable
from pathlib import Path


def keep_names(file: Path) -> None:
    """Write the names of the modules that this process has."""
    file.write_text(json.dumps([name for name in sys.modules if name != "__main__"]))


def import_all(needed: Iterable[str], file: Path) -> None:
    """Import these modules, and those that `file` names if it is there. Raises ImportError for a needed one."""
    for name in needed:
        importlib.import_module(name)
    for name in json.loads(file.read_text()) if file.exists() else ():
        try:
            importlib.import_module(name)
        except Exception:  # made while running, not on disk
            continue
