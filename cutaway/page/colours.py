"""Syntax colouring: a text in, its pieces out, each with the one-letter class the style sheet paints.

Input: Python (also graphs, loop nests, programs, Triton), C++, or the output of `dis`. One regular
expression per language, tried at each place from left to right; what none of its groups matches stays
plain.
"""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Iterator

from cutaway.page.markup import Html, el, text

# Classes: c comment, s string, k keyword, n number, t type or constant, f the name before a call.
_NUMBER = r"\b(?:0[xX][0-9a-fA-F]+|\d[\d_]*\.?\d*(?:[eE][-+]?\d+)?)[fFuUlL]*\b"
_PYTHON_STRING = (
    r"""[rbfuRBFU]{0,2}(?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
)
_TYPES = """
float32 float64 int64 int32 int8 uint8 uint32 bool float16 bfloat16 float int double None True False self
"""
_CPP_TYPES = """
auto bool char const constexpr double float int int32_t int64_t int8_t long static uint32_t uint64_t uint8_t
unsigned void size_t
"""
_CPP_KEYWORDS = """
break case continue do else extern for if inline namespace return struct switch template typename using while
"""


def _words(listed: str) -> str:
    return rf"\b(?:{'|'.join(sorted(listed.split()))})\b"


GRAMMARS: dict[str, re.Pattern[str]] = {
    "python": re.compile(
        rf"(?P<c>#[^\n]*)|(?P<s>{_PYTHON_STRING})"
        rf"|(?P<k>{_words(' '.join(w for w in keyword.kwlist if w[0].islower()))})"
        rf"|(?P<t>{_words(_TYPES)})|(?P<n>{_NUMBER})|(?P<d>@[\w.]+)|(?P<f>\b[A-Za-z_]\w*(?=\())"
    ),
    "cpp": re.compile(
        r"(?P<c>//[^\n]*|/\*[\s\S]*?\*/)|(?P<d>^[ \t]*#[^\n]*)"
        r"|(?P<s>\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])')"
        rf"|(?P<k>{_words(_CPP_KEYWORDS)})|(?P<t>{_words(_CPP_TYPES)})|(?P<n>{_NUMBER})"
        r"|(?P<f>\b[A-Za-z_][\w:]*(?=\())",
        re.MULTILINE,
    ),
    "bytecode": re.compile(
        rf"(?P<f>\b[A-Z][A-Z_]+\b)|(?P<c>\([^\n]*\)$)|(?P<d>>>|-->)|(?P<n>{_NUMBER})", re.MULTILINE
    ),
}
_BUILTINS = set(dir(builtins))


def pieces(source: str, language: str) -> Iterator[tuple[str, str]]:
    """(class, text) from left to right; together the texts are the source. Plain text has class ""."""
    at = 0
    for match in GRAMMARS[language].finditer(source):
        if match.start() > at:
            yield "", source[at : match.start()]
        kind = match.lastgroup or ""
        if kind == "f" and match[0] in _BUILTINS:
            kind = "t"
        yield kind, match[0]
        at = match.end()
    if at < len(source):
        yield "", source[at:]


def coloured_lines(source: str, language: str) -> list[Html]:
    """The source, escaped and coloured, line by line; a piece that spans lines is coloured on each."""
    lines: list[list[Html]] = [[]]
    for kind, piece in pieces(source, language):
        for number, part in enumerate(piece.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append(el("i", part, class_=kind) if kind else text(part))
    if not lines[-1]:
        lines.pop()  # the text ended with a newline
    return [Html("".join(line)) for line in lines]
