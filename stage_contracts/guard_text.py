"""Makes guards share reads: each path of attributes and items that several guards begin with is read once.

Input: guards in the order of their checks. A shared path (`model.layers[0]`) gets a name at its first read, and later
guards use the name. Checks run from left to right and stop at the first that fails, so a name is always set before its
use.
"""

from __future__ import annotations

import builtins
import io
import re
import tokenize
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from stage_contracts.controls import is_registered, reference
from stage_contracts.source import (
    AttrSource,
    ExpressionSource,
    ItemSource,
    KeySource,
    RegisteredSource,
    RowSource,
    Source,
)

_PATH = re.compile(r"[GC]\['\w+'\](?:\.\w+|\[(?:'[^']*'|-?\d+|registered\(\d+\))\])+")

_READS = (AttrSource, ItemSource, KeySource)
_PATHS = (*_READS, RegisteredSource, RowSource)
_NAMED = re.compile(r"\((_at_\d+) := ")


class PathNames:
    """The paths that are read more than once, and the names that were given so far. `name_of` names an object."""

    def __init__(self, guards: Sequence[Any], name_of: Callable[..., str]) -> None:
        self.name_of = name_of
        self.count: Counter[str] = Counter()
        for guard in guards:
            if isinstance(guard.expected, Source):
                self.count.update({p for s in (guard.source, guard.expected) for p in _paths(s)})
            else:
                self.count.update(_paths(guard.source))
            # it reads the type, then the value
            if guard.kind == "EQUALS" and guard.source is not None:
                self.count[guard.source.expression()] += 1
        self.names: dict[str, str] = {}

    def check(self, guard: Any) -> str:
        """The guard's check."""
        name_of = self.name_of
        if guard.kind == "SHAPE":  # it is text already
            return _PATH.sub(lambda m: self.names.get(m[0], m[0]), guard.expression(name_of))
        # other keys are read in a comprehension, where a name cannot be set
        naming = guard.kind != "KEYS" or all(type(key) is str for key in guard.expected)
        if not isinstance(guard.source, _PATHS) and not isinstance(guard.expected, Source):
            return guard.expression(name_of)  # the usual case, a parameter: there is nothing to name
        source, expected = (
            ExpressionSource(self.text(s, naming)) if isinstance(s, Source) else s
            for s in (guard.source, guard.expected)
        )
        # what replace() does, which looks at each field
        check = type(guard)(guard.kind, source, expected, guard.origin).expression(name_of)
        for part in (source, expected):
            if isinstance(part, ExpressionSource) and (named := _NAMED.match(part.text)):
                first, given, rest = check.partition(part.text)
                check = first + given + rest.replace(part.text, named[1])
        return check

    def text(self, source: Source, naming: bool = True) -> str:
        """The expression that reads a source: its name, or an expression that sets the name."""
        path = source.expression()
        if path in self.names:
            return self.names[path]
        if isinstance(source, RowSource):
            return self._row(source, path)
        if isinstance(source, RegisteredSource):
            return self._object(source.number)
        if not isinstance(source, _READS):
            return path
        if isinstance(source, AttrSource) and source.registry and naming:
            text = self._registered(source)
        elif isinstance(source, AttrSource):
            text = source.written(self.text(source.base, naming))
        elif isinstance(source, KeySource):
            text = f"{self.text(source.base, naming)}[{self._object(source.number)}]"
        else:
            text = self.text(source.base, naming) + path[len(source.base.expression()) :]
        return self._named(path, text) if self.count[path] > 1 and naming else text

    def _named(self, path: str, text: str) -> str:
        self.names[path] = f"_at_{len(self.names)}"
        return f"({self.names[path]} := {text})"

    def _row(self, source: RowSource, path: str) -> str:
        """A tuple, or where it is asked twice a Row, which looks at its objects once."""
        text = f"({''.join(f'{self.text(s)}, ' for s in source.sources)})"
        return self._named(path, f"row({text})") if self.count[path] > 1 and not source.kept else text

    def _object(self, number: int) -> str:
        """What `registered(number)` gives, in a tenth of the time."""
        return f"{self.name_of(reference(number), 'registered')}()"

    def _registered(self, source: AttrSource) -> str:
        """Read a registered member of a module from the module's dict, because `__getattr__` takes several times as
        long. Other guards check that the class has neither this name nor a `__getattr__` of its own."""
        place = AttrSource(source.base, "__dict__")
        self.count[place.expression()] += 2
        first, again = self.text(place), self.text(place)
        name, registry = repr(source.name), repr(source.registry)
        return f"({again}[{name}] if {name} in {first} else {again}[{registry}][{name}])"


def _paths(source: Any) -> tuple[str, ...]:
    """The paths of the values that are read on the way to a source, and its own path, each once."""
    if isinstance(source, RowSource):
        inside = (path for one in source.sources for path in _paths(one))
        return tuple(dict.fromkeys((source.expression(), *inside)))
    if not isinstance(source, _READS):
        return ()
    kept = source.__dict__  # of a source, as its text
    if "_paths" not in kept:
        kept["_paths"] = (
            source.expression(),
            *(_paths(source.base) if isinstance(source.base, _READS) else ()),
        )
    return kept["_paths"]


def past_parameters(text: str, signature: str, namespace: dict[str, Any]) -> str:
    """The text of a check if a parameter has the name of a function that checks call: `def f(x, type)`.

    The function gets another name, which is added to the namespace."""
    parameters = {name for name in _NAME.findall(signature) if name in namespace or name in vars(builtins)}
    if not parameters:
        return text
    lines = text.splitlines(keepends=True)
    words = list(tokenize.generate_tokens(io.StringIO(text).readline))
    before = ["", *(word.string for word in words)]
    for last, word, after in reversed(list(zip(before, words, words[1:], strict=False))):
        if word.string in parameters and after.string == "(" and last not in (".", "def"):
            name, (row, column) = word.string, word.start
            namespace[f"__{name}"] = namespace.get(name, vars(builtins).get(name))
            lines[row - 1] = f"{lines[row - 1][:column]}__{lines[row - 1][column:]}"
    return "".join(lines)


_NAME = re.compile(r"(?<![\w=.])[^\W\d]\w*")


_REGISTERED = "registered("


def without_numbers(text: str) -> tuple[str, dict[str, int]]:
    """The text with names for the numbers of registered objects, which are others in each process; and their values.

    What is no such number, in a string of the user's, stays. (Texts are long: a pattern takes ten times as long.)
    """
    first, *parts = text.split(_REGISTERED)
    names: dict[int, str] = {}
    said = [first]
    for part in parts:
        digits, closed, rest = part.partition(")")
        if closed and digits.isdecimal() and is_registered(int(digits)):
            digits = names.setdefault(int(digits), f"__registered_{len(names)}")
        said.append(f"{digits}{closed}{rest}")
    return _REGISTERED.join(said), {name: number for number, name in names.items()}
