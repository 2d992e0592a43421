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
    """The function's own parameters, read off its code: whatever it wraps, or says its signature is."""
    code, kinds = function.__code__, inspect.Parameter
    positional, keyword_only = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    defaults = dict(
        zip(reversed(code.co_varnames[:positional]), reversed(function.__defaults__ or ()), strict=False)
    )
    defaults |= function.__kwdefaults__ or {}

    def parameters(first: int, last: int, kind: Any) -> list[inspect.Parameter]:
        names = code.co_varnames[first:last]
        return [kinds(name, kind, default=defaults.get(name, kinds.empty)) for name in names]

    found = parameters(0, code.co_posonlyargcount, kinds.POSITIONAL_ONLY)
    found += parameters(code.co_posonlyargcount, positional, kinds.POSITIONAL_OR_KEYWORD)
    if code.co_flags & inspect.CO_VARARGS:
        found += parameters(keyword_only, keyword_only + 1, kinds.VAR_POSITIONAL)
    found += parameters(positional, keyword_only, kinds.KEYWORD_ONLY)
    if code.co_flags & inspect.CO_VARKEYWORDS:
        last = keyword_only + bool(code.co_flags & inspect.CO_VARARGS)
        found += parameters(last, last + 1, kinds.VAR_KEYWORD)
    return found


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
