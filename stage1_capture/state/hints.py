"""What to write instead of a call that cannot be captured: a table by the function that is called.

Input: the real function or class of the call. A row says what a user of the catalogue's page would want to hear first;
what has no row gets the catalogue's own hint.
"""

from __future__ import annotations

import builtins
import gc
import inspect
import logging
import random
import time
import types
import warnings
from typing import Any

_OUTPUT = "move it behind the compiled call, or under `if not compiler.is_compiling():`"
_CLOCK = (
    "take the time around the compiled call: inside it the clock would be read once, while it is compiled"
)
_FRAMES = "give the function what it needs as an argument: compiled code has no frame of its own to look at"
_RANDOM = "draw with cutaway.rand and its kin, whose numbers are part of the graph, or pass the number in"
_FILES = "read the file before, and pass in what it holds"

HINTS: dict[Any, str] = {
    **dict.fromkeys((print, warnings.warn), _OUTPUT),
    **dict.fromkeys((input, open), _FILES),
    **dict.fromkeys((time.time, time.perf_counter, time.monotonic, time.process_time, time.sleep), _CLOCK),
    **dict.fromkeys((locals, vars, dir, eval, exec, inspect.currentframe, inspect.stack), _FRAMES),
    **dict.fromkeys((gc.collect, id), "do it around the compiled call"),
    builtins.__import__: "import at the top of the file",
}
# What a module's own functions break at, followed from the user's call.
MODULES = {"logging": _OUTPUT, "random": _RANDOM, "numpy.random": _RANDOM, "pdb": _OUTPUT}


def hint_for(called: Any) -> str:
    """The row for a function or a bound method; "" where there is none."""
    function = getattr(called, "__func__", called)
    try:
        found = HINTS.get(function, "")
    except TypeError:  # it does not hash
        return ""
    if found:
        return found
    if isinstance(getattr(called, "__self__", None), (logging.Logger, random.Random)):
        return _OUTPUT if isinstance(called.__self__, logging.Logger) else _RANDOM
    is_function = isinstance(function, (types.FunctionType, types.BuiltinFunctionType, types.MethodType))
    return MODULES.get(getattr(function, "__module__", None) or "", "") if is_function else ""
