"""A capture of sixty lines: straight lines of operators on tensors. Any other frame breaks, and runs in eager.

Input: the contract of `capture`, and the bytecode of a function. Guards are made on its tensors alone.
"""

import dis
import linecache

from stage0_eager import TABLE, is_grad_enabled
from stage0_eager.tensor import Tensor
from stage_contracts.breaks import GraphBreak
from stage_contracts.capture import CapturedFrame
from stage_contracts.graph import Graph, Node
from stage_contracts.guards import Guard, TensorOf
from stage_contracts.origin import Origin
from stage_contracts.sizes import STATIC
from stage_contracts.source import ArgSource

OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "@": "matmul"}


class Beyond(Exception):
    """What this capture does not know."""


def capture(function, args, kwargs, policy=STATIC):
    code, fields = function.__code__, {"graph": None, "inputs": (), "residual": None, "guards": ()}
    start = Origin(code.co_filename, code.co_firstlineno)
    try:
        names = code.co_varnames[: code.co_argcount]
        if kwargs or code.co_freevars or not names or [type(a) for a in args] != [Tensor] * len(names):
            raise Beyond("arguments other than one tensor for each parameter")
        graph, inputs = Graph(), [(ArgSource(n), a) for n, a in zip(names, args, strict=True)]
        nodes = [graph.placeholder(s.name, a.meta, source=s) for s, a in inputs]
        graph.output([run(graph, function, dict(zip(names, nodes, strict=True)))])
        text = f"def residual({', '.join(names)}):\n    return __compiled_graph_0({', '.join(names)})[0]\n"
        guards = [Guard("TENSOR", s, TensorOf(Tensor, a.meta), start) for s, a in inputs]
        guards.insert(0, Guard("GRAD_MODE", None, is_grad_enabled(), start))
        fields |= {"graph": graph.verify(), "inputs": tuple(s for s, _ in inputs), "guards": tuple(guards)}
        fields["residual"] = compile(text, "<residual>", "exec").co_consts[0]
    except (Beyond, RuntimeError) as stop:
        fields["breaks"] = (GraphBreak("GB0001", str(stop), start),)
    return CapturedFrame(function.__name__, code, **fields)


def run(graph, function, local):
    """The node that the function returns."""
    stack = []
    for i in dis.get_instructions(function):
        if i.opname == "LOAD_FAST" and i.argval in local:
            stack.append(local[i.argval])
        elif i.opname == "LOAD_CONST" and type(i.argval) in (int, float):
            stack.append(i.argval)
        elif i.opname == "STORE_FAST":
            local[i.argval] = stack.pop()
        elif i.opname == "BINARY_OP" and i.argrepr in OPERATORS:
            right, left = stack.pop(), stack.pop()
            stack.append(record(graph, function.__code__, i, left, right))
        elif i.opname == "RETURN_VALUE" and isinstance(stack[-1], Node) and stack[-1].op == "call_function":
            return stack.pop()
        elif i.opname not in ("RESUME", "NOP"):
            raise Beyond(f"the instruction {i.opname}")


def record(graph, code, instruction, left, right):
    operator, at = TABLE[f"cutaway.{OPERATORS[instruction.argrepr]}"], instruction.positions
    if not isinstance(left, Node):
        raise Beyond("a number on the left of an operator")
    text = linecache.getline(code.co_filename, at.lineno)[at.col_offset : at.end_col_offset]
    origin = Origin(code.co_filename, at.lineno, text, at.col_offset, at.end_col_offset)
    metas = [each.val if isinstance(each, Node) else each for each in (left, right)]
    return graph.call_function(operator, (left, right), {}, val=operator.meta(*metas), origins=(origin,))
