"""Functions compiled ahead of time: `compile(fn, fullgraph=True).aot_compile(...)`, saved to a file and loaded again.

Input: a compiled function and the arguments of one call; or a file that save_compiled_function wrote. The idea and the
names are torch.compile's ("Ahead-of-Time Compilation" in its documentation). saved_file.py writes the file.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cutaway.artifacts import Artifacts
from cutaway.backends import Backend
from cutaway.compile_frame import compile_frame
from cutaway.full_collections import put_off
from cutaway.residual import guard_names
from cutaway.saved_file import Note, Saved, note_sizes, write_file
from cutaway.saved_reading import read_file, restored
from cutaway.stances import RUNS_COMPILED
from stage0_eager.matmul_precision import compile_settings
from stage0_eager.nn.module import Module
from stage0_eager.serialization import write_whole
from stage0_eager.state import STATE
from stage_contracts import config, events
from stage_contracts.controls import Rule
from stage_contracts.graph import Graph
from stage_contracts.pipeline import Entry, Pipeline
from stage_contracts.sizes import SizePolicy
from stage_contracts.symbol_bindings import open_sizes_in

if TYPE_CHECKING:
    from cutaway.compiled_function import CompiledFunction


class AOTCompiledFunction:
    """One entry of a function, compiled ahead of time. A call that its guards do not fit raises RuntimeError: it never
    compiles. `save_compiled_function` writes it to a file."""

    __capture_rule__ = Rule("disable", "it is compiled already")

    def __init__(self, fn: types.FunctionType, entry: Entry, note: Note, file: bytes = b"") -> None:
        """`file`: what it was loaded from."""
        functools.update_wrapper(self, fn)
        self._file = file
        self._fn, self._entry, self._note, self._name = fn, entry, note, fn.__qualname__
        self._guarded = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if STATE.transforms not in RUNS_COMPILED:
            inside = ", ".join(STATE.transforms)
            raise RuntimeError(
                f"{self._name} was compiled ahead of time, for plain tensors, but is called inside of {inside}; "
                "transform the function itself, and compile the result"
            )
        if self._guarded and not self._entry.check(*args, **kwargs):
            raise RuntimeError(
                f"{self._name} was compiled ahead of time for another call. The guard that fails (compiled for "
                f"-> seen): {self._why(args, kwargs)}. Call aot_compile with arguments like these too, or leave the "
                "size open there: mark_dynamic, or dynamic=True"
            )
        return self._entry.run(*args, **kwargs)

    def _why(self, args: tuple, kwargs: dict[str, Any]) -> str:
        from stage4_runtime.runtime import explain_miss

        return explain_miss(self._entry, args, kwargs, guard_names(self._fn)[1])

    def guard_check(self, *args: Any, **kwargs: Any) -> bool:
        """Whether the guards hold for this call."""
        return self._entry.check(*args, **kwargs)

    def disable_guard_check(self) -> None:
        """From now on, run every call without a check. A call that differs gives wrong results, or worse."""
        self._guarded = False

    def save_compiled_function(self, path: Any) -> None:
        """Write one file, from which `cutaway.compiler.load_compiled_function` makes the function again. The file is
        written completely or not at all. Raises RuntimeError for what a file cannot hold, and names it."""
        with config.patch(self._note.settings):  # what the kernels are called in the cache depends on them
            write_whole(Path(path), [self._file or write_file(Saved(self._fn, self._entry, self._note))])

    def __repr__(self) -> str:
        return f"<{self._name}, compiled ahead of time: {len(self._entry.guards)} guards>"


def aot_compile(compiled: CompiledFunction, example_inputs: Any) -> AOTCompiledFunction:
    """Capture and compile `compiled` for one call, `(args, kwargs)`. It is not called."""
    args, kwargs = _checked(example_inputs)
    if not compiled.fullgraph:
        raise RuntimeError(
            f"aot_compile saves one graph, and without fullgraph=True {compiled.name} may have breaks; use "
            "cutaway.compile(fn, fullgraph=True).aot_compile(...)"
        )
    for name, value in (*enumerate(args), *kwargs.items()):
        if isinstance(value, Module):
            raise RuntimeError(
                f"argument {name!r} of {compiled.name} is a module ({type(value).__name__}), and guards on a module "
                "are about that one object; let the function read it from a global instead"
            )
    note = Note(compiled._backend.name)
    changes = {**compile_settings(), **compiled._options, "runtime.background": False}
    with config.patch(changes), put_off():
        settings = config.current()
        note.settings = settings
        policy = SizePolicy(compiled.dynamic, compiled._backend.open_sizes)
        policy.supported = compiled._backend.open_sizes and settings.capture.dynamic_shapes
        policy.assume_static = settings.capture.assume_static_by_default
        entry = compile_frame(
            compiled._fn,
            compiled._bound_self + args,
            kwargs,
            _noting(compiled._backend, note),
            True,
            compiled._pipeline,
            [],
            policy,
            compiled.part,
        )
    return AOTCompiledFunction(compiled._fn, entry, note)


def _checked(example_inputs: Any) -> tuple[tuple, dict[str, Any]]:
    match example_inputs:
        case (tuple() | list() as args, dict() as kwargs):
            return tuple(args), dict(kwargs)
    raise TypeError(
        f"aot_compile expects one call as ((args...), {{kwargs}}), but got {type(example_inputs).__name__}; for f(x) "
        "that is ((x,), {})"
    )


def _noting(backend: Backend, note: Note) -> Backend:
    """The backend, which notes first what is known of the graph's sizes: later stages add to it."""

    def compile_and_note(
        graph: Graph, inputs: list, pipeline: Pipeline, artifacts: Artifacts
    ) -> Callable[..., tuple]:
        size = next(open_sizes_in([node.val for node in graph.placeholders]), None)
        note.graph, note.sizes, note.facts = graph, [], []
        if size is not None:
            note_sizes(note, size.env)
        return backend.compile(graph, inputs, pipeline, artifacts)

    return replace(backend, compile=compile_and_note)


def load_compiled_function(
    file: Any, *, f_globals: dict[str, Any] | None = None, trust: bool = False
) -> AOTCompiledFunction:
    """See cutaway.compiler.load_compiled_function."""
    name = str(getattr(file, "name", file))
    if trust is not True:
        raise PermissionError(
            f"load_compiled_function({name!r}): the file holds native code that will run as you; pass trust=True if "
            "you know who made it"
        )
    with events.timed("pass", "load_compiled_function"), put_off():
        data = file.read() if hasattr(file, "read") else Path(file).read_bytes()
        saved = restored(read_file(data, name), f_globals)
    return AOTCompiledFunction(saved.fn, saved.entry, saved.note, data)
