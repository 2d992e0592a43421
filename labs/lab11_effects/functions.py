"""The functions that lab 11's checks compile: each changes something outside. Objects are of the class Box.

Input: tensors, lists, dicts, Boxes; and the globals of this file.
"""

from __future__ import annotations

from typing import Any

COUNT: Any = 0
LAST: Any = None
SEEN: list[Any] = []


class Box:
    """An object with attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def nothing(x: Any, log: Any) -> Any:
    return x * 2


def append(x: Any, log: Any) -> Any:
    y = x * 2
    log.append(y)
    log.append(x)
    return y + 1


def made_inside(x: Any, log: Any) -> Any:
    parts = [x, x * 2]
    parts.append(x * 3)
    return parts


def shared(x: Any, log: Any) -> Any:
    parts = [x * 2]
    log.append(parts)
    log.append(parts)
    parts.append(x + 1)
    return parts


def itself(x: Any, log: Any) -> Any:
    ring = [x * 2]
    ring.append(ring)
    log.append(ring)
    return ring


def swap(x: Any, log: Any) -> Any:
    log[0], log[1] = log[1], log[0]
    return x + log[0]


def shorter(x: Any, log: Any) -> Any:
    last = log.pop()
    log.insert(0, last * x)
    log.pop()
    return last


def there_and_back(x: Any, log: Any) -> Any:
    log.append(x * 2)
    log.pop()
    return x


def attributes(x: Any, box: Any) -> Any:
    box.total = box.total + x
    box.calls = box.calls + 1
    del box.old
    return box.total * 2


def exchanged(x: Any, box: Any, other: Any) -> Any:
    box.value, other.value = other.value, box.value
    return box.value - x


def way_changes(x: Any, box: Any) -> Any:
    history = box.history
    box.history = [x]
    history.append(x * 2)
    box.history.append(history)
    return x


def inner(x: Any, box: Any) -> Any:
    box.inner.value = x * 2
    box.inner.items["best"] = box.inner.value + 1
    return box.inner.value


def table(x: Any, d: Any) -> Any:
    d["new"] = x * 2
    d["first"] = d["first"] + 1
    del d["second"]
    return d["new"]


def last_again(x: Any, d: Any) -> Any:
    value = d.pop("first")
    d["first"] = value
    return value * x


def one_list_twice(x: Any, log: Any, same: Any) -> Any:
    log.append(x)
    same.append(x * 2)
    return log[-1]


def stored_globals(x: Any, log: Any) -> Any:
    global COUNT, LAST
    COUNT = COUNT + 1
    LAST = x * COUNT
    SEEN.append(LAST)
    COUNT = COUNT + 1
    return LAST


def several(x: Any, box: Any, log: Any) -> Any:
    log.append(x)
    box.total = x * 2
    log.append(box.total)
    box.log = log
    return box


def noted(x: Any, one: Any, two: Any, three: Any) -> Any:
    three.a = x
    one.a = x * 2
    two.a = x * 3
    three.b = x * 4
    one.a = x * 5
    return three.a
