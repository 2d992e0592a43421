"""The message for an import of a torch name that Cutaway lacks: is it planned, or which similar name is meant?

Input: the names in import statements inside as_torch(), which makes MISSING the first finder there.
"""

from __future__ import annotations

import importlib.util
import sys
from types import CodeType, FrameType
from typing import Any

from cutaway.subjects import no_import


class _Missing:
    """A finder of modules: each of torch's that is asked for and was not made is missing, with a reason."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        parent = name.rpartition(".")[0]
        if not name.startswith("torch.") or _asked_by(importlib.util.find_spec.__code__):
            return  # who asks whether a module is there gets None, as for any other
        known = dir(sys.modules[parent])
        # `from torch import hub` tries the module torch.hub last, and forgets a ModuleNotFoundError
        if _asked_by(_FROM):
            raise ImportError(no_import(name, known, whole_module=False), name=parent)
        raise ModuleNotFoundError(no_import(name, known, whole_module=True), name=name)


def _asked_by(code: CodeType) -> bool:
    """Whether the innermost call outside of the machinery of imports, or the one that led to it, is of this code."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename == _MACHINERY:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return frame is not None and frame.f_code is code


_bootstrap: Any = importlib._bootstrap
_FROM, _MACHINERY = _bootstrap._handle_fromlist.__code__, _bootstrap._find_spec.__code__.co_filename

MISSING = _Missing()
