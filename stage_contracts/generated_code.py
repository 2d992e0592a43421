"""Generated Python text becomes code here: guards, what calls kernels, what runs after a graph.

Input: a text and the path that a traceback names. Python takes a fifth of a second for those of a step over 200
tensors; so a long text's code can be kept, by whoever has a place for it (`keep_by`), and knows no path while it is.
"""

from __future__ import annotations

import types
from collections.abc import Callable

LONG = 8_000  # characters: 1.4 ms to compile, 0.2 ms to find; 30,000 take 5 ms and 0.4 ms
_KEPT = "<cutaway>"
Keeper = Callable[[str, Callable[[], types.CodeType]], types.CodeType]
_KEEPER: list[Keeper] = []


def keep_by(keeper: Keeper) -> None:
    """From now on `keeper(text, make)` gives a long text's code: what it has kept, or `make()`."""
    _KEEPER[:] = [keeper]


def code_of(text: str, path: str) -> types.CodeType:
    """The code of a module. Raises SyntaxError."""
    if len(text) < LONG or not _KEEPER:
        return compile(text, path, "exec", dont_inherit=True)
    return _at(_KEEPER[0](text, lambda: compile(text, _KEPT, "exec", dont_inherit=True)), path)


def _at(code: types.CodeType, path: str) -> types.CodeType:
    """The code and all that is inside, of another path."""
    inside = (_at(c, path) if isinstance(c, types.CodeType) else c for c in code.co_consts)
    return code.replace(co_filename=path, co_consts=tuple(inside))
