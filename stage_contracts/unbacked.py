"""Unbacked symbols: whole numbers that only the data knows (u0), the nodes that make them, and questions about them.

Input: a ShapeEnv with symbols that have no hint. Capture makes one for each `item()` and each result whose size the
data decides. A question is answered from known facts; else as for a size of 2 or more; else it is an error that names
the check that answers it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from stage_contracts.node import Node

VALUE = -1  # in place of a dimension: the symbol is the one element of the result


class DataDependentError(RuntimeError):
    """The program branches on a value that depends on the data (an unbacked symbol)."""


class SymbolName(str):
    """The name of the symbol that an operator makes, as its last argument. It prints as a string."""

    size: Any  # the SymInt

    def __new__(cls, size: Any) -> SymbolName:
        found = super().__new__(cls, str(size.expr))
        found.size = size
        return found


# ---- in a graph ----------------------------------------------------------------------------------------------


def makes_symbol(node: Node) -> bool:
    return getattr(node.target, "makes_symbol", False)


def has_effect(node: Node) -> bool:
    """Whether a node must run once though nothing reads its result: a check of the data, or what other ranks await."""
    return getattr(node.target, "has_effect", False)


def symbol_made(node: Node) -> tuple[Any, int] | None:
    """The symbol that a call makes, and the dimension of its first result that is its value (or VALUE)."""
    if not makes_symbol(node) or not isinstance(node.args[-1], SymbolName):
        return None
    first = node.val[0] if isinstance(node.val, tuple) else node.val
    return node.args[-1].size.expr, 0 if first.shape else VALUE


def value_made(result: Any, dim: int) -> int:
    """The value of the symbol, from what the call gave."""
    first = result[0] if isinstance(result, tuple) else result
    return int(first) if dim == VALUE else first.shape[dim]


def makers(nodes: Any) -> dict[Any, Node]:
    """Each unbacked symbol that these nodes make, and the node."""
    return {made[0]: node for node in nodes if makes_symbol(node) and (made := symbol_made(node))}


# ---- questions -----------------------------------------------------------------------------------------------


def unbacked_in(env: Any, expr: Any) -> list[Any]:
    """The symbols in an expression or a condition that have no value at compile time."""
    return sorted((s for s in getattr(expr, "free_symbols", ()) if env.hints.get(s, 0) is None), key=str)


def answered(env: Any, condition: Any) -> bool:
    """The answer to a question that a rule asks about unbacked symbols, and that the known facts do not decide.

    A size is taken to be 2 or more, as in torch: that it is 0 or 1 makes a fast path, never another result. A rule that
    asks whether two sizes differ would refuse them, so they must be equal: `env.deferred` has what is to be checked
    when the program runs. Raises DataDependentError for anything else.
    """
    import sympy

    condition = env.simplify(condition)
    if condition in (True, False):
        return bool(condition)
    for least in (0, 2):
        found = _known_for_sizes(env, condition, least)
        if found is not None:
            for symbol in unbacked_in(env, condition):
                if env.ranges[symbol][0] < 0:
                    learn(env, sympy.Ge(symbol, 0))
            return found
    relation = type(condition).__name__
    if relation == "Equality":
        return False
    if relation == "Unequality":
        learn(env, sympy.Eq(condition.lhs, condition.rhs))
        return False
    raise DataDependentError(question(env, condition))


def _known_for_sizes(env: Any, condition: Any, least: int) -> bool | None:
    """The answer if every unbacked symbol in the condition is `least` or more."""
    before, answers = env.ranges, env.answers
    env.ranges, env.answers = dict(before), {}
    for symbol in unbacked_in(env, condition):
        low, high = before[symbol]
        env.ranges[symbol] = max(low, least), high
    try:
        return env.known(condition)
    finally:
        env.ranges, env.answers = before, answers


def learn(env: Any, condition: Any) -> None:
    """Take a condition on unbacked symbols as true; it is checked when the program runs."""
    import sympy

    if env.known(condition) is not None:
        return
    env._record(condition)
    if (sign := _LEAST.get(type(condition).__name__)) is not None:
        least = env.simplify(condition.lhs - condition.rhs) * sign[0] - sign[1]
        constant, rest = sympy.expand(least).as_coeff_Add()
        env.floors[rest] = max(-constant, env.floors.get(rest, -constant))
    env.answers[condition], env.answers[sympy.Not(condition)] = True, False
    env.deferred.append(condition)


# A relation -> (sign, less): `sign * (left - right) - less` is not negative.
_LEAST = {"GreaterThan": (1, 0), "StrictGreaterThan": (1, 1), "LessThan": (-1, 0), "StrictLessThan": (-1, 1)}


def expect(condition: Any) -> None:
    """What must hold for a call to be right. About unbacked symbols it is learnt, and checked at run time."""
    env = getattr(condition, "env", None)
    if env is not None and env.known(condition.expr) is None and unbacked_in(env, condition.expr):
        learn(env, condition.expr)


def question(env: Any, condition: Any) -> str:
    """What to say of a question that needs the value of a symbol: where it is from, and the check that answers it."""
    symbols = unbacked_in(env, condition)
    where = "; ".join(f"{s} is {env.made_at.get(s, 'a value of the data')}" for s in symbols)
    holds = getattr(condition, "is_Relational", False)
    fact = condition if holds else f"{condition} == 3"
    return (
        f"{condition} depends on the data: {', '.join(map(str, symbols))} has no value at compile time ({where}). "
        f"If it always {'holds' if holds else 'is one number'}, say so before this line: torch._check({fact}). "
        "Else use cutaway.where or cutaway.cond"
    )
