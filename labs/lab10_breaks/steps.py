"""The steps of a function, alike for every version of Python; one performed on a graph, or run for real.

Input: a function's bytecode. You need not read this file to do the lab, but for the docstrings of `Step` and `perform`.
"""

from __future__ import annotations

import builtins
import dis
import linecache
import operator
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stage0_eager import TABLE
from stage0_eager.tensor import Tensor
from stage_contracts.graph import Graph, Node
from stage_contracts.origin import Origin
from stage_contracts.tensor_meta import TensorMeta

BINARY = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "@": "matmul", "**": "pow"}
COMPARE = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
NUMBERS = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class Step:
    """One instruction. A jump's argument is the number of a step. next: the steps that may come after it."""

    name: str
    argument: Any
    next: tuple[int, ...]
    origin: Origin


class Beyond(Exception):
    """This step cannot be captured."""


@dataclass(frozen=True)
class Global:
    """A name that Python looks up when the function runs: a function such as print."""

    name: str


@dataclass(frozen=True)
class Method:
    """`x.exp` before its call: x, or how to get it, and the method's name."""

    receiver: Any
    name: str


def is_tensor(value: Any) -> bool:
    return type(value) is Tensor


# ---- from bytecode to steps --------------------------------------------------------------------------------------

_SAME = {"LOAD_FAST_CHECK": "LOAD_FAST", "LOAD_FAST_BORROW": "LOAD_FAST", "LOAD_SMALL_INT": "LOAD_CONST",
         "JUMP_FORWARD": "JUMP", "JUMP_BACKWARD": "JUMP", "JUMP_BACKWARD_NO_INTERRUPT": "JUMP"}  # fmt: skip
_NOTHING = ("RESUME", "NOP", "CACHE", "PRECALL", "PUSH_NULL", "TO_BOOL", "NOT_TAKEN", "EXTENDED_ARG")


def steps_of(function: Any) -> list[Step]:
    """The steps of a function."""
    rows = [(offset, name, argument, origin) for offset, name, argument, origin in _rows(function)]
    first: dict[int, int] = {}
    for k, (offset, *_) in enumerate(rows):
        first.setdefault(offset, k)
    starts = sorted(first)
    made = []
    for k, (_, name, argument, origin) in enumerate(rows):
        if "JUMP" in name:  # a jump to an instruction that does nothing goes to the next one
            argument = first[next(start for start in starts if start >= argument)]
        following = {"RETURN_VALUE": (), "JUMP": (argument,)}.get(name, (k + 1,))
        if name.startswith("POP_JUMP"):
            following = (k + 1, argument)
        made.append(Step(name, argument, following, origin))
    return made


def _rows(function: Any) -> Iterator[tuple[int, str, Any, Origin]]:
    for i in dis.get_instructions(function):
        name, argument = _SAME.get(i.opname, i.opname), i.argval
        name = name.replace("_FORWARD_IF", "_IF").replace("_BACKWARD_IF", "_IF")
        at, file = i.positions, function.__code__.co_filename
        line = (at.lineno or 0) if at else 0
        origin = Origin(file, line, linecache.getline(file, line).strip())
        if i.opname == "BINARY_OP":
            argument = i.argrepr
        if i.opname == "RETURN_CONST":
            yield i.offset, "LOAD_CONST", argument, origin
            name = "RETURN_VALUE"
        if i.opname == "LOAD_ATTR" and sys.version_info >= (3, 12) and (i.arg or 0) & 1:
            name = "LOAD_METHOD"
        if isinstance(argument, tuple) and name.count("_FAST") == 2:  # two instructions in one
            one, _, other = name.partition("_FAST_")
            yield i.offset, f"{one}_FAST", argument[0], origin
            name, argument = other, argument[1]
        if name not in _NOTHING:
            yield i.offset, name, argument, origin


# ---- on a graph --------------------------------------------------------------------------------------------------


def perform(graph: Graph, step: Step, at: int, local: dict[str, Any], stack: list[Any]) -> int:
    """Perform one step on nodes, numbers and names. Returns the number of the next step.

    Raises Beyond for a step that cannot be captured. It may have taken values off the stack by then.
    """
    name, argument = step.name, step.argument
    match name:
        case "LOAD_FAST":
            stack.append(local[argument])
        case "STORE_FAST":
            local[argument] = stack.pop()
        case "LOAD_CONST" if isinstance(argument, NUMBERS):
            stack.append(argument)
        case "LOAD_GLOBAL":
            stack.append(Global(argument))
        case "LOAD_METHOD" if isinstance(stack[-1], Node):
            stack.append(Method(stack.pop(), argument))
        case "POP_TOP":
            stack.pop()
        case "BINARY_OP" | "COMPARE_OP":
            right, left = stack.pop(), stack.pop()
            word = {**BINARY, **COMPARE}.get(argument)
            stack.append(_binary(graph, step, word, left, right))
        case "UNARY_NEGATIVE":
            value = stack.pop()
            stack.append(_record(graph, step, "neg", value) if isinstance(value, Node) else -value)
        case "CALL":
            operands = [stack.pop() for _ in range(argument)][::-1]
            called = stack.pop()
            if not isinstance(called, Method):
                raise Beyond
            stack.append(_record(graph, step, called.name, called.receiver, *operands))
        case "JUMP":
            return argument
        case "POP_JUMP_IF_TRUE" | "POP_JUMP_IF_FALSE":
            condition = stack.pop()
            if not isinstance(condition, NUMBERS):
                raise Beyond
            return argument if bool(condition) is name.endswith("TRUE") else at + 1
        case _:
            raise Beyond
    return at + 1


def _binary(graph: Graph, step: Step, word: str | None, left: Any, right: Any) -> Any:
    if word is None:
        raise Beyond
    if isinstance(left, Node):
        return _record(graph, step, {"truediv": "div"}.get(word, word), left, right)
    if not isinstance(left, int | float) or not isinstance(right, int | float):
        raise Beyond
    return getattr(operator, word)(left, right)


def _record(graph: Graph, step: Step, name: str, *operands: Any) -> Node:
    op = TABLE.get(f"cutaway.{name}")
    if op is None or op.mutates or not all(isinstance(each, Node | int | float) for each in operands):
        raise Beyond
    try:
        val = op.meta(*(each.val if isinstance(each, Node) else each for each in operands))
    except (RuntimeError, TypeError):
        raise Beyond from None
    if not isinstance(val, TensorMeta):
        raise Beyond
    return graph.call_function(op, operands, {}, val=val, origins=(step.origin,))


# ---- for real ----------------------------------------------------------------------------------------------------


def run_in_python(
    step: Step, at: int, local: dict[str, Any], stack: list[Any], names: dict[str, Any]
) -> int | None:
    """Run one step on real values. Returns the number of the next step, or None after RETURN_VALUE."""
    name, argument = step.name, step.argument
    stack[:] = [_real(value, names) for value in stack]
    local.update({key: _real(value, names) for key, value in local.items()})
    match name:
        case "LOAD_FAST":
            stack.append(local[argument])
        case "STORE_FAST":
            local[argument] = stack.pop()
        case "LOAD_CONST":
            stack.append(argument)
        case "LOAD_METHOD" | "LOAD_ATTR":
            stack.append(getattr(stack.pop(), argument))
        case "POP_TOP":
            stack.pop()
        case "BINARY_OP" | "COMPARE_OP":
            right, left = stack.pop(), stack.pop()
            stack.append(getattr(operator, {**BINARY, **COMPARE}[argument])(left, right))
        case "CALL":
            operands = [stack.pop() for _ in range(argument)][::-1]
            stack.append(stack.pop()(*operands))
        case "POP_JUMP_IF_TRUE" | "POP_JUMP_IF_FALSE":
            return argument if bool(stack.pop()) is name.endswith("TRUE") else at + 1
        case "RETURN_VALUE":
            del stack[:-1]
            return None
        case _:
            raise NotImplementedError(f"the lab's functions have no {name} ({step.origin})")
    return at + 1


def _real(value: Any, names: dict[str, Any]) -> Any:
    if not isinstance(value, Global):
        return value
    return names[value.name] if value.name in names else getattr(builtins, value.name)
