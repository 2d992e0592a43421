"""All switches on one page: every field of the configuration with its variables, its default, torch's names and why.

Input: the configuration's own tables, the comments of its source, and what torch_fields.py and requests.py know.
`cutaway switches` prints what is in force here; the site has the whole page.
"""

from __future__ import annotations

import ast
import functools
import inspect
import io
import os
import tokenize
from collections.abc import Iterable
from dataclasses import fields
from typing import Any

from cutaway.debug.requests import NEAREST
from cutaway.debug.torch_fields import FIELDS, FIXED, KEPT, kept
from stage_contracts import config


@functools.cache
def meanings() -> dict[str, str]:
    """What each field is for: the comments in the configuration's source, above a field or in its lines."""
    found: dict[str, list[str]] = {}
    for section in fields(config.Config):
        source = inspect.getsource(type(getattr(config.Config(), section.name)))
        (owner,) = ast.parse(source).body
        assert isinstance(owner, ast.ClassDef)
        spans = [(n.end_lineno or 0, n.target.id) for n in owner.body if isinstance(n, ast.AnnAssign)]  # type: ignore
        for token in tokenize.generate_tokens(io.StringIO(source).readline):
            if token.type == tokenize.COMMENT:
                name = next(name for end, name in spans if token.start[0] <= end)
                found.setdefault(f"{section.name}.{name}", []).append(token.string[2:])
    return {name: " ".join(" ".join(words).split()) for name, words in found.items()}


def default_of(name: str) -> Any:
    section, _, field = name.partition(".")
    return getattr(getattr(config.Config(), section), field)


def in_force(name: str) -> Any:
    section, _, field = name.partition(".")
    return getattr(getattr(config.current(), section), field)


def torch_fields_of(name: str) -> list[str]:
    """torch's configuration fields that are this one."""
    return [
        f"{module}.{theirs}"
        for module, rows in FIELDS.items()
        for theirs, ours in rows.items()
        if ours == name
    ]


def changed() -> list[str]:
    """A line for each field that is not at its default: what is in force, and which variable says so if one does."""
    lines = []
    for name in config.field_types():
        if in_force(name) != default_of(name):
            by = next((v for v in config.variables_of(name) if v in os.environ), None)
            lines.append(f"{name} = {in_force(name)!r}" + (f"  ({by})" if by else ""))
    return lines


def listing() -> list[str]:
    """Every field with its value in force and what it is for."""
    names = list(config.field_types())
    width = max(map(len, names)) + 2
    return [f"{name:<{width}}{in_force(name)!r:<12}  {meanings()[name]}" for name in names]


def page() -> str:
    """The tables of the page of switches, as Markdown."""
    parts = []
    for section in fields(config.Config):
        rows = [_row(name) for name in config.field_types() if name.startswith(f"{section.name}.")]
        parts.append(_table(section.name, "", ("field", "default", "is", "variables", "in torch"), rows))
    parts.append(_table("Other variables", "", ("variable", "is"), _coded(config.OTHER_VARIABLES.items())))
    fixed = [(f"{m}.{name}", f"`{value!r}`") for m, values in FIXED.items() for name, value in values.items()]
    unused = _by_text(
        (f"{m}.{name}", text)
        for m in KEPT
        if m != "torch._dynamo.config"  # which has a page of its own
        for name, (_, text) in kept(m).items()
    )
    answered = [(pattern, text) for pattern, text in NEAREST if pattern != "*"]
    for title, what, head, pairs in (
        ("torch's fields that can be one thing only", "Another value raises.", ("field", "is"), fixed),
        ("torch's fields that change nothing here", "Each says so, once.", ("field", "nearest"), unused),
        ("torch's variables that are answered", "In one line, once.", ("variable", "nearest"), answered),
    ):
        parts.append(_table(title, what, head, _coded(pairs)))
    return "\n".join(parts)


def _row(name: str) -> tuple[str, ...]:
    variables = "<br>".join(f"`{v}`" for v in config.variables_of(name))
    theirs = "<br>".join(f"`{t}`" for t in torch_fields_of(name))
    return f"`{name}`", f"`{default_of(name)!r}`", meanings()[name].replace("|", "\\|"), variables, theirs


def _coded(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, ...]]:
    return [(f"`{name}`", text) for name, text in pairs]


def _by_text(pairs: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """The names that one text answers, together."""
    found: dict[str, list[str]] = {}
    for name, text in pairs:
        found.setdefault(text, []).append(name)
    return [("`, `".join(names), text) for text, names in found.items()]


def _table(title: str, what: str, head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [f"## {title}", "", *([what, ""] if what else [])]
    lines += [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)]
    return "\n".join([*lines, ""])
