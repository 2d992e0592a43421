"""The error for an import of a torch name that Cutaway lacks. It says what to use instead, or suggests a similar name.

Input: the names in import statements inside as_torch(), which adds MISSING as the first finder of modules.
"""

from __future__ import annotations

import importlib.util
import sys
from types import CodeType, FrameType
from typing import Any

from cutaway.subjects import no_import
from cutaway.torch_api.imported import distributions


class _Missing:
    """A finder of modules that raises, with a reason, for each torch module that Cutaway does not have. It also finds
    the package torch for importlib.metadata."""

    find_distributions = staticmethod(distributions)

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        parent = name.rpartition(".")[0]
        if not name.startswith("torch.") or _asked_by(importlib.util.find_spec.__code__):
            return  # importlib.util.find_spec returns None for a missing module
        known = dir(sys.modules[parent])
        # `from torch import hub` tries the module torch.hub last, and hides a ModuleNotFoundError
        if _asked_by(_FROM):
            raise ImportError(no_import(name, known, whole_module=False), name=parent)
        raise ModuleNotFoundError(no_import(name, known, whole_module=True), name=name)


def _asked_by(code: CodeType) -> bool:
    """Whether this code is running in the import machinery's frames, or in the frame that called it."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename == _MACHINERY:
        if frame.f_code is code:
            return True
        frame = frame.f_back
    return frame is not None and frame.f_code is code


_bootstrap: Any = importlib._bootstrap
_FROM, _MACHINERY = _bootstrap._handle_fromlist.__code__, _bootstrap._find_spec.__code__.co_filename

MISSING = _Missing()
