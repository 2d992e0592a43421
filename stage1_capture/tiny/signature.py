"""A function's parameter list as text, so that guards and residual code take the very arguments it takes.

Input: a plain Python function. Defaults become names (`y=__default_y`), bound to the objects themselves.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Collection
from typing import Any

_BEFORE: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def parameters_of(function: types.FunctionType) -> list[inspect.Parameter]:
    """The function's own parameters, whatever it wraps."""
    return list(inspect.signature(function, follow_wrapped=False).parameters.values())


def signature_text(function: types.FunctionType) -> tuple[str, dict[str, Any]]:
    """The parameter list, and what its names and guards' `__function__` mean.

    `def f(x, /, y=1, *, k=2)` gives `("x, /, y=__default_y, *, k=__default_k", {"__default_y": 1, ...})`.
    """
    words: list[str] = []
    names: dict[str, Any] = {"__function__": function}
    previous = None
    starred = False
    for p in parameters_of(function):
        if previous is p.POSITIONAL_ONLY and p.kind is not p.POSITIONAL_ONLY:
            words.append("/")
        if p.kind is p.KEYWORD_ONLY and not starred:
            words.append("*")
        starred |= p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        word = _BEFORE.get(p.kind, "") + p.name
        if p.default is not p.empty:
            names[f"__default_{p.name}"] = p.default
            word += f"=__default_{p.name}"
        words.append(word)
        previous = p.kind
    if previous is inspect.Parameter.POSITIONAL_ONLY:
        words.append("/")
    return ", ".join(words), names


def fresh_name(base: str, taken: Collection[str]) -> str:
    """`base`, or `base_1`, `base_2`, ... if it is taken."""
    name, count = base, 0
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    return name
