"""Every origin of one compiled function: its id on the page, its colour, and how text that quotes it is
recognised.

Input: the Artifacts of one entry. An id is `file.py:line:column-end`; any line of any pane carries the
ids of the expressions it came from, and that is all that the highlighting knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Any

from cutaway.artifacts import Artifacts, HalfArtifacts
from stage_contracts.graph import Graph
from stage_contracts.origin import Origin

HUES = 8  # colours of the style sheet: --h0 to --h7
Ids = tuple[str, ...]


class Origins:
    """The origins of one entry, in the order of the user's source."""

    def __init__(self, artifacts: Artifacts) -> None:
        main = artifacts.frame.code.co_filename
        computed = dict.fromkeys(all_origins(artifacts))
        found = computed | dict.fromkeys(g.origin for g in artifacts.frame.guards if g.origin)
        ordered = sorted(found, key=lambda o: (o.file != main, o.file, o.line, o.column, o.end_column))
        self.names = _file_names(dict.fromkeys([main, *(o.file for o in ordered)]))
        self.by_id: dict[str, Origin] = {}
        self._quoted: dict[str, list[str]] = {}
        for origin in ordered:
            if self.id(origin) not in self.by_id:
                self.by_id[self.id(origin)] = origin
                self._quoted.setdefault(_one_line(origin.describe()), []).append(self.id(origin))
        # Neighbours in the source get different colours; a function of many lines uses each colour again.
        # What only a guard points at (an attribute that was read) became no computation, and has none.
        coloured = dict.fromkeys(self.id(o) for o in ordered if o in computed)
        self.hue = {name: k % HUES for k, name in enumerate(coloured)}

    def id(self, origin: Origin) -> str:
        name = self.names.get(origin.file, PurePath(origin.file).name)
        return f"{name}:{origin.line}:{origin.column}-{origin.end_column}".replace(" ", "_")

    def ids(self, origins: Iterable[Origin]) -> Ids:
        """The ids of some origins. One without columns (from text read back) stands for its whole line."""
        found: dict[str, None] = {}
        for origin in origins:
            exact = self.id(origin)
            found.update(dict.fromkeys([exact] if exact in self.by_id else self.quoted(origin.describe())))
        return tuple(found)

    def quoted(self, comment: str) -> Ids:
        """The ids that a comment such as `model.py:31: relu(x)` names; none when it is another comment."""
        return tuple(self._quoted.get(_one_line(comment), ()))

    def at(self, file: str, line: int, column: int | None = None, end: int | None = None) -> Ids:
        """What a place in the source means: `pointed` of the expressions around it, or all of its line."""
        on_line = [o for o in self.by_id.values() if o.file == file and o.line == line]
        if column is not None:
            around = [o for o in on_line if o.column <= column and (end or column) <= _end(o)]
            if around:
                return self.pointed(self.ids(sorted(around, key=lambda o: o.column - _end(o))))
        return self.ids(on_line)

    def around(self, origin: Origin) -> Ids:
        """An origin with the expression it is a part of: of `F.relu(x)`, what was read to find `x`."""
        return self.at(origin.file, origin.line, origin.column, origin.end_column)

    def pointed(self, outside_in: Ids) -> Ids:
        """Of nested expressions the innermost that computed something, and what was read on the way to it."""
        inside = next((k for k in reversed(range(len(outside_in))) if outside_in[k] in self.hue), 0)
        return outside_in[inside:]


def _end(origin: Origin) -> int:
    # An expression of several lines ends on another line: on its first it reaches to the end.
    return origin.end_column if origin.end_column > origin.column else 10_000


def _one_line(words: str) -> str:
    return " ".join(words.split())


def _file_names(files: Iterable[str]) -> dict[str, str]:
    """The name each file goes by: its last part, with a number where two share it."""
    names: dict[str, str] = {}
    for file in files:
        name, base, number = PurePath(file).name, PurePath(file).name, 2
        while name in names.values():
            name, number = f"{base}~{number}", number + 1
        names[file] = name
    return names


def all_origins(artifacts: Artifacts) -> Iterator[Origin]:
    """The origins of everything an entry computes."""
    for graph in _graphs(artifacts):
        for node in graph.nodes:
            yield from node.origins
    for half in (artifacts.forward, artifacts.backward):
        if half is not None:
            yield from _half_origins(half)


def _graphs(artifacts: Artifacts) -> Iterator[Graph]:
    holders: list[Any] = [artifacts.functional, artifacts.joint, artifacts.decomposed]
    graphs = [artifacts.captured, *(h.graph for h in holders if h is not None)]
    if artifacts.partition is not None:
        graphs += [artifacts.partition.forward, artifacts.partition.backward]
    yield from (graph for graph in graphs if graph is not None)


def _half_origins(half: HalfArtifacts) -> Iterator[Origin]:
    for node in half.lowered.nodes:
        yield from node.origins
    for kernel in half.planned.kernels.values():
        yield from kernel.origins
