"""Which break a call that cannot be captured is: a table by the function that is called, of codes of the catalogue.

Input: the real function or class of the call. What has no row is GB0002, a call that capture cannot look into.
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

_OUTPUT, _FILES, _CLOCK, _FRAMES, _RANDOM = "GB0060", "GB0061", "GB0062", "GB0063", "GB0027"

CODES: dict[Any, str] = {
    **dict.fromkeys((print, warnings.warn), _OUTPUT),
    **dict.fromkeys((input, open), _FILES),
    **dict.fromkeys((time.time, time.perf_counter, time.monotonic, time.process_time, time.sleep), _CLOCK),
    **dict.fromkeys((locals, vars, dir, eval, exec, inspect.currentframe, inspect.stack), _FRAMES),
    gc.collect: "GB0064",
    builtins.__import__: "GB0055",
}
# What a module's own functions break at, followed from the user's call.
MODULES = {"logging": _OUTPUT, "random": _RANDOM, "numpy.random": _RANDOM, "pdb": _OUTPUT}

_BOUND = (types.MethodType, types.BuiltinMethodType, types.MethodWrapperType)


def code_of(called: Any) -> str:
    """The code for a call of a function or a bound method. It reads no attribute of other user objects."""
    function = called.__func__ if isinstance(called, types.MethodType) else called
    try:
        found = CODES.get(function)
    except TypeError:  # it does not hash
        return "GB0002"
    if found:
        return found
    owner = called.__self__ if isinstance(called, _BOUND) else None
    if isinstance(owner, (logging.Logger, random.Random)):
        return _OUTPUT if isinstance(owner, logging.Logger) else _RANDOM
    is_function = isinstance(function, (types.FunctionType, types.BuiltinFunctionType, types.MethodType))
    return MODULES.get(getattr(function, "__module__", None) or "", "GB0002") if is_function else "GB0002"
