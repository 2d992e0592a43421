"""The one file that touches CPython's bytecode: a code object as a list of instructions with their places.

Input: a code object. `dis` decodes it; what differs between versions beyond the opcodes themselves (jump
targets, exception tables, columns in bytes) is made equal here. opcodes*.py give the instructions their
meaning.
"""

from __future__ import annotations

import dis
import functools
import types
from dataclasses import dataclass
from typing import Any

from stage_contracts.origin import Origin, origin_of
from stage_contracts.python_version import VERSION

__all__ = ["VERSION", "Handler", "Instruction", "exception_entries", "instructions"]


@dataclass(frozen=True)
class Instruction:
    """One instruction. `target` is the index of the instruction it may jump to."""

    opname: str
    arg: int
    argval: Any
    symbol: str  # "+", "+=", "<" of operators
    target: int
    start: int  # where it begins in co_code, with its prefixes,
    end: int  # and where the next one does
    handler: Handler | None  # where an exception raised here goes
    code: types.CodeType
    positions: Any

    @functools.cached_property
    def origin(self) -> Origin:
        """Its source expression: looked up when a node, a guard or a break first asks."""
        return origin_of(self.code, self.positions)


@dataclass(frozen=True)
class Handler:
    """An entry of the exception table: the stack is cut to `depth`, then `lasti` (if asked for) and the exception
    are pushed, and the instruction at index `target` is next."""

    target: int
    depth: int
    lasti: bool


def instructions(code: types.CodeType) -> tuple[Instruction, ...]:
    """All instructions of a code object, inline caches and prefixes left out."""
    return _decode(code, code.co_filename)  # equal code may come from two files


@functools.lru_cache(maxsize=512)
def _decode(code: types.CodeType, file: str) -> tuple[Instruction, ...]:
    decoded = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG")]
    # A jump may land on the EXTENDED_ARG in front of an instruction: the next real one is meant.
    places = [i.offset for i in decoded]
    raw = code.co_code  # made anew at each look
    index_of: dict[int, int] = {}
    starts: list[int] = []
    previous = -1
    for index, place in enumerate(places):
        for offset in range(previous + 1, place + 1):
            index_of[offset] = index
        previous = place
        prefixed = place
        while prefixed >= 2 and raw[prefixed - 2] == _EXTENDED:
            prefixed -= 2
        starts.append(prefixed)
    twice = {*code.co_varnames} & {*code.co_freevars}
    handlers = [
        (entry.start, entry.end, Handler(index_of[entry.target], entry.depth, bool(entry.lasti)))
        for entry in exception_entries(code)
    ]
    return tuple(
        Instruction(
            i.opname,
            i.arg or 0,
            _with_own_name(code, i) if twice else i.argval,
            i.argval.removeprefix("bool(").removesuffix(")") if i.opname == "COMPARE_OP" else i.argrepr,
            index_of[i.argval] if i.opcode in _JUMPS else -1,
            starts[index],
            starts[index + 1] if index + 1 < len(starts) else len(raw),
            next((h for start, end, h in handlers if start <= i.offset < end), None),
            code,
            i.positions,
        )
        for index, i in enumerate(decoded)
    )


def _with_own_name(code: types.CodeType, i: dis.Instruction) -> Any:
    """What an instruction is about. From 3.12 on a class body with a comprehension may have a variable beside a cell
    of the same name, and only their slots tell them apart: the variable gets a name of its own."""
    if i.opcode not in _LOCALS or i.arg is None:
        return i.argval
    several = isinstance(i.argval, tuple)
    slots = (i.arg >> 4, i.arg & 15) if several else (i.arg,)
    names = [
        f"{name} of a comprehension" if slot < code.co_nlocals and name in code.co_freevars else name
        for slot, name in zip(slots, i.argval if several else (i.argval,), strict=True)
    ]
    return tuple(names) if several else names[0]


@functools.lru_cache(maxsize=512)
def exception_entries(code: types.CodeType) -> tuple[Any, ...]:
    """The exception table: start, end, target (offsets), depth, lasti of each protected region."""
    return tuple(dis.Bytecode(code).exception_entries)  # type: ignore[attr-defined]


_EXTENDED = dis.opmap["EXTENDED_ARG"]
_LOCALS = {*dis.haslocal}
_JUMPS = {*dis.hasjrel, *dis.hasjabs}
