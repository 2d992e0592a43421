"""Numbers that Python's `random` draws: drawn by the residual code before the graph runs, in the program's order.

Input: a call of a method of random.Random (the module's functions are those of one such object), with numbers that are
known now. What it gives is a number like one in an argument, an expression over a local name of the residual code: it
may reach arithmetic and operators, be stored and returned. Whoever needs its value breaks, for a guard cannot know it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from typing import Any

from stage1_capture.state.graph_builder import Draw
from stage1_capture.state.machine import BUILTINS, Args, Kwargs, Tx
from stage1_capture.variables.base import Variable, realize
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.number import EXACT, NumberVariable, hint_of, number_operand
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.source import ExpressionSource


def _floats(*values: Any) -> float | None:
    """Any two numbers will do."""
    return 0.5 if len(values) == 2 and all(type(v) in (int, float) for v in values) else None


def _whole(low: Any, high: Any) -> int | None:
    """Bounds in order, so that it raises nothing, and small enough for a graph."""
    fits = type(low) is int and type(high) is int and -EXACT <= low <= high <= EXACT
    return low if fits else None


def _floats_or_none(*values: Any) -> float | None:
    return _floats(*values) if values else 0.5


def _in_range(*bounds: Any) -> int | None:
    """randrange: as range(), not empty."""
    if not all(type(b) is int for b in bounds) or bounds[2:] == (0,) or not 1 <= len(bounds) <= 3:
        return None
    drawn_from = range(*bounds)
    return drawn_from[0] if drawn_from and max(map(abs, (drawn_from[0], drawn_from[-1]))) <= EXACT else None


OPEN = (_floats, _floats_or_none)  # whose arguments need not be known
# method -> (its parameters, a number as it could be drawn or None where the call is not for us)
METHODS: dict[str, tuple[tuple[str, ...], Callable[..., Any]]] = {
    "random": ((), lambda: 0.5),
    "uniform": (("a", "b"), _floats),
    "gauss": (("mu", "sigma"), _floats_or_none),
    "normalvariate": (("mu", "sigma"), _floats_or_none),
    "expovariate": (("lambd",), lambda rate: 0.5 if type(rate) in (int, float) and rate > 0 else None),
    "randint": (("a", "b"), _whole),
    "randrange": (("start", "stop", "step"), _in_range),
    "getrandbits": (("k",), lambda k: 0 if type(k) is int and 0 < k < EXACT.bit_length() else None),
}


def _draw(name: str, tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    parameters, example = METHODS[name]
    receiver, *rest = map(realize, args)
    words = dict(zip(parameters, rest)) | {k: realize(v) for k, v in kwargs.items()}
    values = [words[p] for p in parameters[: len(words)] if p in words]
    fits = len(words) == len(values) == len(rest) + len(kwargs)  # those given are the first ones
    hint = None
    if fits and all(v.is_python_constant() and number_operand(v) for v in values):
        if example not in OPEN:
            values = [ConstantVariable(v.value) for v in values]
        try:
            hint = example(*map(hint_of, values))
        except TypeError:  # too few, or too many
            hint = None
    if hint is None:
        tx.unsupported("GB0027", f"a call of {name}")
    draw = drawn(tx, receiver, name, values)
    draw.hint = hint
    source = ExpressionSource(draw.name, f"random.{name}()")
    return NumberVariable(tx.output, hint, source, ((source, hint),))


def _for_both(name: str, call: Any) -> None:
    """The method of any generator, and the module's function where that is a C method, which has no function."""
    BUILTINS[getattr(random.Random, name)] = call
    bound = getattr(random, name)
    if not hasattr(bound, "__func__"):
        BUILTINS[bound] = lambda tx, args, kwargs: call(tx, [UserDefinedObjectVariable(bound), *args], kwargs)


def _seed(tx: Tx, args: Args, kwargs: Kwargs) -> Variable:
    """random.seed(n): replayed in its place among the draws."""
    receiver, *values = map(realize, args)
    plain = len(values) == 1 and not kwargs and values[0].is_python_constant()
    if not plain or type(hint_of(values[0])) not in (int, float, str, bytes):
        tx.unsupported("GB0027", "a call of seed")
    drawn(tx, receiver, "seed", values)
    return NONE


def drawn(tx: Tx, receiver: Variable, name: str, values: list[Variable]) -> Draw:
    """Note a call of a generator's method, which the residual code makes."""
    output = tx.output
    bound = getattr(receiver, "real", None) is vars(random)[name]
    outside = type(getattr(receiver, "real", None)) is random.Random and receiver.source is not None
    if not (bound or outside) or id(receiver) in output.effects.changed or output.effects.in_the_end:
        tx.unsupported("GB0027", f"{name} of {receiver.describe()}")
    if output.taken is not None or output.follows_since is not None:
        why = f"a call of {name} in a function with a graph of its own"
        tx.unsupported("GB0027", why)
    output.draws.append(Draw(f"__drawn_{len(output.draws)}", receiver, name, bound, values))
    return output.draws[-1]


for _name in METHODS:
    _for_both(_name, partial(_draw, _name))
BUILTINS[random.Random.seed] = _seed
