"""Equal parts of a program: what is checked of one layer is a function, and is asked of each of the layers.

Input: guards. A part is an item of a container (`model.layers[3]`). Parts are equal if the guards ask the same of the
same places below them. What they expect there, their own weights for instance, is a row of a table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from stage_contracts.source import ArgSource, AttrSource, ExpressionSource, ItemSource, Source

MANY = 4  # parts
PART, WANTED = "__part", "__wanted"  # parameters of the function: a part, and its row of the table
# Kinds whose expected value may differ from part to part. That of the others is a literal, a piece of the text.
_TOLD_BY_ROW = ("TENSOR", "IDENTITY", "TYPE")


@dataclass(frozen=True)
class EqualParts:
    """Where the parts are, and what is checked of each, in one order."""

    places: tuple[Source, ...]
    guards: tuple[tuple[Any, ...], ...]


def equal_parts(
    guards: Sequence[Any], is_literal: Callable[[Any], bool]
) -> tuple[list[EqualParts], list[Any]]:
    """The parts that are equal, and the guards about all else. Both keep the order of `guards`."""
    places = _Places(guards)
    own: dict[Source, list[Any]] = {}
    for guard in guards:
        if (part := places.part_of(guard.source)) is not None:
            own.setdefault(part, []).append(guard)
    for guard in guards:  # what leads to a part in another way has to be checked after the part's own guards
        for part in [p for p in places.mentioned(guard) if not _fits(guard, p, places, is_literal)]:
            own.pop(part, None)
    alike: dict[tuple, list[Source]] = {}
    for part, its in own.items():
        alike.setdefault(tuple(_form(g, places) for g in its), []).append(part)
    found = [
        EqualParts(tuple(parts), tuple(tuple(own[p]) for p in parts))
        for parts in alike.values()
        if len(parts) >= MANY
    ]
    taken = {part for parts in found for part in parts.places}
    return found, [g for g in guards if places.part_of(g.source) not in taken]


def _fits(guard: Any, part: Source, places: _Places, is_literal: Callable[[Any], bool]) -> bool:
    """Whether it is about a place below this part and nothing else, and expects what the function can be told."""
    if places.part_of(guard.source) is not part or isinstance(guard.expected, Source):
        return False
    return guard.kind in _TOLD_BY_ROW or is_literal(guard.expected)


def is_told_by_row(guard: Any) -> bool:
    """Whether what it expects comes from the table."""
    return guard.kind in _TOLD_BY_ROW and not isinstance(guard.expected, (type(None), bool))


def _form(guard: Any, places: _Places) -> tuple:
    """Equal for guards that ask the same of the same place below their parts."""
    wanted = None if is_told_by_row(guard) else (type(guard.expected), repr(guard.expected))
    return guard.kind, places.below[guard.source], wanted


def asked_of_part(guard: Any, part: Source, entry: int) -> Any:
    """The guard about the function's parameter instead of the part, and about an entry of the row."""
    wanted = ExpressionSource(f"{WANTED}[{entry}]") if is_told_by_row(guard) else guard.expected
    return replace(guard, source=_moved(guard.source, part), expected=wanted)


def _moved(source: Any, part: Source) -> Source:
    return ArgSource(PART) if source == part else replace(source, base=_moved(source.base, part))


class _Places:
    """Which part each source is in, if any: the item nearest to the program's arguments that has siblings enough."""

    def __init__(self, guards: Sequence[Any]) -> None:
        chains = {s: None for g in guards for s in _chain(g.source)}
        siblings = Counter(s.base for s in chains if type(s) is ItemSource)
        self._many = {base for base, count in siblings.items() if count >= MANY}
        self._parts: dict[Any, Source | None] = {None: None}
        self._read: dict[Source, tuple[Source, ...]] = {}
        self.below: dict[Any, tuple] = {}  # the steps from the part to a source in it

    def part_of(self, source: Any) -> Source | None:
        if source not in self._parts:
            self._parts[source] = self._found(source)
        return self._parts[source]

    def _found(self, source: Any) -> Source | None:
        if type(source) not in _STEPS:
            return None
        if (part := self.part_of(source.base)) is not None:
            step = (
                (source.name, source.registry)
                if type(source) is AttrSource
                else (type(source.key), source.key)
            )
            self.below[source] = (*self.below[source.base], step)
            return part
        if type(source) is ItemSource and source.base in self._many:
            self.below[source] = ()
            return source
        return None

    def mentioned(self, guard: Any) -> set[Source]:
        """The parts that a guard reads anything of."""
        return {*self._read_by(guard.source), *self._read_by(guard.expected)}

    def _read_by(self, source: Any) -> tuple[Source, ...]:
        if not isinstance(source, Source):
            return ()
        if source not in self._read:
            part = self.part_of(source)
            below = _made_of(source) if part is None else ()
            self._read[source] = (part,) if part else tuple(p for s in below for p in self._read_by(s))
        return self._read[source]


_STEPS = (AttrSource, ItemSource)


def _chain(source: Any) -> Iterator[Any]:
    """A source and what it is read from, as far as that is attributes and items."""
    while type(source) in _STEPS:
        yield source
        source = source.base


def _made_of(source: Source) -> Iterator[Source]:
    for field in fields(source):
        value = getattr(source, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Source):
                yield item
