"""Tiny dispatch: runs the first compiled entry whose guards hold for this call.

Input: the entries of one code object, oldest first, and a call's arguments. None means: compile a new one. The full
version also explains a miss.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stage_contracts.pipeline import Entry


def dispatch(entries: Sequence[Entry], args: tuple, kwargs: dict[str, Any]) -> Entry | None:
    return next((entry for entry in entries if entry.check(*args, **kwargs)), None)
