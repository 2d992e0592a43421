"""What stage 2 made of a graph, on disk: the next process runs its programs without stage 2 (AOTAutograd's cache).

Input: a captured graph, and everything else that decides what stages 2 and 3 make of it: that is the key. An entry has
what a call reads, as JSON, and names the programs of the two halves, which are entries of their own. The graphs of
stage 2 are not kept; who reads one runs stage 2 again (kept_graph.py). What no text can say is not kept.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutaway.building import constant_arrays
from cutaway.graph_identity import NotSaid, identity, table_row
from cutaway.kept_graph import KeptGraph, number_of_calls
from cutaway.pipelines import default_pipeline
from cutaway.verify_steps import compares_values
from stage0_eager import is_grad_enabled
from stage0_eager.state import modes
from stage2_autograd.functionalize.storages import Silently
from stage2_autograd.runtime.compiled_backward import SavingPlan
from stage2_autograd.runtime.runtime_wrapper import CallPlan
from stage4_runtime.runtime import cache, program_cache
from stage4_runtime.runtime.software import watch
from stage_contracts import config, events
from stage_contracts.errors import CompilerMissing
from stage_contracts.graph import Graph
from stage_contracts.graph_verify import checks_metas
from stage_contracts.joint import FunctionalGraph
from stage_contracts.program_json import decode, encode

if TYPE_CHECKING:
    from cutaway.artifacts import HalfArtifacts
    from stage2_autograd.runtime.saved_outputs import Places
    from stage_contracts.pipeline import Pipeline
    from stage_contracts.program import Program, Target

# The seams whose results are kept. If you swap one of them, nothing is.
MADE_BY = (
    "functionalize", "differentiate", "decompose", "partition", "lower", "fuse", "schedule", "plan_memory", "emit",
)  # fmt: skip
# The files that decide what they make: all but capture, whose result is part of the key, and the tools.
DECIDING = (
    "stage_contracts",
    "stage0_eager",
    "stage2_autograd",
    "stage3_lowering",
    "stage4_runtime",
    *(f"cutaway/{name}.py" for name in ("aot_cache", "artifacts", "building", "graph_identity", "inductor",
                                        "kept_graph", "measured_programs", "targets")),
)  # fmt: skip
# Capture follows what is in these down to operators, and those are in the graph.
CAPTURED = ("stage0_eager/nn", "stage0_eager/optim")
watch(DECIDING, CAPTURED)
# Settings of the runtime that change neither a graph nor a program. All others are part of the key. (`cxx` is there as
# the compiler that it names.)
ASIDE = ("cxx", "cache", "force_disable_caches", "cache_dir", "cache_bytes", "trust_saved_functions", "keep_freed",
         "compile_seconds", "background", "never_slower")  # fmt: skip
# Stage 2 is done with fewer calls in less time than it takes to write the key and to read what it made.
FEWEST = 4
_FILE = "stage2.json"
SILENTLY = "no_grad "
WithConstants = tuple["Program", dict[str, Any]]
Place = tuple[
    str, dict[str, str]
]  # what finds a program, and its constants by their names in the captured graph
Load = Callable[
    [str, str, dict[str, str]], "WithConstants | None"
]  # (where it is, the graph's name, constants)


@dataclass(frozen=True)
class Halves:
    """What stage 2 made, as far as compiling and calling need it.

    forward: without the saved values that it returns anyway; `places` says where those are. updates: (output, input)
    pairs that kernels may write in place. backward: None for inference.
    """

    functional: FunctionalGraph
    plan: CallPlan
    forward: Graph
    updates: tuple[tuple[int, int], ...] = ()
    places: Places | None = None
    backward: Graph | None = None


@dataclass(frozen=True)
class Keeper:
    """Where results of stage 2 are kept. `find(graph, name, again)`: the halves of a graph that was compiled before;
    `again()` makes them anew, for who reads their graphs. `keep(graph, name, halves, forward, backward)`."""

    find: Callable[[Graph, str, Callable[[], Halves]], Halves | None]
    keep: Callable[..., None]


def on_disk(pipeline: Pipeline, target: Target) -> Keeper | None:
    """The keeper in the disk cache. None where every step has to run: seams or settings want to see them."""
    settings = config.current()
    if not settings.runtime.cache or settings.runtime.force_disable_caches or _watched(pipeline, settings):
        return None
    known: dict[int, Any] = {}  # the key of a graph is found once: `find` and `keep` get the same graph

    def key_of(graph: Graph, name: str) -> Any:
        if id(graph) not in known:
            known[id(graph)] = graph, _key(graph, name, target) if _takes_long(graph) else None
        return known[id(graph)][1]

    def find(graph: Graph, name: str, again: Callable[[], Halves]) -> Halves | None:
        key = key_of(graph, name)
        return None if key is None else _found(key, graph, again)

    def keep(graph: Graph, name: str, halves: Halves, *parts: HalfArtifacts | None) -> None:
        key = key_of(graph, name)
        record = None if key is None else record_of(graph, halves, parts, _in_cache)
        if record is not None:
            cache.store(key, {_FILE: record})

    return Keeper(find, keep)


def _takes_long(graph: Graph) -> bool:
    """A call that is differentiated takes as long as several."""
    trains = is_grad_enabled() and any(getattr(n.val, "requires_grad", False) for n in graph.placeholders)
    return len(graph.calls) * (FEWEST if trains else 1) >= FEWEST


def _watched(pipeline: Pipeline, settings: config.Config) -> bool:
    """Whether somebody checks, prints, saves or replaces what the stages make."""
    ours = default_pipeline()
    if checks_metas() or compares_values() or settings.autograd.dump_passes or settings.capture.repro_after:
        return True
    return any(getattr(pipeline, seam) is not getattr(ours, seam) for seam in MADE_BY)


def _found(key: Any, graph: Graph, again: Callable[[], Halves]) -> Halves | None:
    def load(digest: str, half: str, where: dict[str, str]) -> WithConstants | None:
        found = program_cache.load_named(digest, half)
        return found and (found[0], constant_arrays(where, graph.attributes))

    files = cache.load(key)
    return None if files is None else halves_of(files[_FILE], graph, again, load)


def _key(graph: Graph, name: str, target: Target) -> Any:
    try:
        text = identity(graph)
        place = program_cache.place(target, DECIDING, CAPTURED)
    except (NotSaid, CompilerMissing):
        return None
    return cache.Key(f"stage 2 of {name}", {"graph": text, "settings": settings_read(), **place})


def settings_read() -> str:
    """What stages read besides the graph: their settings, and the modes of this thread."""
    settings = config.current()
    runtime = {f.name: getattr(settings.runtime, f.name) for f in dataclasses.fields(settings.runtime)}
    own = {name: value for name, value in runtime.items() if name not in ASIDE}
    sections = f"{settings.autograd} {settings.lowering} {settings.distributed} {own}"
    return f"{sections} grad={is_grad_enabled()} {modes()}"


# ---- records -----------------------------------------------------------------------------------------------------


def record_of(
    graph: Graph,
    halves: Halves,
    forward_and_backward: Sequence[HalfArtifacts | None],
    place_of: Callable[[HalfArtifacts, Mapping[int, str]], Place | None],
) -> bytes | None:
    """The halves as JSON; `place_of` says where the program of each is. None if the record could not say all."""
    captured = {id(value): name for name, value in graph.attributes.items()}
    made, parts = halves.functional, [half for half in forward_and_backward if half is not None]
    if len(parts) != 1 + (halves.backward is not None):
        return None
    try:
        results = [_result(plan, made.graph, captured) for plan in made.results or ()]
        said_results = None if made.results is None else results
        record = {
            "functional": [
                made.num_outputs,
                made.writes,
                made.rng_calls,
                said_results,
                made.silent,
                made.versions,
            ],
            "name": made.graph.name,
            "device": encode(halves.plan.rng_device),
            "wanted": halves.plan.wanted,
            "saving": _saving(halves.plan.saving),
            "programs": [_program(half, place_of(half, captured)) for half in parts],
            "updates": halves.updates,
            "places": halves.places,
        }
        return json.dumps(record, allow_nan=False).encode()
    except (NotSaid, TypeError, ValueError, KeyError):
        return None


def _saving(plan: SavingPlan | None) -> list[Any] | None:
    if plan is None:
        return None
    if plan.open is not None:
        raise NotSaid("an open size")
    return [plan.first, plan.saved, plan.tangent_outputs, encode(plan.metas), plan.layouts]


def _program(half: HalfArtifacts, place: Place | None) -> list[Any]:
    if place is None or half.subgraphs:
        raise NotSaid("a program that is kept nowhere")
    return [half.core.name, number_of_calls(half.core), *place]


def _in_cache(half: HalfArtifacts, captured: Mapping[int, str]) -> Place | None:
    """The digest of a program's key, and which constant of the captured graph each of its own is."""
    if half.cached is None:
        return None
    digest, where = half.cached
    return digest, {name: captured[id(half.core.attributes[place])] for name, place in where.items()}


def _result(plan: tuple, graph: Graph, captured: Mapping[int, str]) -> list[Any]:
    """How a result is made: a constant by its name in the captured graph, operators by their names."""
    kind, which, *views = plan
    if kind == "constant":
        which = captured[id(graph.attributes[which])]
    return [kind, which, [[_view(op), encode(tuple(rest))] for op, rest in views]]


def _view(op: Any) -> str:
    """The name of a view operator; a word before it says that it runs under no_grad."""
    own = op.op if type(op) is Silently else op
    name = getattr(own, "qualname", "")
    if table_row(name) is not own:
        raise NotSaid(f"the operator {op!r}")
    return name if own is op else f"{SILENTLY}{name}"


def halves_of(data: bytes, graph: Graph, again: Callable[[], Halves], load: Load) -> Halves | None:
    """Read back a record. None if it is damaged, or if a program is there no more."""
    try:
        return _halves(json.loads(data), graph, again, load)
    except (KeyError, ValueError, TypeError, AttributeError, IndexError) as error:
        events.record("cache", "miss", unit="stage 2", reason=f"corrupt: {type(error).__name__}: {error}")
        return None


def _halves(record: dict[str, Any], graph: Graph, again: Callable[[], Halves], load: Load) -> Halves | None:
    made: list[Halves] = []

    def whole() -> Halves:
        if not made:
            made.append(again())
        return made[0]

    graphs = []
    readers: tuple[Callable[[], Any], ...] = (lambda: whole().forward, lambda: whole().backward)
    for (name, calls, digest, where), read in zip(record["programs"], readers, strict=False):
        program = load(digest, name, where)
        if program is None:
            return None
        graphs.append(KeptGraph(name, calls, {}, read, program))
    outputs, writes, draws, results, silent, versions = record["functional"]
    functional = FunctionalGraph(
        KeptGraph(record["name"], 0, graph.attributes, lambda: whole().functional.graph),
        outputs,
        tuple(writes),
        draws,
        None if results is None else tuple(map(_read_result, results)),
        tuple(silent),
        tuple(versions),
    )
    plan = CallPlan(decode(record["device"]), tuple(record["wanted"]), _read_saving(record["saving"]))
    updates = tuple((out, i) for out, i in record["updates"])
    places = None if record["places"] is None else tuple(record["places"])
    return Halves(functional, plan, graphs[0], updates, places, graphs[1] if len(graphs) > 1 else None)


def _read_result(record: list[Any]) -> tuple:
    kind, which, views = record
    return (kind, which, *((_read_view(name), decode(rest)) for name, rest in views))


def _read_view(name: str) -> Any:
    row = table_row(name.removeprefix(SILENTLY))
    if row is None:
        raise KeyError(name)
    return Silently(row) if name.startswith(SILENTLY) else row


def _read_saving(record: list[Any] | None) -> SavingPlan | None:
    if record is None:
        return None
    first, saved, tangents, metas, layouts = record
    kept = [(name, (kind, i), old) for name, (kind, i), old in saved]
    return SavingPlan(
        first,
        kept,
        tuple(tangents),
        decode(metas),
        [(tuple(strides), tuple(order)) for strides, order in layouts],
    )
