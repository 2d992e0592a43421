"""Checks that a function fits a seam: its parameters before anything runs, and its result at each call.

Input: a Pipeline, and the Protocols of pipeline.py: their signatures and docstrings are the contracts.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

from stage_contracts import pipeline as contracts
from stage_contracts.errors import SeamError
from stage_contracts.messages import say
from stage_contracts.pipeline import Pipeline


def checked_pipeline(pipeline: Pipeline, default: Pipeline) -> Pipeline:
    """The pipeline, in which each seam that is not the default is checked now and at each call."""
    swapped = {f.name: getattr(pipeline, f.name) for f in fields(Pipeline)}
    swapped = {
        n: f for n, f in swapped.items() if f is not getattr(default, n) and not hasattr(f, "__seam__")
    }
    return replace(pipeline, **{name: _checked(name, f) for name, f in swapped.items()})


def check_parameters(seam: str, function: Any) -> None:
    """Raise SeamError if the function cannot be called with the parameters of this seam."""
    parameters, _, contract = _contract(seam)
    shown = ", ".join(parameters)
    if not callable(function):
        got = repr(function)
        raise SeamError(say("seam_not_callable", seam=seam, got=got, parameters=shown, contract=contract))
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a C function without a signature
        return
    try:
        signature.bind(*parameters)
    except TypeError:
        values = {"seam": seam, "function": _name(function), "got": signature, "contract": contract}
        raise SeamError(say("seam_signature", parameters=shown, **values)) from None


def checked_seam(seam: str, function: Any) -> Callable:
    """The function for a seam of the pipeline, checked as above; one for an inner seam of a stage as it is."""
    return _checked(seam, function) if seam in {f.name for f in fields(Pipeline)} else function


def _checked(seam: str, function: Any) -> Callable:
    check_parameters(seam, function)
    _, expected, contract = _contract(seam)

    @functools.wraps(function, updated=())
    def called(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if not _is(result, expected):
            got = "None" if result is None else f"a {type(result).__name__}"
            values = {"function": _name(function), "got": got, "expected": expected, "contract": contract}
            raise SeamError(say("seam_result", seam=seam, **values))
        return result

    called.__seam__ = seam  # type: ignore[attr-defined]
    return called


def _contract(seam: str) -> tuple[dict[str, inspect.Parameter], str, str]:
    """The contract's parameters, what it returns, and the first line of its docstring."""
    of_seams: dict[str, Any] = {f.name: f.type for f in fields(Pipeline)}
    call = getattr(contracts, of_seams[seam]).__call__
    signature = inspect.signature(call)
    parameters = {name: p for name, p in signature.parameters.items() if name != "self"}
    return parameters, str(signature.return_annotation), inspect.cleandoc(call.__doc__).partition("\n")[0]


def _is(result: Any, expected: str) -> bool:
    """Whether a result has the expected type, or a subclass. It compares names of classes, because a contract imports
    no stage."""
    if expected.startswith("Callable"):
        return callable(result)
    if expected.startswith("Mapping"):
        return isinstance(result, Mapping)
    kinds = expected.split(" | ")
    return (result is None and "None" in kinds) or any(c.__name__ in kinds for c in type(result).__mro__)


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__name__
