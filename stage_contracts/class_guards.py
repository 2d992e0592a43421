"""What capture guards about a class: the names that the class and its bases lack, and the members that they have.

Input: what capture looked up in a user-defined class. As long as the class has the same `__mro__`, it is enough to
check the dicts of the bases that may change. The check is an expression that calls no Python function and no
descriptor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# above this number of names, one isdisjoint() checks all: it walks over the shorter of the names and the class's dict
FEW = 8


@dataclass(frozen=True, eq=False)
class ClassFacts:
    """The result of looking up names in a class. `lacking`: the (base, name) pairs that do not exist. `members`: the
    object for each of `names` that exists. `kinds`: only the object's class for each of `plain`, whose objects compute
    nothing when they are read."""

    names: tuple[str, ...]
    plain: tuple[str, ...]
    bases: tuple[type, ...]
    lacking: tuple[tuple[type, str], ...]
    members: tuple[tuple[type, str, Any], ...]
    kinds: tuple[tuple[type, str, type], ...]


def facts_of(
    cls: type, names: tuple[str, ...], may_change: Callable[[type], bool], plain: tuple[str, ...] = ()
) -> ClassFacts:
    """Look up these names in a class as it is now. Only bases that may change are recorded."""
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
    """The check as an expression, which is compared with the class's `__mro__`. `say(value, text)` returns the name of
    a value in it; `text` is the value as a person reads it."""
    cls = facts.bases[0].__qualname__
    rows: tuple[tuple[Any, ...], ...] = (*facts.lacking, *facts.members, *facts.kinds)
    looked_into = dict.fromkeys(row[0] for row in rows)
    dicts = {base: say(vars(base), f"vars({base.__qualname__})") for base in looked_into}
    parts = [say(facts.bases, f"{cls}.__mro__")]
    for base in looked_into:
        lacking = [name for c, name in facts.lacking if c is base]
        if len(lacking) <= FEW:
            parts += [f"{name!r} not in {dicts[base]}" for name in lacking]
        else:
            keys = say(vars(base).keys(), f"vars({base.__qualname__}).keys()")
            parts.append(f"{keys}.isdisjoint({say(frozenset(lacking), '{' + str(lacking)[1:-1] + '}')})")
    parts += [
        f"{dicts[base]}[{name!r}] is {say(value, getattr(value, '__qualname__', type(value).__name__))}"
        for base, name, value in facts.members
    ]
    parts += [
        f"type({dicts[base]}[{name!r}]) is {say(kind, kind.__qualname__)}" for base, name, kind in facts.kinds
    ]
    return " and ".join(parts)


def changed(cls: type, facts: ClassFacts) -> str:
    """The facts that no longer hold, in words."""
    if cls.__mro__ is not facts.bases:
        return "another class, or other bases"
    here = facts_of(cls, facts.names, lambda base: True, facts.plain)
    was = {name: value for _, name, value in (*facts.members, *facts.kinds)}
    now = {name: value for _, name, value in (*here.members, *here.kinds)}
    names = [name for name in now | was if name in was and now.get(name) is not was[name]]
    watched = {base for base, _ in facts.lacking}
    new = [name for base, name, _ in (*here.members, *here.kinds) if name not in was and base in watched]
    return " and ".join([*(f"another {n}" for n in names), *(f"no {n} -> one" for n in new)])
