"""Generators as values: a frame of its own that runs from yield to yield.

Input: a call of a generator function. The frame's translator (frame/translator.py) stands still at a YIELD_VALUE and
goes on when the next value is asked for. One that is alive at a break is made again at its yield (breaks/resume.py).
"""

from __future__ import annotations

import builtins
import types
from dataclasses import field
from typing import Any

from stage1_capture.state import entry
from stage1_capture.state.graph_builder import is_users
from stage1_capture.state.machine import Raised
from stage1_capture.variables.base import NULL, Variable, realize
from stage1_capture.variables.constant import NONE, ConstantVariable
from stage1_capture.variables.exception import (
    ExceptionVariable,
    OuterExceptionVariable,
    RaisingPlaceVariable,
    new_exception,
    set_context,
)
from stage1_capture.variables.function import CellVariable, UserFunctionVariable
from stage1_capture.variables.iterator import IteratorVariable


class GeneratorVariable(IteratorVariable):
    """state: "created", "suspended", "running" or "closed"."""

    frame: Any = None  # frame/translator.py's translator
    state: str = "created"
    # exceptions its except blocks were handling at the yield
    handled: list[Any] = field(default_factory=list)
    stands_for = types.GeneratorType

    def advance(self, tx: Any) -> Variable | None:
        try:
            return self.send(tx, NONE)
        except Raised as raised:
            if not isinstance(raised.value.real, StopIteration) or self.state != "closed":
                raise
            tx.resume_here()
            return None

    def send(self, tx: Any, value: Variable) -> Variable:
        """What it yields next. Raises StopIteration with its return value at the end."""
        frame = self._frame(tx)
        if self.state == "closed":
            tx.throw(StopIteration)
        if self.state == "created" and not realize(value).is_none():
            tx.throw(TypeError, "can't send non-None value to a just-started generator")
        if self.state == "suspended":
            frame.push(value)
        return self._run(tx)

    def throw(self, tx: Any, raised: ExceptionVariable) -> Variable:
        """Raise at the yield it stands at."""
        frame = self._frame(tx)
        if self.state == "closed":
            raise Raised(raised)
        if self.state == "created":
            self.state = "closed"
            raise Raised(raised)
        if frame.program[frame.index - 2].opname == "SEND":
            tx.unsupported("GB0033", "an exception thrown into a yield from")
        return self._run(tx, raised)

    def close(self, tx: Any) -> Variable:
        if self.state == "suspended":
            try:
                ended = new_exception(tx.output, GeneratorExit, [])
                set_context(tx.output, ended)
                self.throw(tx, ended)
            except Raised as raised:
                tx.resume_here()
                if not isinstance(raised.value.real, (GeneratorExit, StopIteration)):
                    raise
            else:
                tx.throw(RuntimeError, "generator ignored GeneratorExit")
        self.state = "closed"
        return NONE

    def _frame(self, tx: Any) -> Any:
        if self.state == "running":
            tx.throw(ValueError, "generator already executing")
        return self.frame

    def _run(self, tx: Any, raised: ExceptionVariable | None = None) -> Variable:
        frame, output = self._frame(tx), tx.output
        base = len(output.exceptions)
        output.exceptions += self.handled
        self.state = "running"
        frame.yielded = None
        frame.enter()
        try:
            if raised is not None:
                frame.index -= 1
                instruction = frame.current = frame.program[frame.index]
                frame.index += 1
                if not frame.handle(instruction, raised):
                    raise Raised(raised)
            while frame.yielded is None and frame.result is None:
                frame.step()
        except Raised as left:
            self.state = "closed"
            del output.exceptions[base:]
            if isinstance(left.value.real, StopIteration):  # up to 3.11 the frame does not do it itself
                error = new_exception(
                    output, RuntimeError, [ConstantVariable("generator raised StopIteration")]
                )
                error.cause = error.context = left.value
                error.suppress = True
                raise Raised(error) from None
            raise
        output.frames.pop()
        self.handled = output.exceptions[base:]
        del output.exceptions[base:]
        if frame.result is not None:
            self.state = "closed"
            args = [] if realize(frame.result).is_none() else [frame.result]
            ended = new_exception(output, StopIteration, args)
            set_context(output, ended)
            raise Raised(ended)
        self.state = "suspended"
        assert frame.yielded is not None
        return frame.yielded

    def inside_a_block(self) -> bool:
        """Whether it stands in a try or with block that does something when the generator is dropped."""
        program = self.frame.program
        handler = program[self.frame.index - 1].handler if self.state == "suspended" else None
        while handler is not None and program[handler.target].opname != "CALL_INTRINSIC_1":  # StopIteration's
            after = _passing_on(self.frame, handler.target)
            if after is None:
                return True
            handler = program[after].handler
        return False

    def parts(self) -> list[Variable]:
        frame = self.frame
        held = (*frame.locals.values(), *frame.stack)
        values = [v for v in held if v is not NULL and not isinstance(v, OuterExceptionVariable)]
        return values if self.state == "suspended" else [*values, frame.function]

    def rebuild(self, r: Any) -> str | None:
        frame = self.frame
        if self.state == "closed":
            return "(_ for _ in ())"
        if (
            self.handled
            or self.state == "running"
            or any(isinstance(v, (OuterExceptionVariable, RaisingPlaceVariable)) for v in frame.stack)
        ):
            return None
        if self.state == "created":
            return self._call(r, frame)
        code = frame.function.code
        layout = tuple(entry.NULL if v is NULL else entry.VALUE for v in frame.stack)
        index = frame.index - 1  # the YIELD_VALUE, which takes one more
        names = entry.slots(code)
        unbound = frozenset(n for n in names if n not in frame.locals)
        place = entry.Entry(index, (*layout, entry.VALUE), unbound)
        make = r.resume.generator_function(frame.function, code, place)
        values = [r.expression(frame.locals[n]) if n in frame.locals else "None" for n in names]
        values += [r.expression(v) for v in frame.stack if v is not NULL]
        name = r.name(self, f"{r.named(make)}({', '.join([*values, 'None'])})")
        r.lines += [
            f"next({name})",
            *(f"{name}.{word} = {text!r}" for word, text in _names(frame.function).items()),
        ]
        return name

    def _call(self, r: Any, frame: Any) -> str:
        """A generator that has not begun: its function is called again."""
        function: UserFunctionVariable = frame.function
        code = function.code
        count = code.co_argcount
        words = [r.expression(_plain(frame.locals[n])) for n in code.co_varnames[:count]]
        last = count + code.co_kwonlyargcount
        keywords = [f"{n}={r.expression(_plain(frame.locals[n]))}" for n in code.co_varnames[count:last]]
        for flag, star in ((4, "*"), (8, "**")):
            if code.co_flags & flag:
                (words if star == "*" else keywords).append(
                    star + r.expression(_plain(frame.locals[code.co_varnames[last]]))
                )
                last += 1
        return f"{r.expression(function)}({', '.join([*words, *keywords])})"


def _names(function: UserFunctionVariable) -> dict[str, str]:
    """The names that a function was given after its `def`, which its generators have too."""
    real, made = function.real, {"__name__": function.name, "__qualname__": function.code.co_qualname}
    named = made if real is None else {word: getattr(real, word) for word in made}
    given = {word: realize(value) for word, value in function.attrs.items() if word in made}
    named = {**named, **{word: value.as_constant() for word, value in given.items()}}
    return {word: text for word, text in named.items() if text != made[word]}


def _passing_on(frame: Any, index: int) -> int | None:
    """Where a handler that begins at `index` passes on the GeneratorExit of a dropped generator, having done nothing:
    that of a `yield from`, and `except` clauses of the library for other exceptions. None if it may do something."""
    program, names = frame.program, frame.function.globals
    if program[index].opname in ("CLEANUP_THROW", "COPY"):  # COPY, POP_EXCEPT, RERAISE: after the clauses
        return index if program[index].opname == "CLEANUP_THROW" else index + 2
    if program[index].opname != "PUSH_EXC_INFO" or is_users(names):
        return None
    index += 1
    while (program[index].opname, program[index + 1].opname) == ("LOAD_GLOBAL", "CHECK_EXC_MATCH"):
        name = program[index].argval
        kind = None if name in names else getattr(builtins, name, None)
        if not isinstance(kind, type) or issubclass(GeneratorExit, kind):
            return None
        index = program[index + 2].target
    return index if program[index].opname == "RERAISE" else None


def _plain(value: Variable) -> Variable:
    return value.contents if isinstance(value, CellVariable) and value.contents is not None else value
