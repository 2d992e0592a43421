"""Sources: the path from the arguments of a call to a value that capture saw. A source prints as Python.

Input: capture gives each value a source. Guards and residual code evaluate `expression()`, where the
function's parameters are local names, `G` is its globals, `C` its closure cells by name, and `__function__` the
function itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, TypeVar, dataclass_transform

S = TypeVar("S")


@dataclass_transform(frozen_default=True)
def source_class(cls: type[S]) -> type[S]:
    """Decorator: a frozen dataclass that computes its hash and its text once, because capture needs them many times."""
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
        found = kept.get(place)
        if found is None:
            found = kept[place] = method(self)
        return found

    return ask


@source_class
class Source:
    """Base class. `expression()` is for generated code; `str()` is for people, in messages."""

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
    """The captured function itself: for its defaults, and for its globals if a parameter is named G."""

    name: str

    def expression(self) -> str:
        return "__function__"

    def __str__(self) -> str:
        return self.name


@source_class
class WatchedSource(Source):
    """An object whose class has a `__getattribute__`, which would see the reads of guards. They go past it:
    `registered(number)` is object.__getattribute__."""

    base: Source
    number: int

    def expression(self) -> str:
        return self.base.expression()

    def __str__(self) -> str:
        return str(self.base)


@source_class
class AttrSource(Source):
    """`base.name`. For the class, a guard uses `type()`: another object in this place may compute its `__class__`.

    registry: the dict of a module that has it (such as `_modules`), if it is not an ordinary attribute."""

    base: Source
    name: str
    registry: str = field(default="", compare=False)

    def expression(self) -> str:
        return self.written(self.base.expression())

    def written(self, base: str) -> str:
        """The expression, from the text of its base."""
        if isinstance(self.base, WatchedSource) and self.name != "__class__":
            return f"registered({self.base.number})({base}, {self.name!r})"
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
    """An object that no variable of the program holds, such as a function that capture follows instead of another."""

    number: int

    def expression(self) -> str:
        return f"registered({self.number})"


@source_class
class CallSource(Source):
    """The result of a function without side effects: `base(*args, **kwargs)`. The arguments are sources and
    constants."""

    base: Source
    args: tuple[Any, ...]
    kwargs: tuple[tuple[str, Any], ...] = ()

    def expression(self) -> str:
        return f"{self.base.expression()}({', '.join(self.words(lambda source: source.expression()))})"

    def words(self, spell: Any) -> list[str]:
        """The arguments as text; `spell` returns the text of a source."""
        text = lambda v: spell(v) if isinstance(v, Source) else repr(v)  # noqa: E731
        return [*map(text, self.args), *(f"{name}={text(value)}" for name, value in self.kwargs)]

    def __str__(self) -> str:
        return f"{self.base}({', '.join(self.words(str))})"


@source_class
class ExpressionSource(Source):
    """A number computed from the call's arguments. `text` is Python; `shown` is for people."""

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
    """`base[key]` with an object as the key: the object that `register` gave this number."""

    base: Source
    number: int

    def expression(self) -> str:
        return f"{self.base.expression()}[registered({self.number})]"

    def __str__(self) -> str:
        return f"{self.base}[key]"


@source_class
class RowSource(Source):
    """Several values as a tuple. kept: they are the same objects as long as the structure epoch does not change."""

    sources: tuple[Source, ...]
    kept: bool = False

    def expression(self) -> str:
        return f"({''.join(f'{s.expression()}, ' for s in self.sources)})"

    def __str__(self) -> str:
        few = ", ".join(map(str, self.sources[:3]))
        return f"({few}, and {len(self.sources) - 3} more)" if len(self.sources) > 3 else f"({few})"


def depth(source: Any) -> int:
    """How many reads lead from the call's arguments to a value; 0 if it is not a source."""
    if not isinstance(source, Source):  # an expected value may be a user's object: do not read its attributes
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
