"""The seams: every function of the machine that you can replace. Each is a Protocol; one dataclass collects them.

Input: `cutaway.compile(fn, pipeline=replace(cutaway.DEFAULT_PIPELINE, partition=mine))` swaps one. The defaults are
named here as import paths only, so a contract imports no stage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from stage_contracts.messages import checks_fields

if TYPE_CHECKING:
    from stage_contracts.capture import CapturedFrame
    from stage_contracts.graph import Graph
    from stage_contracts.guards import Guard
    from stage_contracts.joint import FunctionalGraph, JointGraph, Partition
    from stage_contracts.loop_ir import LoweredGraph
    from stage_contracts.program import Program, SourceUnit, Target
    from stage_contracts.sizes import SizePolicy


class Capture(Protocol):
    def __call__(
        self, function: Callable, args: tuple, kwargs: dict[str, Any], policy: SizePolicy = ...
    ) -> CapturedFrame:
        """Capture one call of a Python function into a graph of public operators, without running it.

        `policy` says which sizes of the inputs are open (sizes.STATIC: none). An implementation without open sizes
        ignores it.
        It never raises for the user's code: code that it cannot capture is a graph break. The graph's placeholders have
        the metas "source" and "val"; its outputs are a flat tuple of tensors.
        """
        ...


class Functionalize(Protocol):
    def __call__(self, graph: Graph) -> FunctionalGraph:
        """Remove mutation, aliasing and hidden random state. Raises Unsupported for what it cannot."""
        ...


class Differentiate(Protocol):
    def __call__(self, functional: FunctionalGraph) -> JointGraph:
        """Add the backward graph. Inputs whose meta has requires_grad get gradients.

        A tangent is added for each user output that is floating and depends on such an input.
        """
        ...


class Decompose(Protocol):
    def __call__(self, graph: Graph) -> Graph:
        """The same program in core operators only (stage_contracts.core_ops), with the same marks and origins."""
        ...


class Partitioner(Protocol):
    def __call__(self, joint: JointGraph) -> Partition:
        """Cut a joint graph into forward and backward and choose what is saved between them."""
        ...


class Lower(Protocol):
    def __call__(self, graph: Graph) -> LoweredGraph:
        """Core operators to loop nests and external calls. Must accept every core operator."""
        ...


class Fuse(Protocol):
    def __call__(self, lowered: LoweredGraph) -> Program:
        """Group loop nests into kernels and order the steps: a Program without memory or source."""
        ...


class Schedule(Protocol):
    def __call__(self, program: Program, target: Target) -> Program:
        """Give every kernel a KernelSchedule for the target: loop order, tiles, SIMD, threads. The values stay the
        same."""
        ...


class PlanMemory(Protocol):
    def __call__(self, program: Program) -> Program:
        """Give every temporary a pool slot and add the allocate and free steps."""
        ...


class Emit(Protocol):
    def __call__(self, program: Program, target: Target) -> Program:
        """Write source for the kernels: one unit per graph (cpp), one module per kernel (triton)."""
        ...


class Build(Protocol):
    def __call__(self, unit: SourceUnit) -> Mapping[str, Any]:
        """Compile and load one unit: kernel name -> loaded kernel. Raises BuildError; CompilerMissing if there
        is no compiler."""
        ...


class Launcher(Protocol):
    def __call__(
        self, program: Program, kernels: Mapping[str, Any], constants: Mapping[str, Any]
    ) -> Callable[..., tuple]:
        """Make a callable: arrays on the program's device (NumPy or CuPy), one per input -> a tuple of new arrays."""
        ...


@dataclass(eq=False)
class Entry:
    """One compiled version of a code object: its guards, as data and as one function, and the function to run.

    Entries are compared by identity: the expected values of guards may be tensors, whose == is elementwise.
    """

    guards: tuple[Guard, ...]
    check: Callable[..., bool]  # the call's arguments -> whether all guards hold
    run: Callable[..., Any]  # the call's arguments -> the user's result
    frame: CapturedFrame
    artifacts: Mapping[str, Any] = field(default_factory=dict)


class Dispatch(Protocol):
    def __call__(self, entries: Sequence[Entry], args: tuple, kwargs: dict[str, Any]) -> Entry | None:
        """The entry whose guards hold for this call, or None, to compile a new one. Must not change `entries`."""
        ...


@checks_fields
@dataclass(frozen=True)
class Pipeline:
    """All seams of the machine, in the order in which a program passes through them."""

    capture: Capture
    functionalize: Functionalize
    differentiate: Differentiate
    decompose: Decompose
    partition: Partitioner
    lower: Lower
    fuse: Fuse
    schedule: Schedule
    plan_memory: PlanMemory
    emit: Emit
    build: Build
    launch: Launcher
    dispatch: Dispatch


# The implementations as "module:object": those that compile() uses, and the tiny ones.
DEFAULT_SEAMS: dict[str, str] = {
    "capture": "stage1_capture.capture:capture",
    "functionalize": "stage2_autograd.functionalize:functionalize",
    "differentiate": "stage2_autograd.differentiate:differentiate",
    "decompose": "stage2_autograd.decompose:decompose",
    "partition": "stage2_autograd.partition:partition",
    "lower": "stage3_lowering.lowering:lower",
    "fuse": "stage3_lowering.lowering:fuse",
    "schedule": "stage3_lowering.lowering:schedule",
    "plan_memory": "stage4_runtime.runtime:plan_memory",
    "emit": "stage3_lowering.lowering:emit",
    "build": "stage4_runtime.runtime:build",
    "launch": "stage4_runtime.runtime:launch",
    "dispatch": "stage4_runtime.runtime:dispatch",
}
# Parts of one stage that you can replace, too. They have conformance tests, but are not in the Pipeline.
INNER_SEAMS: dict[str, str] = {
    "interpret": "stage1_capture.frame.interpret:interpret",
    "resume": "stage1_capture.breaks.resume:break_function",
    "residualize": "stage1_capture.seams:residualize",
}
TINY_SEAMS: dict[str, str] = {
    seam: f"{path.split('.')[0]}.tiny:{seam}" for seam, path in DEFAULT_SEAMS.items()
}


def load_seam(path: str) -> Any:
    """Import the object that "module:object" names."""
    import importlib

    module, _, name = path.partition(":")
    return getattr(importlib.import_module(module), name)


def load_pipeline(seams: Mapping[str, str]) -> Pipeline:
    """The Pipeline with the implementations that `seams` names."""
    return Pipeline(**{seam: load_seam(path) for seam, path in seams.items()})
