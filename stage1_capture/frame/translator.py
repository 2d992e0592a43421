"""InstructionTranslator: one frame run symbolically, instruction by instruction, on abstract values.

Input: a function as an abstract value and its bound arguments. The opcode tables say what each instruction
does; a call of a Python function runs a translator inside this one, which is all that inlining is.
"""

from __future__ import annotations

import inspect
import linecache
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from stage1_capture.frame import bytecode
from stage1_capture.state import entry
from stage1_capture.state.entry import users_code
from stage1_capture.state.graph_builder import OutputGraph, is_library, is_users
from stage1_capture.state.machine import Args, Kwargs, Raised, Tx
from stage1_capture.state.side_effects import DELETED
from stage1_capture.variables.arithmetic import compare, fold
from stage1_capture.variables.base import (
    NULL,
    LazyVariable,
    NotConstant,
    Variable,
    as_constant,
    from_constant,
    realize,
)
from stage1_capture.variables.builder import lazily, wrap
from stage1_capture.variables.constant import NONE
from stage1_capture.variables.exception import (
    ExceptionVariable,
    OuterExceptionVariable,
    RaisingPlaceVariable,
    new_exception,
    set_context,
)
from stage1_capture.variables.function import CellVariable, UserFunctionVariable
from stage1_capture.variables.generator import GeneratorVariable
from stage1_capture.variables.mapping import ConstDictVariable
from stage1_capture.variables.sequence import TupleVariable
from stage_contracts import events
from stage_contracts.controls import register
from stage_contracts.events import EVENT_LOG
from stage_contracts.source import GlobalSource, ItemSource, RegisteredSource, Source

MAX_DEPTH = 60  # inlined calls inside each other
_GENERATORS = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR

Handler = Callable[["InstructionTranslator", bytecode.Instruction], None]

# What a person calls the instructions nobody handles; anything else is named by its opcode.
_CONSTRUCTS = {
    "BEFORE_ASYNC_WITH": "an async with block",
    "CHECK_EG_MATCH": "an except* block",
    "GET_AWAITABLE": "an await",
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
        self.current: bytecode.Instruction | None = None
        self.traced_line: tuple[str, int] = ("", 0)  # the last that a log was told of
        self.keyword_names: tuple[str, ...] = ()  # set by KW_NAMES for the CALL that follows
        self.result: Variable | None = None
        self.namespace: dict[str, Variable] | None = None  # of a class body: what it has stored
        derived = entry.users_code(function.code)
        self.program = bytecode.instructions(derived.code)
        self.index = derived.entry.index
        self.stack = [self._entered_with(*slot) for slot in enumerate(derived.entry.layout)]
        for name in derived.entry.unbound:
            self.locals.pop(name, None)

    @property
    def is_root(self) -> bool:
        return self.output.frames[0] is self

    def _entered_with(self, index: int, kind: str) -> Variable:
        """A slot of the stack of a frame that is entered in its middle."""
        if kind == entry.NULL:
            return NULL
        if kind == entry.ENDED:
            return OuterExceptionVariable(NONE, active=False)
        if kind.startswith(entry.PLACE):
            return RaisingPlaceVariable(int(kind.removeprefix(entry.PLACE)))
        value = realize(self.locals[entry.stack_name(index)])
        if kind != entry.OUTER:
            return value
        self.output.exceptions.append(value)
        return OuterExceptionVariable(value)

    def run(self) -> Variable:
        """Interpret to the return. Raises Unsupported at the first thing that cannot be done, Raised for an
        exception that no handler of the frame takes."""
        if self.function.code.co_flags & _GENERATORS and not self.is_generator:
            self.unsupported("GB0031", f"{self.function.name} is a generator or a coroutine")
        self.enter()
        while self.result is None:
            self.step()
        self.output.frames.pop()  # not in a finally: a break asks the frames where it happened
        return self.result

    is_generator = False

    def enter(self) -> None:
        if len(self.output.frames) >= MAX_DEPTH:
            self.unsupported("GB0035", f"more than {MAX_DEPTH} calls inside each other")
        self.output.frames.append(self)

    def step(self) -> None:
        """One instruction. What it raises goes to the handler of the exception table, or leaves the frame."""
        output = self.output
        if output.frames[0] is self:
            output.begin_root_step()
        instruction = self.current = self.program[self.index]
        self.index += 1
        output.count_step()
        if EVENT_LOG.tracing:
            trace(self)
        handler = self.table.get(instruction.opname)
        if handler is None:
            self.unsupported(
                "GB0001", _CONSTRUCTS.get(instruction.opname, f"the instruction {instruction.opname}")
            )
        try:
            handler(self, instruction)
        except Raised as raised:
            if not self.handle(instruction, raised.value):
                raise

    def handle(self, instruction: bytecode.Instruction, raised: ExceptionVariable) -> bool:
        """Unwind to the handler of the instruction that raised, if it has one."""
        if raised.place is None:
            raised.place = (self.output.root_steps, self.output.origin())
        self.resume_here()
        raised.passed.append(instruction)
        place = instruction.handler
        if place is None:
            return False
        del self.stack[place.depth :]
        if place.lasti:
            self.push(RaisingPlaceVariable(instruction.start))
        self.push(raised)
        self.index = place.target
        return True

    def resume_here(self) -> None:
        """Frames inside this one are left: an exception of theirs was taken here."""
        while self.output.frames[-1] is not self:
            self.output.frames.pop()

    def unsupported(self, code: str, reason: str) -> NoReturn:
        self.output.unsupported(code, reason)

    # ---- what values ask of the frame they are used in (state/machine.py) ------------------------

    def call(self, function: Variable, args: Args, kwargs: Kwargs) -> Variable:
        return function.call_function(self, args, kwargs)

    def inline(self, function: Any, args: Args, kwargs: Kwargs) -> Variable:
        """What the function returns: its frame shares this one's graph, guards and opcodes.

        Raises Unsupported when the call does not fit, or for anything inside."""
        if self.output.options.plain and is_users(function.globals):
            root = self.output.frames[0].function
            self.unsupported("GB0020", f"{root.name} is disabled, {function.name} is not")
        bound = bind_arguments(self, function, args, kwargs)
        if function.code.co_flags & inspect.CO_GENERATOR:
            return begin(self, function, bound)
        return InstructionTranslator(self.output, self.table, function, bound).run()

    def class_body(self, body: UserFunctionVariable) -> dict[str, Variable]:
        frame = InstructionTranslator(self.output, self.table, body, {})
        frame.namespace = {}
        frame.run()
        return frame.namespace

    def fold(self, function: Callable[..., Any], args: Args, kwargs: Kwargs) -> Variable:
        return fold(self, function, args, kwargs)

    def compare(self, symbol: str, left: Variable, right: Variable) -> Variable:
        return compare(self, symbol, left, right)

    def wrap(self, real: Any, source: Source | None) -> Variable:
        return wrap(self.output, real, source)

    def push(self, value: Variable) -> None:
        self.stack.append(realize(value) if type(value) is LazyVariable else value)

    def pop(self) -> Variable:
        return self.stack.pop()

    def popn(self, count: int) -> list[Variable]:
        """The last `count` values, deepest first."""
        taken = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        return taken

    def constant(self, value: Variable, what: str) -> Any:
        try:
            return as_constant(value)
        except NotConstant as problem:
            culprit = problem.args[0]
            code = "GB0004" if culprit.has_data() else "GB0044"
            self.unsupported(code, f"{what} needs a constant, got {culprit.describe()}")

    def throw(self, cls: type[BaseException], *args: Any, **attributes: Variable) -> NoReturn:
        made = new_exception(self.output, cls, [from_constant(a) for a in args])
        made.attrs.update(attributes)
        set_context(self.output, made)
        raise Raised(made)

    def load_global(self, name: str) -> Variable:
        """A global of the frame's module or a builtin. Those of the library's own modules need no guard."""
        module = self.function.globals
        stored = self.output.effects.global_of(module, name)
        if stored is not None and stored is not DELETED:
            return stored
        builtins = module.get("__builtins__", {})
        builtins = builtins if isinstance(builtins, dict) else vars(builtins)
        known = is_library(module)
        if name in module and stored is not DELETED:
            return wrap(self.output, module[name], None if known else self._global_source(name))
        if name in builtins:
            source = None if known else self._global_source(name)
            if isinstance(source, ItemSource):  # a plain dict, without the builtins behind it as G has them
                self.output.guard("ABSENT_KEY", source.base, name)
                source = None
            return wrap(self.output, builtins[name], source)
        self.throw(NameError, f"name {name!r} is not defined", name=from_constant(name))

    def _global_source(self, name: str) -> Source:
        root = self.output.frames[0].function
        shadowed = "G" in (*root.code.co_varnames, *root.code.co_freevars)
        if self.function.globals is root.globals and not shadowed:
            return GlobalSource(name)
        place = self.function.globals_source or RegisteredSource(register(self.function.globals))
        return ItemSource(place, name)

    def cell(self, name: str) -> CellVariable:
        """The cell of a variable; a resume function is given it as an argument."""
        found = realize(self.locals[name])
        return found  # type: ignore[return-value]

    def load_cell(self, name: str) -> Variable:
        cell = self.cell(name)
        if cell.contents is None:
            if name in users_code(self.function.code).code.co_freevars:
                words = f"cannot access free variable {name!r} where it is not associated with a value"
                self.throw(NameError, f"{words} in enclosing scope", name=from_constant(name))
            self.throw(UnboundLocalError, unassigned(name))
        return realize(cell.contents)

    def lazily(self, real: Any, source: Source | None) -> Variable:
        return lazily(self.output, real, source)


def unassigned(name: str) -> str:
    """Python's message for a local that is read before it is assigned."""
    return f"cannot access local variable {name!r} where it is not associated with a value"


class GeneratorTranslator(InstructionTranslator):
    """A generator's frame. `yielded` is set by YIELD_VALUE."""

    is_generator = True
    yielded: Variable | None = None


def begin(tx: InstructionTranslator, function: UserFunctionVariable, bound: dict[str, Variable]) -> Variable:
    """The generator, before its first instruction has run."""
    if function.code in tx.output.options.dropped:
        tx.unsupported("GB0032", f"{function.name} is dropped inside its try or with block")
    made = GeneratorVariable(frame=GeneratorTranslator(tx.output, tx.table, function, bound))
    tx.output.generators.append(made)
    return made


def bind_arguments(
    tx: Tx,
    function: UserFunctionVariable,
    args: list[Variable],
    kwargs: dict[str, Variable],
) -> dict[str, Variable]:
    """The callee's first locals, by Python's rules. A call that Python rejects is a break."""
    code = function.code
    positional = code.co_varnames[: code.co_argcount]
    keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    stars = iter(code.co_varnames[code.co_argcount + code.co_kwonlyargcount :])
    by_position_only = positional[: code.co_posonlyargcount]

    bound = dict(zip(positional, args))
    surplus = args[len(positional) :]
    if code.co_flags & inspect.CO_VARARGS:
        bound[next(stars)] = TupleVariable(list(surplus))
    elif surplus:
        _does_not_fit(tx, function, f"{len(args)} positional arguments for {len(positional)} parameters")

    unknown: dict[str, Variable] = {}
    for name, value in kwargs.items():
        if name in bound and name in positional and name not in by_position_only:
            _does_not_fit(tx, function, f"two values for {name}")
        if name in keyword_only or (name in positional and name not in by_position_only):
            bound[name] = value
        else:
            unknown[name] = value
    if code.co_flags & inspect.CO_VARKEYWORDS:
        bound[next(stars)] = ConstDictVariable(unknown)
    elif unknown:
        _does_not_fit(tx, function, f"no parameter {next(iter(unknown))}")

    first_default = len(positional) - len(function.defaults)
    defaults = dict(zip(positional[first_default:], function.defaults)) | function.kwdefaults
    for name in (*positional, *keyword_only):
        if name not in bound:
            if name not in defaults:
                _does_not_fit(tx, function, f"no value for {name}")
            bound[name] = defaults[name]
    return bound


def _does_not_fit(tx: Tx, function: UserFunctionVariable, why: str) -> None:
    tx.unsupported("GB0065", f"the call does not fit {function.name}: {why}")


def trace(frame: Any) -> None:
    """Record the instruction that comes next, and its line where that is another one than before. The library's own
    code, which is inlined as any other, is left out."""
    if not is_users(frame.function.globals):
        return
    instruction = frame.current
    function, origin = frame.function, instruction.origin
    line = (origin.file, origin.line)
    if line != frame.traced_line:
        frame.traced_line = line
        source = linecache.getline(*line).rstrip() or f"    {origin.text}"
        depth = len(frame.output.frames) - 1
        inlined = f" (inlined, depth {depth})" if depth else ""
        text = f"TRACE starts_line {line[0]}:{line[1]} in {function.name}{inlined}\n{source}"
        events.record("trace", "source", origin=origin, text=text)
    value = instruction.symbol or (str(instruction.arg) if instruction.arg else "")
    stack = ", ".join(type(slot).__name__ for slot in frame.stack)
    words = " ".join(filter(None, ("TRACE", instruction.opname, value, f"[{stack}]")))
    events.record("trace", "bytecode", origin=origin, text=words)
