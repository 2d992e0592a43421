"""`cutaway.compiler`: how a program controls the compiler, as with torch.compiler and torch._dynamo.

Input: user functions, and compiled functions. The marks that capture obeys are in stage_contracts.controls; limits and
stances are in recompilation.py. This file collects them and adds the controls that need compiled functions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from cutaway.backends import list_backends, lookup_backend, register_backend, run_backend
from cutaway.compile import compile
from cutaway.compiled_function import CompiledFunction, compiled_from, reset
from cutaway.compiled_module import call_of
from cutaway.stances import set_stance
from stage0_eager.functions.numpy_wrapping import wrap_numpy
from stage0_eager.nn.module import Module
from stage0_eager.utils.break_errors import error_on_graph_break
from stage_contracts.controls import (
    allow_in_graph,
    assume_constant_result,
    disable,
    disallow_in_graph,
    forbid_in_graph,
    graph_break,
    is_compiling,
    is_dynamo_compiling,
    nested_compile_region,
    nonstrict_trace,
    substitute_in_graph,
)
from stage_contracts.errors import RecompileError
from stage_contracts.messages import checks_options
from stage_contracts.sizes import ConstraintViolationError, mark_dynamic, mark_static, maybe_mark_dynamic


@checks_options
def run(fn: Any = None) -> Any:
    """`fn`, frozen: it uses the entries that exist and never compiles. `fn` is a compiled function or module, or a
    plain one that was compiled elsewhere.

    A call that no entry fits runs eagerly. Without `fn`, run returns a decorator.
    """
    if fn is None:
        return run
    compiled = compiled_function_of(fn)
    if compiled is None:
        if not callable(fn):
            raise TypeError(f"run expects a compiled function or module, but got {type(fn).__name__}")
        return _compiled_elsewhere(fn)
    before = () if isinstance(fn, CompiledFunction) else (fn,)

    @functools.wraps(compiled, updated=())
    def frozen(*args: Any, **kwargs: Any) -> Any:
        return compiled.run_only(*before, *args, **kwargs)

    return frozen


def _compiled_elsewhere(fn: Any) -> Any:
    """The frozen form of a plain function or module; itself if nothing was compiled from its frame."""
    before = (fn,) if isinstance(fn, Module) else ()
    function = call_of(fn) if before else fn
    if not compiled_from(function):
        return fn

    @functools.wraps(function, updated=())
    def frozen(*args: Any, **kwargs: Any) -> Any:
        found = compiled_from(function)
        fits = next((c for c in found if c.has_entry(*before, *args, **kwargs)), None)
        return fits.run_only(*before, *args, **kwargs) if fits else fn(*args, **kwargs)

    return frozen


def compiled_function_of(fn: Any) -> CompiledFunction | None:
    """The CompiledFunction behind what compile() returned; None for anything else."""
    found = fn if isinstance(fn, CompiledFunction) else getattr(fn, "compiled", None)
    return found if isinstance(found, CompiledFunction) else None


def save_cache(path: Any) -> int:
    """Write your cache of compiled programs into one file. Returns the number of entries."""
    # imported here, so that `import cutaway` stays quick
    from stage4_runtime.runtime.cache_bundle import save_cache as save

    return save(path)


def load_cache(path: Any, *, trust: bool = False) -> int:
    """Add the entries of a file that `save_cache` wrote to your cache. Returns how many were new. The file contains
    native code that will run with your permissions, so this raises PermissionError unless you pass `trust=True` to say
    that you know who made the file."""
    from stage4_runtime.runtime.cache_bundle import load_cache as load

    return load(path, trust=trust)


def load_compiled_function(file: Any, *, f_globals: dict[str, Any] | None = None, trust: bool = False) -> Any:
    """The function that `compile(fn, fullgraph=True).aot_compile(...).save_compiled_function(path)` saved: nothing is
    captured, and nothing is built.

    file: a path, or a binary file. It contains native code and bytecode that will run with your permissions, so this
        raises PermissionError unless you pass `trust=True` to say that you know who made the file.
    f_globals: where the function finds its globals; by default in its module, if that can be imported.

    Raises ValueError for a damaged file, and RuntimeError for one of another version of Python or Cutaway, or if
    something that the function needs is not here.
    """
    # imported here, so that `import cutaway` stays quick
    from cutaway.saved_functions import load_compiled_function as load

    return load(file, f_globals=f_globals, trust=trust)


def is_exporting() -> bool:
    """Always False: there is no export."""
    return False


def cudagraph_mark_step_begin() -> None:
    """Say that a step begins: CUDA graphs may write over the results of earlier calls, also over those still in use.

    Without it a result that is in use is never written over; it is copied out of the graph's memory instead.
    """
    # imported here, so that `import cutaway` stays quick
    from stage4_runtime.runtime.graph_steps import mark_step_begin

    mark_step_begin()


def mark_static_address(t: Any, guard: bool = False) -> None:
    """In torch: promises that `t` keeps its address, which saves CUDA graphs a copy. It has no effect here: a graph
    reads whatever does not move where it is."""


class CompileCounter:
    """A backend that runs graphs as captured and counts them: `frame_count` graphs, `op_count` calls in them."""

    def __init__(self) -> None:
        self.clear()

    def __call__(self, graph_module: Any, example_inputs: list) -> Callable[..., tuple]:
        self.frame_count += 1
        self.op_count += sum(node.op == "call_function" for node in graph_module.graph.nodes)
        return graph_module.forward

    def clear(self) -> None:
        self.frame_count = self.op_count = 0


class CompileCounterWithBackend(CompileCounter):
    """A CompileCounter that passes each graph to the backend with this name. `graphs` are the graphs it received."""

    def __init__(self, backend: str) -> None:
        super().__init__()
        self.backend = backend

    def __call__(self, graph_module: Any, example_inputs: list) -> Callable[..., tuple]:
        super().__call__(graph_module, example_inputs)
        self.graphs.append(graph_module)
        return run_backend(self.backend, graph_module, example_inputs)

    def clear(self) -> None:
        super().clear()
        self.graphs: list[Any] = []


class EagerAndRecordGraphs:
    """A backend that runs graphs as captured and keeps them in `graphs`."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def __call__(self, graph_module: Any, example_inputs: list) -> Callable[..., tuple]:
        self.graphs.append(graph_module)
        return graph_module.forward


__all__ = [
    "CompileCounter", "CompileCounterWithBackend", "ConstraintViolationError", "EagerAndRecordGraphs",
    "RecompileError", "allow_in_graph", "assume_constant_result", "compile", "compiled_function_of",
    "cudagraph_mark_step_begin", "disable", "disallow_in_graph", "error_on_graph_break", "forbid_in_graph",
    "graph_break", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "load_cache",
    "load_compiled_function", "lookup_backend", "mark_dynamic", "mark_static", "mark_static_address",
    "maybe_mark_dynamic", "nested_compile_region", "nonstrict_trace", "register_backend", "reset", "run", "save_cache",
    "set_stance", "substitute_in_graph", "wrap_numpy",
]  # fmt: skip
