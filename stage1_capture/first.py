"""The idea of stage 1, to be read first: bytecode runs on a stack of stand-ins, and each operator becomes a node.

Input: a function of tensors whose body is one straight line of operators, and the tensors of one call. Try it:
`print(first.capture(lambda x, y: x * y + 2, x, y))`. The next step is tiny.py, which calls, looks up and guards too.
"""

from __future__ import annotations

import dis
import types
from typing import Any

from stage0_eager import TABLE
from stage0_eager.tensor import Tensor
from stage_contracts.graph import Graph, Node

OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "@": "matmul"}


def capture(function: types.FunctionType, *tensors: Tensor) -> Graph:
    """What the function computes, as a graph. The function is never run: no data is looked at, only metas."""
    graph = Graph()
    stack: list[Any] = []  # where Python would hold tensors and numbers: nodes and numbers
    names = function.__code__.co_varnames
    local = {name: graph.placeholder(name, tensor.meta) for name, tensor in zip(names, tensors)}
    for instruction in dis.get_instructions(function):
        name = instruction.opname
        if name in ("RESUME", "NOP"):
            pass
        elif name == "LOAD_CONST":
            stack.append(instruction.argval)
        elif name == "LOAD_FAST":
            stack.append(local[instruction.argval])
        elif name == "LOAD_FAST_LOAD_FAST":  # from Python 3.13 on
            stack.extend(local[each] for each in instruction.argval)
        elif name == "STORE_FAST":
            local[instruction.argval] = stack.pop()
        elif name == "STORE_FAST_LOAD_FAST":
            stored, loaded = instruction.argval
            local[stored] = stack.pop()
            stack.append(local[loaded])
        elif name == "BINARY_OP":
            right, left = stack.pop(), stack.pop()
            stack.append(record(graph, instruction.argrepr, left, right))
        elif name == "RETURN_VALUE":
            graph.output([stack.pop()])
        else:
            raise NotImplementedError(f"{name}: this capture knows straight lines of operators only")
    return graph


def record(graph: Graph, symbol: str, left: Any, right: Any) -> Node:
    """A node for `left + right`: the operator's meta rule says what comes out of it."""
    operator = TABLE[f"cutaway.{OPERATORS[symbol]}"]
    metas = [each.val if isinstance(each, Node) else each for each in (left, right)]
    return graph.call_function(operator, (left, right), {}, val=operator.meta(*metas))
