"""The named tuples that functions with several results return, with torch's field names.

Input: nothing. While a graph is captured a result may be a plain tuple; unpack it or index it there.
"""

from __future__ import annotations

from typing import Any, NamedTuple


class ValuesIndices(NamedTuple):
    """max, min, cummax, ... along a dimension."""

    values: Any
    indices: Any


class MinMax(NamedTuple):
    """aminmax."""

    min: Any
    max: Any
