"""Code objects put together from the user's instructions, with others in front of them and behind.

Input: a code object and what resume.py puts around it. The library `bytecode` knows the formats: prefixes, inline
caches, the exception table, the table of lines and columns. The user's instructions are moved as they are.
"""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Iterable
from typing import Any

from bytecode import UNSET, ConcreteBytecode, ConcreteInstr
from bytecode.concrete import ExceptionTableEntry
from bytecode.instr import InstrLocation

from stage1_capture.capture.bytecode import Instruction, instructions

NOWHERE = InstrLocation(None, None, None, None)  # of no line


def emit(opname: str, arg: int = UNSET, location: InstrLocation = NOWHERE) -> list[ConcreteInstr]:
    """One instruction with the inline caches it needs. The library adds prefixes to a large argument."""
    made = ConcreteInstr(opname, arg, location=location)
    return [made, *(ConcreteInstr("CACHE", 0, location=location) for _ in range(made.use_cache_opcodes()))]


def units(made: Iterable[ConcreteInstr]) -> int:
    """How far it is over them, as jumps and exception tables count."""
    return sum(one.size for one in made) // 2


def original(code: types.CodeType, start: int, end: int) -> list[ConcreteInstr]:
    """The user's instructions between two offsets, prefixes and caches included."""
    return _taken_apart(code, code.co_filename)[start // 2 : end // 2]


def location_of(code: types.CodeType, instruction: Instruction) -> InstrLocation:
    """Lines and columns of an instruction."""
    return original(code, instruction.end - 2, instruction.end)[0].location or NOWHERE


def assembled(
    code: types.CodeType,
    head: list[ConcreteInstr],
    copied: tuple[Instruction, list[ConcreteInstr]] | None,
    tail: list[ConcreteInstr],
    stacksize: int,
    **fields: Any,
) -> types.CodeType:
    """`code` between `head` and `tail`, with `fields` of it changed (argcount, varnames, consts, flags, ...).

    copied: an instruction of the user's and what does the same, in front of `tail`: what that raises goes where it
    would have gone.
    """
    users = _taken_apart(code, code.co_filename)
    made = copy.copy(users)
    again = copied[1] if copied else []
    made[:] = [*head, *users, *again, *tail]
    shift = units(head)
    made.exception_table = [
        ExceptionTableEntry(
            e.start_offset + shift, e.stop_offset + shift, e.target + shift, e.stack_depth, e.push_lasti
        )
        for e in users.exception_table
    ]
    if copied and (handler := copied[0].handler) is not None:
        start, target = shift + len(users), instructions(code)[handler.target].start // 2 + shift
        entry = ExceptionTableEntry(start, start + units(again) - 1, target, handler.depth, handler.lasti)
        made.exception_table.append(entry)
    for name, value in fields.items():
        setattr(made, name, value)
    return made.to_code(stacksize, compute_exception_stack_depths=False)


@functools.lru_cache(maxsize=256)
def _taken_apart(code: types.CodeType, file: str) -> ConcreteBytecode:
    """One element for each unit of two bytes. Equal code may come from two files."""
    return ConcreteBytecode.from_code(code, extended_arg=True)
