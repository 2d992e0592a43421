"""The one file that touches CPython's bytecode: a code object as a list of instructions with their places.

Input: a code object. `dis` decodes it; what differs between versions beyond the opcodes themselves (jump
targets, exception tables, columns in bytes) is made equal here. opcodes*.py give the instructions their
meaning.
"""

from __future__ import annotations

import dis
import functools
import linecache
import sys
import types
from dataclasses import dataclass
from typing import Any

from stage_contracts.origin import Origin

SUPPORTED = ((3, 11), (3, 12), (3, 13))
VERSION = sys.version_info[:2]


@dataclass(frozen=True)
class Instruction:
    """One instruction. `target` is the index of the instruction it may jump to."""

    opname: str
    arg: int
    argval: Any
    symbol: str  # "+", "+=", "<" of operators
    target: int
    origin: Origin
    protected: bool  # inside a try or with block


def instructions(code: types.CodeType) -> tuple[Instruction, ...]:
    """All instructions of a code object, inline caches and prefixes left out."""
    return _decode(code, code.co_filename)  # equal code may come from two files


@functools.lru_cache(maxsize=512)
def _decode(code: types.CodeType, file: str) -> tuple[Instruction, ...]:
    decoded = [i for i in dis.get_instructions(code) if i.opname not in ("CACHE", "EXTENDED_ARG")]
    # A jump may land on the EXTENDED_ARG in front of an instruction: the next real one is meant.
    starts = [i.offset for i in decoded]
    index_of: dict[int, int] = {}
    for index, start in enumerate(starts):
        for offset in range(starts[index - 1] + 1 if index else 0, start + 1):
            index_of[offset] = index
    opname_at = {i.offset: i.opname for i in decoded}
    # A handler that begins with PUSH_EXC_INFO is an except, finally or with; others only tidy up the stack.
    blocks = [
        (entry.start, entry.end)
        for entry in dis.Bytecode(code).exception_entries  # type: ignore[attr-defined]
        if opname_at.get(entry.target) == "PUSH_EXC_INFO"
    ]
    return tuple(
        Instruction(
            i.opname,
            i.arg or 0,
            i.argval,
            i.argval if i.opname == "COMPARE_OP" else i.argrepr,
            index_of[i.argval] if i.opcode in _JUMPS else -1,
            _origin(code, i.positions),
            any(start <= i.offset < end for start, end in blocks),
        )
        for i in decoded
    )


_JUMPS = {*dis.hasjrel, *dis.hasjabs}


def _origin(code: types.CodeType, positions: Any) -> Origin:
    """An instruction's source expression. CPython counts columns in UTF-8 bytes, an Origin in characters."""
    line = (positions and positions.lineno) or code.co_firstlineno
    if not positions or positions.col_offset is None or positions.end_col_offset is None:
        return Origin(code.co_filename, line)
    last = positions.end_lineno or line
    lines = [linecache.getline(code.co_filename, n).rstrip("\n") for n in range(line, last + 1)]
    start = _characters(lines[0], positions.col_offset)
    end = _characters(lines[-1], positions.end_col_offset)
    if line == last:
        return Origin(code.co_filename, line, lines[0][start:end], start, end)
    words = [lines[0][start:], *lines[1:-1], lines[-1][:end]]
    text = " ".join(word.strip() for word in words)
    if lines[0].rstrip().endswith(":"):  # a with block, a class: its first line says it
        text = lines[0][start:].rstrip()
    return Origin(code.co_filename, line, text, start, len(lines[0]))


def _characters(line: str, column: int) -> int:
    return len(line.encode()[:column].decode(errors="ignore"))
