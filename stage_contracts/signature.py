"""A function's parameter list as text, so that guards and residual code take the very arguments it takes.

Input: a plain Python function. Defaults become names (`y=__default_y`), bound to the objects themselves.
"""

from __future__ import annotations

import ast
import functools
import inspect
import types
from collections.abc import Callable, Collection
from typing import Any


def signature_of(function: types.FunctionType) -> inspect.Signature:
    """The function's own signature, read off its code: whatever it wraps, or says its signature is."""
    plain = types.FunctionType(
        function.__code__, {}, function.__name__, function.__defaults__, function.__closure__
    )
    plain.__kwdefaults__ = function.__kwdefaults__
    return inspect.signature(plain)


def _defaults(function: types.FunctionType) -> dict[str, Any]:
    """What a parameter is where the call leaves it out."""
    code = function.__code__
    names = code.co_varnames[: code.co_argcount]
    found = dict(zip(reversed(names), reversed(function.__defaults__ or ()), strict=False))
    return found | (function.__kwdefaults__ or {})


def signature_text(function: types.FunctionType) -> tuple[str, dict[str, Any]]:
    """The parameter list, and what its names and guards' `__function__` mean.

    `def f(x, /, y=1, *, k=2)` gives `("x, /, y=__default_y, *, k=__default_k", {"__default_y": 1, ...})`.
    """
    code, names = function.__code__, {"__function__": function}
    positional, keyword_only = code.co_argcount, code.co_argcount + code.co_kwonlyargcount
    defaults = _defaults(function)

    def word(name: str) -> str:
        if name not in defaults:
            return name
        names[f"__default_{name}"] = defaults[name]
        return f"{name}=__default_{name}"

    words = [word(name) for name in code.co_varnames[:positional]]
    only_positional = code.co_posonlyargcount
    if words[:1] == [".0"]:  # of a comprehension
        words[0], only_positional = "implicit0", 1  # inspect's name for it
    if only_positional:
        words.insert(only_positional, "/")
    last = keyword_only
    if code.co_flags & inspect.CO_VARARGS:
        words.append(f"*{code.co_varnames[last]}")
        last += 1
    elif code.co_kwonlyargcount:
        words.append("*")
    words += [word(name) for name in code.co_varnames[positional:keyword_only]]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        words.append(f"**{code.co_varnames[last]}")
    return ", ".join(words), names


def arguments_text(signature: str) -> str:
    """What passes the arguments of such a parameter list on: of `x, /, y=1, *rest, k=2, **more`, it is
    `x, y, *rest, k=k, **more`."""
    parsed = ast.parse(f"def f({signature}): pass").body[0]
    assert isinstance(parsed, ast.FunctionDef)
    given = parsed.args
    words = [one.arg for one in (*given.posonlyargs, *given.args)]
    words += [f"*{given.vararg.arg}"] if given.vararg else []
    words += [f"{one.arg}={one.arg}" for one in given.kwonlyargs]
    words += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return ", ".join(words)


def when_called(make: Callable[[], Callable]) -> Callable:
    """A function that is made at its first call."""
    made: list[Callable] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        if not made:
            made.append(make())
            functools.update_wrapper(call, made[0])  # and it says what that one says
        return made[0](*args, **kwargs)

    return call


def fresh_name(base: str, taken: Collection[str]) -> str:
    """`base`, or `base_1`, `base_2`, ... if it is taken."""
    name, count = base, 0
    while name in taken:
        count += 1
        name = f"{base}_{count}"
    return name
