"""The library's own functions about modes, as capture sees them: what they would do to the thread it notes down.

Input: abstract arguments. The state itself is followed in state/modes.py.
"""

from __future__ import annotations

from stage0_eager.amp.autocast import clear_autocast_cache
from stage0_eager.arrays import gpu_is_there
from stage0_eager.defaults import dtype_or_default, get_default_dtype
from stage0_eager.state import settle
from stage1_capture.state.machine import BUILTINS, FOLDED, Tx
from stage1_capture.variables.base import Variable
from stage1_capture.variables.constant import NONE


def _settled(tx: Tx, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    return NONE


def _clear(tx: Tx, args: list[Variable], kwargs: dict[str, Variable]) -> Variable:
    tx.output.casts.clear()
    return NONE


BUILTINS.update({settle: _settled, clear_autocast_cache: _clear})
FOLDED.update({gpu_is_there, get_default_dtype, dtype_or_default})  # the guard MODES is always there
