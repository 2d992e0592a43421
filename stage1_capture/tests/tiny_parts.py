"""The smallest part for each inner seam of capture that passes its core tests: what it does not know it leaves to Python.

Input: what stage1_capture/seams.py says of each. Not for use; they show that a part can be replaced alone.
"""

import inspect
import types

from stage0_eager import TABLE
from stage1_capture.breaks import resume as resume_functions
from stage1_capture.first import OPERATORS
from stage1_capture.frame import bytecode
from stage1_capture.state.graph_builder import SkipFrame
from stage1_capture.variables.base import realize
from stage1_capture.variables.builder import lazily
from stage1_capture.variables.constant import ConstantVariable
from stage1_capture.variables.operators import call_operator
from stage_contracts.breaks import Unsupported
from stage_contracts.capture import CapturedFrame
from stage_contracts.signature import signature_text
from stage_contracts.source import ArgSource

NOT_PLAIN = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS | inspect.CO_GENERATOR | inspect.CO_COROUTINE


def interpret(output, function, args, kwargs):
    """Straight lines of operators on tensors and constants; any other frame runs in Python as a whole."""
    code = function.__code__

    def skip(what):
        raise SkipFrame(f"{what} is beyond a tiny interpreter", output.start, code="GB0007")

    if kwargs or len(args) != code.co_argcount or code.co_flags & NOT_PLAIN or code.co_freevars:
        skip("this call")
    tx = types.SimpleNamespace(output=output, unsupported=output.unsupported)
    local = {name: lazily(output, arg, ArgSource(name)) for name, arg in zip(code.co_varnames, args)}
    stack = []
    for instruction in bytecode.instructions(code):
        match instruction.opname, instruction.argval:
            case "RESUME" | "NOP", _:
                pass
            case "LOAD_CONST", constant if type(constant) in (int, float):
                stack.append(ConstantVariable(constant))
            case "LOAD_FAST" | "LOAD_FAST_LOAD_FAST", names if {names} < {*local} or {*names} <= {*local}:
                stack += [local[name] for name in (names if isinstance(names, tuple) else [names])]
            case "STORE_FAST", name:
                local[name] = stack.pop()
            case "STORE_FAST_LOAD_FAST", (stored, loaded) if loaded in local:
                local[stored] = stack.pop()
                stack.append(local[loaded])
            case "BINARY_OP", _ if instruction.symbol in OPERATORS:
                right, left = realize(stack.pop()), realize(stack.pop())
                if not (left.is_tensor() or right.is_tensor()) or left.is_open() or right.is_open():
                    skip("arithmetic of Python")
                stack.append(
                    call_operator(tx, TABLE[f"cutaway.{OPERATORS[instruction.symbol]}"], [left, right], {})
                )
            case "RETURN_VALUE", _:
                return realize(stack.pop())
            case name, _:
                skip(name)


def resume(function, code, entry, row=None):
    """The rest of the frame runs in Python: nothing behind a break is compiled."""
    start = bytecode.instructions(code)[entry.index].start
    rest = resume_functions.function_like(function, resume_functions.entered(code, entry, start))
    if row is None:
        return rest, ()
    below = -row.operands - 1  # what would be called in place of the instruction, which Python runs as it is
    return (lambda *state: rest(*state[:below], *state[below + 1 :])), ()


def residualize(output, function, values, finish):
    """Tensors and what the frame was given; a frame that makes or changes anything else is left to Python."""
    outputs, words = {}, []
    at_call = output.options.modes
    done = output.effects, output.draws, output.mutated, output.generators, output.scalars
    if any(done) or output.modes != at_call:
        raise Unsupported("a side effect is beyond a tiny writer", output.start, code="GB0053")
    for value in values:
        value = value and realize(value)
        if value is not None and not isinstance(value.source, (ArgSource, type(None))):
            raise Unsupported("only arguments are handed back here", output.start, code="GB0053")
        if value is None:
            words.append("None")
        elif value.source is not None:
            words.append(value.source.name)
        elif value.is_tensor():
            words.append(f"outputs[{outputs.setdefault(output.node_of(value), len(outputs))}]")
        elif value.is_python_constant() and type(value.value) in (bool, int, type(None), str):
            words.append(repr(value.value))
        else:
            raise Unsupported("such a result is beyond a tiny writer", output.start, code="GB0053")
    lines = []
    if output.graph.has_calls:
        output.graph.output(list(outputs))
        inputs = [node.meta["source"] for node in output.graph.placeholders]
        if function.__code__.co_freevars or output.grad_enabled != output.graph_mode:
            raise Unsupported("a closure is beyond a tiny writer", output.start, code="GB0053")
        lines = [f"outputs = {CapturedFrame.graph_name}({', '.join(s.expression() for s in inputs)})"]
    signature, _ = signature_text(function)
    text = "\n    ".join([f"def residual({signature}):", *lines, finish(words)]) + "\n"
    module = compile(text, "<tiny residual>", "exec")
    return (
        text,
        next(c for c in module.co_consts if isinstance(c, types.CodeType)),
        {"__function__": function},
    )


TINY = {"interpret": interpret, "resume": resume, "residualize": residualize}
