"""Regions that are alike: the next equal block is not followed; what was read of the first is checked on it instead.

Input: the guards at the end of a followed region. Those about its arguments, and about what is reached through them,
are the facts its graph relies on: if they hold for other arguments too, the graph is that of the other call, and the
same facts become guards on its arguments. A region that relies on which object an argument is, or a frame that has
changed something, is followed anew.
"""

from __future__ import annotations

import types
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from stage0_eager.nn import Module
from stage1_capture.higher_order.subgraph import Subgraph
from stage1_capture.state.graph_builder import OutputGraph
from stage1_capture.state.machine import Args, Kwargs, Tx
from stage1_capture.variables.base import LazyVariable, NotConstant, Variable, realize
from stage1_capture.variables.tensor import TensorVariable
from stage_contracts.class_lookup import MISSING, class_lookup
from stage_contracts.guard_constants import same_constant
from stage_contracts.guards import Guard, compile_guards
from stage_contracts.source import ArgSource, AttrSource, ItemSource, Source

# Facts that the text of a guard checks on any object in the place of the first.
_CHECKED = frozenset("TENSOR IDENTITY TYPE EQUALS LENGTH KEYS CLASS ABSENT PRESENT ABSENT_KEY".split())
_MARKS = ("epoch_sources", "module_sources", "optimizer_sources", "described")
_FEW = 4  # followed regions that a call is compared with


class _NotAlike(Exception):
    """This region, or these arguments, must be followed."""


@dataclass
class Followed:
    """A region that was followed: its arguments, what it gave, and the guards there were at its end."""

    given: list[Any]
    region: Subgraph
    guards: tuple[Guard, ...]
    _marks: dict[str, list[Source]] | None = None

    @cached_property
    def roots(self) -> dict[Any, Variable]:
        return {value.source: value for value in self.given if _is_root(value)}

    @cached_property
    def facts(self) -> list[Guard]:
        """The guards about an argument. Raises _NotAlike for one that no other argument can be asked."""
        found = [
            g for g in self.guards if g.source and self._leads_to(g.source) or self._leads_to(g.expected)
        ]
        for guard in found:
            if guard.kind not in _CHECKED and not self._is_told_by_places(guard):
                raise _NotAlike
        return found

    def _is_told_by_places(self, guard: Guard) -> bool:
        """Whether it says that two places hold one object or two, both reached through arguments, or that one of them
        holds what is elsewhere."""
        inside = self._leads_to(guard.source), self._leads_to(guard.expected)
        return inside[0] and (guard.kind == "ALIASED" or guard.kind == "NOT_ALIASED" and inside[1])

    @cached_property
    def places(self) -> dict[Any, Any]:
        """All that was reached through an argument: where, and what was there."""
        taken = [t.source for t in self.region.taken if t.source is not None]
        sides = [side for g in self.facts for side in (g.source, g.expected)]
        found = [s for s in (*self.roots, *taken, *sides) if self._leads_to(s)]
        reads = _Reads({source: _object_of(value) for source, value in self.roots.items()})
        return {source: reads.of(source) for source in found}

    def marks(self, output: OutputGraph) -> dict[str, list[Source]]:
        """What the capture noted of places that are reached through an argument."""
        if self._marks is None:
            self._marks = {name: list(filter(self._leads_to, getattr(output, name))) for name in _MARKS}
        return self._marks

    @cached_property
    def relied_on(self) -> list[Guard]:
        """The facts that have to be guarded for other arguments too."""
        classes = {g.source for g in self.facts if g.kind == "TYPE"}
        return [g for g in self.facts if not _of_a_known_class(g.source, classes)]

    @cached_property
    def outside(self) -> dict[Source, Any]:
        """What is elsewhere, and is an object that was reached through an argument too."""
        return {g.expected: self.places[g.source] for g in self.facts if self._is_elsewhere(g)}

    def _is_elsewhere(self, guard: Guard) -> bool:
        return guard.kind == "ALIASED" and not self._leads_to(guard.expected)

    @cached_property
    def check(self) -> Any:
        """Whether the facts hold, as a function of the arguments that have a source."""
        names: dict[Source, Source] = {s: ArgSource(f"argument_{i}") for i, s in enumerate(self.roots)}
        signature = ", ".join(map(str, names.values()))
        facts = [
            replace(g, source=moved(g.source, names), under_epoch=False)
            for g in self.facts
            if g.kind in _CHECKED and not _is_of_a_module(g)
        ]
        return compile_guards(facts, signature, {})

    def _leads_to(self, place: Any) -> bool:
        """Whether a place is an argument, or reached through one."""
        if not isinstance(place, Source):
            return False
        kept = self.__dict__.setdefault("_led", {})
        if place not in kept:
            kept[place] = place in self.roots or any(map(self._leads_to, _sources_in(place)))
        return kept[place]


def _is_of_a_module(guard: Guard) -> bool:
    """Modules are told by their class, and by what is read of them."""
    return guard.kind == "IDENTITY" and isinstance(guard.expected, Module)


# ---- what a call looks like ------------------------------------------------------------------------------------------


def arguments_of(function: Variable, args: Args, kwargs: Kwargs) -> list[Any] | None:
    """The function and its arguments, where each is a tensor, a constant, or an object that has a source."""
    values = [_looked_at(value) for value in (function, *args, *kwargs.values())]
    return [*values, tuple(kwargs)] if all(map(_is_simple, values)) else None


def _looked_at(value: Variable) -> Variable:
    return value if isinstance(value, LazyVariable) and value.value is None else realize(value)


def _is_simple(value: Variable) -> bool:
    if isinstance(value, LazyVariable) or value.is_python_constant():
        return True
    if value.is_tensor():
        return not value.attrs
    return _object_of(value) is not None


def _object_of(value: Variable) -> Any:
    """The object from outside that a variable stands for, if it is one."""
    return None if getattr(value, "fresh", False) else getattr(value, "real", None)


def _is_root(value: Any) -> bool:
    known = isinstance(value, Variable) and not isinstance(value, LazyVariable) and value.source is not None
    return known and not value.is_python_constant()


# What a capture notes when an object is no longer as it came in, or when more than guards tells what was read of it.
_NOTED = (
    "effects class_stores mutated data_of hooked detached_inside reversals inference exceptions "
    "keys draws shadows without_state followed"
).split()


def _is_quiet(output: OutputGraph) -> bool:
    """Whether the objects are still as they came in, and guards tell all that was read of them."""
    noted = any(getattr(output, name) for name in _NOTED)
    return not (noted or output.sizes.sources or output.is_watched())


def _state(output: OutputGraph) -> tuple:
    return output.grad_enabled, output.graph_mode, tuple(sorted(map(str, output.modes.items())))


# ---- the two questions -----------------------------------------------------------------------------------------------


def remember(tx: Tx, mark: int, given: list[Any] | None, region: Subgraph) -> None:
    """Keep a region that was followed for calls that are alike."""
    output = tx.output
    if given is None or not _is_quiet(output):
        return
    known = output.followed_regions.setdefault((mark, _state(output)), [])
    if len(known) < _FEW and _can_be_given_again(given, region):
        known.append(Followed(given, region, tuple(output.guards.values())))


def _can_be_given_again(given: list[Any], region: Subgraph) -> bool:
    """Whether what it read and what it returns are made inside, or can be found from its arguments."""
    inside = [t for t in region.taken if t.source is None]
    return all(any(t is value for value in given) for t in inside) and _is_made_inside(region.result)


def _is_made_inside(value: Variable) -> bool:
    value = realize(value)
    parts = [] if value.is_tensor() or value.is_python_constant() else value.parts()
    return (not parts or value.source is None) and all(map(_is_made_inside, parts))


def remembered(tx: Tx, mark: int, given: list[Any] | None) -> tuple[Subgraph, list[TensorVariable]] | None:
    """The region of an earlier call that is alike, and what this call takes in the place of what that one took."""
    output = tx.output
    known = output.followed_regions.get((mark, _state(output)), ())
    if given is None or not known or not _is_quiet(output):
        return None
    for followed in known:
        try:
            return followed.region, _taken(tx, followed, given)
        except _NotAlike:
            continue
    return None


def _taken(tx: Tx, first: Followed, given: list[Any]) -> list[TensorVariable]:
    _same_form(first.given, given)
    moves = {old.source: new.source for old, new in zip(first.given, given, strict=True) if _is_root(old)}
    reads = _Reads({new.source: _object_of(new) for new in given if _is_root(new)})
    roots = set(moves.values())
    new = {place: reads.of(moved(place, moves)) for place in first.places}
    _one_to_one(tx.output, first, roots, new)
    if not first.check(*(new[source] for source in first.roots)):
        raise _NotAlike
    _rely_on(tx.output, first, moves, new)
    return [_in_its_place(tx, first, given, moves, new, tensor) for tensor in first.region.taken]


def _same_form(first: list[Any], second: list[Any]) -> None:
    """Raise _NotAlike unless two calls have arguments of the same kinds: equal constants, tensors of the same meta."""
    if len(first) != len(second) or first[-1] != second[-1]:
        raise _NotAlike
    for old, new in zip(first[:-1], second[:-1], strict=True):
        alike = isinstance(old, LazyVariable) or (  # nothing has read it
            not isinstance(new, LazyVariable) and type(old) is type(new) and _same_argument(old, new)
        )
        if not alike or first.index(old) != second.index(new):
            raise _NotAlike


def _same_argument(old: Variable, new: Variable) -> bool:
    if old.is_python_constant():
        try:
            return same_constant(old.as_constant(), new.as_constant())
        except NotConstant:
            return False
    if (old.source is None) is not (new.source is None):
        return False
    if old.is_tensor():
        return _same_meta(old, new)
    return old.source is not None or _object_of(old) is _object_of(new)


def _same_meta(old: Any, new: Any) -> bool:
    return new.is_tensor() and not new.attrs and type(old.real) is type(new.real) and old.meta == new.meta and (
        old.meta.strides == new.meta.strides and old.meta.requires_grad is new.meta.requires_grad
    )  # fmt: skip


def _one_to_one(output: OutputGraph, first: Followed, roots: set[Source], new: dict[Any, Any]) -> None:
    """Raise _NotAlike unless two places lead to one object where they did, and to two where they did."""
    images: dict[int, Any] = {}
    origins: dict[int, Any] = {}
    now = Followed(first.given, first.region, ())
    now.__dict__["roots"] = dict.fromkeys(roots)
    for place, old in (*first.places.items(), *first.outside.items()):
        found = new.get(place, old)
        if type(found) in _CONSTANTS:
            continue
        if images.setdefault(id(old), found) is not found or origins.setdefault(id(found), old) is not old:
            raise _NotAlike
        if found is old:
            continue
        for side, thing in ((first, old), (now, found)):
            known = output.known.get(id(thing))
            if known is not None and known.source is not None and not side._leads_to(known.source):
                raise _NotAlike


_CONSTANTS = (type(None), bool, int, float, complex, str, bytes)


def _rely_on(output: OutputGraph, first: Followed, moves: dict, new: dict[Any, Any]) -> None:
    """The facts, as guards on the arguments of this call."""
    for name, places in first.marks(output).items():
        getattr(output, name).update([moved(place, moves) for place in places])
    for guard in first.relied_on:
        expected = moved(guard.expected, moves)
        if _is_of_a_module(guard):
            expected = new[guard.source]
        output.guard(guard.kind, moved(guard.source, moves), expected, guard.under_epoch, guard.origin)


def _of_a_known_class(place: Any, classes: set[Any]) -> bool:
    """Whether a place is the class of an object, or reached through it: that the class is the same says everything."""
    while isinstance(place, (AttrSource, ItemSource)):
        if isinstance(place, AttrSource) and place.name == "__class__" and place.base in classes:
            return True
        place = place.base
    return False


def _in_its_place(
    tx: Tx, first: Followed, given: list[Any], moves: dict, new: dict[Any, Any], old: TensorVariable
) -> TensorVariable:
    """The tensor that this call takes where the first took `old`."""
    place = next((i for i, value in enumerate(first.given) if value is old), None)
    if place is not None:
        return given[place]
    if not first._leads_to(old.source):
        return old
    found = realize(tx.wrap(new[old.source], moved(old.source, moves)))
    if not _same_meta(old, found):
        raise _NotAlike
    return found  # type: ignore[return-value]


# ---- places ----------------------------------------------------------------------------------------------------------


def _sources_in(source: Source) -> Iterator[Source]:
    for field in fields(source):
        value = getattr(source, field.name)
        for item in value if isinstance(value, tuple) else (value,):
            if isinstance(item, Source):
                yield item


def moved(place: Any, moves: dict[Source, Source]) -> Any:
    """The place that is reached from the new argument as `place` is from the old one. `moves` keeps it."""
    found = moves.get(place) if isinstance(place, Source) else place
    if found is None:
        found = place
        if isinstance(place, AttrSource):
            base = moved(place.base, moves)
            found = place if base is place.base else AttrSource(base, place.name, place.registry)
        elif isinstance(place, ItemSource):
            base = moved(place.base, moves)
            found = place if base is place.base else ItemSource(base, place.key)
        moves[place] = found
    return found


class _Reads:
    """The objects in places that are reached from known ones. No user function runs."""

    def __init__(self, known: dict[Source, Any]) -> None:
        self.known = dict(known)

    def of(self, place: Any) -> Any:
        if place not in self.known:
            self.known[place] = self._read(place)
        return self.known[place]

    def _read(self, place: Any) -> Any:
        if isinstance(place, ItemSource):
            base = self.of(place.base)
            if type(base) not in _ITEMS:
                raise _NotAlike
            try:
                return base[place.key]
            except LookupError:
                raise _NotAlike from None
        if type(place) is not AttrSource:
            raise _NotAlike
        base = self.of(place.base)
        found = type(base) if place.name == "__class__" else _attribute(base, place.name)
        if found is MISSING:
            raise _NotAlike
        return found


_ITEMS = (dict, OrderedDict, list, tuple)
_PLAIN = (types.FunctionType, types.MethodType, types.ModuleType, type)


def _attribute(value: Any, name: str) -> Any:
    """`value.name`, where that runs no user function; else MISSING."""
    cls = type(value)
    if cls in _PLAIN:
        return getattr(value, name, MISSING)
    if name == "__dict__" and not issubclass(cls, type):
        return vars(value) if isinstance(class_lookup(cls, name), types.GetSetDescriptorType) else MISSING
    of_class = class_lookup(cls, name)
    own = getattr(value, "__dict__", {}) if class_lookup(cls, "__dict__") is not MISSING else {}
    if hasattr(type(of_class), "__set__") and type(of_class) is not types.MemberDescriptorType:
        return MISSING
    if name in own:
        return own[name]
    if isinstance(of_class, (types.FunctionType, types.MemberDescriptorType)):
        return getattr(value, name, MISSING)
    if of_class is not MISSING:
        return MISSING if hasattr(type(of_class), "__get__") else of_class
    registries: Iterable[Any] = (own.get(r, {}) for r in ("_parameters", "_buffers", "_modules"))
    return next((r[name] for r in registries if name in r), MISSING) if isinstance(value, Module) else MISSING
