"""Program: kernels, buffers, and steps in order. The runtime executes it. It is only data.

Input: `fuse` makes it, `plan_memory` adds slots and allocate/free steps, `emit` adds source units. It prints as Python
(`program_text`), is saved as JSON plus source files (`program_json`), and is never pickled.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from stage_contracts.checked_once import checked_once
from stage_contracts.device import CPU, Device
from stage_contracts.graph import GraphError
from stage_contracts.kernel import Kernel
from stage_contracts.loop_ir import BufferRef, SizeVar, buffer_refs
from stage_contracts.origin import Origin
from stage_contracts.printing import printed
from stage_contracts.scheduler_ir import FusionDecision
from stage_contracts.size_vars import never_below
from stage_contracts.tensor_meta import TensorMeta


@dataclass(frozen=True)
class Target:
    """The target of `emit`. name: "cpp" or "triton"; arch: "" for this machine, or a GPU's, such as "sm_90"."""

    name: str
    device: Device = CPU
    arch: str = ""
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class PoolSlot:
    """A buffer's place in a pool, in bytes."""

    pool: int
    offset: int
    nbytes: Any  # an expression if it depends on open sizes


BUFFER_ROLES = ("input", "constant", "temporary", "output", "local")  # local: scratch of one RowBlocks step


@dataclass(frozen=True)
class Buffer:
    """A named array of the program. `slot` is None for inputs, constants, and buffers with their own memory."""

    name: str
    meta: TensorMeta
    role: str
    slot: PoolSlot | None = None


@dataclass(frozen=True)
class Configuration:
    """Another way to run a Triton kernel: other blocks, warps or stages. Its module, and the kernel's `grid`."""

    text: str
    grid: Mapping[str, Any]

    @property
    def label(self) -> str:
        """Its numbers, for people: `XBLOCK=1024 warps=4`."""
        numbers = {**self.grid.get("constants", {}), "warps": self.grid.get("num_warps", 4)}
        numbers |= {"stages": self.grid["num_stages"]} if "num_stages" in self.grid else {}
        return " ".join(f"{name}={number}" for name, number in numbers.items())


@dataclass(frozen=True)
class SourceUnit:
    """One source text: a C++ translation unit, or a Triton module."""

    name: str
    language: str  # "cpp" or "triton"
    text: str
    kernels: tuple[str, ...]  # entry points
    target: Target
    # Triton: the `grid` of each kernel, for the build
    grids: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    # Triton, where the target's options ask for `max_autotune`: other configurations of its one kernel, for the build
    # to choose among, and what the kernel takes: (dtype, elements) for each array, then ("size", its hint)
    alternatives: tuple[Configuration, ...] = ()
    arguments: tuple[tuple[str, int], ...] = ()


# ---- steps: the verbs of a program ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Allocate:
    buffer: str


@dataclass(frozen=True)
class Launch:
    kernel: str
    buffers: tuple[str, ...]  # one per kernel parameter
    stream: int = 0


@dataclass(frozen=True)
class External:
    """Call a library routine or an eager kernel. `into`: it writes to allocated outputs; otherwise it returns new
    ones."""

    target: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: tuple[str, ...]
    into: bool = False
    origins: tuple[Origin, ...] = ()
    stream: int = 0

    @cached_property
    def reads(self) -> tuple[str, ...]:
        return tuple(ref.name for ref in buffer_refs((self.args, dict(self.kwargs))))


@dataclass(frozen=True)
class Product:
    """`out = a @ b` of views with two dimensions, inside RowBlocks."""

    a: BufferRef
    b: BufferRef
    out: BufferRef
    adds: bool = False  # the products of the blocks are added
    panels: bool = False  # C++: in registers, b laid out once for a batch point; else by BLAS


@dataclass(frozen=True)
class RowBlocks:
    """`steps` that run for each block of rows, so that values between them stay in the cache, and never exist as a
    whole.

    The steps have these open sizes: an index for each entry of `batch`, the first row of the block among `count` rows,
    and its number of rows, which is `block`, or fewer for the last one. Blocks are independent, and each thread has its
    own `local` buffers. Only with a product that `adds`, the blocks of one batch point run in order. Where the width of
    a row is open, `cache` says how many bytes a block's rows should take: C++ then takes fewer rows than `block`.
    """

    batch: tuple[tuple[str, Any], ...]  # (the index's name, how many)
    first: str
    rows: str
    count: Any
    block: int
    local: tuple[str, ...]
    steps: tuple[Launch | Product, ...]
    origins: tuple[Origin, ...] = ()
    cache: int = 0

    @property
    def in_order(self) -> bool:
        return any(isinstance(step, Product) and step.adds for step in self.steps)


@dataclass(frozen=True)
class Copy:
    source: str
    destination: str
    stream: int = 0


@dataclass(frozen=True)
class RecordEvent:
    event: int
    stream: int


@dataclass(frozen=True)
class WaitEvent:
    event: int
    stream: int


@dataclass(frozen=True)
class Collective:
    """Start a core operator of kind "collective". Until its Await, `source` stays as it is and `destination` has no
    value.

    All ranks start the same ones in the order of their tokens, which count from 0.
    """

    token: int
    operation: str
    source: str
    destination: str
    words: tuple[Any, ...]  # the arguments after the tensor; the last one names the group
    origins: tuple[Origin, ...] = ()


@dataclass(frozen=True)
class Await:
    """Return when the collective with this token has written its destination."""

    token: int
    source: str
    destination: str


@dataclass(frozen=True)
class HostCallback:
    name: str
    buffers: tuple[str, ...]


@dataclass(frozen=True)
class Free:
    buffer: str


@dataclass(frozen=True)
class Return:
    values: tuple[BufferRef | None | int | float | bool, ...]


Step = (
    Allocate
    | Launch
    | External
    | RowBlocks
    | Copy
    | RecordEvent
    | WaitEvent
    | Collective
    | Await
    | HostCallback
    | Free
    | Return
)
STEP_TYPES = (
    Allocate,
    Launch,
    External,
    RowBlocks,
    Copy,
    RecordEvent,
    WaitEvent,
    Collective,
    Await,
    HostCallback,
    Free,
    Return,
)


@dataclass(frozen=True)
class Program:
    """Device, buffers, kernels and steps. The arguments of a call are the buffers of `inputs`, in this order."""

    name: str
    device: Device
    inputs: tuple[str, ...]
    buffers: Mapping[str, Buffer]
    kernels: Mapping[str, Kernel]
    steps: tuple[Any, ...]  # of STEP_TYPES
    pools: tuple[Any, ...] = ()  # bytes of each pool; an expression if they depend on open sizes
    units: tuple[SourceUnit, ...] = ()
    decisions: tuple[FusionDecision, ...] = ()
    # the sizes that each call decides; every other size is an expression of their names
    sizes: tuple[SizeVar, ...] = ()
    # returned buffer -> the input that the caller copies it into, so a kernel may write the result there directly
    updates: Mapping[str, str] = field(default_factory=dict)

    def with_(self, **changes: Any) -> Program:
        return replace(self, **changes)

    def __str__(self) -> str:
        return printed("Program", self)

    @property
    def return_step(self) -> Return:
        return self.steps[-1]

    @cached_property
    def written_inputs(self) -> tuple[str, ...]:
        """The inputs that a step writes to, in order."""
        written = {name for step in self.steps for name in step_accesses(step, self.kernels)[1]}
        return tuple(name for name in self.inputs if name in written)

    @checked_once
    def verify(self) -> Program:
        """Check the order of steps, names and, if slots are planned, that live buffers do not overlap. Raises
        GraphError."""
        ready = {b.name for b in self.buffers.values() if b.role in ("input", "constant")}
        live: set[str] = set()
        under_way: dict[int, Collective] = {}
        for kernel in self.kernels.values():
            kernel.verify()
        if not self.steps or not isinstance(self.steps[-1], Return):
            raise GraphError(f"program {self.name}: the last step must be a Return")
        for step in self.steps:
            reads, writes = step_accesses(step, self.kernels)
            for name in (*reads, *writes):
                if name not in self.buffers:
                    raise GraphError(f"program {self.name}: {step} names the unknown buffer {name!r}")
            for name in reads:
                if name not in ready and not isinstance(step, Await):
                    raise GraphError(
                        f"program {self.name}: {step} reads {name}, which no earlier step writes"
                    )
            match step:
                case Allocate(buffer=name):
                    self._check_no_overlap(name, live)
                    live.add(name)
                case Free(buffer=name):
                    live.discard(name)
                    ready.discard(name)
            if isinstance(step, Collective):
                self._check_started(step, under_way)
                continue
            self._check_untouched(step, writes, under_way)
            ready.update(writes)
        if under_way:
            raise GraphError(f"program {self.name}: nothing awaits {[*under_way.values()][0]}")
        return self

    def _check_started(self, step: Collective, under_way: dict[int, Collective]) -> None:
        """Tokens rise by one: that is the order that the ranks share."""
        tokens = [s.token for s in self.steps if isinstance(s, Collective)]
        if tokens != [*range(len(tokens))]:
            raise GraphError(
                f"program {self.name}: collectives start in the order {tokens}, not by their tokens"
            )
        under_way[step.token] = step

    def _check_untouched(self, step: Any, writes: Sequence[str], under_way: dict[int, Collective]) -> None:
        """Nobody writes to what a collective reads, nor frees what it uses, before its Await."""
        if isinstance(step, Await):
            started = under_way.pop(step.token, None)
            if started is None or (started.source, started.destination) != (step.source, step.destination):
                raise GraphError(f"program {self.name}: {step} awaits what was not started")
            return
        touched = {*writes, step.buffer} if isinstance(step, Free) else {*writes}
        for other in under_way.values():
            if touched & {other.source, other.destination}:
                raise GraphError(f"program {self.name}: {step} touches what {other} still uses")

    def _check_no_overlap(self, name: str, live: set[str]) -> None:
        slot = self.buffers[name].slot
        if slot is None:
            return
        if slot.pool >= len(self.pools) or not never_below(self.pools[slot.pool], slot.offset + slot.nbytes):
            raise GraphError(f"program {self.name}: {name}'s slot {slot} is outside the pools {self.pools}")
        for other in live:
            held = self.buffers[other].slot
            if held is None or held.pool != slot.pool:
                continue
            after = never_below(held.offset, slot.offset + slot.nbytes)
            before = never_below(slot.offset, held.offset + held.nbytes)
            if not after and not before:
                raise GraphError(f"program {self.name}: {name} and {other} share bytes while both are live")


def _block_accesses(
    steps: Sequence[Any], local: Sequence[str], kernels: Mapping[str, Kernel]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The buffers that the steps read before one of them writes them, and the written buffers that outlive a block."""
    first_reads: dict[str, None] = {}
    written: dict[str, None] = dict.fromkeys(local)
    for step in steps:
        reads, writes = step_accesses(step, kernels)
        first_reads |= dict.fromkeys(name for name in reads if name not in written)
        written |= dict.fromkeys(writes)
    return tuple(first_reads), tuple(name for name in written if name not in local)


def _launch_accesses(kernel: Kernel, buffers: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    if buffers not in kernel.launched_on:
        bound = [pair for row in kernel.bindings(buffers) for pair in row.items()]
        reads, writes = (tuple(dict.fromkeys(b for p, b in bound if p in of)) for of in kernel.accesses)
        kernel.launched_on[buffers] = reads, writes
    return kernel.launched_on[buffers]


def step_accesses(step: Any, kernels: Mapping[str, Kernel]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(buffers read, buffers written) by a step."""
    match step:
        case Launch(kernel=kernel, buffers=buffers):
            return _launch_accesses(kernels[kernel], buffers)
        case External(outputs=outputs):
            return step.reads, outputs
        case Product(a=a, b=b, out=out):
            return (a.name, b.name), (out.name,)
        case RowBlocks(steps=steps, local=local):
            return _block_accesses(steps, local, kernels)
        case Copy() | Collective():
            return (step.source,), (step.destination,)
        case Return(values=values):
            return tuple(r.name for r in buffer_refs(values)), ()
        case Await(source=source, destination=destination):
            return (source, destination), (destination,)
        case HostCallback(buffers=buffers):
            return buffers, buffers
    return (), ()
