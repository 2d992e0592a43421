"""The table itself: every operator by its qualified name. It imports nothing, so every file may import it.

Input: rows, which core.py, functions/, numpy_api/ and opaque.py add. The tape and the interpreters, which those files
import, get the core operators that they call from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from stage0_eager.table.opaque import OpaqueOperator
    from stage0_eager.table.operator import Operator

TABLE: dict[str, Operator] = {}  # by qualname: "core.add", "cutaway.relu"
# Opaque operators by qualname, for graphs that are read back, and for runtimes.
OPAQUE: dict[str, OpaqueOperator] = {}


def register(op: Operator) -> Operator:
    """Add a row. Raises ValueError if the name exists."""
    if op.qualname in TABLE:
        raise ValueError(f"operator {op.qualname} is defined twice")
    TABLE[op.qualname] = op
    return op


def find(qualname: str) -> Operator:
    """The row with this `qualname`, for unpickling an operator."""
    return TABLE[qualname]


def lookup(table: Mapping[str, Operator], qualname: str) -> Operator:
    """The row with this `qualname`. Raises KeyError with similar names."""
    import difflib  # imported here: only a wrong name needs it

    if qualname not in table:
        near = difflib.get_close_matches(qualname, table, n=3)
        raise KeyError(f"there is no operator {qualname!r}; similar names: {', '.join(near) or 'none'}")
    return table[qualname]
