"""The nearest frame of user code: where a warning points to.

Input: the frames of the running thread.
"""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

_HOUSE = Path(__file__).parent.parent
_PACKAGES = tuple(
    f"{_HOUSE / name}{os.sep}" for name in ("cutaway", "stage_contracts", "stage0_eager", "stage4_runtime")
)


def level_of_the_user() -> int:
    """The stacklevel, for a `warn` in the caller, of the nearest frame of user code: neither Cutaway's nor
    generated."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_ours(frame):
        frame, level = frame.f_back, level + 1
    return level


def _is_ours(frame: types.FrameType) -> bool:
    file = frame.f_code.co_filename
    return file.startswith("<cutaway") or file.startswith(_PACKAGES)
