"""InstructionTranslator: one frame run symbolically, instruction by instruction, on abstract values.

Input: a function as an abstract value and its bound arguments. The opcode tables say what each instruction
does; a call of a Python function runs a translator inside this one, which is all that inlining is.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from stage1_capture.capture import bytecode
from stage1_capture.capture.builder import lazily, wrap
from stage1_capture.capture.output_graph import OutputGraph, is_library
from stage1_capture.capture.variables import (
    CellVariable,
    NotConstant,
    TensorVariable,
    UserFunctionVariable,
    Variable,
    as_constant,
    describe,
    realize,
)
from stage_contracts.source import GlobalSource, ItemSource, Source

MAX_DEPTH = 60  # inlined calls inside each other
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

Handler = Callable[["InstructionTranslator", bytecode.Instruction], None]

# What a person calls the instructions nobody handles; anything else is named by its opcode.
_CONSTRUCTS = {
    "BEFORE_WITH": "a with block",
    "BEFORE_ASYNC_WITH": "an async with block",
    "IMPORT_NAME": "an import statement",
    "LOAD_BUILD_CLASS": "a class definition",
    "RAISE_VARARGS": "a raise (or a failed assert)",
    "LOAD_ASSERTION_ERROR": "a failed assert",
    "MATCH_CLASS": "a match statement",
    "MATCH_MAPPING": "a match statement",
    "MATCH_SEQUENCE": "a match statement",
    "DELETE_SUBSCR": "a del of an item",
    "STORE_SLICE": "an assignment to a slice",
}
_EFFECTS = {
    "STORE_GLOBAL": "an assignment to a global",
    "DELETE_GLOBAL": "a del of a global",
    "DELETE_ATTR": "a del of an attribute",
}


class InstructionTranslator:
    """One frame: its stack, its locals (cells included), and where it is."""

    def __init__(
        self,
        output: OutputGraph,
        table: Mapping[str, Handler],
        function: UserFunctionVariable,
        locals_: dict[str, Variable],
    ) -> None:
        self.output, self.table, self.function = output, table, function
        self.locals = locals_
        self.locals.update(zip(function.code.co_freevars, function.closure))
        self.stack: list[Variable] = []
        self.current: bytecode.Instruction | None = None
        self.index = 0
        self.keyword_names: tuple[str, ...] = ()  # set by KW_NAMES for the CALL that follows
        self.result: Variable | None = None

    def run(self) -> Variable:
        """Interpret to the return. Raises Unsupported at the first thing that cannot be done."""
        if self.function.code.co_flags & _GENERATORS:
            self.unsupported("GB0001", f"{self.function.name} is a generator or a coroutine")
        if len(self.output.frames) >= MAX_DEPTH:
            self.unsupported("GB0001", f"more than {MAX_DEPTH} calls inside each other")
        program = bytecode.instructions(self.function.code)
        self.output.frames.append(self)
        while self.result is None:
            instruction = self.current = program[self.index]
            self.index += 1
            self.output.count_step()
            handler = self.table.get(instruction.opname)
            if instruction.protected:
                self.unsupported("GB0001", "a try block")
            if handler is None:
                self._unknown(instruction.opname)
            handler(self, instruction)
        self.output.frames.pop()  # not in a finally: a break asks the frames where it happened
        return self.result

    def _unknown(self, opname: str) -> NoReturn:
        if opname in _EFFECTS:
            self.unsupported("GB0006", _EFFECTS[opname])
        self.unsupported("GB0001", _CONSTRUCTS.get(opname, f"the instruction {opname}"))

    def unsupported(self, code: str, reason: str, hint: str = "") -> NoReturn:
        self.output.unsupported(code, reason, hint)

    # ---- the stack -------------------------------------------------------------------------------

    def push(self, value: Variable) -> None:
        self.stack.append(realize(value))

    def pop(self) -> Variable:
        return self.stack.pop()

    def popn(self, count: int) -> list[Variable]:
        """The last `count` values, deepest first."""
        taken = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return taken

    def constant(self, value: Variable, what: str) -> Any:
        """A value that must be known now."""
        try:
            return as_constant(value)
        except NotConstant as problem:
            culprit = problem.args[0]
            code = "GB0004" if isinstance(culprit, TensorVariable) else "GB0001"
            self.unsupported(code, f"{what} needs a constant, got {describe(culprit)}")

    # ---- names -----------------------------------------------------------------------------------

    def load_global(self, name: str) -> Variable:
        """A global of the frame's module or a builtin. Those of the library's own modules need no guard."""
        module = self.function.globals
        builtins = module.get("__builtins__", {})
        builtins = builtins if isinstance(builtins, dict) else vars(builtins)
        known = is_library(module)
        if name in module:
            return wrap(self.output, module[name], None if known else self._global_source(name))
        if name in builtins:
            source = None if known else self._global_source(name)
            if isinstance(source, ItemSource):  # a plain dict, without the builtins behind it as G has them
                self.output.guard("ABSENT_KEY", source.base, name)
                source = None
            return wrap(self.output, builtins[name], source)
        self.unsupported("GB0001", f"the name {name} is not defined")

    def _global_source(self, name: str) -> Source:
        root = self.output.frames[0].function
        if self.function.globals is root.globals and "G" not in (
            *root.code.co_varnames,
            *root.code.co_freevars,
        ):
            return GlobalSource(name)
        if self.function.globals_source is None:
            self.unsupported("GB0001", f"the globals of {self.function.name} cannot be reached again")
        return ItemSource(self.function.globals_source, name)

    def load_cell(self, name: str) -> Variable:
        cell = self.locals.get(name)
        if not isinstance(cell, CellVariable) or cell.contents is None:
            self.unsupported("GB0001", f"the variable {name} is not assigned yet")
        return cell.contents

    def lazily(self, real: Any, source: Source | None) -> Variable:
        return lazily(self.output, real, source)
