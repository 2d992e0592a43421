"""Modules of the standard library whose functions are C, in the Python that CPython has beside them: heapq and bisect.

Input: their source, run once more where the C part cannot be imported. builtins/library.py follows these functions in
the place of the originals; as part of this package they are trusted, so that what they read needs no guard.
"""

from __future__ import annotations

import importlib.util
import sys
import types
from typing import Any


def _without(accelerator: str, name: str) -> types.ModuleType:
    spec: Any = importlib.util.find_spec(name)
    module = types.ModuleType(f"{__name__}.{name}")
    absent = object()
    known = sys.modules.get(accelerator, absent)
    sys.modules[accelerator] = None  # type: ignore[assignment]  # an import of it is an ImportError
    try:
        exec(spec.loader.get_code(name), vars(module))
    finally:
        if known is absent:
            del sys.modules[accelerator]
        else:
            sys.modules[accelerator] = known  # type: ignore[assignment]
    return module


heapq = _without("_heapq", "heapq")
bisect = _without("_bisect", "bisect")
