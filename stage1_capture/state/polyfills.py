"""Functions of the standard library that are C, written in Python so that capture can follow them.

Input: builtins/library.py puts each in the place of the original. The meaning is that of the original's
documentation; only what capture may follow is here. Of heapq and bisect CPython has the Python beside the C: their
source is run once more where the C part cannot be imported. As part of this package all are trusted: no guards.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import types
from typing import Any

MISSING: Any = object()


def items_by_index(sequence: Any) -> Any:
    """What iter() gives for an object that has `__getitem__` only."""
    index = 0
    while True:
        try:
            item = sequence[index]
        except IndexError:
            return
        yield item
        index += 1


def items_backwards(sequence: Any, count: int) -> Any:
    """What reversed() gives for an object that has `__len__` (`count`) and `__getitem__`."""
    for index in range(count - 1, -1, -1):
        try:
            item = sequence[index]
        except (IndexError, StopIteration):
            return
        yield item


def call_until(function: Any, sentinel: Any) -> Any:
    """iter(function, sentinel)."""
    while True:
        item = function()
        if item == sentinel:
            return
        yield item


def length_hint(value: Any, default: Any = 0) -> Any:
    """operator.length_hint: the length, or what the object guesses of it, or `default`."""
    if not isinstance(default, int):
        raise TypeError(f"'{type(default).__name__}' object cannot be interpreted as an integer")
    if hasattr(type(value), "__len__"):
        return len(value)
    if not hasattr(type(value), "__length_hint__"):
        return default
    try:
        hint = type(value).__length_hint__(value)
    except TypeError:
        return default
    if hint is NotImplemented:
        return default
    if not isinstance(hint, int):
        raise TypeError(f"__length_hint__ must be an integer, not {type(hint).__name__}")
    if hint < 0:
        raise ValueError("__length_hint__() should return >= 0")
    return hint


def cached_property_get(self: Any, instance: Any, owner: Any = None) -> Any:
    if instance is None:
        return self
    if self.attrname is None:
        raise TypeError("Cannot use cached_property instance without calling __set_name__ on it.")
    try:
        values = instance.__dict__
    except AttributeError:
        cls = type(instance).__name__
        words = f"No '__dict__' attribute on {cls!r} instance to cache {self.attrname!r} property."
        raise TypeError(words) from None
    if self.attrname in values:
        return values[self.attrname]
    value = self.func(instance)
    values[self.attrname] = value
    return value


# What the originals do when they are called, and not when the first item is asked for, stands in a function that
# returns a generator: checks of arguments, and pools that are read to their end.


def batched(iterable: Any, n: Any, *, strict: Any = False) -> Any:
    if n < 1:
        raise ValueError("n must be at least one")
    return batches(iter(iterable), n, strict)


def batches(iterator: Any, n: Any, strict: Any) -> Any:
    while batch := tuple(islice(iterator, n)):
        if strict and len(batch) != n:
            raise ValueError("batched(): incomplete batch")
        yield batch


class Shared:
    """What the iterators of one tee() share: the items that some of them are still to see."""

    def __init__(self, iterator: Any) -> None:
        self.iterator = iterator
        self.items: list[Any] = []


def tee_one(shared: Any) -> Any:
    place = 0
    while True:
        if place == len(shared.items):
            try:
                shared.items.append(next(shared.iterator))
            except StopIteration:
                return
        yield shared.items[place]
        place += 1


def tee(iterable: Any, n: Any = 2) -> Any:
    shared = Shared(iter(iterable))
    return tuple([tee_one(shared) for _ in range(n)])


def groupby(iterable: Any, key: Any = None) -> Any:
    """Each group is a generator over the same iterator, and empty once the next one was asked for."""
    iterator = iter(iterable)
    state = {"now": MISSING, "key": MISSING, "turn": 0, "over": False}

    def advance() -> None:
        try:
            state["now"] = next(iterator)
        except StopIteration:
            state["over"] = True
            return
        state["key"] = state["now"] if key is None else key(state["now"])

    def group(wanted: Any, turn: Any) -> Any:
        while not state["over"] and state["turn"] == turn and state["key"] == wanted:
            yield state["now"]
            if state["turn"] == turn:
                advance()

    advance()
    while not state["over"]:
        wanted = state["key"]
        state["turn"] += 1
        yield wanted, group(wanted, state["turn"])
        while not state["over"] and state["key"] == wanted:
            advance()


def count_elements(mapping: Any, iterable: Any) -> None:
    """What Counter counts with."""
    for element in iterable:
        mapping[element] = mapping.get(element, 0) + 1


class Key:
    """What cmp_to_key makes of a value: it asks the function how two compare."""

    __slots__ = ("compare", "obj")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, compare: Any, obj: Any) -> None:
        self.compare, self.obj = compare, obj

    def __lt__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) < 0

    def __gt__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) > 0

    def __le__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) <= 0

    def __ge__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) >= 0

    def __eq__(self, other: Any) -> Any:
        return self.compare(self.obj, other.obj) == 0


def cmp_to_key(mycmp: Any) -> Any:
    return functools.partial(Key, mycmp)


def prod(iterable: Any, /, *, start: Any = 1) -> Any:
    for item in iterable:
        start = start * item
    return start


def fromkeys(cls: Any, iterable: Any, value: Any = None) -> Any:
    made = cls()
    for key in iterable:
        made[key] = value
    return made


def reduce(function: Any, iterable: Any, initial: Any = MISSING, /) -> Any:
    iterator = iter(iterable)
    if initial is MISSING:
        try:
            value = next(iterator)
        except StopIteration:
            raise TypeError("reduce() of empty iterable with no initial value") from None
    else:
        value = initial
    for item in iterator:
        value = function(value, item)
    return value


def chain(*iterables: Any) -> Any:
    for iterable in iterables:
        yield from iterable


def chain_from_iterable(iterables: Any) -> Any:
    for iterable in iterables:
        yield from iterable


def count(start: Any = 0, step: Any = 1) -> Any:
    while True:
        yield start
        start += step


def cycle(iterable: Any) -> Any:
    return cycle_items(
        iter(iterable)
    )  # itertools asks for the iterators at the call: what has none raises there


def cycle_items(iterator: Any) -> Any:
    saved = []
    for item in iterator:
        yield item
        saved.append(item)
    while saved:
        yield from saved


def repeat(object: Any, times: Any = MISSING) -> Any:
    if times is MISSING:
        return repeated_for_ever(object)
    return repeated(object, range(times))


def repeated_for_ever(value: Any) -> Any:
    while True:
        yield value


def repeated(value: Any, turns: Any) -> Any:
    for _ in turns:
        yield value


def islice(iterable: Any, *bounds: Any) -> Any:
    place = slice(*bounds)
    for bound in (place.start, place.stop):
        if bound is not None and (not isinstance(bound, int) or bound < 0):
            which = "Indices" if len(bounds) > 1 else "Stop argument"
            raise ValueError(f"{which} for islice() must be None or an integer: 0 <= x <= sys.maxsize.")
    if place.step is not None and (not isinstance(place.step, int) or place.step < 1):
        raise ValueError("Step for islice() must be a positive integer or None.")
    return slice_items(iter(iterable), place.start or 0, place.stop, place.step or 1)


def slice_items(iterator: Any, start: Any, stop: Any, step: Any) -> Any:
    if stop is not None and stop <= start:
        for _ in range(start if stop is None else min(start, stop)):
            next(iterator, None)
        return
    wanted = start
    for position, item in enumerate(iterator):
        if position == wanted:
            yield item
            wanted += step
        if stop is not None and position + 1 >= stop:
            return


def accumulate(iterable: Any, func: Any = None, *, initial: Any = None) -> Any:
    return accumulated(iter(iterable), func, initial)


def accumulated(iterator: Any, func: Any, initial: Any) -> Any:
    total = initial
    if initial is None:
        try:
            total = next(iterator)
        except StopIteration:
            return
    yield total
    for item in iterator:
        total = total + item if func is None else func(total, item)
        yield total


def product(*iterables: Any, repeat: Any = 1) -> Any:
    return products([tuple(pool) for pool in iterables] * repeat)


def products(pools: Any) -> Any:
    rows: list[list[Any]] = [[]]
    for pool in pools:
        rows = [[*row, item] for row in rows for item in pool]
    for row in rows:
        yield tuple(row)


def pairwise(iterable: Any) -> Any:
    iterator = iter(iterable)
    try:
        before = next(iterator)
    except StopIteration:
        return
    for after in iterator:
        yield before, after
        before = after


def starmap(function: Any, iterable: Any) -> Any:
    for args in iterable:
        yield function(*args)


def takewhile(predicate: Any, iterable: Any, /) -> Any:
    return taken_while(predicate, iter(iterable))


def taken_while(predicate: Any, iterator: Any) -> Any:
    for item in iterator:
        if not predicate(item):
            return
        yield item


def dropwhile(predicate: Any, iterable: Any, /) -> Any:
    return dropped_while(predicate, iter(iterable))


def dropped_while(predicate: Any, iterator: Any) -> Any:
    for item in iterator:
        if not predicate(item):
            yield item
            break
    yield from iterator


def filterfalse(function: Any, iterable: Any, /) -> Any:
    return filtered_false(function, iter(iterable))


def filtered_false(predicate: Any, iterator: Any) -> Any:
    for item in iterator:
        if not (item if predicate is None else predicate(item)):
            yield item


def compress(data: Any, selectors: Any) -> Any:
    for item, chosen in zip(data, selectors):
        if chosen:
            yield item


def zip_longest(*iterables: Any, fillvalue: Any = None) -> Any:
    return longest_rows([iter(iterable) for iterable in iterables], fillvalue)


def longest_rows(iterators: Any, fillvalue: Any) -> Any:
    while iterators:
        row = []
        alive = 0
        for iterator in iterators:
            item = next(iterator, MISSING)
            alive += item is not MISSING
            row.append(fillvalue if item is MISSING else item)
        if not alive:
            return
        yield tuple(row)


def combinations(iterable: Any, r: Any) -> Any:
    return rows_of(tuple(iterable), r, lambda pool, place: pool[place + 1 :])


def combinations_with_replacement(iterable: Any, r: Any) -> Any:
    return rows_of(tuple(iterable), r, lambda pool, place: pool[place:])


def permutations(iterable: Any, r: Any = None) -> Any:
    pool = tuple(iterable)
    return rows_of(pool, len(pool) if r is None else r, lambda pool, place: pool[:place] + pool[place + 1 :])


def rows_of(pool: Any, r: Any, behind: Any) -> Any:
    if r < 0:
        raise ValueError("r must be non-negative")
    return rows_from(pool, r, behind)


def rows_from(pool: Any, r: Any, behind: Any) -> Any:
    """Tuples of r items: each item in turn, and then rows of what may stand behind it."""
    if r == 0:
        yield ()
        return
    for place, item in enumerate(pool):
        for rest in rows_from(behind(pool, place), r - 1, behind):
            yield (item, *rest)


def copy_attributes(wrapper: Any, wrapped: Any) -> None:
    """wrapper.__dict__.update(wrapped.__dict__): builtins/library.py does it."""


def update_wrapper(
    wrapper: Any,
    wrapped: Any,
    assigned: Any = functools.WRAPPER_ASSIGNMENTS,
    updated: Any = functools.WRAPPER_UPDATES,
) -> Any:
    for name in assigned:
        if hasattr(wrapped, name):
            setattr(wrapper, name, getattr(wrapped, name))
    if updated:
        copy_attributes(wrapper, wrapped)
    wrapper.__wrapped__ = wrapped
    return wrapper


def _without(accelerator: str, name: str) -> types.ModuleType:
    spec: Any = importlib.util.find_spec(name)
    module = types.ModuleType(f"{__name__}.{name}")
    absent = object()
    known = sys.modules.get(accelerator, absent)
    sys.modules[accelerator] = None  # type: ignore[assignment]  # an import of it is an ImportError
    try:
        exec(spec.loader.get_code(name), vars(module))
    finally:
        if known is absent:
            del sys.modules[accelerator]
        else:
            sys.modules[accelerator] = known  # type: ignore[assignment]
    return module


heapq = _without("_heapq", "heapq")
bisect = _without("_bisect", "bisect")
