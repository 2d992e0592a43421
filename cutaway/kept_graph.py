"""A graph of a compile that came from the cache: a name and a number of calls, until somebody reads its nodes.

Input: aot_cache.py makes one for each graph that stage 2 would have made. Reading it runs stage 2 again; a call of the
compiled function never does.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from stage_contracts.graph import Graph

if TYPE_CHECKING:
    from stage_contracts.program import Program

_MAKING = threading.RLock()
_LATE = ("_nodes", "_names", "_suffix", "_insert_at", "_inputs")


class KeptGraph(Graph):
    """`attributes` are known before: the constants that a call reads. `program`: what it became, and its constants."""

    def __init__(
        self,
        name: str,
        calls: int,
        attributes: dict[str, Any],
        make: Callable[[], Graph],
        program: tuple[Program, dict[str, Any]] | None = None,
    ) -> None:
        self.name, self.attributes = name, attributes
        self.number_of_calls, self.program, self._make = calls, program, make

    def __getattr__(self, name: str) -> Any:
        if name in _LATE:
            with _MAKING:
                if "_make" in self.__dict__:  # otherwise another thread has made it
                    made = self._make().copy()
                    for node in made.nodes:
                        node.graph = self
                    self.__dict__.update(vars(made))
                    del self._make
                    self.__class__ = Graph  # type: ignore[assignment]
        return object.__getattribute__(self, name)


def number_of_calls(graph: Graph) -> int:
    """How many calls it has; of a kept graph, without making it."""
    return graph.number_of_calls if isinstance(graph, KeptGraph) else len(graph.calls)


def kept_program(graph: Graph) -> tuple[Program, dict[str, Any]] | None:
    """The program that the graph became, and the program's constants, if the graph is a kept one."""
    return graph.program if isinstance(graph, KeptGraph) else None
