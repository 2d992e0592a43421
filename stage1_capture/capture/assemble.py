"""Bytes of CPython's bytecode: instructions with prefixes and caches, exception tables, location tables.

Input: what resume.py puts in front of the user's code and behind it. The formats are those of CPython's
`Objects/exception_handling_notes.txt` and `Objects/locations.md`, the same in 3.11, 3.12 and 3.13.
"""

from __future__ import annotations

import dis
import opcode
import types
from collections.abc import Iterable

from stage1_capture.capture.bytecode import Instruction


def emit(opname: str, arg: int = 0) -> bytes:
    """One instruction, with the EXTENDED_ARG prefixes and the inline caches it needs."""
    parts = arg.to_bytes(4, "big").lstrip(b"\0") or b"\0"
    prefixes = b"".join(bytes((dis.opmap["EXTENDED_ARG"], part)) for part in parts[:-1])
    return prefixes + bytes((dis.opmap[opname], parts[-1])) + bytes(2 * _caches(opname))


def _caches(opname: str) -> int:
    table = opcode._inline_cache_entries  # type: ignore[attr-defined]
    return table.get(opname, 0) if isinstance(table, dict) else table[dis.opmap[opname]]


def exception_table(entries: Iterable[tuple[int, int, int, int, bool]]) -> bytes:
    """Entries of (start, end, target, depth, lasti), in bytes, as CPython stores them: sorted, in code units."""
    out = b""
    for start, end, target, depth, lasti in sorted(entries):
        fields = (start // 2, (end - start) // 2, target // 2, depth << 1 | lasti)
        entry = b"".join(map(_big_endian, fields))
        out += bytes((entry[0] | 128,)) + entry[1:]
    return out


def _big_endian(value: int) -> bytes:
    """Six bits a byte, the highest first; bit 6 says that more follow."""
    parts = [value & 63]
    while value := value >> 6:
        parts.append(value & 63 | 64)
    return bytes(reversed(parts))


def _little_endian(value: int) -> bytes:
    parts = []
    while value > 63:
        parts.append(value & 63 | 64)
        value >>= 6
    return bytes((*parts, value))


def _signed(value: int) -> bytes:
    return _little_endian(-value << 1 | 1 if value < 0 else value << 1)


def no_location(units: int) -> bytes:
    """Location entries for `units` code units that belong to no line."""
    return b"".join(bytes((128 | 15 << 3 | min(8, units - at) - 1,)) for at in range(0, units, 8))


def location(code: types.CodeType, units: int, instruction: Instruction | None) -> bytes:
    """Entries behind those of `code`: `units` code units that stand where `instruction` does."""
    if instruction is None or not units:
        return no_location(units)
    places = list(code.co_positions())
    line = next((p[0] for p in reversed(places) if p[0] is not None), code.co_firstlineno)
    first, last, column, end_column = places[instruction.end // 2 - 1]
    if first is None or column is None or end_column is None:
        return no_location(units)
    out = b""
    for at in range(0, units, 8):
        out += bytes((128 | 14 << 3 | min(8, units - at) - 1,))
        out += _signed(first - line) + _little_endian((last or first) - first)
        out += _little_endian(column + 1) + _little_endian(end_column + 1)
        line = first
    return out
