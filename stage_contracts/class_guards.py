"""What is guarded of a class: the names that it and its bases lack, and the members that lie in them.

Input: what capture looked up in a user-defined class. While the class has the very same `__mro__`, a look into the
dicts of those bases that may change says all. The check is written out: it calls no Python function, nor a descriptor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, eq=False)
class ClassFacts:
    """What looking names up in a class found: nothing in the bases in `lacking`; of `names` the members in the others,
    of `plain` the class of what lies there, which computes nothing when it is read."""

    names: tuple[str, ...]
    plain: tuple[str, ...]
    bases: tuple[type, ...]
    lacking: tuple[tuple[type, str], ...]
    members: tuple[tuple[type, str, Any], ...]
    kinds: tuple[tuple[type, str, type], ...]


def facts_of(
    cls: type, names: tuple[str, ...], may_change: Callable[[type], bool], plain: tuple[str, ...] = ()
) -> ClassFacts:
    """What a class has under these names now, as far as it may change."""
    lacking: dict[tuple[type, str], None] = {}
    members, kinds = [], []
    for name in (*names, *plain):
        for base in cls.__mro__:
            there = name in base.__dict__
            if not there and may_change(base):
                lacking[base, name] = None
            elif there and may_change(base):
                found = base.__dict__[name]
                if name in names:
                    members.append((base, name, found))
                else:
                    kinds.append((base, name, type(found)))
                    lacking |= {(c, "__get__"): None for c in type(found).__mro__ if may_change(c)}
            if there:
                break
    return ClassFacts(names, plain, cls.__mro__, tuple(lacking), tuple(members), tuple(kinds))


def text_of(facts: ClassFacts, say: Callable[[Any, str], str]) -> str:
    """The check, from what `__mro__` has to be. `say(value, text)` writes a value; `text` is how a person reads it."""
    cls = facts.bases[0].__qualname__
    rows: tuple[tuple[Any, ...], ...] = (*facts.lacking, *facts.members, *facts.kinds)
    looked_into = dict.fromkeys(row[0] for row in rows)
    dicts = {base: say(vars(base), f"vars({base.__qualname__})") for base in looked_into}
    parts = [say(facts.bases, f"{cls}.__mro__")]
    parts += [f"{name!r} not in {dicts[base]}" for base, name in facts.lacking]
    parts += [
        f"{dicts[base]}[{name!r}] is {say(value, getattr(value, '__qualname__', type(value).__name__))}"
        for base, name, value in facts.members
    ]
    parts += [
        f"type({dicts[base]}[{name!r}]) is {say(kind, kind.__qualname__)}" for base, name, kind in facts.kinds
    ]
    return " and ".join(parts)


def changed(cls: type, facts: ClassFacts) -> str:
    """What of it holds no more, for a person."""
    if cls.__mro__ is not facts.bases:
        return "another class, or other bases"
    here = facts_of(cls, facts.names, lambda base: True, facts.plain)
    was = {name: value for _, name, value in (*facts.members, *facts.kinds)}
    now = {name: value for _, name, value in (*here.members, *here.kinds)}
    names = [name for name in now | was if name in was and now.get(name) is not was[name]]
    watched = {base for base, _ in facts.lacking}
    new = [name for base, name, _ in (*here.members, *here.kinds) if name not in was and base in watched]
    return " and ".join([*(f"another {n}" for n in names), *(f"no {n} -> one" for n in new)])
