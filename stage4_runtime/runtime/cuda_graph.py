"""CUDA graphs: captures a program's launches once, then replays all of them with one call.

Input: a launched program on CuPy arrays. Inputs are copied into static buffers, the graph runs, and outputs are copied
out, so the caller may keep them. A program that cannot be captured runs without a graph; the event log says why.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from stage4_runtime.runtime.arrays import ArrayLibrary
from stage4_runtime.runtime.bind_arrays import accept
from stage4_runtime.runtime.cublas import workspaces
from stage_contracts import events
from stage_contracts.dtype import dtype_of
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import Program, step_accesses
from stage_contracts.size_vars import at_sizes, size_values
from stage_contracts.tensor_meta import TensorMeta


@dataclass
class Captured:
    """One captured graph and all that its replay touches. `done`: recorded after the last replay's copies."""

    graph: Any
    stream: Any
    pool: Any  # the private memory pool: nobody else may reuse what the graph writes to
    inputs: list[Any]
    outputs: tuple[Any, ...]
    workspaces: list[Any]
    done: Any = None
    lock: threading.Lock = field(default_factory=threading.Lock)


MOST_GRAPHS = 16  # of one program with open sizes; each keeps memory of its own


def graphed(run: Callable[..., tuple], program: Program, library: ArrayLibrary) -> Callable[..., tuple]:
    """`run` as a captured graph, made at the first call. One replay at a time: the buffers are shared.

    A program with open sizes gets a graph for each set of sizes, up to MOST_GRAPHS; further ones run plain.
    """
    lock = threading.Lock()
    state: dict[Any, Any] = {}  # sizes -> (the captured graph, the program at these sizes)

    def capture(sizes: tuple[int, ...], arrays: tuple) -> tuple[Captured | None, Program]:
        if len(state) >= MOST_GRAPHS:
            if len(state) == MOST_GRAPHS:
                _refuse(program, f"{MOST_GRAPHS} graphs for other sizes are there; what is new runs plain")
                state["full"] = None, program
            return None, program
        values = dict(zip(map(symbol, (size.name for size in program.sizes)), sizes, strict=True))
        here = at_sizes(program, values) if values else program
        state[sizes] = _capture(run, here, library, arrays), here
        return state[sizes]

    def call(*arrays: Any) -> tuple:
        sizes = tuple(_sizes(program, arrays).values()) if program.sizes else ()
        if sizes not in state:
            with lock:
                if sizes not in state:
                    captured, here = capture(sizes, arrays)
                    if captured is None:
                        return run(*arrays)
        captured, here = state[sizes]
        return run(*arrays) if captured is None else _replay(captured, here, library, arrays)

    vars(call).update(vars(run))
    call.state = state  # type: ignore[attr-defined]
    return call


def _sizes(program: Program, arrays: Sequence[Any]) -> dict[Any, int]:
    shapes = {name: array.shape for name, array in zip(program.inputs, arrays, strict=True)}
    return size_values(program.sizes, shapes)


def _capture(
    run: Callable[..., tuple], program: Program, library: ArrayLibrary, arrays: Sequence[Any]
) -> Captured | None:
    """Capture on a stream and from a memory pool of the graph's own. None when that cannot be done."""
    writes = {name for step in program.steps for name in step_accesses(step, program.kernels)[1]}
    if writes & set(program.inputs):
        _refuse(program, f"it writes to its input {min(writes & set(program.inputs))}")
        return None
    cp = library.xp
    pool, stream, caller = (
        cp.cuda.MemoryPool(),
        cp.cuda.Stream(non_blocking=True),
        cp.cuda.get_current_stream(),
    )
    stream.wait_event(caller.record())
    with cp.cuda.using_allocator(pool.malloc), stream:
        inputs = [
            _copy_of(accept(program, name, array, library), library)
            for name, array in zip(program.inputs, arrays, strict=True)
        ]
        run(*inputs)  # loads modules and fills the pool, neither of which may happen while capturing
        stream.synchronize()
        stream.begin_capture()
        try:
            outputs = run(*inputs)
        except Exception as error:  # whatever a library raises when it cannot be captured
            _abandon(stream)
            _refuse(program, f"{type(error).__name__}: {error}")
            return None
        graph = stream.end_capture()
    caller.wait_event(stream.record())
    return Captured(graph, stream, pool, inputs, outputs, workspaces(stream.ptr))


def _replay(captured: Captured, program: Program, library: ArrayLibrary, arrays: Sequence[Any]) -> tuple:
    stream = library.xp.cuda.get_current_stream()
    with captured.lock:
        if captured.done is not None:  # the last replay may have been on another stream
            stream.wait_event(captured.done)
        for name, static, array in zip(program.inputs, captured.inputs, arrays, strict=True):
            library.xp.copyto(static, accept(program, name, array, library))
        captured.graph.launch(stream)
        results = tuple(
            _result(value, output, program, library, arrays)
            for value, output in zip(program.return_step.values, captured.outputs, strict=True)
        )
        captured.done = stream.record()
    return results


def _result(value: Any, output: Any, program: Program, library: ArrayLibrary, arrays: Sequence[Any]) -> Any:
    """A copy of what the graph wrote; the caller's own array where the program returns an input."""
    if not isinstance(value, BufferRef):
        return output
    if value.shape is None and value.name in program.inputs:
        return arrays[program.inputs.index(value.name)]
    return _copy_of(output, library)


def _copy_of(array: Any, library: ArrayLibrary) -> Any:
    """A copy with the same strides."""
    elements = tuple(stride // array.itemsize for stride in array.strides)
    fresh = library.empty(TensorMeta(array.shape, dtype_of(array.dtype), elements))
    library.xp.copyto(fresh, array)
    return fresh


def _refuse(program: Program, reason: str) -> None:
    events.record("fallback", "cuda_graph", program=program.name, reason=reason)


def _abandon(stream: Any) -> None:
    """End a capture that failed; the driver reports that failure again."""
    try:
        stream.end_capture()
    except Exception:
        pass
