"""CUDA graphs: captures a program's launches once, then replays all of them with one call.

Input: a launched program on CuPy arrays. A graph reads and writes fixed addresses: an input that stays is read where it
is, one that moves is copied first (graph_places.py). Results are lent: they lie in the graph's memory as long as nobody
has them when it runs again. A result that somebody has is never written over; from then on it is copied out.
"""

# torch's CUDA graph trees lend too, and raise an error where an old result is read. Here every view of a result keeps
# a token alive, so that what is in use is known before it would be written over.

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import ref

from stage4_runtime.runtime.arrays import ArrayLibrary
from stage4_runtime.runtime.bind_arrays import accept
from stage4_runtime.runtime.cublas import workspaces
from stage4_runtime.runtime.cuda_tables import TableLauncher
from stage4_runtime.runtime.graph_memory import GraphMemory, graph_memory
from stage4_runtime.runtime.graph_places import Places
from stage4_runtime.runtime.graph_steps import STEP
from stage4_runtime.runtime.layout import byte_strides
from stage4_runtime.runtime.memory import pool_bytes
from stage4_runtime.runtime.side_streams import addresses_beside
from stage_contracts import events
from stage_contracts.dtype import dtype_of
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Program
from stage_contracts.size_vars import at_sizes, size_values
from stage_contracts.tensor_meta import TensorMeta

MOST_GRAPHS = 16  # of one program with open sizes; each keeps memory of its own


def graphed(
    make: Callable[[ArrayLibrary], Callable[..., tuple]], program: Program, library: ArrayLibrary
) -> Callable[..., tuple]:
    """What `make` makes as a captured graph, captured as soon as its inputs have settled; calls before that run plain.

    A program with open sizes gets a graph for each set of sizes, up to MOST_GRAPHS; further ones run plain.
    """
    lock, memory = threading.Lock(), graph_memory(library.xp, program.device)
    run = make(replace(library, arenas=memory.arenas))
    memory.wanted[run] = 0 if program.sizes else pool_bytes(program)
    state: dict[Any, Replays | None] = {}  # by sizes

    def replays_at(sizes: tuple[int, ...]) -> Replays | None:
        with lock:
            if sizes in state:
                return state[sizes]
            if len(state) >= MOST_GRAPHS:
                if "full" not in state:
                    full = f"{MOST_GRAPHS} graphs for other sizes are there; what is new runs plain"
                    _refuse(program, full)
                    state["full"] = None
                return None
            values = dict(zip(map(symbol, (size.name for size in program.sizes)), sizes, strict=True))
            here = at_sizes(program, values) if values else program
            state[sizes] = Replays(run, here, library, memory)
            return state[sizes]

    def call(*arrays: Any) -> tuple:
        sizes = tuple(_sizes(program, arrays).values()) if program.sizes else ()
        replays = state.get(sizes) or replays_at(sizes)
        made = replays(arrays) if replays is not None else None
        return run(*arrays) if made is None else made

    vars(call).update(vars(run))
    call.state = state  # type: ignore[attr-defined]
    return call


def _sizes(program: Program, arrays: Sequence[Any]) -> dict[Any, int]:
    shapes = {name: array.shape for name, array in zip(program.inputs, arrays, strict=True)}
    return size_values(program.sizes, shapes)


def _refuse(program: Program, reason: str) -> None:
    events.record("fallback", "cuda_graph", program=program.name, reason=reason)


# ---- one graph after another -------------------------------------------------------------------------------------


@dataclass
class Captured:
    """One captured graph and all that its replay touches."""

    graph: Any
    pool: Any  # the private memory pool: nobody else may reuse what the graph writes to
    inputs: list[
        Any
    ]  # the graph's own array for each input that is copied; None for one that is read where it is
    outputs: tuple[Any, ...]
    held: list[Any]  # memory that it shares: where its temporaries lie and its products work

    @property
    def in_place(self) -> list[int]:
        return [k for k, own in enumerate(self.inputs) if own is None]


class Token:
    """Alive as long as an array is that lies in a graph's result."""

    __slots__ = ("__weakref__", "result")

    def __init__(self, result: Any) -> None:
        self.result = result


class Replays:
    """A program at fixed sizes: its present graph, and what was learned about its inputs and results."""

    def __init__(
        self, run: Callable[..., tuple], program: Program, library: ArrayLibrary, memory: GraphMemory
    ) -> None:
        self.run, self.program, self.library, self.memory = run, program, library, memory
        written = {*program.written_inputs}
        positions = [k for k, name in enumerate(program.inputs) if name in written]
        self.places = Places(len(program.inputs), positions)
        self.captured: Captured | None = None
        self.refused = False
        self.copied: set[int] = set()  # the results that are copied out
        self.lent: list[tuple[int, ref[Token]]] = []  # those of the last replay, by position
        self.step = STEP[0]  # at which they were lent
        self.stream: Any = None  # of the last replay
        self.tables = [each for each in vars(run)["names"].values() if isinstance(each, TableLauncher)]
        metas = [(name, program.buffers[name].meta) for name in program.inputs]
        self.expected = [
            (name, m.dtype.numpy, m.shape, byte_strides(m), m.dtype.itemsize) for name, m in metas
        ]

    def __call__(self, arrays: tuple) -> tuple | None:
        """The results, or None: the call runs plain."""
        if self.refused:
            return None
        given, addresses = self._accepted(arrays)
        with self.memory.lock:
            self._look(addresses)
            if self.captured is None and self.places.may_capture():
                self._capture(given)
            return None if self.captured is None else self._replay(self.captured, given, arrays)

    def _accepted(self, arrays: tuple) -> tuple[list[Any], list[int]]:
        """The inputs as the program takes them, and where they are: the check of launch_text.py, for hundreds."""
        library, kind, address = self.library, self.library.array_type, self.library.address
        given, places = [], []
        for (name, dtype, shape, strides, itemsize), array in zip(self.expected, arrays, strict=True):
            if not (
                array.__class__ is kind
                and array.dtype is dtype
                and array.shape == shape
                and array.strides == strides
                and not (place := address(array)) % max(itemsize, library.kernel_alignment)
            ):
                array = accept(self.program, name, array, library)
                place = address(array)
            given.append(array)
            places.append(place)
        return given, places

    def _look(self, addresses: list[int]) -> None:
        """Let go of a graph that no longer fits: an input that it reads moved, one that it copies does not move, or a
        result is in use."""
        places, moved = self.places, self.places.see(addresses)
        if self.captured is None:
            return
        own = self.captured.inputs
        in_place = [k for k in moved if own[k] is None]
        stays = [k for k, array in enumerate(own) if array is not None and places.stays(k, 2)]
        in_use = {k for k, token in self.lent if token() is not None} if self.step == STEP[0] else set()
        if in_place or stays or in_use:
            places.count_moves(in_place)
            self.copied |= in_use
            self.captured = None

    def _capture(self, given: list[Any]) -> None:
        """Capture on a stream and from a memory pool of the graph's own. `refused` when that cannot be done."""
        cp, places, program = self.library.xp, self.places, self.program
        if moving := places.movable():
            return self._give_up(f"it writes to its input {program.inputs[moving[0]]}, which moves")
        if places.last_capture:  # that one copies all inputs but those that are written
            return self._give_up("inputs that it writes to move too often")
        places.captures += 1
        if places.last_capture:
            self.copied |= {*range(len(program.return_step.values))}
        memory, pool, caller = self.memory, cp.cuda.MemoryPool(), cp.cuda.get_current_stream()
        stream = memory.stream
        memory.follow(stream, caller, self.stream)
        with memory.lent_to_a_capture() as held, cp.cuda.using_allocator(pool.malloc), stream:
            own = [
                None if places.stays(k) else _copy_of(array, self.library) for k, array in enumerate(given)
            ]
            read = [mine if mine is not None else array for mine, array in zip(own, given, strict=True)]
            # loads modules and fills the pool, neither of which may happen while capturing; inputs that the program
            # writes to are copies, for the replay writes them
            self.run(*[_copy_of(a, self.library) if k in places.written else a for k, a in enumerate(read)])
            stream.synchronize()
            stream.begin_capture()
            try:
                outputs = self.run(*read)
            except Exception as error:  # whatever a library raises when it cannot be captured
                _abandon(stream)
                self._write_tables()
                return self._give_up(f"{type(error).__name__}: {error}")
            graph = stream.end_capture()
            self._write_tables()
        memory.follow(caller)
        worked_on = stream.ptr, *addresses_beside(cp, stream.ptr)
        products = [memory for each in worked_on for memory in workspaces(each)]
        self.captured = Captured(graph, pool, own, outputs, [*held, *products])

    def _write_tables(self) -> None:
        for launcher in self.tables:
            launcher.write_tables()

    def _give_up(self, reason: str) -> None:
        self.refused, self.captured = True, None
        _refuse(self.program, reason)

    def _replay(self, captured: Captured, given: list[Any], arrays: tuple) -> tuple:
        stream = self.library.xp.cuda.get_current_stream()
        self.memory.follow(stream, self.stream)  # what reads this graph's last results may be on that stream
        self.stream = stream
        for own, array in zip(captured.inputs, given, strict=True):
            if own is not None:
                self.library.xp.copyto(own, array)
        captured.graph.launch(stream)
        self.lent, self.step = [], STEP[0]
        values = self.program.return_step.values
        return tuple(
            self._result(k, value, output, arrays)
            for k, (value, output) in enumerate(zip(values, captured.outputs, strict=True))
        )

    def _result(self, k: int, value: Any, output: Any, arrays: tuple) -> Any:
        """What the graph wrote, lent or copied; the caller's own array where the program returns an input."""
        if not isinstance(value, BufferRef):
            return output
        if value.name in self.program.inputs and value.shape is None:
            return arrays[self.program.inputs.index(value.name)]
        if value.name in self.program.inputs or k in self.copied or self.library.lend is None:
            return _copy_of(output, self.library)
        token = Token(output)
        self.lent.append((k, ref(token)))
        return self.library.lend(output, token)


def _copy_of(array: Any, library: ArrayLibrary) -> Any:
    """A copy with the same strides."""
    elements = tuple(stride // array.itemsize for stride in array.strides)
    fresh = library.empty(TensorMeta(array.shape, dtype_of(array.dtype), elements))
    library.xp.copyto(fresh, array)
    return fresh


def _abandon(stream: Any) -> None:
    """End a capture that failed; the driver reports that failure again."""
    try:
        stream.end_capture()
    except Exception:
        pass
