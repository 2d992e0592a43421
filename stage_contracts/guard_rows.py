"""Guards on many values at once: a value that is written shares no memory with the others; no gradient exists yet.

Input: guards whose source is a RowSource. If such facts were checked for each pair, the cost would be the square of the
number of parameters. Here each value is read once. Values in module trees are read only when the structure epoch has
changed.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any


class Row:
    """Objects, with what is checked about them: their identity and, for views, the tensors whose memory they share."""

    __slots__ = ("bases", "ids", "objects")

    def __init__(self, objects: tuple) -> None:
        self.objects, self.ids = objects, frozenset(map(id, objects))
        self.bases = frozenset(id(b) for o in objects if (b := getattr(o, "_base", None)) is not None)


def row(objects: Any) -> Row:
    return objects if type(objects) is Row else Row(objects)


def apart(changed: Any, others: Any) -> bool:
    """Whether each of `changed` occurs once, and none of `others` is among them."""
    changed, others = row(changed), row(others)
    return len(changed.ids) == len(changed.objects) and changed.ids.isdisjoint(others.ids)


def written_apart(written: Any, others: Any) -> bool:
    """The same as apart. Also, none of `written` is a view, and none of `others` is a view of one of them."""
    written, others = row(written), row(others)
    return not written.bases and apart(written, others) and written.ids.isdisjoint(others.bases)


def no_gradients(tensors: Any) -> bool:
    """Whether `.grad` of each tensor is None."""
    return all(tensor.grad is None for tensor in row(tensors).objects)


def same_objects(found: Iterable[Any], wanted: tuple) -> bool:
    """Whether two rows have the same objects in the same order. It compares identities and never calls `==`."""
    seen = tuple(found)
    return len(seen) == len(wanted) and all(map(operator.is_, seen, wanted))
