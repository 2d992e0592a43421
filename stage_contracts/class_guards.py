"""What capture guards about a class: names that it and its bases lack, and members that they have.

Input: what capture looked up in a user-defined class. As long as the class has the same `__mro__`, it is enough to
check the dicts of those bases that may change. The check is written out: it calls no Python function and no descriptor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class ClassFacts:
    """What looking `names` up in a class found: nothing in the bases in `lacking`, the members in the others."""

    names: tuple[str, ...]
    bases: tuple[type, ...]
    lacking: tuple[tuple[type, tuple[str, ...]], ...]
    members: tuple[tuple[type, str, Any], ...]


def facts_of(cls: type, names: tuple[str, ...], may_change: Callable[[type], bool]) -> ClassFacts:
    """What a class has under these names now, as far as it may change."""
    lacking: dict[type, tuple[str, ...]] = {}
    members = []
    for name in names:
        for base in cls.__mro__:
            there = name in base.__dict__
            if may_change(base):
                if there:
                    members.append((base, name, base.__dict__[name]))
                else:
                    lacking[base] = (*lacking.get(base, ()), name)
            if there:
                break
    return ClassFacts(names, cls.__mro__, tuple(lacking.items()), tuple(members))


def text_of(facts: ClassFacts, say: Callable[[Any, str], str]) -> str:
    """The check, from what `__mro__` has to be. `say(value, text)` writes a value; `text` is how a person reads it."""
    cls = facts.bases[0].__qualname__
    return " and ".join(
        [
            say(facts.bases, f"{cls}.__mro__"),
            *(
                f"{say(vars(base).keys(), f'vars({base.__qualname__}).keys()')}.isdisjoint({names!r})"
                for base, names in facts.lacking
            ),
            *(
                f"{say(vars(base), f'vars({base.__qualname__})')}[{name!r}] is "
                f"{say(value, getattr(value, '__qualname__', type(value).__name__))}"
                for base, name, value in facts.members
            ),
        ]
    )


def changed(cls: type, facts: ClassFacts) -> str:
    """What of it holds no more, for a person."""
    if cls.__mro__ is not facts.bases:
        return "another class, or other bases"
    here = facts_of(cls, facts.names, lambda base: True)
    was = {name: value for _, name, value in facts.members}
    now = {name: value for _, name, value in here.members}
    names = [name for name in facts.names if name in was and now.get(name) is not was[name]]
    watched = {base for base, _ in facts.lacking}
    new = [name for base, name, _ in here.members if name not in was and base in watched]
    return " and ".join([*(f"another {n}" for n in names), *(f"no {n} -> one" for n in new)])
