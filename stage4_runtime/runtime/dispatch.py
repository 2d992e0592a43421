"""Dispatch: finds the compiled entry for this call or, if there is none, the fact about the call that has changed.

Input: the entries of one code object, most recently used first, and a call's arguments. Guards are data
(stage_contracts.guards), so dispatch explains a miss by checking them one by one.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from stage_contracts.class_guards import changed
from stage_contracts.guards import CHECKS, GUARD_KINDS, Guard, OpenMeta
from stage_contracts.pipeline import Entry


def dispatch(entries: Sequence[Entry], args: tuple, kwargs: dict[str, Any]) -> Entry | None:
    """The first entry whose guards hold for this call, or None: compile a new one."""
    for entry in entries:
        if entry.check(*args, **kwargs):
            return entry
    return None


def explain_misses(
    entries: Sequence[Entry], args: tuple, kwargs: dict[str, Any], names: Mapping[str, Any]
) -> str:
    """As explain_miss, for the entry where most guards hold before the first one that fails (the first such entry)."""
    found = [explained(entry, args, kwargs, names) for entry in entries]
    return max(found, key=lambda pair: pair[0])[1]


def explain_miss(entry: Entry, args: tuple, kwargs: dict[str, Any], names: Mapping[str, Any]) -> str:
    """The first guard that fails, old -> new, in one line: `x.shape[1]: 640 -> 8 at model.py:31`.

    `names` is what `compile_guards` was given: `G`, `C`, `is_grad_enabled` and the rest.
    """
    return explained(entry, args, kwargs, names)[1]


def explained(entry: Entry, args: tuple, kwargs: dict[str, Any], names: Mapping[str, Any]) -> tuple[int, str]:
    """How many guards hold before the first that fails, and the line about that one."""
    try:
        found = first_that_fails(entry.guards, entry.check, args, kwargs, names)
    except (TypeError, ValueError) as error:
        return 0, f"the call's arguments: {error}"
    if found is None:
        return 0, "no guard fails when checked alone: something changed between the two checks"
    held, guard, _, change = found
    where = f" at {guard.origin}" if guard.origin else ""
    return held, " ".join(f"{change}{where}{_advice(guard, change)}".split())


def first_that_fails(
    guards: Sequence[Guard],
    check: Callable[..., bool],
    args: tuple,
    kwargs: dict[str, Any],
    names: Mapping[str, Any],
) -> tuple[int, Guard, Any, str] | None:
    """The first guard that fails when each is checked alone: how many hold before it, it, what it is about, and
    what has changed; None if all hold. Raises TypeError if `check`, which they became, does not take such
    arguments."""
    scope = {**CHECKS, **names}
    bound = inspect.signature(check).bind(*args, **kwargs)
    bound.apply_defaults()
    scope.update(bound.arguments)
    for held, guard in enumerate(sorted(guards, key=lambda g: GUARD_KINDS[g.kind].rank)):
        if not _holds(guard, scope):
            return held, guard, _seen(guard, scope), _change(guard, scope)
    return None


_SIZE = re.compile(r"(?P<tensor>.*)\.shape\[(?P<dim>\d+)\]: ")


def _advice(guard: Guard, change: str) -> str:
    """For a size: the call that would have made one entry serve both."""
    size = _SIZE.match(change) if guard.kind in ("TENSOR", "OPEN_TENSOR") else None
    return f"; mark_dynamic({size['tensor']}, {size['dim']}) would avoid it" if size else ""


def _seen(guard: Guard, scope: Mapping[str, Any]) -> Any:
    try:
        return eval(guard.source.expression(), dict(scope)) if guard.source else None
    except _GONE:
        return None


_GONE = (AttributeError, KeyError, IndexError, TypeError, NameError, ValueError)


def _holds(guard: Guard, scope: Mapping[str, Any]) -> bool:
    expected: dict[str, Any] = {}

    def name_of(value: Any) -> str:
        expected[f"expected_{len(expected)}"] = value
        return f"expected_{len(expected) - 1}"

    expression = guard.expression(name_of)
    try:
        return bool(eval(expression, {**scope, **expected}))
    except _GONE:
        return False


def _change(guard: Guard, scope: Mapping[str, Any]) -> str:
    """What the guard is about, what it was at compile time, and what it is now."""
    subject = str(guard.source) if guard.source else ""
    try:
        seen = eval(guard.source.expression(), dict(scope)) if guard.source else None
        return _CHANGES.get(guard.kind, _value_of("{s}"))(subject, guard, seen, scope)
    except _GONE as error:
        return f"{subject or guard.kind}: {_short(guard.expected)} -> gone ({type(error).__name__}: {error})"


def _tensor_change(subject: str, guard: Guard, seen: Any, scope: Mapping[str, Any]) -> str:
    """The first field of the meta that differs; for shapes and strides of equal rank, the one dimension."""
    wanted, meta = guard.expected.cls, guard.expected.meta
    if type(seen) is not wanted:
        return f"type({subject}): {wanted.__name__} -> {type(seen).__name__}"
    shape = tuple(seen.shape)
    if isinstance(meta, OpenMeta):  # an open size is whatever it is
        sizes, alike = meta.sizes, len(meta.sizes) == len(shape)
        old = (
            tuple(s if want is None else want for want, s in zip(sizes, shape, strict=True))
            if alike
            else sizes
        )
        strides = meta.strides(old) if alike else ()
    else:
        old, strides = tuple(meta.shape), tuple(meta.strides)
    fields = {
        "dtype": (meta.dtype, seen.dtype),
        "device": (meta.device, seen.device),
        "shape": (old, shape),
        "stride()": (strides, tuple(seen.stride())),
        "requires_grad": (meta.requires_grad, seen.requires_grad),
    }
    for name, (was, now) in fields.items():
        if was == now:
            continue
        if isinstance(was, tuple) and len(was) == len(now):
            at = next(i for i, pair in enumerate(zip(was, now, strict=True)) if pair[0] != pair[1])
            return f"{subject}.{name}[{at}]: {was[at]} -> {now[at]}"
        if name == "shape":
            return f"{subject}.ndim: {len(was)} -> {len(now)}"
        return f"{subject}.{name}: {was} -> {now}"
    return f"{subject}: {meta} -> another tensor"


def _array_change(subject: str, guard: Guard, seen: Any, scope: Mapping[str, Any]) -> str:
    """As _tensor_change, of an ndarray."""
    meta = guard.expected
    if type(seen).__name__ != "ndarray":
        return f"type({subject}): ndarray -> {type(seen).__name__}"
    old = tuple(getattr(meta, "sizes", None) or meta.shape)
    names = [getattr(d, "name", str(d)) for d in (meta.dtype, seen.dtype)]
    if names[0] != names[1]:
        return f"{subject}.dtype: {names[0]} -> {names[1]}"
    if len(old) != seen.ndim:
        return f"{subject}.ndim: {len(old)} -> {seen.ndim}"
    for at, (was, now) in enumerate(zip(old, seen.shape, strict=True)):
        if was not in (None, now):
            return f"{subject}.shape[{at}]: {was} -> {now}"
    return f"{subject}.strides: another layout -> {seen.strides}"


def _aliasing(subject: str, guard: Guard, seen: Any, scope: Mapping[str, Any]) -> str:
    was, now = (
        ("the same object", "two objects") if guard.kind == "ALIASED" else ("two objects", "the same object")
    )
    return f"{subject} and {guard.expected}: {was} -> {now}"


def _value_of(template: str, measure: Callable[[Any], Any] = lambda seen: seen) -> Callable[..., str]:
    """A line from `template`, with {s} for the source: the expected value of the guard -> what `measure` finds."""

    def change(subject: str, guard: Guard, seen: Any, scope: Mapping[str, Any]) -> str:
        return f"{template.format(s=subject)}: {_short(guard.expected)} -> {_short(measure(seen))}"

    return change


# How each kind of guard tells its change.
_CHANGES: dict[str, Callable[[str, Guard, Any, Mapping[str, Any]], str]] = {
    "MODES": lambda s, g, seen, scope: f"modes(): {g.expected} -> {scope['modes']()}",
    "GRAD_MODE": lambda s, g, seen, scope: f"is_grad_enabled(): {g.expected} -> {scope['is_grad_enabled']()}",
    "TENSOR": _tensor_change,
    "OPEN_TENSOR": _tensor_change,
    "ARRAY": _array_change,
    "OPEN_ARRAY": _array_change,
    "LEFT_TO_NUMPY": lambda s, g, seen, scope: f"{s}: an array for NumPy alone -> {type(seen).__name__}",
    "NOT_ALIASED": _aliasing,
    "ALIASED": _aliasing,
    "APART": lambda s, g, seen, scope: (
        f"{s} and {g.expected}: all different -> the same object in two places"
    ),
    "WRITTEN": lambda s, g, seen, scope: f"{s}: apart from {g.expected} -> one is, or is a view of, another",
    "IDENTITY": _value_of("{s}"),
    "TYPE": _value_of("type({s})", type),
    "EQUALS": _value_of("{s}"),
    "LENGTH": _value_of("len({s})", len),
    "KEYS": _value_of("{s}", tuple),
    "ITEMS": lambda s, g, seen, scope: f"{s}: {len(g.expected)} objects -> others",
    "NO_GRADIENTS": lambda s, g, seen, scope: f".grad of {s}: None -> a tensor of one",
    "ABSENT": lambda s, g, seen, scope: f"{s}.{g.expected}: absent -> {_short(getattr(seen, g.expected))}",
    "CLASS": lambda s, g, seen, scope: f"{s}: {changed(seen, g.expected)}",
    "PRESENT": lambda s, g, seen, scope: f"{s}[{g.expected!r}]: there -> absent",
    "ABSENT_KEY": lambda s, g, seen, scope: f"{s}[{g.expected!r}]: absent -> {_short(seen[g.expected])}",
    "SHAPE": lambda s, g, seen, scope: f"{g.expected}: held -> fails",
}


def _short(value: Any, limit: int = 60) -> str:
    """A value in few characters; classes and functions by name, tensors and other objects by type."""
    name = getattr(value, "__qualname__", None)
    if name:
        return name
    if value is not None and not isinstance(value, bool | int | float | str | bytes | tuple | list | dict):
        return (
            str(value)
            if type(value).__module__.startswith("stage_contracts")
            else f"<{type(value).__name__}>"
        )
    if isinstance(value, (tuple, list)) and type(value) in (tuple, list):
        items = ", ".join(_short(item, limit) for item in value)
        one = "," if type(value) is tuple and len(value) == 1 else ""
        text = f"[{items}]" if type(value) is list else f"({items}{one})"
    else:
        text = repr(value)
    return text if len(text) <= limit else f"{text[: limit - 3]}..."
