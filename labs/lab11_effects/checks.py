"""What lab 11 asks of side effects: each object ends as eager leaves it, touched as little, values before changes.

Input: the learner's functions, on lists that watch what is done to them, then on whole functions. Eager is the oracle,
and stage 1 is a second one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import cutaway
from stage0_eager.tensor import Tensor

from ..answer import Answer
from ..checks import Wrong
from ..hidden import hidden_check
from ..programs import SPECIAL, numbers
from . import functions
from .functions import Box

BEFORE, LEAST, VALUES, ORDER, WHOLE = (
    "page.md#before-the-first-write", "page.md#as-little-as-possible", "page.md#values-first", "page.md#the-order",
    "page.md#the-whole",
)  # fmt: skip
Made = tuple[Callable[..., Any], Callable[[], tuple]]


def tensor(*shape: int, seed: int = 0) -> Any:
    return cutaway.from_numpy(numbers(*shape, seed=seed))


def _log() -> list[Any]:
    return [tensor(3, 5, seed=1), tensor(3, 5, seed=2)]


def _one_list() -> tuple:
    log = _log()
    return tensor(3, 5), log, log


def _cases() -> dict[str, Made]:
    x = lambda: tensor(3, 5)  # noqa: E731
    table: dict[str, Callable[[], tuple]] = {
        "attributes": lambda: (x(), Box(total=tensor(3, 5, seed=3), calls=1, old="old")),
        "exchanged": lambda: (x(), Box(value=tensor(3, 5, seed=1)), Box(value=tensor(3, 5, seed=2))),
        "way_changes": lambda: (x(), Box(history=_log())),
        "inner": lambda: (x(), Box(inner=Box(value=x(), items={"best": None}))),
        "table": lambda: (x(), {"first": 1, "second": x(), "third": 2}),
        "last_again": lambda: (x(), {"first": x(), "second": tensor(5), "third": 2}),
        "one_list_twice": _one_list,
        "several": lambda: (cutaway.from_numpy(SPECIAL), Box(total=0), []),
        "stored_globals": lambda: (tensor(0, 2), []),
    }
    others = ("nothing", "append", "made_inside", "shared", "itself", "swap", "shorter", "there_and_back")
    table |= {name: lambda: (x(), _log()) for name in others}
    return {name: (getattr(functions, name), make) for name, make in table.items()}


CASES = _cases()


def reset() -> None:
    functions.COUNT, functions.LAST = 0, None
    functions.SEEN.clear()


def picture(value: Any, seen: dict[int, int] | None = None) -> Any:
    """A value as text, with the same number for the same object: two equal pictures cannot be told apart."""
    seen = {} if seen is None else seen
    if value is None or isinstance(value, bool | int | float | str):
        return repr(value)
    if isinstance(value, tuple):
        return "(" + ", ".join(picture(item, seen) for item in value) + ")"
    if id(value) in seen:
        return f"#{seen[id(value)]}"
    number = seen.setdefault(id(value), len(seen))
    if isinstance(value, Tensor):
        array = value.detach().numpy()
        return f"#{number}=tensor{list(array.shape)}{np.round(array.astype(np.float64), 4).reshape(-1)[:6].tolist()}"
    if isinstance(value, list):
        inside = "[" + ", ".join(picture(item, seen) for item in value) + "]"
    else:
        pairs = (value if isinstance(value, dict) else vars(value)).items()
        inside = "{" + ", ".join(f"{key}: {picture(item, seen)}" for key, item in pairs) + "}"
    return f"#{number}={inside}"


def after(run: Callable[..., Any], args: tuple) -> dict[str, str]:
    """The pictures of all that a call leaves, one object numbered through all of them."""
    reset()
    result, seen = run(*args), dict[int, int]()
    left = {
        "the arguments": args,
        "the result": result,
        "the globals": (functions.COUNT, functions.LAST, functions.SEEN),
    }
    return {name: picture(value, seen) for name, value in left.items()}


# ---- one function alone -------------------------------------------------------------------------------------------


def kept_before_the_first_write(answer: Answer) -> None:
    """`will_change` keeps a copy before the first write, of what is from outside only, in the order of first change."""
    Variable = answer.Variable  # the class of the learner's own machine.py
    effects, log, own = answer.Effects(), Variable("list", [1, 2], "log"), Variable("list", [1])
    box, twin = Variable("object", {"a": 1}, "box"), Variable("list", [1, 2, 3, 4], "other")
    for variable, change in ((box, ("b", 2)), (log, 3), (own, 3), (log, 4), (twin, 5), (box, ("c", 1))):
        answer.will_change(effects, variable)
        if variable.kind == "list":
            variable.items.append(change)
        else:
            variable.items.update([change])
    got = [(v.source, before) for v, before in effects.changed]
    want = [("box", {"a": 1}), ("log", [1, 2]), ("other", [1, 2, 3, 4])]
    if any(source is None for source, _ in got):
        raise Wrong(
            "a list that the program made itself is kept", "nothing: nobody outside has seen it", read=BEFORE
        )
    if [source for source, _ in got] != [source for source, _ in want]:
        raise Wrong(f"kept, in this order: {[s for s, _ in got]}", f"{[s for s, _ in want]}: each object once, and two "
                    "equal lists are two objects", read=BEFORE)  # fmt: skip
    if got != want:
        raise Wrong(f"kept: {got}", f"{want}: what it held before the first write", read=BEFORE)


class Watched(list):
    """A list that notes which of its places were written."""

    def __init__(self, items: list) -> None:
        super().__init__(items)
        self.written: set[int] = set()

    def __setitem__(self, at: Any, value: Any) -> None:
        self.written |= {*range(len(self))[at]} if isinstance(at, slice) else {range(len(self))[at]}
        super().__setitem__(at, value)

    def clear(self) -> None:
        self.written |= {*range(len(self))}
        super().clear()


class WatchedDict(dict):
    """A dict that notes which of its keys were written or deleted."""

    written: Any = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        self.written = (*self.written, key)
        super().__setitem__(key, value)

    def __delitem__(self, key: Any) -> None:
        self.written = (*self.written, key)
        super().__delitem__(key)

    def clear(self) -> None:
        self.written = (*self.written, *self)
        super().clear()


def carried_out(lines: Any, names: dict[str, Any], what: str) -> None:
    """Run the lines. What cannot be run is told with the line."""
    for line in lines:
        try:
            exec(line, names)
        except Exception as error:
            raise Wrong(
                f"{what}: the line {line!r} raises {type(error).__name__}: {error}", read=LEAST
            ) from error


LISTS: tuple[tuple[list, list], ...] = (
    ([1, 2], [1, 2]), ([1, 2], [1, 2, 3, 4]), ([], [1]), ([1, 2, 3], [1, 9, 3]), ([1, 2, 3], [3, 2, 1]),
    ([1, 2, 3], [1]), ([1, 2], []), ([1, 2, 3], [1, 3]), ([1, 2], [0, 1, 2]), ([[1], 2], [[1], 2]),
)  # fmt: skip


def lists_change_little(answer: Answer) -> None:
    """`list_lines` makes the new list of the old one, and touches no item that stays at its place."""
    for old, new in LISTS:
        same_list = next((k for k, (a, b) in enumerate(zip(old, new)) if a is not b), min(len(old), len(new)))
        target = Watched(list(old))
        lines = answer.list_lines("t", list(old), list(new), repr)
        what = f"{old} to {new}, with {lines}"
        carried_out(lines, {"t": target}, what)
        if list(target) != new:
            raise Wrong(f"{what}: it holds {list(target)}", f"{new}", read=LEAST)
        may = {k for k in range(len(old)) if k >= same_list}
        if len(old) == len(new):
            may = {k for k, (a, b) in enumerate(zip(old, new)) if a is not b}
        if target.written - may:
            raise Wrong(f"{what}: places {sorted(target.written)} were written", f"at most {sorted(may)}: who holds "
                        "an iterator over the list sees what eager shows", read=LEAST)  # fmt: skip


DICTS: tuple[tuple[dict, dict], ...] = (
    ({"a": 1}, {"a": 1}), ({"a": 1}, {"a": 1, "b": 2}), ({"a": 1, "b": 2}, {"a": 3, "b": 2}),
    ({"a": 1, "b": 2}, {"b": 2}),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ({"a": 1}, {}), ({1: "x"}, {1: "x", (2, 3): None}),
    ({"a": None}, {"b": None}),
    ({"a": 1, "b": 2, "c": 3}, {"a": 1, "c": 3, "b": 5}),
)  # fmt: skip


def dicts_keep_their_order(answer: Answer) -> None:
    """`dict_lines` makes the new dict of the old one, in the new order of keys, and touches no more than it must."""
    for old, new in DICTS:
        target = WatchedDict(old)
        lines = answer.dict_lines("t", dict(old), dict(new), repr)
        what = f"{old} to {new}, with {lines}"
        carried_out(lines, {"t": target}, what)
        if dict(target) != new:
            raise Wrong(f"{what}: it holds {dict(target)}", f"{new}", read=LEAST)
        if list(target) != list(new):
            raise Wrong(f"{what}: its keys are {list(target)}", f"{list(new)}, in this order", read=LEAST)
        kept = [key for key in old if key in new]
        stays = {key for key in kept if old[key] is new[key]} if kept == list(new)[: len(kept)] else set()
        if stays & {*target.written}:
            raise Wrong(f"{what}: {sorted(map(str, target.written))} were written", f"not {sorted(map(str, stays))}",
                        read=LEAST)  # fmt: skip


class WatchedBox:
    """An object that notes which attributes were stored."""

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)
        self.written: set[str]
        self.__dict__["written"] = set()

    def __setattr__(self, name: str, value: Any) -> None:
        self.written.add(name)
        self.__dict__[name] = value


def objects_change_little(answer: Answer) -> None:
    """`object_lines` stores what changed, deletes what is gone, and touches no attribute that stays."""
    for old, new in (
        ({"a": 1}, {"a": 1}), ({"a": 1, "b": 2}, {"a": 3}), ({}, {"a": None}), ({"a": None}, {}),
        ({"a": 0}, {"a": False}),
    ):  # fmt: skip
        target = WatchedBox(old)
        lines = answer.object_lines("t", dict(old), dict(new), repr)
        what = f"{old} to {new}, with {lines}"
        carried_out(lines, {"t": target}, what)
        got = {name: value for name, value in vars(target).items() if name != "written"}
        if repr(got) != repr(new):
            raise Wrong(f"{what}: it has {got}", f"{new}", read=LEAST)
        stays = {name for name in new if name in old and old[name] is new[name]}
        if stays & target.written:
            raise Wrong(f"{what}: {sorted(target.written)} were stored", f"not {sorted(stays)}", read=LEAST)


def values_are_made_once(answer: Answer) -> None:
    """`expression` gives one object one name, fills a list after it is made, and reads what is outside in a line."""
    inner, outer = answer.Variable("list", [1]), answer.Variable("list", [])
    outer.items = [inner, inner, outer, (inner, 2)]
    r = answer.Rebuilder()
    text = r.expression(outer)
    names: dict[str, Any] = {}
    carried_out(r.lines, names, f"a list that holds another one twice, and itself, made by {r.lines}")
    made = eval(text, names)
    if len(made) != 4 or made[0] is not made[1] or made[3][0] is not made[0]:
        raise Wrong(
            f"a list that is in another one twice became two lists: {r.lines}", "one object", read=VALUES
        )
    if made[2] is not made:
        raise Wrong(f"a list that holds itself holds another one: {r.lines}", "itself", read=VALUES)
    r, log = answer.Rebuilder(), [[1], [2]]
    names = {"log": log}
    outside = [answer.Variable("list", [k + 1], f"log[{k}]") for k in (0, 1)]
    texts = [r.expression(variable) for variable in outside]
    carried_out(r.lines, names, f"two lists from outside, read by {r.lines}")
    before = log[:]
    log.reverse()
    if [eval(t, names) for t in texts] != before:
        raise Wrong(f"`log[0]` and `log[1]` became {texts}, which are others after a change of log",
                    "names, to which lines before have bound them", read=VALUES)  # fmt: skip


# ---- whole functions ----------------------------------------------------------------------------------------------


def replayed(answer: Answer, name: str) -> tuple[dict[str, str], str]:
    function, make = CASES[name]
    run = answer.compiled(function)
    try:
        return after(run, make()), run.source
    except (NameError, SyntaxError, KeyError, IndexError, AttributeError) as error:
        said = getattr(run, "source", "")
        raise Wrong(f"{name}: {type(error).__name__}: {error}", "code that runs", said, VALUES) from error


def each_function_is_eagers(answer: Answer) -> None:
    """After each function, arguments, result and globals are as eager leaves them, and each object is the same one."""
    for name, (function, make) in CASES.items():
        want = after(function, make())
        got, source = replayed(answer, name)
        for what in want:
            if got[what] != want[what]:
                raise Wrong(f"{name}: {what} are {got[what]}", want[what], source, ORDER)
    reset()


def stage_1_agrees(answer: Answer) -> None:
    """What your code leaves is what the real compiler leaves."""
    for name, (function, make) in CASES.items():
        compiled = cutaway.compile(function, backend="eager", dynamic=False, options={"runtime.cache": False})
        want = after(compiled, make())
        got, source = replayed(answer, name)
        if got != want:
            what = next(key for key in want if got[key] != want[key])
            raise Wrong(
                f"{name}: {what} are {got[what]}", f"{want[what]}, as stage 1 leaves them", source, WHOLE
            )
    reset()


class Noted(Box):
    """An object that tells when an attribute is stored."""

    told: list[str] = []

    def __setattr__(self, name: str, value: Any) -> None:
        self.told.append(f"{self.__dict__['name']}.{name}")
        self.__dict__[name] = value


def objects_change_in_order(answer: Answer) -> None:
    """Objects change in the order of the first write to each, and each attribute is stored once."""
    args = tensor(3), Noted(name="one"), Noted(name="two"), Noted(name="three")
    Noted.told.clear()
    run = answer.compiled(functions.noted)
    run(*args)
    if (objects := list(dict.fromkeys(word.split(".")[0] for word in Noted.told))) != ["three", "one", "two"]:
        raise Wrong(f"the objects changed in the order {objects}", "['three', 'one', 'two']: that of the first write",
                    run.source, ORDER)  # fmt: skip
    if len(Noted.told) != len({*Noted.told}) or len(Noted.told) != 4:
        raise Wrong(
            f"stored: {Noted.told}", "each attribute once: one.a, two.a, three.a, three.b", run.source, ORDER
        )


def what_changes(answer: Answer) -> Any:
    """For each function: the sources of what changes in order, and how many values its graph returns."""
    reset()
    rows = []
    for function, make in CASES.values():
        run = answer.compiled(function)
        run(*make())
        changed = [variable.source for variable, _ in run.effects.changed]
        rows.append((changed, sorted(run.effects.stored), run.outputs))
    reset()
    return rows


HIDDEN = {"what each function changes, in which order, and how many values its graph returns": what_changes}

CHECKS = (
    kept_before_the_first_write,
    lists_change_little,
    dicts_keep_their_order,
    objects_change_little,
    values_are_made_once,
    each_function_is_eagers,
    objects_change_in_order,
    stage_1_agrees,
    hidden_check(__file__, HIDDEN, ORDER),
)
