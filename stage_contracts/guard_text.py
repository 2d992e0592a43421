"""Reading each path once: guards that begin with the same attributes and items share what they read on the way.

Input: guards in the order they are checked. A path that several begin with (`model.layers[0]`) gets a name where it is
read first; the ones behind use the name. The checks run from left to right and stop at the first that fails, so a name
is always there before it is used.
"""

from __future__ import annotations

import builtins
import io
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from stage_contracts.source import AttrSource, ExpressionSource, ItemSource, KeySource, RowSource, Source

_PATH = re.compile(r"[GC]\['\w+'\](?:\.\w+|\[(?:'[^']*'|-?\d+|registered\(\d+\))\])+")


class PathNames:
    """The paths that are read more than once, and the names that they have by now."""

    def __init__(self, guards: Sequence[Any]) -> None:
        self.count: Counter[str] = Counter()
        for guard in guards:
            self.count.update({p for s in (guard.source, guard.expected) for p in _paths(s)})
            # which asks for its type, then for its value
            if guard.kind == "EQUALS" and guard.source is not None:
                self.count[guard.source.expression()] += 1
        self.names: dict[str, str] = {}

    def check(self, guard: Any, name_of: Callable[[Any], str]) -> str:
        """The guard's check."""
        if guard.kind == "SHAPE":  # text already
            return _PATH.sub(lambda m: self.names.get(m[0], m[0]), guard.expression(name_of))
        # keys that are not words are read in a comprehension, where no name can be given
        naming = guard.kind != "KEYS" or all(type(key) is str for key in guard.expected)
        source, expected = (
            ExpressionSource(self.text(s, naming)) if isinstance(s, Source) else s
            for s in (guard.source, guard.expected)
        )
        check = replace(guard, source=source, expected=expected).expression(name_of)
        for part in (source, expected):
            if isinstance(part, ExpressionSource) and part.text.startswith("(_at_"):
                first, given, rest = check.partition(part.text)
                check = first + given + rest.replace(part.text, part.text[1:].partition(" ")[0])
        return check

    def text(self, source: Source, naming: bool = True) -> str:
        """How to read a source: by its name, or giving it one."""
        if isinstance(source, RowSource):
            return f"({''.join(f'{self.text(s)}, ' for s in source.sources)})"
        path = source.expression()
        if not isinstance(source, (AttrSource, ItemSource, KeySource)):
            return path
        if path in self.names:
            return self.names[path]
        base = self.text(source.base, naming)
        if isinstance(source, AttrSource):
            text = source.written(base)
        else:
            text = base + path[len(source.base.expression()) :]
        if self.count[path] < 2 or not naming:
            return text
        self.names[path] = f"_at_{len(self.names)}"
        return f"({self.names[path]} := {text})"


def _paths(source: Any) -> Iterator[str]:
    """The paths that reading a source goes through, itself included."""
    if isinstance(source, RowSource):
        for one in source.sources:
            yield from _paths(one)
    while isinstance(source, (AttrSource, ItemSource, KeySource)):
        yield source.expression()
        source = source.base


def past_parameters(text: str, signature: str, namespace: dict[str, Any]) -> str:
    """The text of a check, where a parameter has the name of a function that checks call: `def f(x, type)`.

    The function gets another name, which is entered into the namespace."""
    parameters = {name for name in _NAME.findall(signature) if name in namespace or name in vars(builtins)}
    if not parameters:
        return text
    lines = text.splitlines(keepends=True)
    words = list(tokenize.generate_tokens(io.StringIO(text).readline))
    for before, word, after in reversed(list(zip(words, words[1:], words[2:], strict=False))):
        if word.string in parameters and after.string == "(" and before.string not in (".", "def"):
            name, (row, column) = word.string, word.start
            namespace[f"__{name}"] = namespace.get(name, vars(builtins).get(name))
            lines[row - 1] = f"{lines[row - 1][:column]}__{lines[row - 1][column:]}"
    return "".join(lines)


_NAME = re.compile(r"(?<![\w=.])[^\W\d]\w*")
