"""Looking a name up in a class and its bases, as Python does, without asking any descriptor.

Input: a real class.
"""

from __future__ import annotations

from typing import Any

MISSING = object()


def class_lookup(cls: type, name: str) -> Any:
    """What the class or a base of it has under `name`, unbound; MISSING if nothing."""
    return next((c.__dict__[name] for c in cls.__mro__ if name in c.__dict__), MISSING)
