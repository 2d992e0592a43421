"""Turns a captured frame into functions: the guards as one function, the residual code bound to its names.

Input: a CapturedFrame and the user's function. Guards and residual code use only names that are defined here.
"""

from __future__ import annotations

import math
import re
import sys
import types
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cutaway.internal_errors import Fault
from stage0_eager import is_grad_enabled
from stage0_eager.functions.creation import scalar_input, tensor_of_array
from stage0_eager.nn.module import structure_epoch
from stage0_eager.state import modes
from stage0_eager.tensor_checks import check_tensor, check_tensors
from stage_contracts.capture import CapturedFrame
from stage_contracts.controls import registered
from stage_contracts.generated_code import code_of
from stage_contracts.guard_text import past_parameters, without_numbers
from stage_contracts.guards import Guard, compile_guards
from stage_contracts.pipeline import Entry
from stage_contracts.signature import signature_text
from stage_contracts.source import ArgSource, AttrSource, FunctionSource, ItemSource


def guard_names(fn: types.FunctionType) -> tuple[str, dict[str, Any]]:
    """The parameter list of `fn` as text, and the names that guard expressions may use."""
    signature, defaults = signature_text(fn)
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    names = {
        "G": _Globals(fn.__globals__),
        "C": cells,
        "is_grad_enabled": is_grad_enabled,
        "modes": modes,
        "registered": registered,
        "__math__": math,
        "__scalar__": scalar_input,
        "__tensor_of__": tensor_of_array,
        "check_tensor": check_tensor,
        "check_tensors": check_tensors,
    }
    return signature, {**names, "module_epoch": structure_epoch, **defaults}


class _Globals:
    """A module's globals, and the builtins for names that the globals lack, as in Python's name lookup."""

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names

    def __getitem__(self, name: str) -> Any:
        if name in self.names:
            return self.names[name]
        builtins = self.names["__builtins__"]
        return (builtins if isinstance(builtins, dict) else vars(builtins))[name]


def guard_function(
    guards: tuple[Guard, ...], fn: types.FunctionType, held_at: int | None = None
) -> Callable[..., bool]:
    """The guards as one function. `held_at`: the module epoch at which those under_epoch hold; they are compiled when
    another module has changed since."""
    signature, names = guard_names(fn)
    later = None if held_at is None else (held_at, lambda under: _compiled_later(under, fn))
    check = compile_guards(guards, signature, names, later)
    if all(name in fn.__globals__ for name in _GLOBAL.findall(check.source_text)):  # type: ignore[attr-defined]
        check.__globals__["G"] = (
            fn.__globals__
        )  # itself, where no guard asks for a builtin: a third of the time
    return check


def _compiled_later(under: tuple[Guard, ...], fn: types.FunctionType) -> Callable[..., bool]:
    """Guards under_epoch as a function. If they cannot be compiled they do not hold, and a call gets a new entry."""
    try:
        return guard_function(under, fn)
    except Exception as error:  # a bug in the compiler, in a call that does not compile
        Fault(fn.__qualname__, "compile_guards", error, "after a module changed, in").tell()
        return lambda *args, **kwargs: False


_GLOBAL = re.compile(r"G\['(?<!\wG\[')([^']*)'\]")  # the word first: a search for a letter is quicker


def residual_function(
    frame: CapturedFrame,
    fn: types.FunctionType,
    compiled: Callable | None,
    part: Callable[[Any, bool], Any] = lambda function, whole: function,
) -> Callable:
    """The residual code as a function. It finds the compiled graph under its name, and the user's globals as G.

    `part(function, whole)` compiles the functions that the frame leads to: resume functions, and callees after a break.
    """
    assert frame.residual is not None
    for resume in frame.resumes:
        resume.run = part(resume.function, False)
    _, reachable = guard_names(fn)
    names = {**reachable, **frame.residual_globals, frame.graph_name: compiled}
    names[frame.nested_name] = lambda called: called if _deep() else part(called, True)
    names["__builtins__"] = fn.__globals__["__builtins__"]
    cells = names["C"]
    closure = tuple(cells[name] for name in frame.residual.co_freevars)
    run = types.FunctionType(frame.residual, names, fn.__name__, fn.__defaults__, closure or None)
    run.__kwdefaults__ = fn.__kwdefaults__
    return run


def rebound(entry: Entry, fn: types.FunctionType, part: Callable[[Any, bool], Any]) -> Entry | None:
    """The entry for another function of the same code, whose cells and defaults its guards and residual code then read.
    None if the entry holds cells of the function that it was made for, or reads a default that `fn` lacks."""
    frame, made = entry.frame, entry.run
    own = {"__function__": fn} if "__function__" in frame.residual_globals else {}
    names = {**frame.residual_globals, **own}
    if any(getattr(value, "__closure__", None) for name, value in names.items() if name not in own):
        return None
    frame = replace(frame, residual_globals=names)
    run: Callable = fn
    if getattr(made, "__code__", None) is frame.residual:
        run = residual_function(frame, fn, made.__globals__[frame.graph_name], part)
    try:
        guards = tuple(_on_default(guard, fn) for guard in frame.guards)
    except (TypeError, IndexError, KeyError):  # it has no defaults, fewer, or others by name
        return None
    return Entry(guards, guard_function(guards, fn), run, replace(frame, guards=guards), entry.artifacts)


def _on_default(guard: Guard, fn: types.FunctionType) -> Guard:
    """A guard function is made with the defaults of a function and checks that they still are: here those of `fn`."""
    match guard:
        case Guard("IDENTITY", ItemSource(AttrSource(FunctionSource(), name), key)):
            return replace(guard, expected=getattr(fn, name)[key])
    return guard


def _deep() -> bool:
    """Whether a third of the stack is in use. Callees then run eagerly, because a compiled call takes several frames
    for one frame of the program."""
    try:
        sys._getframe(sys.getrecursionlimit() // 3)
    except ValueError:
        return False
    return True


def example_inputs(
    frame: CapturedFrame, fn: types.FunctionType, args: tuple, kwargs: dict[str, Any]
) -> list[Any]:
    """The inputs of the graph for this call, from evaluating their sources."""
    positional = dict(zip(fn.__code__.co_varnames[: fn.__code__.co_argcount], args))
    given = [s.name for s in frame.inputs if isinstance(s, ArgSource) and s.name in positional]
    if len(given) == len(frame.inputs):  # the usual case: no expression to evaluate
        return [positional[name] for name in given]
    signature, names = guard_names(fn)
    words = ", ".join(source.expression() for source in frame.inputs)
    namespace = {**names, **frame.drawn}
    written = past_parameters(f"def gather({signature}): return [{words}]", signature, namespace)
    text, numbers = without_numbers(written)
    namespace |= numbers
    exec(code_of(text, "<cutaway inputs>"), namespace)
    return namespace["gather"](*args, **kwargs)
