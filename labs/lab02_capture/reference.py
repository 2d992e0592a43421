"""A capture of straight lines: operators and methods of tensors become a graph. Any other function is left to Python.

Input: the bytecode of a function, and the tensors that it is called with. Nothing is computed: each value on the stack
is a node of the graph, and the operator's meta rule says what the node will yield.
"""

from __future__ import annotations

import dis
import linecache
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from stage0_eager import TABLE, is_grad_enabled
from stage0_eager.tensor import Tensor
from stage_contracts.breaks import GraphBreak
from stage_contracts.capture import CapturedFrame
from stage_contracts.graph import Graph, Node
from stage_contracts.guards import Guard, TensorOf
from stage_contracts.origin import Origin
from stage_contracts.sizes import STATIC
from stage_contracts.source import ArgSource
from stage_contracts.tensor_meta import TensorMeta

OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "@": "matmul", "**": "pow"}


class Beyond(Exception):
    """Something that this capture does not know: what, and the line that has it."""

    def __init__(self, what: str, origin: Origin | None = None) -> None:
        super().__init__(what)
        self.what, self.origin = what, origin


@dataclass(frozen=True)
class Method:
    """`x.exp` on the stack, before the call: a node and the method's name."""

    receiver: Any
    name: str


# ---- what you write ----------------------------------------------------------------------------------------------


def run(graph: Graph, function: types.FunctionType, local: dict[str, Any]) -> Node:
    """Go through the function's instructions with a stack, as Python does. Return the node that it returns.

    local: the parameters' names, and their placeholders. Raises Beyond for any instruction or value it does not know.
    """
    # lab: begin run
    stack: list[Any] = []
    for name, argument, origin in instructions(function):
        match name:
            case "LOAD_FAST":
                stack.append(local[argument])
            case "STORE_FAST":
                local[argument] = stack.pop()
            case "LOAD_CONST" if type(argument) in (int, float):
                stack.append(argument)
            case "BINARY_OP" if argument in OPERATORS:
                right, left = stack.pop(), stack.pop()
                stack.append(record(graph, origin, OPERATORS[argument], left, right))
            case "UNARY_NEGATIVE":
                stack.append(record(graph, origin, "neg", stack.pop()))
            case "LOAD_METHOD":
                stack.append(Method(stack.pop(), argument))
            case "CALL":
                operands = [stack.pop() for _ in range(argument)][::-1]
                method = stack.pop()
                stack.append(record(graph, origin, method.name, method.receiver, *operands))
            case "RETURN_VALUE" if isinstance(stack[-1], Node) and stack[-1].op == "call_function":
                return stack.pop()
            case _:
                raise Beyond(f"the instruction {name} {argument}", origin)
    raise Beyond("a function that does not return")
    # lab: end


def record(graph: Graph, origin: Origin, name: str, *operands: Any) -> Node:
    """Add `name(*operands)` to the graph: a node whose `val` is what the operator's meta rule gives.

    Raises Beyond unless the first operand is a node, and the operator exists, writes to nothing and yields one tensor.
    """
    # lab: begin record
    operator = TABLE.get(f"cutaway.{name}")
    if operator is None or operator.mutates or not operands or not isinstance(operands[0], Node):
        raise Beyond(f"{name} of {operands}", origin)
    metas = [each.val if isinstance(each, Node) else each for each in operands]
    try:
        val = operator.meta(*metas)
    except (RuntimeError, TypeError) as error:  # eager raises it
        raise Beyond(f"{name} raises {error}", origin) from error
    if not isinstance(val, TensorMeta):
        raise Beyond(f"{name} yields {val}", origin)
    return graph.call_function(operator, operands, {}, val=val, origins=(origin,))
    # lab: end


def guards(names: tuple[str, ...], tensors: tuple[Any, ...], origin: Origin) -> tuple[Guard, ...]:
    """What must hold at another call, so that the graph is right for it: the grad mode, and each tensor's meta."""
    # lab: begin guards
    mode = Guard("GRAD_MODE", None, is_grad_enabled(), origin)
    metas = (TensorOf(Tensor, tensor.meta) for tensor in tensors)
    return (mode, *(Guard("TENSOR", ArgSource(n), m, origin) for n, m in zip(names, metas, strict=True)))
    # lab: end


def residual(names: tuple[str, ...]) -> types.CodeType:
    """The code that runs in place of the function: it calls the compiled graph, which returns a tuple."""
    # lab: begin residual
    words = ", ".join(names)
    text = f"def residual({words}):\n    return __compiled_graph_0({words})[0]\n"
    return compile(text, "<residual>", "exec").co_consts[0]
    # lab: end


# ---- what is given -----------------------------------------------------------------------------------------------


def capture(function: Callable, args: tuple, kwargs: dict[str, Any], policy: Any = STATIC) -> CapturedFrame:
    """The seam. A function that is beyond this capture has no graph and one break: Python runs it."""
    code = function.__code__
    start = Origin(code.co_filename, code.co_firstlineno)
    try:
        names = parameters(function, args, kwargs)
        graph, sources = Graph(), tuple(ArgSource(name) for name in names)
        nodes = [graph.placeholder(s.name, a.meta, source=s) for s, a in zip(sources, args, strict=True)]
        graph.output([run(graph, function, dict(zip(names, nodes, strict=True)))])  # type: ignore[arg-type]
        checks, text = guards(names, args, start), residual(names)
        return CapturedFrame(function.__name__, code, graph.verify(), sources, checks, text)
    except Beyond as stop:
        broken = GraphBreak("GB0001", stop.what, stop.origin or start)
        return CapturedFrame(function.__name__, code, None, (), (), None, breaks=(broken,))


def parameters(function: Callable, args: tuple, kwargs: dict[str, Any]) -> tuple[str, ...]:
    """The names of the parameters, one tensor for each. Raises Beyond for any other call."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    plain = not (kwargs or code.co_freevars or code.co_kwonlyargcount)
    if not plain or not names or [type(a) for a in args] != [Tensor] * len(names):
        raise Beyond("arguments other than one tensor for each parameter")
    return names


# What the versions of Python call the same thing, and instructions that do nothing here.
_SAME = {"LOAD_FAST_CHECK": "LOAD_FAST", "LOAD_FAST_BORROW": "LOAD_FAST", "LOAD_SMALL_INT": "LOAD_CONST"}
_NOTHING = ("RESUME", "NOP", "CACHE", "PRECALL", "PUSH_NULL")


def instructions(function: Callable) -> Iterator[tuple[str, Any, Origin]]:
    """(name, argument, the user's text) of each instruction, alike for Python 3.11, 3.12 and 3.13."""
    for i in dis.get_instructions(function):
        origin = origin_of(function, i)
        name, argument = _SAME.get(i.opname, i.opname), i.argval
        if i.opname == "BINARY_OP":
            argument = i.argrepr
        if i.opname == "RETURN_CONST":
            yield "LOAD_CONST", argument, origin
            name = "RETURN_VALUE"
        if i.opname == "LOAD_ATTR" and sys.version_info >= (3, 12) and (i.arg or 0) & 1:
            name = "LOAD_METHOD"
        if isinstance(argument, tuple) and name.count("_FAST") == 2:  # two instructions in one
            first, _, second = name.partition("_FAST_")
            yield f"{first}_FAST", argument[0], origin
            name, argument = second, argument[1]
        if name not in _NOTHING:
            yield name, argument, origin


def origin_of(function: Callable, instruction: dis.Instruction) -> Origin:
    """The expression of the user's source that an instruction belongs to."""
    file, at = function.__code__.co_filename, instruction.positions
    line, start, end = (at.lineno or 0, at.col_offset or 0, at.end_col_offset or 0) if at else (0, 0, 0)
    return Origin(file, line, linecache.getline(file, line)[start:end], start, end)
