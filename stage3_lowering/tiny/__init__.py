"""Tiny lowering: one file per seam, with the idea of the seam on one screen.

Input: a graph of core operators. lower.py makes a loop nest of each operator, fuse.py joins nests, schedule.py orders
their loops, and emit.py writes them as C++ or Triton. spellings.py is the table of how the two languages write each
operator.
"""

from stage3_lowering.tiny.emit import emit
from stage3_lowering.tiny.fuse import fuse
from stage3_lowering.tiny.lower import lower
from stage3_lowering.tiny.schedule import schedule

__all__ = ["emit", "fuse", "lower", "schedule"]
