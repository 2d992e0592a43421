"""Which module prints each intermediate representation. Printers import the IRs, not the other way round.

Input: an IR. The printers are named here as import paths only, and imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import Any

PRINTERS = {
    "LoopNest": "stage_contracts.loop_text:print_nest",
    "LoweredGraph": "stage_contracts.loop_text:print_lowered",
    "Program": "stage_contracts.program_text:print_program",
}


def printed(kind: str, artifact: Any) -> str:
    """The artifact as text that reads back."""
    module, _, name = PRINTERS[kind].partition(":")
    return getattr(importlib.import_module(module), name)(artifact)
