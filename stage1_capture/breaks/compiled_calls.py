"""Calls that run in Python after a break: the functions called there are compiled on their own.

Input: the stack before the instruction. The callable of a CALL, and functions handed to C code that will call them
(`sorted(key=)`, `map`), are replaced by `__compiled_call(function)`.
"""

from __future__ import annotations

import functools
import types
from typing import Any

from stage0_eager.nn import Module
from stage1_capture.breaks.implicit_calls import row_of_call
from stage1_capture.breaks.special_methods import reaching
from stage1_capture.frame.bytecode import Instruction
from stage1_capture.state.graph_builder import is_users
from stage1_capture.variables.base import NULL, Variable
from stage1_capture.variables.function import NestedFunctionVariable, UserFunctionVariable
from stage1_capture.variables.method import UserMethodVariable
from stage1_capture.variables.user_object import UserDefinedObjectVariable
from stage_contracts.class_lookup import class_lookup
from stage_contracts.controls import rule_of

# C functions that call back and forget: what they are handed may be another object.
CALLS_BACK: tuple[Any, ...] = (sorted, map, filter, min, max, functools.reduce)


def called_in_python(output: Any, frame: Any, program: tuple[Instruction, ...]) -> list[Variable]:
    """The frame's stack, with what the next instruction calls compiled on its own."""
    stack = list(frame.stack)
    instruction = next(i for i in program if i.opname not in ("KW_NAMES", "PRECALL"))
    match instruction.opname:
        case "CALL":
            first = len(stack) - instruction.arg - 2
        case "CALL_KW":
            first = len(stack) - instruction.arg - 3
        case "CALL_FUNCTION_EX":
            first = len(stack) - 3 - (instruction.arg & 1)
        case "WITH_EXCEPT_START":
            stack[-4] = _compiled(frame, stack[-4])
            return stack
        case _:
            return stack
    place = first if stack[first + 1] is NULL or stack[first] is not NULL else first + 1
    called = stack[place]
    real = called.known_object()
    arguments = stack[first + 2 :]
    row = row_of_call(real, instruction, arguments) if program[0].opname != "KW_NAMES" else None
    stand_in = row and reaching(row, instruction, arguments)
    if stand_in:
        stack[place] = stand_in
        return stack
    if any(real is known for known in CALLS_BACK):
        back = _called_back(real, frame, instruction, stack, first + 2)
        if back is not None:
            stack[back] = _compiled(frame, stack[back])
        return stack
    stack[place] = _compiled(frame, called)
    return stack


def _called_back(
    real: Any, frame: Any, instruction: Instruction, stack: list[Variable], first: int
) -> int | None:
    """Where the function that C code will call lies: the first argument of map, filter and reduce, else `key`."""
    if instruction.opname == "CALL_FUNCTION_EX":
        return None
    if real in (map, filter, functools.reduce):
        return first if instruction.arg else None
    names, last = frame.keyword_names, len(stack)
    if instruction.opname == "CALL_KW":
        names, last = frame.constant(stack[-1], "a call"), last - 1
    return last - len(names) + names.index("key") if "key" in names else None


def _compiled(frame: Any, called: Variable) -> Variable:
    match called:
        case UserFunctionVariable(real=types.FunctionType() as real) if called.source and (
            is_users(real.__globals__) or getattr(rule_of(real), "kind", None) == "plain"
        ):
            return NestedFunctionVariable(called)
        case UserMethodVariable(function=UserFunctionVariable() as function, receiver=receiver):
            inner = _compiled(frame, function)
            return called if inner is function else UserMethodVariable(inner, receiver)
        case UserDefinedObjectVariable(real=real) if not isinstance(real, type) and called.source is not None:
            python = isinstance(class_lookup(type(real), "__call__"), types.FunctionType)
            method = called.special_method(frame, "__call__") if python else None
            inner_call = method.function if isinstance(method, UserMethodVariable) else None
            if isinstance(inner_call, UserFunctionVariable) and (
                isinstance(real, Module) or is_users(inner_call.globals)
            ):
                return UserMethodVariable(NestedFunctionVariable(inner_call), called)
    return called
