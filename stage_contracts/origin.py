"""Origin: the place in the user's program that something in a graph came from. It prints with a caret, for errors.

Input: code positions that capture reads from bytecode. Every pass keeps Origins; fusion keeps the union.
"""

from __future__ import annotations

import linecache
import types
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any


@dataclass(frozen=True)
class Origin:
    """One expression of the user's source. Lines count from 1, columns from 0 (end exclusive)."""

    file: str
    line: int
    text: str = ""  # the expression's own source text
    column: int = 0
    end_column: int = 0

    @property
    def is_one_expression(self) -> bool:
        """Whether another expression of the line has another Origin: where only the line is known, it has not."""
        return bool(self.text or self.end_column)

    def __str__(self) -> str:
        return f"{PurePath(self.file).name}:{self.line}"

    def describe(self) -> str:
        """`model.py:31: relu(x)`, as in the comments of generated code."""
        return f"{self}: {self.text}" if self.text else str(self)

    def caret(self) -> str:
        """The user's source line with a caret under the expression. Only the position if the file cannot be read."""
        source = linecache.getline(self.file, self.line).rstrip("\n") or self.text
        where = f'  File "{self.file}", line {self.line}'
        if not source:
            return where
        indent = len(source) - len(source.lstrip())
        start = max(self.column - indent, 0)
        width = max(min(self.end_column, len(source)) - self.column, 1)
        return f"{where}\n    {source.strip()}\n    {' ' * start}{'^' * width}"


def union(groups: Iterable[Iterable[Origin]]) -> tuple[Origin, ...]:
    """All origins of several nodes, each once, in the order of their first occurrence."""
    return tuple(dict.fromkeys(origin for group in groups for origin in group))


def origin_of(code: types.CodeType, positions: Any) -> Origin:
    """The source expression of an instruction: `positions` are `dis`'s, which may know only the line, or nothing."""
    line = (positions and positions.lineno) or code.co_firstlineno
    if not positions or positions.col_offset is None or positions.end_col_offset is None:
        return Origin(code.co_filename, line)
    last = positions.end_lineno or line
    lines = [linecache.getline(code.co_filename, n).rstrip("\n") for n in range(line, last + 1)]
    if not lines[0]:  # no source: the bytes at least tell two expressions of a line apart
        return Origin(code.co_filename, line, "", positions.col_offset, positions.end_col_offset)
    start = characters(lines[0], positions.col_offset)
    end = characters(lines[-1], positions.end_col_offset)
    if line == last:
        return Origin(code.co_filename, line, lines[0][start:end], start, end)
    words = [lines[0][start:], *lines[1:-1], lines[-1][:end]]
    text = " ".join(word.strip() for word in words)
    if lines[0].rstrip().endswith(":"):  # a with block, a class: its first line says it
        text = lines[0][start:].rstrip()
    return Origin(code.co_filename, line, text, start, len(lines[0]))


def characters(line: str, in_bytes: int) -> int:
    """A column in characters, as an Origin has it; CPython counts UTF-8 bytes."""
    return len(line.encode()[:in_bytes].decode(errors="ignore"))
