"""The user's own functions, with every captured expression marked in its place.

Input: the captured frame's code object, and the origins: each belongs to the function compiled or to one
that was inlined into it. The innermost expression at a column is what pointing there means.
"""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from cutaway.artifacts import Artifacts
from cutaway.page.colours import pieces
from cutaway.page.markup import Html, el
from cutaway.page.origins import Ids, Origins
from cutaway.page.panes import hue_class, marked
from stage_contracts.origin import Origin, characters


@dataclass(frozen=True)
class Snippet:
    """A user function: its file, its name as in a traceback, its first line and its text."""

    file: str
    name: str
    first: int
    text: str


def snippets(artifacts: Artifacts, origins: Origins) -> list[Snippet]:
    """The compiled function, then each inlined one that an origin lies in, in the order of the source."""
    frame = artifacts.frame
    places = [(frame.code.co_filename, frame.code.co_firstlineno)]
    places += [(o.file, o.line) for o in origins.by_id.values()]
    found = {(s.file, s.first): s for s in (snippet_at(*place) for place in places) if s}
    return list(found.values())


@lru_cache(maxsize=256)
def snippet_at(file: str, line: int) -> Snippet | None:
    """The innermost function around a line, or the line alone where the file has no such function."""
    lines = linecache.getlines(file)
    if not 0 < line <= len(lines):
        return None
    best: tuple[int, int, str] | None = None
    for first, last, name in _functions(file):
        if first <= line <= last and (best is None or first > best[0]):
            best = (first, last, name)
    first, last, name = best or (line, line, f"line {line}")
    text = "".join(lines[first - 1 : last])
    return Snippet(file, name, first, text if text.endswith("\n") else text + "\n")


@lru_cache(maxsize=64)
def _functions(file: str) -> list[tuple[int, int, str]]:
    """(first line, last line, qualified name) of every function of a file, decorators included."""
    found: list[tuple[int, int, str]] = []

    def visit(tree: Any, prefix: str) -> None:
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                name = f"{prefix}{node.name}"
                if not isinstance(node, ast.ClassDef):
                    first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
                    found.append((first, node.end_lineno or node.lineno, name))
                visit(node, f"{name}.")
            else:
                visit(node, prefix)

    try:
        visit(ast.parse("".join(linecache.getlines(file))), "")
    except SyntaxError:
        return []
    return found


def source_pane(artifacts: Artifacts, origins: Origins) -> Html:
    """Every snippet, the compiled function first."""
    shown = []
    for number, snippet in enumerate(snippets(artifacts, origins)):
        title = el("b", snippet.name) if number else el("b", artifacts.function_name)
        where = el("span", f"{origins.names.get(snippet.file, snippet.file)}:{snippet.first}")
        role = el("em", "inlined") if number else None
        body = el("pre", el("code", _lines(snippet, origins)), class_="code source python")
        shown.append(el("figure", el("figcaption", title, role, where), body, class_="pane"))
    return el("div", *shown, class_="sources")


def _lines(snippet: Snippet, origins: Origins) -> Html:
    indent = min(len(line) - len(line.lstrip()) for line in snippet.text.splitlines() if line.strip())
    shown = []
    per_line = _coloured(snippet.text)
    for offset, parts in enumerate(per_line):
        number = snippet.first + offset
        here = [o for o in origins.by_id.values() if (o.file, o.line) == (snippet.file, number)]
        ids = origins.ids(here)
        spans = _with_expressions(_without_indent(parts, indent), indent, here, origins)
        line = marked(
            "span", *spans, "\n", ids=ids, origins=origins, class_="ln", data_n=number,
            tabindex=-1 if ids else None,
        )  # fmt: skip
        shown.append(line)
    return Html("".join(shown))


def _coloured(text: str) -> list[list[tuple[str, str]]]:
    lines: list[list[tuple[str, str]]] = [[]]
    for kind, piece in pieces(text, "python"):
        for number, part in enumerate(piece.split("\n")):
            if number:
                lines.append([])
            if part:
                lines[-1].append((kind, part))
    return lines[:-1] if not lines[-1] else lines


def _without_indent(parts: list[tuple[str, str]], indent: int) -> list[tuple[str, str]]:
    """A method is shown as far left as a function; columns still count from the file's own margin."""
    if not parts:
        return parts
    (kind, first), *rest = parts
    return [(kind, first[indent:]), *rest]


def _with_expressions(
    parts: list[tuple[str, str]], column: int, here: list[Origin], origins: Origins
) -> list[Html]:
    """The line cut where an expression begins or ends; each piece knows the expressions around it."""
    text = " " * column + "".join(part for _, part in parts)
    bounds = [(characters(text, o.column), _end(text, o), o) for o in here]
    cuts = sorted({edge for begin, end, _ in bounds for edge in (begin, end)})
    shown: list[Html] = []
    for kind, part in parts:
        for piece in _cut(part, column, cuts):
            around = [(end - begin, o) for begin, end, o in bounds if begin <= column < end]
            colour = el("i", piece, class_=kind) if kind else el("i", piece) if around else piece
            shown.append(
                _expression(colour, around, origins) if around else Html(el("i", piece, class_=kind))
            )
            column += len(piece)
    return shown


def _expression(piece: Any, around: list[tuple[int, Origin]], origins: Origins) -> Html:
    outside_in: Ids = origins.ids([o for _, o in sorted(around, key=lambda pair: -pair[0])])
    own = origins.pointed(outside_in)
    hue = hue_class(own, origins)
    return el(
        "span", piece, class_=f"x {hue}".strip(), data_origins=" ".join(outside_in),
        data_point=" ".join(own),
    )  # fmt: skip


def _cut(part: str, column: int, cuts: list[int]) -> list[str]:
    edges = [0, *(c - column for c in cuts if column < c < column + len(part)), len(part)]
    return [part[a:b] for a, b in zip(edges, edges[1:], strict=False)]


def _end(text: str, origin: Origin) -> int:
    if origin.end_column <= origin.column:  # ends on another line
        return len(text.rstrip())
    return characters(text, origin.end_column)
