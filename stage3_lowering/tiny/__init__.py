"""Tiny lowering: one file per seam, each the seam's idea on one screen.

Input: a graph of core operators. lower.py makes a loop nest of each, fuse.py pastes nests together,
schedule.py orders their loops, emit.py
writes them as C++ or Triton. spellings.py is the table of what these two languages are taught to say.
"""

from stage3_lowering.tiny.emit import emit
from stage3_lowering.tiny.fuse import fuse
from stage3_lowering.tiny.lower import lower
from stage3_lowering.tiny.schedule import schedule

__all__ = ["emit", "fuse", "lower", "schedule"]
