"""Guards: the facts that compiled code relies on. Each prints as the Python expression that checks it.

Input: capture (and any later stage until `build`) records a Guard for each fact it used. GUARD_KINDS lists what can be
guarded, cheapest first; `dispatch` compiles all guards of an entry to one function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import groupby
from typing import Any

from stage_contracts.array_guards import ArrayMeta, check_array, check_open_array, left_to_numpy
from stage_contracts.class_guards import text_of
from stage_contracts.generated_code import code_of
from stage_contracts.guard_constants import is_told_by_equality, same_constant
from stage_contracts.guard_parts import PART, WANTED, EqualParts, asked_of_part, equal_parts, is_told_by_row
from stage_contracts.guard_rows import apart, no_gradients, row, same_objects, written_apart
from stage_contracts.guard_text import PathNames, past_parameters, without_numbers
from stage_contracts.guards_open import OpenMeta
from stage_contracts.origin import Origin
from stage_contracts.signature import arguments_text, when_called
from stage_contracts.source import AttrSource, ExpressionSource, RowSource, Source, depth


@dataclass(frozen=True)
class GuardKind:
    """`template` has {s} for the source's expression and {e} for the expected value. Guards run in the order of the
    number of reads that lead to the source, so that a value is guarded before its attributes are read. Among guards
    with the same number, the lower rank runs first."""

    rank: int
    template: str
    meaning: str


GUARD_KINDS: dict[str, GuardKind] = {
    "GRAD_MODE": GuardKind(0, "is_grad_enabled() is {e}", "gradients are recorded or not, as at capture"),
    "MODES": GuardKind(
        1,
        "modes() == {e}",
        "autocast, inference mode, the default dtype and device, TF32: what of it is switched",
    ),
    "TENSOR": GuardKind(
        2, "check_tensor({s}, {e})", "a tensor's class, shape, strides, dtype, device, requires_grad"
    ),
    "OPEN_TENSOR": GuardKind(
        2, "check_open_tensor({s}, {e})", "as TENSOR, but for the sizes that are left open"
    ),
    "ARRAY": GuardKind(2, "check_array({s}, {e})", "an ndarray's dtype, shape, strides"),
    "OPEN_ARRAY": GuardKind(
        2, "check_open_array({s}, {e})", "as ARRAY, but for the sizes that are left open"
    ),
    "LEFT_TO_NUMPY": GuardKind(
        5, "left_to_numpy({s})", "an ndarray that is not captured: of strings, objects, another layout"
    ),
    "NOT_ALIASED": GuardKind(3, "{s} is not {e}", "two arguments are different objects"),
    "ALIASED": GuardKind(3, "{s} is {e}", "two arguments are the same object"),
    "APART": GuardKind(
        3, "apart({s}, {e})", "objects that are changed: each there once, and not among the others"
    ),
    "WRITTEN": GuardKind(
        3,
        "written_apart({s}, {e})",
        "tensors that are written to: no views, and no other is one or a view of one",
    ),
    "IDENTITY": GuardKind(4, "{s} is {e}", "the very same function, class, module, None or bool"),
    "TYPE": GuardKind(5, "type({s}) is {e}", "an object's class"),
    "EQUALS": GuardKind(6, "type({s}) is type({e}) and {s} == {e}", "a Python constant's type and value"),
    "LENGTH": GuardKind(7, "len({s}) == {e}", "a container's length"),
    "ITEMS": GuardKind(7, "same_objects({s}, {e})", "a list's items: the very same objects, in order"),
    "NO_GRADIENTS": GuardKind(8, "no_gradients({s})", "none of these tensors has a gradient"),
    "KEYS": GuardKind(8, "tuple({s}) == {e}", "a dict's keys, in order"),
    "CLASS": GuardKind(
        9, "{s}.__mro__ is {e}", "a class: names that it and its bases lack, and members that lie there"
    ),
    "ABSENT": GuardKind(10, "not hasattr({s}, {e})", "an attribute that was looked for and not there"),
    "PRESENT": GuardKind(9, "{e} in {s}", "a key that is there, before what reads it"),
    "ABSENT_KEY": GuardKind(9, "{e} not in {s}", "a key that was looked for and not there"),
    "SHAPE": GuardKind(11, "{e}", "an assumption on symbolic sizes"),
}


@dataclass(frozen=True)
class Guard:
    """One fact: its `kind` (of GUARD_KINDS), the source that it is about, the expected value, and the user's line that
    needed it.

    under_epoch: the fact is about a module tree (a parameter's meta, `training`, a submodule), so it holds as long as
    no module changes. It is checked only if the structure epoch has changed since the last time that it held.
    """

    kind: str
    source: Source | None
    expected: Any
    origin: Origin | None = None
    under_epoch: bool = False

    def __post_init__(self) -> None:
        if self.kind not in GUARD_KINDS:
            raise ValueError(f"unknown guard kind {self.kind!r}; expected one of {', '.join(GUARD_KINDS)}")

    def expression(self, name_of: Callable[[Any], str] | None = None) -> str:
        """The check as Python. `name_of(value)` names an expected value that is not a literal."""
        named = name_of or _readable
        source = self.source.expression() if self.source else ""
        if name_of and self.kind == "EQUALS" and _is_often_the_same(self.expected):
            same, kind, value = (
                name_of(self.expected),
                name_of(type(self.expected)),
                self._expected_text(named),
            )
            return f"{source} is {same} or type({source}) is {kind} and {source} == {value}"
        for spelling in SPELLINGS.get(self.kind, ()):
            if spelling.fits(self.expected):
                return spelling.template.format(s=source, e=spelling.written(self.expected, named))
        return GUARD_KINDS[self.kind].template.format(s=source, e=self._expected_text(named))

    def _expected_text(self, named: Callable[[Any], str]) -> str:
        """The expected value as text for the template: a source, a literal, or a name."""
        if isinstance(self.expected, Source):
            return self.expected.expression()
        if self.kind == "SHAPE":
            return str(self.expected)
        literal = _is_singleton if self.kind == "IDENTITY" else _is_literal
        return repr(self.expected) if literal(self.expected) else named(self.expected)

    def __str__(self) -> str:
        return self.expression() + (f"  # {self.origin.describe()}" if self.origin else "")


def _is_singleton(value: Any) -> bool:
    return value is None or type(value) is bool


def _is_often_the_same(value: Any) -> bool:
    """Whether the value is usually the very same object: then the check first compares with `is`."""
    return type(value) in (int, float, str, bytes) and is_told_by_equality(value)


def _is_literal(value: Any) -> bool:
    if isinstance(value, tuple):
        return all(map(_is_literal, value))
    if isinstance(value, float):
        return math.isfinite(value)
    return _is_singleton(value) or type(value) in (int, str, bytes)


def _readable(value: Any) -> str:
    if isinstance(value, (TensorOf, OpenMeta, ArrayMeta)):
        return repr(str(value))
    return getattr(value, "__qualname__", None) or f"<{type(value).__name__}>"


@dataclass(frozen=True)
class Spelling:
    """Another template of a kind, for expected values that the kind's own template would confuse with others."""

    fits: Callable[[Any], bool]
    template: str  # the same as GuardKind.template
    # (the expected value, a function that names a value) -> the text of {e}
    written: Callable[[Any, Callable[[Any], str]], str]


# In order: the first that fits is used; if none fits, the kind's own template.
SPELLINGS: dict[str, tuple[Spelling, ...]] = {
    "EQUALS": (
        Spelling(  # 0.0 == -0.0 and NaN != NaN, but for a program the first two differ, and two NaNs do not
            lambda value: type(value) is float and not abs(value) > 0,
            "type({s}) is float and {s}.hex() == {e}",
            lambda value, named: repr(value.hex()),
        ),
        Spelling(
            lambda value: not isinstance(value, Source) and not is_told_by_equality(value),
            "same_constant({s}, {e})",
            lambda value, named: named(value),
        ),
    ),
    "CLASS": (
        Spelling(
            lambda facts: True,
            "{s}.__mro__ is {e}",
            lambda facts, named: text_of(
                facts, lambda value, text: text if named is _readable else named(value)
            ),
        ),
    ),
    "KEYS": (
        Spelling(  # objects: compared by identity
            lambda keys: not _are_strings(keys) and not _is_literal(keys),
            "same_objects({s}, {e})",
            lambda keys, named: named(keys),
        ),
        Spelling(  # 1, 1.0 and True are equal as keys, but differ for a program that iterates over them
            lambda keys: not _are_strings(keys),
            "[(type(k).__name__, k) for k in {s}] == {e}",
            lambda keys, named: repr([(type(k).__name__, k) for k in keys]),
        ),
    ),
}


def _are_strings(keys: tuple) -> bool:
    return all(type(key) is str for key in keys)


@dataclass(frozen=True, slots=True)
class TensorOf:
    """The expected class and meta of a tensor. The class is checked first: a user-defined class may have its own
    `meta`."""

    cls: Any
    meta: Any  # a TensorMeta, or an OpenMeta if some sizes are open
    # for whoever knows how tensors hold their data (stage 0's tensor_checks.py): of what the meta was made of the last
    # tensor that was as expected; at most one entry
    facts: list[tuple[Any, ...]] = field(default_factory=list, compare=False, repr=False)

    def __str__(self) -> str:
        return str(self.meta)


def check_tensor(tensor: Any, wanted: TensorOf) -> bool:
    """Whether a tensor agrees with `wanted`. It only reads attributes."""
    # the metas of arrays are cached, so it is usually the very same object
    return type(tensor) is wanted.cls and (tensor.meta is wanted.meta or _fits(tensor, wanted.meta))


def _fits(tensor: Any, meta: Any) -> bool:
    return (
        tensor.dtype is meta.dtype
        and tensor.shape == meta.shape
        and tensor.stride() == meta.strides
        and tensor.requires_grad is meta.requires_grad
        and tensor.device == meta.device
    )


@dataclass(frozen=True, slots=True)
class TensorRow:
    """What is expected of many tensors."""

    wanted: tuple[TensorOf, ...]


def check_tensors(tensors: tuple, row: TensorRow) -> bool:
    """As check_tensor of each."""
    return all(map(check_tensor, tensors, row.wanted))


def check_open_tensor(tensor: Any, wanted: TensorOf) -> bool:
    """Whether a tensor agrees with `wanted`, with any values of the open sizes."""
    if type(tensor) is not wanted.cls:
        return False
    meta, open_meta = tensor.meta, wanted.meta
    if open_meta.fitting.get(id(meta)) is meta:
        return True
    shape = meta.shape
    fits = (
        meta.dtype is open_meta.dtype
        and len(shape) == len(open_meta.sizes)
        and all(want is None or want == size for want, size in zip(open_meta.sizes, shape, strict=True))
        and meta.strides == open_meta.strides(shape)
        and meta.requires_grad is open_meta.requires_grad
        and meta.device == open_meta.device
    )
    if fits and all(map(_is_number, shape)):
        if len(open_meta.fitting) >= _MOST_FITTING:
            open_meta.fitting.clear()
        open_meta.fitting[id(meta)] = meta
    return fits


_MOST_FITTING = 1024


def _is_number(size: Any) -> bool:
    return type(size) is int


# The functions that the text of a guard may call.
CHECKS = {
    f.__name__: f
    for f in (
        check_tensor,
        check_tensors,
        check_open_tensor,
        check_array,
        check_open_array,
        left_to_numpy,
        same_objects,
        same_constant,
        apart,
        written_apart,
        no_gradients,
        row,
    )
}

DEEPEST = 1 << 20

_FAILURES = "(AttributeError, LookupError, TypeError, NameError, ValueError, ArithmeticError)"


# The epoch at which guards under_epoch are known to hold, and what compiles them should it move.
Later = tuple[int, Callable[[tuple[Guard, ...]], Callable[..., bool]]]


def compile_guards(
    guards: Iterable[Guard], signature: str, names: Mapping[str, Any], later: Later | None = None
) -> Callable[..., bool]:
    """One Python function that checks all guards, cheapest kinds first, each expression once.

    `signature` is the parameter list of the guarded function (`"x, y=None, *, flag=False"`). `names` has the names that
    templates use: `G`, `C`, `__function__`, `is_grad_enabled`, `modes`, `module_epoch`, and the signature's default
    values. Guards under_epoch cost one integer comparison while `module_epoch()` does not change. If it has changed,
    they all run; if they hold, the new epoch is stored, together with the rows that stay valid until it changes again.
    With `later` they become a function of their own when they are first to run, which is `check.under_epoch`.
    A missing attribute or item counts as a failed guard. The function's text is kept as `check.source_text`.
    """
    namespace: dict[str, Any] = {
        **CHECKS,
        "__held": [(-1,)],  # the epoch at which the guards under_epoch held, and the rows read then
        **names,
    }
    functions: list[str] = []
    known = list(guards)
    under = tuple(g for g in known if g.under_epoch) if later else ()
    if later and under:
        namespace |= {"__held_at": later[0], "__under_epoch": when_called(lambda: later[1](under))}
    passed_on = f"__epoch == __held_at or __under_epoch({arguments_text(signature)})" if under else ""
    here = [g for g in known if not g.under_epoch] if under else known
    statements = _statements(here, _names_in(namespace), functions, passed_on)
    lines = [
        *functions,
        f"def check({signature}):",
        "    try:",
        *statements,
        f"    except {_FAILURES}:",
        "        return False",
        "",
    ]
    text = past_parameters("\n".join(lines), signature, namespace)
    same_everywhere, numbers = without_numbers(text)
    namespace |= numbers
    exec(code_of(same_everywhere, "<cutaway guards>"), namespace)
    check = namespace["check"]
    if "__function__" in names:  # a call that does not fit the signature must raise in the user's function
        check.__qualname__ = names["__function__"].__qualname__
    check.source_text, check.under_epoch = text, namespace.get("__under_epoch")
    return check


def _names_in(namespace: dict[str, Any]) -> Callable[..., str]:
    """A function that adds an expected value to the namespace and returns its name, always the same one.

    It goes by identity: an expected object is never hashed or compared, because that may run user code.
    """
    named: dict[int, str] = {}

    def name_of(value: Any, word: str = "expected") -> str:
        if id(value) not in named:
            named[id(value)] = f"{word}_{len(named)}"
            namespace[named[id(value)]] = value
        return named[id(value)]

    return name_of


def _statements(
    guards: list[Guard], name_of: Callable[..., str], functions: list[str], elsewhere: str = ""
) -> list[str]:
    """What `check` does: what always runs, what runs when the module epoch moved, what reads the rows kept then.
    Functions that it calls are added to `functions`. `elsewhere`: what asks others, under_epoch."""
    kept = _kept_rows(guards)
    outside = [g for g in guards if not g.under_epoch]
    parts, inside = equal_parts(sorted((g for g in guards if g.under_epoch), key=_turn), _is_literal)
    paths = PathNames([*outside, *inside, *(own[0] for part in parts for own in part.guards)], name_of)
    on_rows = [g for g in outside if _rows_of(g) & kept.keys()]
    always = _conjunction([g for g in outside if not _rows_of(g) & kept.keys()], paths)
    if not inside and not parts and not kept and not elsewhere:
        return [f"        return ({always})"]
    known = dict(paths.names)
    last = _conjunction([_on_kept_rows(g, kept) for g in on_rows], paths)
    paths.names = known  # what runs before `last` may only use what is named before it
    moved = elsewhere or "\n            and ".join(
        [_conjunction(inside, paths), *(_of_parts(part, paths, name_of, functions) for part in parts)]
    )
    rows = "".join(f", row({paths.text(source)})" for source in kept)
    return [
        f"        if not ({always}):",
        "            return False",
        "        __epoch, __kept = module_epoch(), __held[0]",
        "        if __kept[0] != __epoch:",
        f"            if not ({moved}):",
        "                return False",
        f"            __kept = __held[0] = (__epoch{rows},)",
        f"        return ({last})",
    ]


def _conjunction(guards: Iterable[Guard], paths: PathNames) -> str:
    """All of the guards as one expression, each check once: what is near first, and of that the cheapest."""
    ordered = sorted(guards, key=_turn)
    checks = dict.fromkeys(_checks(ordered, paths))
    return "\n            and ".join(f"({c})" for c in checks) or "True"


def _checks(ordered: Iterable[Guard], paths: PathNames) -> Iterator[str]:
    """The check of each guard; many tensors in turn are one check."""
    for guards in _in_turn(ordered):
        if len(guards) > 1:
            row = TensorRow(tuple(g.expected for g in guards))
            words = "".join(f"{paths.text(g.source)}, " for g in guards if g.source)
            yield f"check_tensors(({words}), {paths.name_of(row)})"
        else:
            yield paths.check(guards[0])


MANY = 8


def _in_turn(ordered: Iterable[Guard]) -> Iterator[list[Guard]]:
    """Guards one by one, and tensors that are checked together as one list."""
    for turn, group in groupby(ordered, lambda g: _turn(g) if g.kind == "TENSOR" else None):
        guards = list(group)
        yield from [guards] if turn and len(guards) >= MANY else [[g] for g in guards]


def _of_parts(parts: EqualParts, paths: PathNames, name_of: Callable[..., str], functions: list[str]) -> str:
    """The check of equal parts, with a function that checks one part and its row of expected values."""
    checked = [list(_in_turn(own)) for own in parts.guards]
    rows = tuple(tuple(map(_row_entry, own)) for own in checked)
    first = [
        asked_of_part(g, parts.places[0], entry) for entry, guards in enumerate(checked[0]) for g in guards
    ]

    def named(value: Any, *word: str) -> str:
        # of tensors that are checked together, too, the function gets what is expected as an entry of the row
        first_of_row: Any = value.wanted[0] if type(value) is TensorRow else None
        return first_of_row.text if first_of_row else name_of(value, *word)

    name = f"__part_is_alike_{len(functions)}"
    functions.append(
        f"def {name}({PART}, {WANTED}):\n    return ({_conjunction(first, PathNames(first, named))})\n"
    )
    places = "".join(f"{paths.text(place)}, " for place in parts.places)
    return f"all(map({name}, ({places}), {name_of(rows)}))"


def _row_entry(guards: list[Guard]) -> Any:
    """What a row has for one check."""
    if len(guards) > 1:
        return TensorRow(tuple(g.expected for g in guards))
    return guards[0].expected if is_told_by_row(guards[0]) else None


# Checked before an object's attributes are read, so that the read runs no user code.
_BEFORE_READS = {"CLASS": "__class__", "PRESENT": "__dict__"}


def _turn(guard: Guard) -> tuple[int, int]:
    """The place of a guard in the order of checks. If the class of `o` has changed, or computes `bar` now, reading
    `o.bar` may run user code. So `type(o)`, and what the class has, are checked before. A check that an attribute is
    absent reads the attribute, too."""
    if guard.kind == "SHAPE" or isinstance(guard.source, ExpressionSource):
        steps = DEEPEST  # its text may have any path
    else:
        steps = depth(guard.source)
        if isinstance(guard.expected, Source):
            steps = max(steps, depth(guard.expected))
        steps -= isinstance(guard.source, AttrSource) and guard.source.name == _BEFORE_READS.get(guard.kind)
    return steps + (guard.kind == "ABSENT"), GUARD_KINDS[guard.kind].rank


def _kept_rows(guards: Iterable[Guard]) -> dict[Source, str]:
    """The rows of values that are read once for each module epoch, and the names under which `check` keeps them."""
    sources = (s for g in guards for s in (g.source, g.expected) if isinstance(s, RowSource) and s.kept)
    return {source: f"__kept[{k}]" for k, source in enumerate(dict.fromkeys(sources), start=1)}


def _rows_of(guard: Guard) -> set[Source]:
    """The RowSources that a guard is about."""
    return {s for s in (guard.source, guard.expected) if isinstance(s, RowSource)}


def _on_kept_rows(guard: Guard, kept: Mapping[Source, str]) -> Guard:
    """The guard, with each kept row read from its name."""
    source, expected = (
        ExpressionSource(kept[s]) if isinstance(s, RowSource) and s in kept else s
        for s in (guard.source, guard.expected)
    )
    return replace(guard, source=source, expected=expected)
