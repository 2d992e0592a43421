"""Sources: how a value that capture saw is reached again from the call's arguments. Prints as Python.

Input: capture names each value it meets. `expression()` is evaluated by guards and by residual code, where
the function's parameters are local names, `G` is its globals, `C` its closure cells by name, and `__function__`
the function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar, dataclass_transform

S = TypeVar("S")


@dataclass_transform(frozen_default=True)
def source_class(cls: type[S]) -> type[S]:
    """A frozen dataclass that computes its hash and its text once: capture asks for them many times a guard."""
    made = dataclass(frozen=True)(cls)
    for name in ("__hash__", "expression"):
        setattr(
            made, name, _computed_once(vars(made).get(name) or getattr(made, name), f"_{name.strip('_')}")
        )
    return made


def _computed_once(method: Callable[[Any], Any], place: str) -> Callable[[Any], Any]:
    @wraps(method)
    def ask(self: Any) -> Any:
        kept = self.__dict__
        if place not in kept:
            kept[place] = method(self)
        return kept[place]

    return ask


@source_class
class Source:
    """Base class. `expression()` is for machines; `str()` is what a person reads in a message."""

    def expression(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self.expression()


@source_class
class ArgSource(Source):
    """A parameter of the function, by name."""

    name: str

    def expression(self) -> str:
        return self.name


@source_class
class GlobalSource(Source):
    """A global of the function's module, or a builtin."""

    name: str

    def expression(self) -> str:
        return f"G[{self.name!r}]"

    def __str__(self) -> str:
        return self.name


@source_class
class ClosureSource(Source):
    """A free variable of the function."""

    name: str

    def expression(self) -> str:
        return f"C[{self.name!r}].cell_contents"

    def __str__(self) -> str:
        return self.name


@source_class
class FunctionSource(Source):
    """The captured function itself: what its defaults are, and its globals where a parameter is called G."""

    name: str

    def expression(self) -> str:
        return "__function__"

    def __str__(self) -> str:
        return self.name


@source_class
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


@source_class
class ItemSource(Source):
    """`base[key]`; `key` is a constant."""

    base: Source
    key: Any

    def expression(self) -> str:
        return f"{self.base.expression()}[{self.key!r}]"

    def __str__(self) -> str:
        return f"{self.base}[{self.key!r}]"


@source_class
class RegisteredSource(Source):
    """An object that no variable of the program holds: a function registered to be followed in another's place."""

    number: int

    def expression(self) -> str:
        return f"registered({self.number})"


@source_class
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


@source_class
class ExpressionSource(Source):
    """A number computed from the call's arguments: `text` is Python, `shown` what a person reads."""

    text: str
    shown: str = ""

    def expression(self) -> str:
        return self.text

    def __str__(self) -> str:
        return self.shown or self.text


@source_class
class ScalarSource(Source):
    """A Python number as a tensor of no dimensions, on `device` (its text), so that a graph takes it as an input."""

    base: Source
    dtype: str
    device: str

    def expression(self) -> str:
        return f"__scalar__({self.base.expression()}, {self.dtype!r}, {self.device!r})"

    def __str__(self) -> str:
        return str(self.base)


@source_class
class ArraySource(Source):
    """An ndarray (or NumPy scalar) as a tensor on the same memory, so that a graph takes it as an input."""

    base: Source

    def expression(self) -> str:
        return f"__tensor_of__({self.base.expression()})"

    def __str__(self) -> str:
        return str(self.base)


@source_class
class KeySource(Source):
    """`base[key]` where the key is an object: the one that `register` gave this number."""

    base: Source
    number: int

    def expression(self) -> str:
        return f"{self.base.expression()}[registered({self.number})]"

    def __str__(self) -> str:
        return f"{self.base}[key]"


@source_class
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
    kept = source.__dict__
    if "_depth" not in kept:
        kept["_depth"] = _reads(source)
    return kept["_depth"]


def _reads(source: Source) -> int:
    if isinstance(source, RowSource):
        return max(map(depth, source.sources), default=0)
    base = getattr(source, "base", None)
    words = (*source.args, *(v for _, v in source.kwargs)) if isinstance(source, CallSource) else ()
    return 1 + max(map(depth, (base, *words))) if isinstance(base, Source) else 0
