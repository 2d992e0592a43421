"""Launch: a Program with built kernels becomes one Python function of arrays.

Input: a planned Program, its kernels by name, its constant arrays by name. `launch_text.py` writes the function; this
file binds the names in it to their values. The text stays on the callable as `source_text`.
"""

from __future__ import annotations

import ctypes
import linecache
from collections.abc import Callable, Mapping
from typing import Any

from stage4_runtime.runtime.arrays import NUMPY, ArrayLibrary
from stage4_runtime.runtime.bind_arrays import accept, array_of, conform
from stage4_runtime.runtime.eager_call import eager_call
from stage4_runtime.runtime.freed_memory import keep_freed_memory
from stage4_runtime.runtime.launch_groups import grid_name
from stage4_runtime.runtime.launch_names import (
    EXTERNAL_PREFIX,
    INTO_PREFIX,
    NEW_PREFIX,
    PREPARED_PREFIX,
    SUBGRAPH_PREFIX,
    identifier,
)
from stage4_runtime.runtime.launch_text import LaunchText, write_launch_text
from stage4_runtime.runtime.segment_calls import segment_calls
from stage4_runtime.runtime.stream_text import streams_and_events
from stage_contracts import config, events
from stage_contracts.communicators import communicator
from stage_contracts.device import device_of
from stage_contracts.dtype import DTYPES
from stage_contracts.errors import OutOfRange
from stage_contracts.generated_code import code_of
from stage_contracts.loop_ir import SubgraphRef
from stage_contracts.program import Collective, External, Kernel, Program, RowBlocks
from stage_contracts.races import check_races
from stage_contracts.size_vars import late_sizes
from stage_contracts.tensor_meta import TensorMeta


def launch(
    program: Program,
    kernels: Mapping[str, Any],
    constants: Mapping[str, Any],
    *,
    cuda_graph: bool | None = None,
    library: ArrayLibrary | None = None,
) -> Callable[..., tuple]:
    """A callable on arrays of the program's device. `cuda_graph=None` asks the configuration.

    `constants`: arrays by name, and for each subgraph that a step names the callable that its program became.

    `library` says how memory is allocated and addressed; the default is NumPy's or CuPy's own way.
    """
    graphs_asked = config.current().runtime.cuda_graphs if cuda_graph is None else cuda_graph
    if graphs_asked and (reason := _never_graphed(program)):
        events.record("fallback", "cuda_graph", program=program.name, reason=reason)
        graphs_asked = False
    if program.device.type == "cpu":
        if graphs_asked:
            events.record("fallback", "cuda_graph", program=program.name, reason="it runs on the CPU")
        keep_freed_memory()
        return plain_launch(program, kernels, constants, library or NUMPY)
    from stage4_runtime.runtime import cuda, first_calls  # a program for the CPU needs none of them
    from stage4_runtime.runtime import cuda_graph as graphs

    def make(library: ArrayLibrary) -> Callable[..., tuple]:
        return plain_launch(program, kernels, constants, library)

    library = library or cuda.cupy_library(program.device)
    run = graphs.graphed(make, program, library) if graphs_asked else make(library)
    first_calls.wait()
    return cuda.on_device(run, program.device)


def _never_graphed(program: Program) -> str:
    """Why this program cannot be a CUDA graph; "" if it may be one."""
    if late_sizes(program.sizes, program.inputs):
        return "the data decides its sizes"
    return "it talks to other ranks" if any(isinstance(s, Collective) for s in program.steps) else ""


def plain_launch(
    program: Program, kernels: Mapping[str, Any], constants: Mapping[str, Any], library: ArrayLibrary
) -> Callable[..., tuple]:
    """The program's steps, one after the other, on any array library."""
    check_races(program)
    poison = config.current().runtime.poison and library is NUMPY
    calls = segment_calls(program, kernels) if library is NUMPY and not poison else {}
    streams = library.current_stream is not None
    names_of, prepared = _prepared(program, library)
    bound = {name: library.bind(kernels[name], kernel) for name, kernel in program.kernels.items()}
    ready, make = _issued(program, bound, library)
    written = write_launch_text(
        program, streams, library.kernel_alignment, bool(calls), poison, names_of, _open_grids(ready)
    )
    path = f"<cutaway launch {program.name} {id(written):x}>"
    linecache.cache[path] = (len(written.text), None, written.text.splitlines(True), path)
    meta_at = _metas_at(program)
    names: dict[str, Any] = {
        "cutaway": _Dtypes,
        "ndarray": library.array_type,
        "address": library.address,
        "view": library.view,
        "copyto": library.xp.copyto,
        "communicator": communicator,
        "current_stream": library.current_stream,
        "float": float,
        **{f"{name}_dtype": dtype.numpy for name, dtype in DTYPES.items()},
        **library.arenas(library.allocate),
        "slot_view": lambda memory, start, *what: library.slot_view(memory, start, meta_at(*what)),
        "empty": lambda *what: library.empty(meta_at(*what)),
        **_makers(written, library, meta_at),
        "accept": lambda buffer, value, *at: accept(program, buffer, value, library, meta_at(buffer, *at)),
        "conform": lambda buffer, value, *at: conform(program, buffer, value, library, meta_at(buffer, *at)),
        "read_size": lambda buffer, value, dim: _read_size(program, buffer, value, dim),
        "out_of_range": lambda number: _raise_out_of_range([*program.kernels.values()][number - 1]),
        "column": library.column,
        "poison": lambda start, nbytes: ctypes.memset(start, 0xAB, max(nbytes, 0)),
        **calls,
        **prepared,
        "refused": library.refused,
        **_stream_calls(program, library),
    }
    names |= _launchers(program, written, bound, ready, make)
    for buffer in program.buffers.values():
        if buffer.role == "constant":
            names[written.names[buffer.name]] = accept(
                program, buffer.name, array_of(constants[buffer.name]), library
            )
    for step in program.steps:
        if isinstance(step, RowBlocks):
            names |= {f"{INTO_PREFIX}{name}": getattr(library.xp, name) for name in ("matmul", "add")}
        if isinstance(step, External):
            prefix = INTO_PREFIX if step.into else EXTERNAL_PREFIX
            names[prefix + identifier(step.target)] = _routine(step, library)
            for arg in step.args:
                if isinstance(arg, SubgraphRef):
                    names[SUBGRAPH_PREFIX + arg.name] = constants[arg.name]
    exec(code_of(written.text, path), names)
    run = names[written.function]
    run.source_text, run.written, run.names = written.text, written, names
    run.program = program
    return run


def _stream_calls(program: Program, library: ArrayLibrary) -> dict[str, Callable]:
    """What a program with several streams calls."""
    beside, events_of = streams_and_events(program)
    if library.side_streams is None or not (beside or events_of):
        return {}
    made = library.side_streams(beside, len(events_of))
    return {
        "streams_beside": made.on,
        "record_event": made.record,
        "wait_event": made.wait,
        "wait_for": made.wait_for,
    }


def _makers(
    written: LaunchText, library: ArrayLibrary, meta_at: Callable[..., TensorMeta]
) -> dict[str, Callable[[], Any]]:
    """What makes the arrays of new buffers, by the names that the text has for them."""
    return {NEW_PREFIX + written.names[name]: library.maker(meta_at(name)) for name in written.made}


def _prepared(program: Program, library: ArrayLibrary) -> tuple[dict[int, str], dict[str, Callable]]:
    """The external steps that the library does by a call of addresses: a name for each, by identity, and the calls."""
    names, calls = dict[int, str](), dict[str, Callable]()
    for number, step in enumerate(program.steps):
        if isinstance(step, External) and (call := library.routine(step, program)) is not None:
            names[id(step)] = f"{PREPARED_PREFIX}{number}"
            calls[names[id(step)]] = call
    return names, calls


def _issued(
    program: Program, bound: Mapping[str, Any], library: ArrayLibrary
) -> tuple[dict[str, Any], Callable[..., Callable] | None]:
    """The kernels that C can launch, each as its table has it, and what prepares such launches."""
    takes = {name: len(kernel.params) + len(kernel.sizes) for name, kernel in program.kernels.items()}
    ready = {name: getattr(call, "ready", None) for name, call in bound.items()}
    found = {name: kernel for name, kernel in ready.items() if kernel and kernel.takes == takes[name]}
    make = library.issuer() if found else None
    return (found if make is not None else {}), make


def _open_grids(ready: Mapping[str, Any]) -> dict[str, bool]:
    return {name: kernel.blocks_at is not None for name, kernel in ready.items()}


def _launchers(
    program: Program,
    written: LaunchText,
    bound: Mapping[str, Any],
    ready: Mapping[str, Any],
    make: Callable[..., Callable] | None,
) -> dict[str, Any]:
    """By name: the calls of kernels, those that issue many, and what counts the blocks of grids that are open."""
    each = {written.kernels[name]: call for name, call in bound.items()}
    if make is None:
        return each
    calls = {
        group.function: make([(ready[step.kernel], *group.words(step, program)) for step in group.launches])
        for group in written.groups
    }
    return (
        each
        | calls
        | {grid_name(name): ready[name].blocks_at for name, open_ in _open_grids(ready).items() if open_}
    )


def _routine(step: External, library: ArrayLibrary) -> Callable:
    """What an external call calls: the library's own routine with `out=`, or the operator's eager kernel."""
    if not step.into:
        return eager_call(step.target, library.xp)
    own: Any = library.xp.matmul if step.target == "matmul" else None
    return own if library is NUMPY else _with_out(own, eager_call(step.target, library.xp), library)


def _with_out(own: Any, eager: Callable, library: ArrayLibrary) -> Callable:
    """The library's product for the dtypes that it has; else the eager kernel, its result copied."""

    def call(*args: Any, out: Any) -> None:
        if own is not None and out.dtype.kind == "f" and out.dtype.itemsize > 2:
            own(*args, out=out)
        else:
            library.xp.copyto(out, eager(*args))

    return call


def _metas_at(program: Program) -> Callable[..., TensorMeta]:
    """`meta(buffer)`, or `meta(buffer, shape, strides)` of one whose sizes each call decides: the same one again."""
    fixed = {name: buffer.meta for name, buffer in program.buffers.items()}
    made: dict[tuple, TensorMeta] = {}

    def meta(buffer: str, shape: tuple | None = None, strides: tuple | None = None) -> TensorMeta:
        if shape is None:
            return fixed[buffer]
        found = made.get((buffer, shape))
        if found is None:
            if len(made) >= _METAS:
                made.clear()
            found = made[buffer, shape] = fixed[buffer].with_(shape=shape, strides=strides)
        return found

    return meta


_METAS = 1024  # kept for the sizes seen so far


def _read_size(program: Program, buffer: str, value: Any, dim: int) -> int:
    """One size of an input. Raises TypeError for what has no such dimension."""
    shape = getattr(value, "shape", ())
    if len(shape) <= dim:
        meta = program.buffers[buffer].meta
        raise TypeError(
            f"program {program.name}: input {buffer} is a {type(value).__name__} of shape {tuple(shape)}, "
            f"expected {meta}"
        )
    return shape[dim]


def _raise_out_of_range(kernel: Kernel) -> None:
    lines = [origin.caret() for origin in kernel.origins] or [f"  in kernel {kernel.name}"]
    raise OutOfRange(
        "an index tensor holds a position outside the dimension it indexes; the computation came from\n"
        + "\n".join(lines)
        + "\nindex out of range: check the index tensor's values (negative ones count from the end)"
    )


class _Dtypes:
    """`cutaway.float32` and `cutaway.device(...)`, as arguments print."""

    device = staticmethod(device_of)


for _name, _dtype in DTYPES.items():
    setattr(_Dtypes, _name, _dtype)
