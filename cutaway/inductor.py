"""The map of the machine: every step from a captured graph to running kernels, by name and in order.

Input: the captured graph, example inputs, the Pipeline (its seams are steps), and the record that keeps each artifact.
STEPS lists the steps; each is one call below, timed as an event of kind "pass". `aot_eager` and `eager` take the same
steps and stop earlier.
"""

from __future__ import annotations

import contextvars
import functools
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cutaway import repro
from cutaway.aot_cache import Halves, Keeper, on_disk
from cutaway.array_context import placed
from cutaway.artifacts import Artifacts, HalfArtifacts, Later
from cutaway.as_captured import as_captured
from cutaway.building import emitted_program, one_after_the_other, started
from cutaway.device_parts import lies_apart, lower_apart
from cutaway.kept_graph import kept_program, number_of_calls
from cutaway.launch_errors import recover_backward, recover_forward
from cutaway.policies import builds_in_background, until_ready
from cutaway.shared_memory import on_shared_memory_too
from cutaway.targets import device_of_graph, target_for
from cutaway.verify_steps import compares_values, graphs_verified, pass_that_fails, verify_step
from stage0_eager import is_grad_enabled, set_grad_enabled
from stage0_eager.core_interpreter import interpreter
from stage0_eager.state import interpreting, ordinary_modes
from stage2_autograd.regions import cut_regions
from stage2_autograd.runtime.runtime_wrapper import call_plan, planned_wrapper, raise_it
from stage2_autograd.runtime.saved_outputs import returned_once, whole
from stage2_autograd.size_inputs import save_hidden_sizes, without_size_inputs
from stage4_runtime.runtime import first_calls, launch_on_numpy, report_once
from stage4_runtime.runtime.autotune import chosen_program, configurations, known
from stage4_runtime.runtime.layout import laid_out
from stage_contracts import config, events
from stage_contracts.device import CPU, Device
from stage_contracts.errors import BuildError, CompilerMissing
from stage_contracts.graph import Graph
from stage_contracts.graph_module import GraphModule
from stage_contracts.tensor_meta import TensorMeta

if TYPE_CHECKING:
    from stage_contracts.joint import FunctionalGraph
    from stage_contracts.pipeline import Pipeline
    from stage_contracts.program import Program, Target

# (name, stage, result). Logs, timings and artifacts use these names. `decompose` has a table of passes of its own.
STEPS: tuple[tuple[str, int, str], ...] = (
    ("capture", 1, "a graph of public operators, guards, the code that remains (compile_frame.py calls it)"),
    ("without_size_inputs", 2, "the graph on tensors alone: sizes travel as shapes"),
    ("functionalize", 2, "a graph without writes, and what to write back"),
    ("cut_regions", 2, "the same; each nested_compile_region cut into a forward and a backward once"),
    ("differentiate", 2, "the joint graph: forward and backward"),
    ("decompose", 2, "core operators only, cleaned up"),
    ("partition", 2, "a forward and a backward graph, and what is saved between"),
    ("save_hidden_sizes", 2, "the same, every open size of the backward shown by a saved value"),
    (
        "lower",
        3,
        "loop nests and external calls (artifacts.py, as the next three, for the cache may know the program)",
    ),
    ("fuse", 3, "kernels and steps in order"),
    ("schedule", 3, "how each kernel runs on the target"),
    ("plan_memory", 4, "a pool slot for each temporary"),
    ("emit", 3, "source (building.py, which asks the cache first)"),
    ("build", 4, "loaded kernels"),
    ("launch", 4, "a callable on arrays"),
    ("compile_guards", 1, "the guards as one Python function (compile_frame.py, as the next)"),
    ("check_guards", 4, "that they hold on the call they were made from"),
)

# (a half, its target) -> the program with source, and its constant arrays by name
Emitted = Callable[[HalfArtifacts, "Target"], "tuple[Program, dict[str, Any]]"]

BUILDS = 32  # compilers of GPU kernels that run at once, about 300 MB each


def step(name: str, function: Callable[..., Any], *args: Any) -> Any:
    """Run one step, timed under its name."""
    with events.timed("pass", name):
        return function(*args)


# ---- the backends ---------------------------------------------------------------------------------------------


def eager(graph: Graph, inputs: list, pipeline: Pipeline, artifacts: Artifacts) -> Callable[..., tuple]:
    """Run the captured graph as it is, without any later stage."""
    run = as_captured(graph)
    return run.prepare() if isinstance(run, GraphModule) else run


def aot_eager(graph: Graph, inputs: list, pipeline: Pipeline, artifacts: Artifacts) -> Callable[..., tuple]:
    """Run stage 2's graphs, operator by operator."""
    place, pipeline = placed(pipeline, artifacts.frame)
    return ahead_of_time(graph, pipeline, artifacts, lambda core, _=(): lambda: (interpreter(core), None))


def aot_eager_decomp_partition(
    graph: Graph, inputs: list, pipeline: Pipeline, artifacts: Artifacts
) -> Callable[..., tuple]:
    """torch's name for what aot_eager does here already: operators decomposed, the joint graph cut by min-cut."""
    with config.patch({"autograd.partitioner": "min_cut"}):
        return aot_eager(graph, inputs, pipeline, artifacts)


def inductor(
    graph: Graph,
    inputs: list,
    pipeline: Pipeline,
    artifacts: Artifacts,
    emitted: Emitted = emitted_program,
    keeper: Keeper | None = None,
) -> Callable[..., tuple]:
    """Run every stage: kernels for the device of the inputs. A tensor without data has nothing to compute. `emitted`
    gives the program of each half, `keeper` what stage 2 made (saved_programs.py has them from a file)."""
    device = device_of_graph(graph)
    if device.type == "meta":
        events.record("fallback", "aot_eager", reason="tensors on the device meta have no data")
        return aot_eager(graph, inputs, pipeline, artifacts)

    place, pipeline = placed(pipeline, artifacts.frame)
    apart = place is not None or lies_apart(graph)

    def lower(part: Graph, of: Device) -> Callable[[], HalfArtifacts]:
        return lower_and_build(part, of, pipeline, (), emitted)

    def compile_half(core: Graph, updates: Updates = ()) -> Finish:
        if apart and lies_apart(core):
            built = lower_apart(core, pipeline, lower)
        else:
            of = device_of_graph(core) if apart else device
            built = lower_and_build(core, of, pipeline, updates, emitted)

        def finish() -> tuple[Callable[..., tuple], HalfArtifacts]:
            half = built()
            assert half.run is not None
            return half.run, half

        return finish

    keeper = None if apart else keeper or on_disk(pipeline, target_for(device))
    return ahead_of_time(graph, pipeline, artifacts, compile_half, keeper)


def cudagraphs(graph: Graph, inputs: list, pipeline: Pipeline, artifacts: Artifacts) -> Callable[..., tuple]:
    """The same as inductor, with each program captured as a CUDA graph."""
    with config.patch({"runtime.cuda_graphs": True}):
        return inductor(graph, inputs, pipeline, artifacts)


# (output, input) positions: the caller copies that output of the graph into that input, and uses it for nothing else.
Updates = Sequence[tuple[int, int]]
Finish = Callable[[], tuple[Callable[..., tuple], HalfArtifacts | None]]
# (graph, updates) -> a function that waits for the build: so the forward and the backward build at the same time
CompileHalf = Callable[..., Finish]


# ---- stage 2 --------------------------------------------------------------------------------------------------


def ahead_of_time(
    graph: Graph,
    pipeline: Pipeline,
    artifacts: Artifacts,
    compile_half: CompileHalf,
    keeper: Keeper | None = None,
) -> Callable[..., tuple]:
    """Stage 2: a forward graph and, if gradients are needed, a backward graph. `compile_half` compiles each of them.
    `keeper`: where there may be what stage 2 made of this graph before.

    If a graph writes to inputs, a call in which these share memory with other inputs takes the way of shared_memory.py.
    """
    compile_half = _saving_failures(_verified(compile_half), artifacts)
    on_tensors, arrange = step("without_size_inputs", without_size_inputs, graph, device_of_graph(graph))
    compile_graph = functools.partial(
        two_graphs, pipeline=pipeline, artifacts=artifacts, compile_half=compile_half, keeper=keeper
    )
    with graphs_verified():
        functional, run = compile_graph(on_tensors)
    if functional.writes:
        run = on_shared_memory_too(on_tensors, functional, run, artifacts, compile_graph)
    return run if on_tensors is graph else lambda *inputs: run(*arrange(inputs))


def _verified(compile_half: CompileHalf) -> CompileHalf:
    """`compile_half`; with debug.verify, each call of its result is compared with the core graph."""
    if not compares_values():
        return compile_half
    from cutaway.debug.verify import verified

    passes_too = config.current().autograd.verify_passes  # else only once a value differs, to name the pass

    def compile_and_verify(core: Graph, updates: Updates = ()) -> Finish:
        in_force = contextvars.copy_context()  # the same settings hold when shorter graphs are compiled

        def compiled(part: Graph, updates: Updates = (), passes: bool = passes_too) -> Any:
            with config.patch({"autograd.verify_passes": passes}):
                return compile_half(part, updates)()

        def finish() -> tuple[Callable[..., tuple], HalfArtifacts | None]:
            run, half = compiled(core, updates)
            again = lambda part: in_force.run(compiled, part)[0]  # noqa: E731
            wrong_pass = lambda: in_force.run(pass_that_fails, lambda: compiled(core, passes=True))  # noqa: E731
            return verified(core, run, again, wrong_pass), half

        return finish

    return compile_and_verify


def _saving_failures(compile_half: CompileHalf, artifacts: Artifacts) -> CompileHalf:
    """`compile_half`; with repro_after="aot", a failure in it is saved as a program."""
    if config.current().capture.repro_after != "aot":
        return compile_half

    def compile_and_save(core: Graph, updates: Updates = ()) -> Finish:
        kept: list[HalfArtifacts | None] = []

        def run() -> Callable[..., tuple]:
            made, half = compile_half(core, updates)()
            kept.append(half)
            return made

        def finish() -> tuple[Callable[..., tuple], HalfArtifacts | None]:
            name = f"{artifacts.function_name}_{core.name}"
            return repro.compiled("aot", name, artifacts.backend, core, repro.drawn_for(core), run), kept[0]

        return finish

    return compile_and_save


def two_graphs(
    graph: Graph,
    pipeline: Pipeline,
    artifacts: Artifacts,
    compile_half: CompileHalf,
    keeper: Keeper | None = None,
) -> tuple[FunctionalGraph, Callable[..., tuple]]:
    """Stage 2's graphs, compiled. Returns the functional graph, and a callable on the user's tensors."""
    known = keeper and kept_before(graph, pipeline, artifacts, keeper)
    made = known or stage_two(graph, pipeline, artifacts)
    recover = recover_forward(graph, artifacts), raise_it
    backward = None
    if made.backward is None:
        forward, artifacts.forward = compile_half(made.forward, made.updates)()
    else:
        # the backward first: its compiler takes longest, and meanwhile the forward is lowered
        halves = compile_half(made.backward), compile_half(made.forward, made.updates)
        (backward, artifacts.backward), (forward, artifacts.forward) = (finish() for finish in halves)
        recover = recover[0], recover_backward(made.backward, artifacts)
    artifacts.halves = made
    if keeper is not None and known is None:
        keeper.keep(graph, artifacts.function_name, made, artifacts.forward, artifacts.backward)
    run = planned_wrapper(made.functional, made.plan, whole(forward, made.places), backward, recover)
    return made.functional, run


def stage_two(graph: Graph, pipeline: Pipeline, artifacts: Artifacts) -> Halves:
    """The steps of stage 2 on a graph of tensors. The artifacts get what each step makes."""
    functional = artifacts.functional = step("functionalize", pipeline.functionalize, graph)
    functional.graph.verify()
    verify_step("functionalize", graph, functional)
    metas = [n.val for n in functional.graph.placeholders]
    if not (is_grad_enabled() and any(isinstance(m, TensorMeta) and m.requires_grad for m in metas)):
        core = step("decompose", pipeline.decompose, functional.graph).verify()
        verify_step("decompose", functional.graph, core)
        return Halves(functional, call_plan(functional), core, _updates(functional))
    seams = pipeline.differentiate, pipeline.decompose, pipeline.partition
    cut = step("cut_regions", cut_regions, functional, *seams)
    joint = artifacts.joint = step("differentiate", pipeline.differentiate, cut).verify()
    verify_step("differentiate", functional, joint)
    core = step("decompose", pipeline.decompose, joint.graph)
    verify_step("decompose", joint.graph, core)
    joint = artifacts.decomposed = replace(joint, graph=core).verify()
    cut = step("partition", pipeline.partition, joint).verify()
    verify_step("partition", joint, cut)
    partition = artifacts.partition = step("save_hidden_sizes", save_hidden_sizes, cut)
    shorter, places = returned_once(partition, functional)
    # a whole training step has had its backward: nothing is saved that an update could spoil
    updates = () if joint.tangent_outputs else _updates(functional)
    plan = call_plan(functional, joint, partition)
    return Halves(functional, plan, shorter, updates, places, partition.backward)


def kept_before(graph: Graph, pipeline: Pipeline, artifacts: Artifacts, keeper: Keeper) -> Halves | None:
    """What stage 2 made of this graph in an earlier compile. The artifacts are then made when they are first read."""
    settings, grad = config.current(), is_grad_enabled()
    made = Artifacts(artifacts.function_name, artifacts.frame, graph)

    @functools.cache
    def again() -> Halves:
        with config.patch(settings), set_grad_enabled(grad), ordinary_modes(), interpreting(None):
            return stage_two(graph, pipeline, made)

    def later(name: str) -> Any:
        return Later(lambda: again() and getattr(made, name))

    known = keeper.find(graph, artifacts.function_name, again)
    if known is not None:
        artifacts.functional = later("functional")
        if known.backward is not None:
            artifacts.joint, artifacts.decomposed = later("joint"), later("decomposed")
            artifacts.partition = later("partition")
    return known


# Views of a result that cannot fail: the trace has seen their layouts.
SURE_VIEWS = {"slice", "permute", "expand", "reshape"}


def _updates(functional: FunctionalGraph) -> tuple[tuple[int, int], ...]:
    """What kernels may write to inputs in place: all that is written back, if no step after the launch can fail."""
    views = {op.name for plan in functional.results or () for op, _ in plan[2:]}
    plain = views <= SURE_VIEWS
    return tuple((functional.num_outputs + k, i) for k, i in enumerate(functional.writes)) if plain else ()


# ---- stages 3 and 4 -------------------------------------------------------------------------------------------


def lower_and_build(
    core: Graph,
    device: Device,
    pipeline: Pipeline,
    updates: Updates = (),
    emitted: Emitted = emitted_program,
) -> Callable[[], HalfArtifacts]:
    """Stages 3 and 4 for one core-operator graph. Returns a function that waits for the build. Without a C++ compiler,
    the graph itself runs on NumPy.

    The subgraphs of control flow come first. Each becomes a program of its own, which a step of this program calls;
    all are built at the same time.
    """
    inner = {
        name: lower_and_build(value.graph, device, pipeline, (), emitted)
        for name, value in core.attributes.items()
        if isinstance(value, GraphModule)
    }
    events.record(
        "phase", f"Step 3: inductor compiling {core.name} of {number_of_calls(core)} calls for {device}"
    )
    half = HalfArtifacts(core, pipeline, target_for(device), updates)
    program, half.constants = kept_program(core) or emitted(half, half.target)
    half.emitted[half.target.name] = program
    first_calls.begin(program)
    is_built, built = started(build_all, program, pipeline)

    def launched() -> Callable[..., tuple]:
        try:
            kernels = step("build", built)
            chosen = half.emitted[half.target.name] = chosen_program(program)
        except CompilerMissing as missing:
            report_once(f"cutaway: {missing}; running compiled graphs on NumPy")
            events.record("fallback", "numpy", reason=str(missing))
            return launch_on_numpy(core)
        except BuildError as refused:
            if device == CPU:
                raise
            report_once(f"cutaway: {core.name} runs op by op on {device}: {refused}")
            events.record("fallback", "eager kernels", reason=str(refused))
            return launch_on_numpy(core)
        runs = {
            name: laid_out(part.run, [n.val for n in part.core.placeholders])
            for name, part in half.subgraphs.items()
            if part.run is not None
        }
        run = step("launch", pipeline.launch, chosen, kernels, {**half.constants, **runs})
        events.record("phase", f"Step 3: inductor done compiling {core.name}")
        return run

    def finish() -> HalfArtifacts:
        half.subgraphs.update((name, part()) for name, part in inner.items())
        if builds_in_background() and device == CPU and not is_built():
            half.run = until_ready(launch_on_numpy(core), is_built, launched)
        else:
            half.run = launched()
        return half

    return finish


def build_all(program: Program, pipeline: Pipeline) -> dict[str, Any]:
    """Build and load every kernel of a program. Returns the kernels by name.

    On a GPU each kernel is a unit of its own: the units are built side by side, in all configurations that are to be
    measured; then each unit's fastest is chosen.
    """
    if len(program.units) <= 1:
        return one_after_the_other(program, pipeline)
    kernels: dict[str, Any] = {}
    with ThreadPoolExecutor(min(BUILDS, max(2, os.cpu_count() or 2))) as pool:
        run = lambda unit: pool.submit(contextvars.copy_context().run, pipeline.build, unit)  # noqa: E731
        tried = [run(one) for unit in program.units if known(unit) is None for one in configurations(unit)]
        for built in [run(unit) for unit in program.units if known(unit) is not None]:
            kernels.update(built.result())
        wait(tried)
    for unit in program.units:
        if not kernels.keys() >= {*unit.kernels}:
            kernels.update(pipeline.build(unit))
    return kernels
