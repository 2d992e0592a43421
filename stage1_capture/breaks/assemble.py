"""Code objects put together from the user's bytecode, with instructions in front of it and behind.

Input: a code object and what breaks/resume.py puts around it. The library `bytecode` writes what is added and the
exception table. The user's bytes stand between as they are: taking a whole function apart for each break, and
together again, took as long as the rest of capture.
"""

from __future__ import annotations

import types
from collections.abc import Iterable
from typing import Any

from stage1_capture.frame.bytecode import Instruction, exception_entries, instructions
from stage_contracts import python_version

if python_version.known():  # the library need not know a newer Python either
    from bytecode import UNSET, ConcreteBytecode, ConcreteInstr
    from bytecode.concrete import ExceptionTableEntry
    from bytecode.instr import InstrLocation

    NOWHERE = InstrLocation(None, None, None, None)  # of no line


def emit(opname: str, arg: int | None = None, location: InstrLocation | None = None) -> list[ConcreteInstr]:
    """One instruction with the inline caches it needs. The library adds prefixes to a large argument."""
    location = location or NOWHERE
    made = ConcreteInstr(opname, UNSET if arg is None else arg, location=location)
    return [made, *(ConcreteInstr("CACHE", 0, location=location) for _ in range(made.use_cache_opcodes()))]


def units(made: Iterable[ConcreteInstr]) -> int:
    """How many code units the instructions take, as jumps and exception tables count."""
    return sum(one.size for one in made) // 2


def again(code: types.CodeType, start: int, end: int, location: InstrLocation) -> list[ConcreteInstr]:
    """A copy of the instructions between two offsets, prefixes and caches included: one element for each unit."""
    whole = ConcreteBytecode.from_code(code.replace(co_code=code.co_code[start:end]), extended_arg=True)
    return [ConcreteInstr(one.name, one.arg, location=location) for one in whole]


def location_of(instruction: Instruction) -> InstrLocation:
    """Its lines and columns."""
    places = instruction.positions
    known = places and places.lineno is not None and places.col_offset is not None
    if not known:
        return NOWHERE
    return InstrLocation(places.lineno, places.end_lineno, places.col_offset, places.end_col_offset)


def assembled(
    code: types.CodeType,
    head: list[ConcreteInstr],
    copied: tuple[Instruction, list[ConcreteInstr]] | None,
    tail: list[ConcreteInstr],
    **fields: Any,
) -> types.CodeType:
    """`code` between `head` and `tail`, with `fields` of it changed.

    copied: a user's instruction and what does the same, in front of `tail`: what that raises goes where it
    would have gone.
    """
    shift = units(head)
    table = [
        ExceptionTableEntry(
            e.start // 2 + shift, e.end // 2 - 1 + shift, e.target // 2 + shift, e.depth, e.lasti
        )
        for e in exception_entries(code)
    ]
    if copied and (handler := copied[0].handler) is not None:
        start, length = shift + len(code.co_code) // 2, units(copied[1])
        target = instructions(code)[handler.target].start // 2 + shift
        table.append(ExceptionTableEntry(start, start + length - 1, target, handler.depth, handler.lasti))
    front = _written(head, code.co_firstlineno, table)
    behind = _written([*(copied[1] if copied else []), *tail], _last_line(code))
    return code.replace(
        **fields,
        co_code=front.co_code + code.co_code + behind.co_code,
        co_linetable=front.co_linetable + code.co_linetable + behind.co_linetable,
        co_exceptiontable=front.co_exceptiontable,
    )


def _written(
    added: list[ConcreteInstr], line: int, table: list[ExceptionTableEntry] | None = None
) -> types.CodeType:
    """The library's code object of some instructions; its lines are counted from `line`."""
    made = ConcreteBytecode(added, exception_table=table)
    made.first_lineno = line
    return made.to_code(stacksize=0, compute_exception_stack_depths=False)


def _last_line(code: types.CodeType) -> int:
    """Where the table of lines stands at its end."""
    lines = [place[0] for place in code.co_positions() if place[0] is not None]
    return lines[-1] if lines else code.co_firstlineno
