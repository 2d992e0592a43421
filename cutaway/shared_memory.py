"""Calls of a compiled graph that writes to inputs, with inputs that share memory: compiles a variant for such calls.

Input: the graph, and a callable that refuses such a call before it writes anything. A variant is for certain inputs
that share memory. If it cannot be compiled, the captured graph runs instead.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from cutaway.artifacts import Artifacts
from cutaway.as_captured import as_captured
from cutaway.internal_errors import Fault, reaches_the_user, stage_of
from stage2_autograd.runtime.input_checks import LeafWritten
from stage2_autograd.runtime.synthetic_bases import on_their_memory, pattern_of, run_on_their_memory
from stage_contracts import config, events
from stage_contracts.breaks import Unsupported
from stage_contracts.graph import Graph
from stage_contracts.symbol_bindings import open_sizes_in

if TYPE_CHECKING:
    from stage_contracts.joint import FunctionalGraph

Run = Callable[..., tuple]


def on_shared_memory_too(
    graph: Graph,
    functional: FunctionalGraph,
    run: Run,
    artifacts: Artifacts,
    compile_graph: Callable[..., tuple[FunctionalGraph, Run]],
) -> Run:
    """A callable on the user's tensors that also accepts the calls that `run` refuses.

    compile_graph: (graph, artifacts) -> the functional graph and a callable; it compiles a variant.
    """
    # a variant is compiled at its first call, when it is too late to add guards on sizes
    sizes_open = next(open_sizes_in([n.val for n in graph.placeholders]), None) is not None
    eager = functools.cache(lambda: as_captured(graph))
    variants: dict[Any, Callable[..., tuple] | None] = {}
    settings = config.current()  # the settings of the time of the compile hold for variants, too

    def guarded(*tensors: Any) -> tuple:
        try:
            return run(*tensors)  # it refuses before it writes anything
        except LeafWritten:
            return eager()(*tensors)  # it makes the writes that come before the error, and raises it
        except Unsupported as refusal:
            variant = on_shared_memory(tensors)
            if variant is not None:
                with suppress(Unsupported):  # yet another input shares the memory
                    return variant(*tensors)
            events.record("fallback", "eager", reason=refusal.construct)
            return eager()(*tensors)

    def on_shared_memory(tensors: tuple) -> Callable[..., tuple] | None:
        pattern = pattern_of(tensors, functional)
        if pattern is not None and pattern not in variants and not sizes_open:
            events.record("recompile", "aliased inputs", reason=f"inputs {pattern.members} share memory")
            mark = events.EVENT_LOG.mark()
            variants[pattern] = None  # if the compile fails, it is not tried again
            try:
                with config.patch(settings):
                    _, made = compile_graph(on_their_memory(graph, pattern), artifacts=copy.copy(artifacts))
                variants[pattern] = run_on_their_memory(pattern, graph, functional, made)
            except Unsupported:
                pass
            except Exception as error:
                stage = stage_of(mark)
                assert artifacts.pipeline is not None
                name = artifacts.function_name
                with config.patch(settings):
                    if reaches_the_user(error, stage, name, artifacts.fullgraph, artifacts.pipeline):
                        raise
                Fault(name, stage, error).tell()
        return variants.get(pattern)

    return guarded
