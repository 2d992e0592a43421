"""The artifacts of one compile: what every stage made, kept for explain, the tour page and the labs.

Input: compile_frame.py fills one Artifacts per compiled entry; `fn.artifacts` is the list of them, newest last.
Everything here prints: `print(a.forward.core)` shows a program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from cutaway.measured_programs import fastest_on
from cutaway.verify_steps import passes_verified, verify_step
from stage_contracts import events
from stage_contracts.measured import answering, fastest_of
from stage_contracts.messages import say
from stage_contracts.passes import PassResult, PassResults, keeping

if TYPE_CHECKING:
    from cutaway.aot_cache import Halves
    from stage_contracts.capture import CapturedFrame
    from stage_contracts.events import Event
    from stage_contracts.graph import Graph
    from stage_contracts.joint import FunctionalGraph, JointGraph, Partition
    from stage_contracts.loop_ir import LoweredGraph
    from stage_contracts.pipeline import Pipeline
    from stage_contracts.program import Program, Target


class ArtifactList(list["Artifacts"]):
    """The artifacts of one function, oldest first. Reading one while the list is empty raises an IndexError that says
    why."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getitem__(self, index: Any) -> Any:
        if not self and not isinstance(index, slice):
            raise IndexError(say("no_artifacts", name=self.name))
        return super().__getitem__(index)

    def __repr__(self) -> str:
        return super().__repr__() if self else f"[]  # {say('no_artifacts', name=self.name)}"


@dataclass
class HalfArtifacts:
    """What stages 3 and 4 made of one graph: the forward, or the backward.

    Each artifact is made when you first read it: a program that comes from the cache runs without them.
    """

    core: Graph  # core operators only
    pipeline: Pipeline
    target: Target  # what it runs on
    # (output, input): the caller copies that output of the graph into that input
    updates: Sequence[tuple[int, int]] = ()
    # by target name: the target that runs, and others if you ask for them
    emitted: dict[str, Program] = field(default_factory=dict)
    constants: dict[str, Any] = field(default_factory=dict)  # the arrays that the program reads, by name
    # the same for each subgraph, by name
    subgraphs: dict[str, HalfArtifacts] = field(default_factory=dict)
    run: Callable[..., tuple] | None = None  # arrays -> arrays; `run.source_text` is its steps as Python
    # of a program that is in the cache: the digest of its key, and which attribute each of its constants is
    cached: tuple[str, dict[str, str]] | None = None

    @cached_property
    def lowered(self) -> LoweredGraph:
        """Loop nests and external calls."""
        with events.timed("pass", "lower"):
            lowered = self.pipeline.lower(self.core).verify()
        verify_step("lower", self.core, lowered)
        return lowered

    @cached_property
    def fused(self) -> Program:
        """Kernels and steps, without memory or source."""
        lowered = self.lowered
        with events.timed("pass", "fuse"):
            program = self.pipeline.fuse(lowered).verify()
        verify_step("fuse", lowered, program)
        return program.with_(updates=self._updated_inputs(program))

    @cached_property
    def planned(self) -> Program:
        """The program with schedules and slots, for the target that runs."""
        return self.planned_for(self.target)

    def planned_for(self, target: Target) -> Program:
        """The program with a schedule for each kernel on that target, and a slot for each buffer."""
        fused = self.fused
        with events.timed("pass", "schedule"), answering(fastest_of() or fastest_on(self.pipeline, target)):
            scheduled = self.pipeline.schedule(fused, target).verify()
        verify_step("schedule", fused, scheduled)
        with events.timed("pass", "plan_memory"), passes_verified():
            planned = self.pipeline.plan_memory(scheduled).verify()
        verify_step("plan_memory", scheduled, planned)
        return planned

    def _updated_inputs(self, program: Program) -> dict[str, str]:
        """For each output that the caller copies into an input: the output's buffer, and the input's name."""
        values = program.return_step.values
        pairs: list[tuple[Any, str]] = [(values[out], program.inputs[i]) for out, i in self.updates]
        # a BufferRef without a shape is a whole buffer; numbers have no such attribute
        return {
            ref.name: name
            for ref, name in pairs
            if getattr(ref, "shape", 0) is None and program.buffers[ref.name].role == "output"
        }

    def passes(self, half: str) -> list[PassResult]:
        """What each step and each pass inside it made. All of them run again for this."""
        made: list[PassResult] = []

        def step(name: str, summary: str, run: Callable[[], Any]) -> None:
            with keeping() as inside:
                artifact = run()
            made.extend(replace(result, name=f"{result.name}.{half}") for result in inside)
            made.append(PassResult(f"{name}.{half}", summary, artifact))

        seams, target = self.pipeline, self.target
        lowered, fused = self.lowered, self.fused
        with answering(fastest_of() or fastest_on(seams, target)):
            scheduled = seams.schedule(fused, target)
        step("lower", "loop nests and external calls", lambda: lowered)
        step("fuse", "kernels and steps in order", lambda: seams.fuse(lowered))
        step("schedule", "how each kernel runs", lambda: seams.schedule(fused, target))
        step("plan_memory", "with schedules and pool slots", lambda: seams.plan_memory(scheduled))
        step("emit", f"source for {target.name}", lambda: seams.emit(self.planned, target))
        text = "\n".join(unit.text for unit in made[-1].artifact.units)
        return [*made[:-1], replace(made[-1], artifact=text)]

    def named(self, half: str) -> list[tuple[str, Any]]:
        """(name, artifact) of each artifact, those of the subgraphs first."""
        found = [pair for name, part in self.subgraphs.items() for pair in part.named(f"{half}.{name}")]
        found += [(f"{half}.core", self.core), (f"{half}.planned", self.planned)]
        for target, program in self.emitted.items():
            found.append((f"{half}.{target}", "\n".join(unit.text for unit in program.units)))
        return found


@dataclass(frozen=True)
class Later:
    """What makes an artifact when it is first read: a compile that came from the cache has not made it."""

    make: Callable[[], Any]


class MadeWhenRead:
    """A field of Artifacts. None, an artifact, or a Later."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = f"_{name}"

    def __get__(self, artifacts: Any, owner: type | None = None) -> Any:
        if artifacts is None:
            return None  # the default of the field
        value = vars(artifacts)[self.name]
        if isinstance(value, Later):
            value = vars(artifacts)[self.name] = value.make()
        return value

    def __set__(self, artifacts: Any, value: Any) -> None:
        vars(artifacts)[self.name] = value


@dataclass
class Artifacts:
    """One compiled entry of one function."""

    function_name: str
    frame: CapturedFrame
    captured: Graph | None  # public operators, as captured
    functional: FunctionalGraph | None = MadeWhenRead()  # type: ignore[assignment]
    joint: JointGraph | None = MadeWhenRead()  # type: ignore[assignment]  # None for inference
    # the joint graph in core operators
    decomposed: JointGraph | None = MadeWhenRead()  # type: ignore[assignment]
    partition: Partition | None = MadeWhenRead()  # type: ignore[assignment]
    halves: Halves | None = None  # what a call reads of all this
    forward: HalfArtifacts | None = None
    backward: HalfArtifacts | None = None
    backend: str = "inductor"
    pipeline: Pipeline | None = None  # the seams that made all this
    fullgraph: bool = False
    parts: list[Artifacts] = field(
        default_factory=list
    )  # of a graph that was compiled in parts (optimize_ddp)
    events: list[Event] = field(default_factory=list)  # what the event log recorded during this compile

    def named(self) -> list[tuple[str, Any]]:
        """(name, artifact) of every artifact, in the order in which they were made; each prints as text."""
        found: list[tuple[str, Any]] = [
            ("captured", self.captured),
            ("residual", self.frame.residual_source),
            ("functional", self.functional and self.functional.graph),
            ("joint", self.joint and self.joint.graph),
            ("decomposed", self.decomposed and self.decomposed.graph),
            ("saved", self.partition and self.partition.report()),
        ]
        for half in ("forward", "backward"):
            part: HalfArtifacts | None = getattr(self, half)
            if part is None:
                continue
            found += part.named(half)
        return [(name, artifact) for name, artifact in found if artifact]

    @cached_property
    def passes(self) -> PassResults:
        """What each step and pass made, in order: `print(a.passes)` lists them, `print(a.passes["casts"])` prints one,
        `a.passes.diff("core_bodies", "casts")` shows what changed. The passes inside a stage run again for this, on the
        stage's input, because a compile keeps no copies of what they make."""
        from stage1_capture.steps import results  # imported here: a compile does not need it

        found = [*results(self.frame), PassResult("capture", "public operators", self.captured)]
        if self.functional is not None:
            found.append(PassResult("functionalize", "no writes", self.functional.graph))
            given = self.functional.graph
            if self.joint is not None:
                found.append(PassResult("differentiate", "forward and backward", self.joint.graph))
                given = self.joint.graph
            with keeping() as inside:
                assert self.pipeline is not None
                core = self.pipeline.decompose(given)
            found += [*inside, PassResult("decompose", "core operators only", core)]
        if self.partition is not None:
            found.append(PassResult("partition.forward", "and what it saves", self.partition.forward))
            found.append(PassResult("partition.backward", "from what was saved", self.partition.backward))
        for name, half in (("forward", self.forward), ("backward", self.backward)):
            if half is not None:
                found += half.passes(name)
        return PassResults(found)

    def __str__(self) -> str:
        return "\n".join(f"# ---- {name}\n{artifact}" for name, artifact in self.named())

    def emit(self, half: str, target: str) -> Any:
        """The Program of `half` ("forward", "backward") with source for `target` ("cpp", "triton"), made if it does not
        exist yet."""
        from cutaway.pipelines import default_pipeline
        from cutaway.targets import target_named

        part: HalfArtifacts | None = getattr(self, half)
        if part is None:
            raise ValueError(
                f"{self.function_name} has no {half} program (backend {self.backend}); only the backends inductor and "
                "cudagraphs make programs, and a backward one only for a call whose inputs require grad"
            )
        if target not in part.emitted:
            emit = (self.pipeline or default_pipeline()).emit
            other = target_named(target, part.target.device)
            part.emitted[target] = emit(part.planned_for(other), other)
        return part.emitted[target]
