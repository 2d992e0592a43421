"""Terms: what a kernel stores, each as one expression of what it loads, over all of its nests.

Input: the nests of a kernel, in order. Equal expressions are one term; a value that a nest stores and a later one loads
is the term itself. Passes that recognise a computation, such as attention, compare terms, not text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from stage_contracts import dtype as dt
from stage_contracts.dtype import DType
from stage_contracts.index_expr import print_index
from stage_contracts.loop_ir import WRITES, Instr, LoopNest, Value
from stage_contracts.origin import Origin

HALVES = (dt.float16, dt.bfloat16)


@dataclass(frozen=True, eq=False)
class Term:
    """`op(*args)` of type `dtype`, as Instr has them; args that are results are terms. Equal terms are one object."""

    op: str
    args: tuple[Any, ...]
    dtype: DType | None
    name: str  # of the first instruction that computes it
    origins: tuple[Origin, ...] = ()

    @property
    def operands(self) -> tuple[Term, ...]:
        return tuple(a for a in self.args if isinstance(a, Term))

    @property
    def number(self) -> Any:
        """The value of a constant; None for all others."""
        return self.args[0] if self.op == "constant" else None


Stores = dict[tuple[str, Any], Term]  # (buffer, index) -> what is stored there


def stored_terms(nests: Iterable[LoopNest], keep_roundings: bool = True) -> Stores:
    """What the nests store. `keep_roundings=False` leaves out what arithmetic in half precision rounds after every
    operator: values stay float32. What a cast of the user's rounds stays."""
    known: dict[Any, Term] = {}
    stores: Stores = {}
    for nest in nests:
        values: dict[str, Term] = {}
        for instr in nest.body:
            args: tuple[Any, ...] = tuple(values[a] if isinstance(a, Value) else a for a in instr.args)
            if instr.op == "store":
                stores[args[0], args[1]] = args[2]
            if instr.op in WRITES:
                continue
            if instr.op == "load" and len(args) == 2 and (args[0], args[1]) in stores:
                values[instr.name] = stores[args[0], args[1]]
            elif not keep_roundings and _is_rounding(instr, args):
                values[instr.name] = args[0]
            else:
                key = instr.op, instr.dtype, tuple(map(_word, args))
                term = Term(instr.op, args, instr.dtype, instr.name, instr.origins)
                values[instr.name] = known.setdefault(key, term)
    return stores


def _is_rounding(instr: Instr, args: tuple[Any, ...]) -> bool:
    """Whether a cast only rounds an operator's result to its half precision, or widens what was not rounded."""
    if instr.op != "cast":
        return False
    source = args[0]
    if args[1] is dt.float32:
        return source.dtype is dt.float32
    return args[1] in HALVES and instr.name.startswith(f"{instr.args[0]}_{args[1].name}")


def _word(arg: Any) -> Any:
    if isinstance(arg, Term):
        return id(arg)
    return (
        print_index(arg)
        if hasattr(arg, "free_symbols")
        else (type(arg).__name__, repr(arg) if isinstance(arg, float) else arg)
    )


def walk(term: Term) -> Iterator[Term]:
    """The term and all it is made of, operands first, each once."""
    seen: set[int] = set()
    stack: list[tuple[Term, bool]] = [(term, False)]
    while stack:
        one, done = stack.pop()
        if done:
            yield one
        elif id(one) not in seen:
            seen.add(id(one))
            stack.append((one, True))
            stack += [(operand, False) for operand in reversed(one.operands)]


def rebuilt(
    term: Term, changed: Callable[[Term, tuple[Any, ...]], Term], made: dict[int, Term] | None = None
) -> Term:
    """The term with `changed(part, its args as they are now)` in the place of each part. `made`: what other terms
    became, by identity, so that shared parts stay shared."""
    made = {} if made is None else made
    for part in walk(term):
        if id(part) not in made:
            made[id(part)] = changed(
                part, tuple(made[id(a)] if isinstance(a, Term) else a for a in part.args)
            )
    return made[id(term)]


def assuming(
    term: Term,
    conditions: Mapping[Term, bool],
    numbers: bool = False,
    made: dict[int, Term] | None = None,
) -> Term:
    """The term where these conditions hold or do not: each `where` becomes one of its two values. `numbers`: what is
    then certain, unless an operand is NaN or infinite, becomes a constant, as 0 times a number."""

    def changed(part: Term, args: tuple[Any, ...]) -> Term:
        if part.op == "where" and (holds := decided(part.args[0], conditions)) is not None:
            return args[1] if holds else args[2]
        value = _certain(part.op, args) if numbers else None
        if value is not None:
            return constant(value, part)
        return part if args == part.args else Term(part.op, args, part.dtype, part.name, part.origins)

    return rebuilt(term, changed, made)


LOWEST = float("-inf")


def _certain(op: str, args: tuple[Any, ...]) -> float | None:
    """The value of an operator on an argument that is zero or -inf, whatever the other one is; None: it depends."""
    numbers = [a.number if isinstance(a, Term) else None for a in args]
    match op, numbers:
        case (("exp" | "exp2"), [value]) if value == LOWEST:
            return 0.0
        case (("sub" | "cast"), [value, *_]) if value == LOWEST:
            return LOWEST
        case (("div" | "cast"), [value, *_]) if value == 0:
            return 0.0
        case "mul", _ if 0 in numbers:
            return 0.0
        case "mul", [left, right] if LOWEST in (left, right) and max(left or 0, right or 0) > 0:
            return LOWEST
    return None


def constant(value: Any, like: Term) -> Term:
    return Term("constant", (value,), like.dtype, like.name)


def decided(condition: Term, conditions: Mapping[Term, bool]) -> bool | None:
    """Whether a condition holds, if that is known."""
    if condition in conditions:
        return conditions[condition]
    if condition.op in ("bitwise_not", "logical_not"):
        inner = decided(condition.args[0], conditions)
        return None if inner is None else not inner
    if condition.op == "where" and {condition.args[1].number, condition.args[2].number} == {True, False}:
        inner = decided(condition.args[0], conditions)
        return None if inner is None else inner is condition.args[1].number
    return None


def narrowed(term: Term) -> Term:
    """What is rounded to half precision at the end: the product after it rounds alike."""
    return narrowed(term.args[0]) if term.op == "cast" and term.args[1] in HALVES else term
