"""Sources: how a value that capture saw is reached again from the call's arguments. Prints as Python.

Input: capture names each value it meets. `expression()` is evaluated by guards and by residual code, where
the function's parameters are local names, `G` is its globals, `C` its closure cells by name, and `__function__`
the function itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Source:
    """Base class. `expression()` is for machines; `str()` is what a person reads in a message."""

    def expression(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.expression()


@dataclass(frozen=True)
class ArgSource(Source):
    """A parameter of the function, by name."""

    name: str

    def expression(self) -> str:
        return self.name


@dataclass(frozen=True)
class GlobalSource(Source):
    """A global of the function's module, or a builtin."""

    name: str

    def expression(self) -> str:
        return f"G[{self.name!r}]"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class ClosureSource(Source):
    """A free variable of the function."""

    name: str

    def expression(self) -> str:
        return f"C[{self.name!r}].cell_contents"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class FunctionSource(Source):
    """The captured function itself: what its defaults are, and its globals where a parameter is called G."""

    name: str

    def expression(self) -> str:
        return "__function__"

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class AttrSource(Source):
    """`base.name`. A guard asks `type` for the class: an object of another class by now may compute its `__class__`."""

    base: Source
    name: str

    def expression(self) -> str:
        return self.written(self.base.expression())

    def written(self, base: str) -> str:
        """The expression, of how its base is written."""
        return f"type({base})" if self.name == "__class__" else f"{base}.{self.name}"

    def __str__(self) -> str:
        return f"{self.base}.{self.name}"


@dataclass(frozen=True)
class ItemSource(Source):
    """`base[key]`; `key` is a constant."""

    base: Source
    key: Any

    def expression(self) -> str:
        return f"{self.base.expression()}[{self.key!r}]"

    def __str__(self) -> str:
        return f"{self.base}[{self.key!r}]"


@dataclass(frozen=True)
class RegisteredSource(Source):
    """An object that no variable of the program holds: a function registered to be followed in another's place."""

    number: int

    def expression(self) -> str:
        return f"registered({self.number})"


@dataclass(frozen=True)
class CallSource(Source):
    """What a function without side effects gives: `base(*args, **kwargs)`, whose words are sources and constants."""

    base: Source
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()

    def expression(self) -> str:
        return f"{self.base.expression()}({', '.join(self.words(lambda source: source.expression()))})"

    def words(self, spell: Any) -> list[str]:
        """The arguments as text; `spell` writes a source."""
        text = lambda v: spell(v) if isinstance(v, Source) else repr(v)  # noqa: E731
        return [*map(text, self.args), *(f"{name}={text(value)}" for name, value in self.kwargs)]

    def __str__(self) -> str:
        return f"{self.base}({', '.join(self.words(str))})"


@dataclass(frozen=True)
class ExpressionSource(Source):
    """A number computed from the call's arguments: `text` is Python, `shown` what a person reads."""

    text: str
    shown: str = ""

    def expression(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.shown or self.text


@dataclass(frozen=True)
class ScalarSource(Source):
    """A Python number as a tensor of no dimensions, on `device` (its text), so that a graph takes it as an input."""

    base: Source
    dtype: str
    device: str

    def expression(self) -> str:
        return f"__scalar__({self.base.expression()}, {self.dtype!r}, {self.device!r})"

    def __str__(self) -> str:
        return str(self.base)


@dataclass(frozen=True)
class ArraySource(Source):
    """An ndarray (or NumPy scalar) as a tensor on the same memory, so that a graph takes it as an input."""

    base: Source

    def expression(self) -> str:
        return f"__tensor_of__({self.base.expression()})"

    def __str__(self) -> str:
        return str(self.base)


@dataclass(frozen=True)
class KeySource(Source):
    """`base[key]` where the key is an object: the one that `register` gave this number."""

    base: Source
    number: int

    def expression(self) -> str:
        return f"{self.base.expression()}[registered({self.number})]"

    def __str__(self) -> str:
        return f"{self.base}[key]"


@dataclass(frozen=True)
class RowSource(Source):
    """Several values as a tuple. kept: they are the same objects for as long as the structure epoch stands still."""

    sources: tuple[Source, ...]
    kept: bool = False

    def expression(self) -> str:
        return f"({''.join(f'{s.expression()}, ' for s in self.sources)})"

    def __str__(self) -> str:
        few = ", ".join(map(str, self.sources[:3]))
        return f"({few}, and {len(self.sources) - 3} more)" if len(self.sources) > 3 else f"({few})"


def depth(source: Any) -> int:
    """How many reads lead from the call's arguments to a value; 0 for what is no source."""
    if not isinstance(source, Source):  # an expected value, maybe the user's: it is not asked for a `base`
        return 0
    if isinstance(source, RowSource):
        return max(map(depth, source.sources), default=0)
    steps = 0
    while isinstance(base := getattr(source, "base", None), Source):
        if isinstance(source, CallSource):
            return (
                steps
                + 1
                + max(depth(base), *map(depth, source.args), *(depth(v) for _, v in source.kwargs), 0)
            )
        source, steps = base, steps + 1
    return steps
