"""Dynamic shapes: a function of sizes is traced once, and the guards say for which other sizes the trace is right.

Input: functions that compute with the sizes of shapes and branch on them. A size is an int, or a Size: an expression
with a hint, which is its value at the first call. A branch on it is decided by the hint, and becomes a guard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import sympy

from .size import Size, expr_of, known

Shape = tuple[int, ...]


@dataclass
class ShapeEnv:
    """What is known about the sizes of one trace.

    hints: symbol -> its value at the first call. sources: "x[0]" -> the symbol or the int that stands for this size.
    guards: conditions on symbols that the trace relies on, in the order in which they were met.
    """

    hints: dict[Any, int] = field(default_factory=dict)
    sources: dict[str, Any] = field(default_factory=dict)
    guards: list[Any] = field(default_factory=list)

    # ---- what you write

    def size(self, source: str, value: int, is_open: bool) -> int | Size:
        """What stands for a size: the int itself, if it is 0 or 1 or not open; else a Size with the hint `value`.

        Sizes with the same hint get the same symbol. Symbols are named s0, s1, ... It is noted in `sources`.
        """
        # lab: begin size
        if not is_open or value in (0, 1):
            self.sources[source] = value
            return value
        same = [symbol for symbol, hint in self.hints.items() if hint == value]
        symbol = same[0] if same else sympy.Symbol(f"s{len(self.hints)}", integer=True, positive=True)
        self.hints[symbol] = value
        self.sources[source] = symbol
        return Size(symbol, self)
        # lab: end

    def decide(self, condition: Any) -> bool:
        """Whether a condition holds. What is not `known` is decided by the hints, and is a guard, once."""
        # lab: begin decide
        answer = known(condition)
        if answer is None:
            answer = bool(condition.subs(self.hints))
            guard = condition if answer else sympy.Not(condition)
            if guard not in self.guards:
                self.guards.append(guard)
        return answer
        # lab: end

    def specialize(self, size: Size) -> int:
        """The value of a Size as an int. From now on the trace is right for this value only."""
        # lab: begin specialize
        value = int(size.expr.subs(self.hints))
        self.decide(sympy.Eq(size.expr, value))
        return value
        # lab: end

    def values(self, sizes: Mapping[str, int]) -> dict[Any, int] | None:
        """The value of each symbol for other sizes, "x[0]" -> 5. None if a guard does not hold for them.

        Beside `guards`: an int is that int, sizes with one symbol are equal, and a symbol is at least 2.
        """
        # lab: begin values
        found: dict[Any, int] = {}
        for source, standing in self.sources.items():
            value = sizes[source]
            if isinstance(standing, int):
                if standing != value:
                    return None
            elif value < 2 or found.setdefault(standing, value) != value:
                return None
        return found if all(guard.subs(found) == sympy.true for guard in self.guards) else None
        # lab: end


@dataclass
class Policy:
    """Which sizes are open. By default those that have changed: the first trace has numbers only."""

    seen: dict[str, int] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)

    def opens(self, source: str, value: int) -> bool:
        """Whether a size is open, when a trace is made with this value."""
        # lab: begin opens
        if self.seen.setdefault(source, value) != value:
            self.changed.add(source)
        return source in self.changed
        # lab: end


def compiled(function: Callable, policy: Policy | None = None) -> Callable[..., tuple]:
    """A function of shapes that is traced once for each set of guards. It has `entries`: (env, results) of each trace.

    The function takes shapes, as tuples of sizes, and returns a tuple of sizes.
    """
    # lab: begin compiled
    policy = policy or Policy()
    entries: list[tuple[ShapeEnv, tuple]] = []

    def run(*shapes: Shape) -> tuple:
        sizes = sizes_of(shapes)
        for env, results in entries:
            values = env.values(sizes)
            if values is not None:
                return tuple(int(expr_of(result).subs(values)) for result in results)
        env = ShapeEnv()
        made = {
            source: env.size(source, value, policy.opens(source, value)) for source, value in sizes.items()
        }
        results = function(*shaped(shapes, made))
        entries.append((env, results))
        return tuple(int(expr_of(result).subs(env.hints)) for result in results)

    # lab: end

    run.entries = entries  # type: ignore[attr-defined]
    return run


# ---- what is given -----------------------------------------------------------------------------------------------

NAMES = "xyzuvw"


def sizes_of(shapes: tuple[Shape, ...]) -> dict[str, int]:
    """Each size with its source: "x[0]" is the first size of the first shape."""
    return {f"{NAMES[k]}[{i}]": n for k, shape in enumerate(shapes) for i, n in enumerate(shape)}


def shaped(shapes: tuple[Shape, ...], made: Mapping[str, Any]) -> list[tuple]:
    """The shapes, with what stands for each size."""
    return [tuple(made[f"{NAMES[k]}[{i}]"] for i in range(len(shape))) for k, shape in enumerate(shapes)]


def guards_of(env: ShapeEnv) -> list[str]:
    """All guards as text, as a log would show them."""
    first: dict[Any, str] = {}
    lines = []
    for source, standing in env.sources.items():
        if isinstance(standing, int):
            lines.append(f"{source} == {standing}")
        elif standing in first:
            lines.append(f"{source} == {first[standing]}")
        else:
            first[standing] = source
            lines.append(f"2 <= {source}")
    names = {symbol: sympy.Symbol(source) for symbol, source in first.items()}
    return lines + [str(guard.subs(names)) for guard in env.guards]
