"""What a module refuses to register, and with which of torch's errors: names that would be lost, and other objects.

Input: register_parameter, register_buffer and add_module of module.py, before they write.
"""

from __future__ import annotations

from typing import Any

KINDS = {"_parameters": "parameter", "_buffers": "buffer", "_modules": "module"}


def check_entry(module: Any, registry: str, name: Any, value: Any, wanted: type) -> None:
    """Raises what torch raises for a name under which state_dict or getattr would not find the value, and for a value
    that is neither None nor a `wanted`."""
    kind, entries = KINDS[registry], module.__dict__.get(registry)
    if entries is None:
        raise AttributeError(f"cannot assign {kind} before Module.__init__() call")
    if not isinstance(name, str):
        raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
    if "." in name:
        raise KeyError(f'{kind} name can\'t contain ".", got: {name}')
    if not name:
        raise KeyError(f'{kind} name can\'t be empty string ""')
    if name not in entries and hasattr(module, name):
        raise KeyError(f"attribute {name!r} already exists")
    if value is None or isinstance(value, wanted):
        return
    given = type(value).__name__
    if kind == "module":
        raise TypeError(f"{given} is not a Module subclass")
    raise TypeError(f"cannot assign {given!r} object to {kind} {name!r} ({wanted.__name__} or None required)")
