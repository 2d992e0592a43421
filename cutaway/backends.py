"""Backends by name: what turns a captured graph into something that runs. Each is a way through the seams.

Input: the captured Graph, example inputs, the Pipeline. `inductor` goes through every stage; `aot_eager` stops before
lowering; `eager` runs the captured graph itself. Other packages add theirs under the entry point `cutaway_backends`.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from cutaway.artifacts import Artifacts, HalfArtifacts
from cutaway.building import emitted_program, in_background
from cutaway.pipelines import default_pipeline
from cutaway.size_inputs import save_hidden_sizes, without_size_inputs
from stage0_eager import is_grad_enabled, no_grad
from stage0_eager.core_interpreter import interpreter
from stage0_eager.random.generator import default_generator
from stage_contracts import config, events
from stage_contracts.breaks import Unsupported
from stage_contracts.device import CPU, Device
from stage_contracts.errors import BackendFailed, CompilerMissing, OutOfRange
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import GraphModule
from stage_contracts.messages import checks_options, did_you_mean, say
from stage_contracts.shown_sizes import open_sizes_in, shown_sizes, size_reader, with_sizes
from stage_contracts.tensor_meta import TensorMeta

if TYPE_CHECKING:
    from stage_contracts.joint import FunctionalGraph, Partition
    from stage_contracts.pipeline import Pipeline
    from stage_contracts.program import Program, Target


@dataclass(frozen=True)
class Backend:
    """compile(graph, example_inputs, pipeline, artifacts) -> callable(*tensors) -> tuple of tensors."""

    name: str
    compile: Callable[[Graph, list, Pipeline, Artifacts], Callable[..., tuple]]
    builtin: bool = True
    open_sizes: bool = True  # takes graphs whose sizes are not all known (SymInt inputs and metas)


def find_backend(backend: str | Callable) -> Backend:
    """The backend that a name, or a torch-style callable, stands for. Raises ValueError with the known names."""
    if callable(backend):
        return foreign(getattr(backend, "__name__", type(backend).__name__), backend)
    if backend in BACKENDS:
        return BACKENDS[backend]
    if backend in REGISTERED:
        return foreign(backend, REGISTERED[backend][0])
    found = {e.name: e for e in entry_points(group="cutaway_backends")}
    if backend in found:
        return foreign(backend, found[backend].load())
    known = [*BACKENDS, *REGISTERED, *found]
    hint = did_you_mean(backend, known)
    raise ValueError(say("unknown_backend", name=backend, known=", ".join(known), hint=hint))


# As torch tags them: what is for finding faults, not for speed.
TAGS = {"eager": "debug", "aot_eager": "debug"}


def list_backends(exclude_tags: Collection[str] | None = ("debug", "experimental")) -> list[str]:
    """The names `compile(backend=...)` takes, sorted; with those for debugging if `exclude_tags` is () or None."""
    tags = {name: [TAGS[name]] if name in TAGS else [] for name in BACKENDS}
    tags |= {e.name: [] for e in entry_points(group="cutaway_backends")}
    tags |= {name: list(own) for name, (_, own) in REGISTERED.items()}
    return sorted(name for name, own in tags.items() if not {*own} & {*(exclude_tags or ())})


# Those that a program gave a name: the function and its tags.
REGISTERED: dict[str, tuple[Callable, tuple[str, ...]]] = {}
_REGISTERING = threading.Lock()


@checks_options
def register_backend(
    compiler_fn: Callable | None = None, name: str | None = None, tags: Collection[str] = ()
) -> Any:
    """Let `compile(backend=name)` mean this torch-style callable; the name is the function's own unless given.

    Returns it, so that it can decorate; without it, a decorator. Raises ValueError for a name that is taken.
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise TypeError(f"register_backend expects a callable, got {type(compiler_fn).__name__}")
    chosen = str(name or getattr(compiler_fn, "__name__", type(compiler_fn).__name__))
    with _REGISTERING:
        if chosen in BACKENDS or chosen in REGISTERED:
            raise ValueError(f"there is a backend {chosen!r} already; give this one another name")
        REGISTERED[chosen] = (compiler_fn, tuple(tags))
    return compiler_fn


def lookup_backend(compiler_fn: str | Callable) -> Callable[[Any, list], Callable[..., tuple]]:
    """The torch-style callable that a backend's name stands for: `(graph_module, example_inputs) -> callable`."""
    if callable(compiler_fn):
        return compiler_fn
    if compiler_fn in REGISTERED:
        return REGISTERED[compiler_fn][0]
    find_backend(compiler_fn)  # raises for an unknown name
    return lambda graph_module, inputs: run_backend(compiler_fn, graph_module, inputs)


def run_backend(backend: str, graph_module: Any, example_inputs: list) -> Callable[..., tuple]:
    """What the backend of that name makes of a graph: for a backend that looks at graphs and hands them on."""
    found, pipeline = find_backend(backend), default_pipeline()
    artifacts = Artifacts(backend, None, graph_module.graph, backend=found.name, pipeline=pipeline)  # type: ignore
    return found.compile(graph_module.graph, example_inputs, pipeline, artifacts)


def foreign(name: str, function: Callable) -> Backend:
    """A torch-style backend: `(graph_module, example_inputs) -> callable(*inputs) -> tuple of outputs`."""

    def run(graph: Graph, inputs: list, pipeline: Pipeline, artifacts: Artifacts) -> Callable[..., tuple]:
        compiled = function(GraphModule(graph), inputs)
        if not callable(compiled):
            raise TypeError(
                f"the backend returned {type(compiled).__name__}, expected a callable on the graph's inputs"
            )
        return checked(name, compiled, len(graph.outputs))

    return Backend(name, run, builtin=False)


def checked(name: str, run: Callable[..., Any], count: int) -> Callable[..., tuple]:
    """What a backend made, held to what it promises: a tuple (or list) with one entry per output of the graph."""

    def outputs(*inputs: Any) -> tuple:
        found = run(*inputs)
        if not isinstance(found, (tuple, list)):
            seen = type(found).__name__
        elif len(found) != count:
            seen = f"{type(found).__name__} of {len(found)}"
        else:
            return found  # type: ignore[return-value]
        raise BackendFailed(
            f"backend {name!r} made a callable that returned {seen}, expected a tuple of the graph's outputs, "
            f"{count} here; return (out,) for one"
        )

    return outputs


# ---- the built-in ones --------------------------------------------------------------------------------------


def eager(graph: Graph, inputs: list, pipeline: Pipeline, artifacts: Artifacts) -> Callable[..., tuple]:
    """Run the captured graph as it is: what capture did, nothing else."""
    return as_it_is(graph)


def aot_eager(graph: Graph, inputs: list, pipeline: Pipeline, artifacts: Artifacts) -> Callable[..., tuple]:
    """Stage 2's graphs, operator by operator."""
    return ahead_of_time(graph, pipeline, artifacts, lambda core, _=(): lambda: (interpreter(core), None))


def inductor(graph: Graph, inputs: list, pipeline: Pipeline, artifacts: Artifacts) -> Callable[..., tuple]:
    """Every stage: kernels for the device the inputs live on."""
    device = device_of_graph(graph)

    def compile_half(core: Graph, updates: Updates = ()) -> Finish:
        built = lower_and_build(core, device, pipeline, updates)

        def finish() -> tuple[Callable[..., tuple], HalfArtifacts]:
            half = built()
            assert half.run is not None
            return half.run, half

        return finish

    return ahead_of_time(graph, pipeline, artifacts, compile_half)


def cudagraphs(graph: Graph, inputs: list, pipeline: Pipeline, artifacts: Artifacts) -> Callable[..., tuple]:
    """As inductor, each program captured as a CUDA graph."""
    with config.patch({"runtime.cuda_graphs": True}):
        return inductor(graph, inputs, pipeline, artifacts)


BACKENDS: dict[str, Backend] = {
    f.__name__: Backend(f.__name__, f) for f in (inductor, aot_eager, eager, cudagraphs)
}


# (output, input) positions: the caller copies that output of the graph into that input, and keeps it nowhere else.
Updates = Sequence[tuple[int, int]]
Finish = Callable[[], tuple[Callable[..., tuple], HalfArtifacts | None]]
CompileHalf = Callable[
    ..., Finish
]  # (graph, updates) -> what waits for the build: so halves build at the same time


# ---- the way through stages 2, 3 and 4 ------------------------------------------------------------------------


_SILENTLY = ("no_grad", "writes_silently")  # the marks of a call that stood under no_grad


def ran_silently(node: Node) -> bool:
    return any(map(node.meta.get, _SILENTLY))


def as_it_is(graph: Graph) -> Callable[..., tuple]:
    """The captured graph as it is: what was under no_grad runs so, each open size is the number that a call shows."""
    metas = [n.val for n in graph.placeholders]
    if next(open_sizes_in(metas), None) is None and not any(map(ran_silently, graph.calls)):
        return GraphModule(graph)
    read = size_reader(shown_sizes(metas))

    def call(*tensors: Any) -> tuple:
        sizes = read(tensors)

        def run(node: Node, args: tuple, kwargs: dict) -> Any:
            with no_grad() if ran_silently(node) else nullcontext():
                return node.target(*with_sizes(args, sizes), **with_sizes(kwargs, sizes))

        return graph.interpret(tensors, run)

    return call


def ahead_of_time(
    graph: Graph,
    pipeline: Pipeline,
    artifacts: Artifacts,
    compile_half: CompileHalf,
) -> Callable[..., tuple]:
    """Stage 2: a forward and, if gradients are wanted, a backward graph; each compiled by `compile_half`.

    A graph that writes to inputs refuses a call in which they share memory with others. It is compiled again for the
    places they have in it, or, where that cannot be, the captured graph itself runs.
    """
    from stage2_autograd.runtime_wrapper import RefusedWrite

    captured, (graph, arrange) = graph, without_size_inputs(graph, device_of_graph(graph))
    if captured is not graph:
        on_tensors = ahead_of_time(graph, pipeline, artifacts, compile_half)
        return lambda *inputs: on_tensors(*arrange(inputs))
    functional, compiled = two_graphs(graph, pipeline, artifacts, compile_half)
    # a variant is compiled when its first call comes, which is too late for a question about sizes
    sizes_open = next(open_sizes_in([n.val for n in graph.placeholders]), None) is not None
    as_captured = as_it_is(graph)
    variants: dict[Any, Callable[..., tuple]] = {}

    def run(*tensors: Any) -> tuple:
        try:
            return compiled(*tensors)
        except OutOfRange:  # nothing was written
            default_generator().advance(-functional.rng_calls)
            as_captured(*tensors)  # it writes what comes before, and raises torch's error
            raise

    if not functional.writes:
        return run

    def guarded(*tensors: Any) -> tuple:
        try:
            return run(*tensors)  # it refuses before it has written anything
        except RefusedWrite:
            return as_captured(*tensors)  # it writes what comes before, and raises the error
        except Unsupported as refusal:
            variant = on_shared_memory(tensors)
            if variant is not None:
                with suppress(Unsupported):  # yet another input lies there
                    return variant(*tensors)
            events.record("fallback", "eager", reason=refusal.construct)
            return as_captured(*tensors)

    def on_shared_memory(tensors: tuple) -> Callable[..., tuple] | None:
        from stage2_autograd.aliased_inputs import on_their_memory, pattern_of, run_on_their_memory

        pattern = pattern_of(tensors, functional)
        if pattern is not None and pattern not in variants and not sizes_open:
            events.record("recompile", "aliased inputs", reason=f"inputs {pattern.members} share memory")
            with suppress(Unsupported):
                _, made = two_graphs(
                    on_their_memory(graph, pattern), pipeline, replace(artifacts), compile_half
                )
                variants[pattern] = run_on_their_memory(pattern, graph, functional, made)
        return variants.get(pattern)

    return guarded


def two_graphs(
    graph: Graph,
    pipeline: Pipeline,
    artifacts: Artifacts,
    compile_half: CompileHalf,
) -> tuple[FunctionalGraph, Callable[..., tuple]]:
    """The functional graph, and a callable on the user's tensors."""
    from stage2_autograd.runtime_wrapper import make_runtime_wrapper

    with events.timed("pass", "functionalize"):
        functional = artifacts.functional = pipeline.functionalize(graph)
    functional.graph.verify()
    metas = [n.val for n in functional.graph.placeholders]
    partition: Partition | None = None
    if is_grad_enabled() and any(isinstance(m, TensorMeta) and m.requires_grad for m in metas):
        with events.timed("pass", "differentiate"):
            joint = artifacts.joint = pipeline.differentiate(functional).verify()
        with events.timed("pass", "decompose"):
            joint = artifacts.decomposed = replace(joint, graph=pipeline.decompose(joint.graph)).verify()
        with events.timed("pass", "partition"):
            partition = artifacts.partition = save_hidden_sizes(pipeline.partition(joint).verify())
        halves = compile_half(partition.forward), compile_half(partition.backward)
        (forward, artifacts.forward), (backward, artifacts.backward) = (finish() for finish in halves)
        return functional, make_runtime_wrapper(functional, forward, backward, joint, partition)
    with events.timed("pass", "decompose"):
        core = pipeline.decompose(functional.graph).verify()
    updates = [(functional.num_outputs + k, i) for k, i in enumerate(functional.writes)]
    forward, artifacts.forward = compile_half(core, updates)()
    return functional, make_runtime_wrapper(functional, forward)


def lower_and_build(
    core: Graph, device: Device, pipeline: Pipeline, updates: Updates = ()
) -> Callable[[], HalfArtifacts]:
    """Stages 3 and 4 for one core-operator graph; what it returns waits for the build. Without a C++ compiler the graph
    itself runs on NumPy.

    The subgraphs of its control flow come first: each becomes a program of its own, which a step of this one calls.
    """
    inner = {
        name: lower_and_build(value.graph, device, pipeline)()
        for name, value in core.attributes.items()
        if isinstance(value, GraphModule)
    }
    half = HalfArtifacts(core, pipeline, target_for(device), updates, subgraphs=inner)
    program, constants = emitted_program(half, half.target)
    built = in_background(build_all, program, pipeline)

    def finish() -> HalfArtifacts:
        try:
            with events.timed("pass", "build"):
                kernels = built()
        except CompilerMissing as missing:
            from stage4_runtime.runtime import launch_on_numpy, report_once

            report_once(f"cutaway: {missing}; running compiled graphs on NumPy")
            events.record("fallback", "numpy", reason=str(missing))
            half.run = launch_on_numpy(core)
            return half
        with events.timed("pass", "launch"):
            runs = {name: part.run for name, part in inner.items()}
            half.run = pipeline.launch(program, kernels, {**constants, **runs})
        return half

    return finish


def build_all(program: Program, pipeline: Pipeline) -> dict[str, Any]:
    """Every kernel of a program, built and loaded, by name."""
    kernels: dict[str, Any] = {}
    for unit in program.units:
        kernels.update(pipeline.build(unit))
    return kernels


def device_of_graph(graph: Graph) -> Device:
    """The device a graph's tensors live on: a GPU if any does."""
    devices = {n.val.device for n in graph.nodes if isinstance(n.val, TensorMeta)}
    return next((d for d in sorted(devices, key=str) if d.type != "cpu"), CPU)


def target_for(device: Device) -> Target:
    return target_named("cpp" if device.type == "cpu" else "triton", device)


def target_named(name: str, device: Device) -> Target:
    """A Target; Triton's architecture is the GPU's own, or sm_90 where there is none."""
    from stage_contracts.program import Target

    if name == "cpp":
        return Target("cpp", CPU)
    arch = "sm_90"
    if device.type == "cuda":
        from stage4_runtime.runtime import gpu_architecture

        arch = gpu_architecture(device)
    return Target("triton", device, arch)
