"""The code of long generated texts, kept on disk: a second process need not compile them again.

Input: a text and how to compile it (stage_contracts/generated_code.py). The entries are cache.py's, under its rules:
they are believed only where this user's cache wrote them. Another Python reads none of them.
"""

from __future__ import annotations

import importlib.util
import marshal
import sys
import types
from collections.abc import Callable

from stage4_runtime.runtime import cache
from stage_contracts import events

_FILE = "code"


def kept_code(text: str, make: Callable[[], types.CodeType]) -> types.CodeType:
    """The code of this text from the cache, or `make()`, which is kept. Raises what `make` raises."""
    key = cache.Key(
        "generated code", {"text": text, "python": f"{sys.version} {importlib.util.MAGIC_NUMBER.hex()}"}
    )
    files = cache.load(key)
    if files is not None:
        try:
            code = marshal.loads(files[_FILE])
            if isinstance(code, types.CodeType):
                return code
        except (KeyError, ValueError, EOFError, TypeError) as error:
            events.record("cache", "miss", unit=key.name, reason=f"corrupt: {type(error).__name__}: {error}")
    code = make()
    cache.store(key, {_FILE: marshal.dumps(code)})
    return code
