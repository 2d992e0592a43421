"""heapq and bisect, written in Python so that capture can follow them: what stands where afterwards is as the originals
leave it, comparison by comparison.

Input: builtins/library.py puts each in the place of the original, which is C. A heap is a list in which no item is
smaller than the one at half its place.
"""

from __future__ import annotations

from typing import Any


def sift_up(heap: list, first: int, place: int) -> None:
    """The item at `place` moves towards the root, past every larger one, and not past `first`."""
    item = heap[place]
    while place > first:
        parent = (place - 1) >> 1
        if not item < heap[parent]:
            break
        heap[place] = heap[parent]
        place = parent
    heap[place] = item


def sift_down(heap: list, place: int) -> None:
    """The item at `place` sinks to a leaf, the smaller child rising each time, and comes back up as far as it must."""
    first, item, end = place, heap[place], len(heap)
    child = 2 * place + 1
    while child < end:
        if child + 1 < end and not heap[child] < heap[child + 1]:
            child += 1
        heap[place] = heap[child]
        place = child
        child = 2 * place + 1
    heap[place] = item
    sift_up(heap, first, place)


def heappush(heap: list, item: Any) -> None:
    heap.append(item)
    sift_up(heap, 0, len(heap) - 1)


def heappop(heap: list) -> Any:
    last = heap.pop()
    if not heap:
        return last
    smallest, heap[0] = heap[0], last
    sift_down(heap, 0)
    return smallest


def heapreplace(heap: list, item: Any) -> Any:
    smallest, heap[0] = heap[0], item
    sift_down(heap, 0)
    return smallest


def heappushpop(heap: list, item: Any) -> Any:
    if heap and heap[0] < item:
        item, heap[0] = heap[0], item
        sift_down(heap, 0)
    return item


def heapify(heap: list) -> None:
    for place in reversed(range(len(heap) // 2)):
        sift_down(heap, place)


def bounds_of(row: Any, low: int, high: Any) -> Any:
    if low < 0:
        raise ValueError("lo must be non-negative")
    return low, len(row) if high is None else high


def bisect_left(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> int:
    lo, hi = bounds_of(a, lo, hi)
    while lo < hi:
        middle = (lo + hi) // 2
        if (a[middle] if key is None else key(a[middle])) < x:
            lo = middle + 1
        else:
            hi = middle
    return lo


def bisect_right(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> int:
    lo, hi = bounds_of(a, lo, hi)
    while lo < hi:
        middle = (lo + hi) // 2
        if x < (a[middle] if key is None else key(a[middle])):
            hi = middle
        else:
            lo = middle + 1
    return lo


def insort_left(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


def insort_right(a: Any, x: Any, lo: int = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)
