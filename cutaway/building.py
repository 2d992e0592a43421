"""From a core graph to a Program with source, from the program cache or through stage 3; and building in a thread.

Input: the forward or the backward half of a compile (HalfArtifacts), and the target. A cached program was made before
from the same graph, seams, settings, machine and software. A graph with open sizes is always lowered, because lowering
may add guards.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from cutaway.artifacts import HalfArtifacts
from cutaway.pipelines import default_pipeline
from stage4_runtime.runtime import program_cache
from stage4_runtime.runtime.build import at_hand, expect
from stage_contracts import config, events
from stage_contracts.errors import CompilerMissing
from stage_contracts.graph import Graph
from stage_contracts.symbol_bindings import open_sizes_in
from stage_contracts.tensor_meta import TensorMeta

if TYPE_CHECKING:
    from stage_contracts.pipeline import Pipeline
    from stage_contracts.program import Program, Target

# The seams that make a program. If you swap one of them, the program cache is not used.
MADE_BY = ("lower", "fuse", "schedule", "plan_memory", "emit")


def emitted_program(half: HalfArtifacts, target: Target) -> tuple[Program, dict[str, Any]]:
    """The program with source for the target, and its constant arrays by name."""
    key = _key(half, target)
    if key is not None and (found := program_cache.load_program(key)) is not None:
        program, beside = found
        half.emitted[target.name] = program
        half.cached = key.digest, beside["constants"]
        return program, constant_arrays(beside["constants"], half.core.attributes)
    expect(target)
    planned = half.planned
    with events.timed("pass", "emit"):
        program = half.emitted[target.name] = half.pipeline.emit(planned, target)
    constants = dict(half.lowered.constants)
    if key is not None:
        places = [n.target for n in half.core.nodes if n.op == "get_attr" and isinstance(n.val, TensorMeta)]
        if len(places) == len(constants):
            where = dict(zip(constants, places, strict=True))
            if program_cache.store_program(key, program, {"constants": where}):
                half.cached = key.digest, where
    return program, constants


def constant_arrays(where: Mapping[str, str], attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays of a program's constants, from the attributes of a graph that they are."""
    return {name: getattr(attributes[place], "_data", attributes[place]) for name, place in where.items()}


def _key(half: HalfArtifacts, target: Target) -> Any:
    """The key of the program in the cache. None if the graph's text does not determine the program."""
    core, ours = half.core, default_pipeline()
    settings, passes = config.current().runtime, config.current().autograd
    if passes.verify_passes or passes.dump_passes:  # passes that are to be verified or printed have to run
        return None
    if not settings.cache or settings.force_disable_caches or not _told_by_text(core):
        return None
    if any(getattr(half.pipeline, seam) is not getattr(ours, seam) for seam in MADE_BY):
        return None
    try:
        parts = {"graph": str(core), "updates": str(list(half.updates)), "without": passes.disabled_passes}
        return program_cache.program_key(core.name, parts, target)
    except CompilerMissing:
        return None


def _told_by_text(core: Graph) -> bool:
    """Whether the text determines the program: all sizes are known, and all constants are arrays. The text contains the
    metas of the constants; the program gets their values separately. It says an open size by name only, also where the
    guards leave it one value."""
    said = [(node.val, node.args, node.kwargs) for node in core.nodes]
    if next(open_sizes_in(said), None) is not None:
        return False
    return all(isinstance(node.val, TensorMeta) for node in core.nodes if node.op == "get_attr")


Started = tuple[Callable[[], bool], Callable[[], Any]]  # whether a call has ended; what waits for its result


def started(build: Callable[..., Any], program: Program, pipeline: Pipeline) -> Started:
    """The build of a program, begun: in a thread by `build`, or here and now where the units are only loaded. Threads
    take longer for that: they have to be given the interpreter's lock again and again."""
    if pipeline.build is default_pipeline().build and at_hand(program.units):
        return at_once(one_after_the_other, program, pipeline)
    return in_background(build, program, pipeline)


def one_after_the_other(program: Program, pipeline: Pipeline) -> dict[str, Any]:
    """Every kernel of a program, built or loaded, by name."""
    return {name: kernel for unit in program.units for name, kernel in pipeline.build(unit).items()}


def at_once(function: Callable[..., Any], *args: Any) -> Started:
    """Make a call now. An error is raised by what gives its result."""
    value, error = _outcome(function, *args)

    def result() -> Any:
        if error is not None:
            raise error
        return value

    return lambda: True, result


def in_background(function: Callable[..., Any], *args: Any) -> Started:
    """Begin a call in a new thread, under this thread's configuration."""
    found: list[Any] = []
    context = contextvars.copy_context()
    thread = threading.Thread(
        target=lambda: found.extend(_outcome(context.run, function, *args)), name="cutaway build", daemon=True
    )
    thread.start()

    def wait() -> Any:
        thread.join()
        value, error = found
        if error is not None:
            raise error
        return value

    return lambda: not thread.is_alive(), wait


def _outcome(function: Callable[..., Any], *args: Any) -> tuple[Any, BaseException | None]:
    try:
        return function(*args), None
    except BaseException as error:  # who waits for the result raises it
        return None, error
