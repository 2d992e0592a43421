"""The registry of backends: maps a name, or your own callable, to the function that makes a captured graph run.

Input: the argument `compile(backend=...)`. The built-in backends are in inductor.py. Programs register their own, and
packages add theirs under the entry point `cutaway_backends`. Each result of a backend is checked against its contract.
"""

from __future__ import annotations

import functools
import importlib
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutaway.artifacts import Artifacts
from cutaway.pipelines import default_pipeline
from stage_contracts.errors import BackendFailed
from stage_contracts.graph import Graph
from stage_contracts.messages import checks_options, did_you_mean, say

if TYPE_CHECKING:
    from stage_contracts.pipeline import Pipeline


@dataclass(frozen=True)
class Backend:
    """compile(graph, example_inputs, pipeline, artifacts) -> callable(*tensors) -> tuple of tensors."""

    name: str
    compile: Callable[[Graph, list, Pipeline, Artifacts], Callable[..., tuple]]
    builtin: bool = True
    function: Callable | None = None  # the user's function; None for a built-in backend
    open_sizes: bool = True  # accepts graphs with open sizes (SymInt inputs and metas)


def find_backend(backend: str | Callable) -> Backend:
    """The backend for a name or for a torch-style callable. Raises ValueError, with the known names, for another
    name."""
    if callable(backend):
        return foreign(getattr(backend, "__name__", type(backend).__name__), backend)
    if backend in BACKENDS:
        return BACKENDS[backend]
    if backend in REGISTERED:
        return foreign(backend, REGISTERED[backend][0])
    found = {e.name: e for e in _installed_backends()}
    if backend in found:
        return foreign(backend, found[backend].load())
    known = [*BACKENDS, *REGISTERED, *found]
    hint = did_you_mean(backend, known)
    raise ValueError(say("unknown_backend", name=backend, known=", ".join(known), hint=hint))


def _installed_backends() -> Any:
    """What installed packages offer as backends: an entry point of the group `cutaway_backends` each."""
    # imported here: it takes a tenth of the time of `import cutaway`, and few programs ask
    from importlib.metadata import entry_points

    return entry_points(group="cutaway_backends")


# The same tags as in torch: these backends are for finding errors, not for speed.
TAGS = dict.fromkeys(("eager", "aot_eager", "aot_eager_decomp_partition"), "debug")


def list_backends(exclude_tags: Collection[str] | None = ("debug", "experimental")) -> list[str]:
    """The names that `compile(backend=...)` accepts, sorted. Those for debugging are included if `exclude_tags` is ()
    or None."""
    tags = {name: [TAGS[name]] if name in TAGS else [] for name in BACKENDS}
    tags |= {e.name: [] for e in _installed_backends()}
    tags |= {name: list(own) for name, (_, own) in REGISTERED.items()}
    return sorted(name for name, own in tags.items() if not {*own} & {*(exclude_tags or ())})


# The backends that a program registered, by name: the function and its tags.
REGISTERED: dict[str, tuple[Callable, tuple[str, ...]]] = {}
_REGISTERING = threading.Lock()


@checks_options
def register_backend(
    compiler_fn: Callable | None = None, name: str | None = None, tags: Collection[str] = ()
) -> Any:
    """Make `compile(backend=name)` use this torch-style callable. The default of `name` is the function's name.

    Returns the callable, so you can use it as a decorator, with or without arguments. Raises ValueError if the name
    exists already.
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise TypeError(f"register_backend expects a callable, got {type(compiler_fn).__name__}")
    chosen = str(name or getattr(compiler_fn, "__name__", type(compiler_fn).__name__))
    with _REGISTERING:
        if chosen in BACKENDS or chosen in REGISTERED:
            raise ValueError(
                f"a backend named {chosen!r} already exists; register yours with name='another name'"
            )
        REGISTERED[chosen] = (compiler_fn, tuple(tags))
    return compiler_fn


def lookup_backend(compiler_fn: str | Callable) -> Callable[[Any, list], Callable[..., tuple]]:
    """The torch-style callable of the backend with this name: `(graph_module, example_inputs) -> callable`."""
    if callable(compiler_fn):
        return compiler_fn
    if compiler_fn in REGISTERED:
        return REGISTERED[compiler_fn][0]
    find_backend(compiler_fn)  # raises for an unknown name
    return lambda graph_module, inputs: run_backend(compiler_fn, graph_module, inputs)


def run_backend(backend: str, graph_module: Any, example_inputs: list) -> Callable[..., tuple]:
    """Compile a graph with the backend of that name: for a backend that inspects graphs and passes them to another."""
    found, pipeline = find_backend(backend), default_pipeline()
    graph = _fx().as_graph(graph_module)
    artifacts = Artifacts(backend, None, graph, backend=found.name, pipeline=pipeline)  # type: ignore
    return found.compile(graph, example_inputs, pipeline, artifacts)


def foreign(name: str, function: Callable) -> Backend:
    """A torch-style backend: `(graph_module, example_inputs) -> callable(*inputs) -> tuple of outputs`."""

    def run(graph: Graph, inputs: list, pipeline: Pipeline, artifacts: Artifacts) -> Callable[..., tuple]:
        compiled = function(_fx().as_module(graph), inputs)
        if not callable(compiled):
            raise TypeError(say("backend_not_callable", got=type(compiled).__name__))
        return checked(name, compiled, len(graph.outputs))

    return Backend(name, run, builtin=False, function=function)


def _fx() -> Any:
    from cutaway.fx import captured  # only a backend that is given a graph needs it, not `import cutaway`

    return captured


def checked(name: str, run: Callable[..., Any], count: int) -> Callable[..., tuple]:
    """The function that a backend made, with its result checked at each call: a tuple (or list) with one entry per
    output of the graph."""

    def outputs(*inputs: Any) -> tuple:
        found = run(*inputs)
        if not isinstance(found, (tuple, list)):
            seen = type(found).__name__
        elif len(found) != count:
            seen = f"{type(found).__name__} of {len(found)}"
        else:
            return found  # type: ignore[return-value]
        raise BackendFailed(say("backend_result", name=name, seen=seen, count=count))

    return outputs


def built_in(name: str) -> Backend:
    """The built-in backend whose function in inductor.py has that name."""

    def run(graph: Graph, inputs: list, pipeline: Pipeline, artifacts: Artifacts) -> Callable[..., tuple]:
        # The first compile loads the stages, not `import cutaway`. (`from cutaway import` would ask the package for an
        # attribute first, and have it look for a name that is spelt alike.)
        inductor = importlib.import_module("cutaway.inductor")
        return getattr(inductor, name)(graph, inputs, pipeline, artifacts)

    return Backend(name, run)


BACKENDS: dict[str, Backend] = {
    name: built_in(name)
    for name in ("inductor", "aot_eager", "aot_eager_decomp_partition", "eager", "cudagraphs")
}
