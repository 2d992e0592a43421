"""Launch: a Program with built kernels becomes one Python function of arrays.

Input: a planned Program, its kernels by name, its constant arrays by name. `launch_text.py` writes the
function; here its names get their values. The text stays on the callable as `source_text`.
"""

from __future__ import annotations

import linecache
from collections.abc import Callable, Mapping
from typing import Any

from stage4_runtime.runtime.arrays import NUMPY, ArrayLibrary
from stage4_runtime.runtime.bind_arrays import accept, array_of, conform
from stage4_runtime.runtime.eager_call import eager_call
from stage4_runtime.runtime.launch_names import EXTERNAL_PREFIX, INTO_PREFIX, SUBGRAPH_PREFIX, identifier
from stage4_runtime.runtime.launch_text import write_launch_text
from stage_contracts import config
from stage_contracts.device import device_of
from stage_contracts.dtype import DTYPES
from stage_contracts.loop_ir import SubgraphRef
from stage_contracts.program import External, Kernel, Program


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
    if program.device.type == "cpu":
        return plain_launch(program, kernels, constants, library or NUMPY)
    from stage4_runtime.runtime import cuda  # a program for the CPU needs neither
    from stage4_runtime.runtime import cuda_graph as graphs

    library = library or cuda.cupy_library(program.device)
    run = plain_launch(program, kernels, constants, library)
    if config.current().runtime.cuda_graphs if cuda_graph is None else cuda_graph:
        run = graphs.graphed(run, program, library)
    return cuda.on_device(run, program.device)


def plain_launch(
    program: Program, kernels: Mapping[str, Any], constants: Mapping[str, Any], library: ArrayLibrary
) -> Callable[..., tuple]:
    """The program's steps, one after the other, on any array library."""
    written = write_launch_text(program, library.current_stream is not None, library.kernel_alignment)
    path = f"<cutaway launch {program.name} {id(written):x}>"
    linecache.cache[path] = (len(written.text), None, written.text.splitlines(True), path)
    names: dict[str, Any] = {
        "cutaway": _Dtypes,
        "ndarray": library.array_type,
        "address": library.address,
        "view": library.view,
        "copyto": library.xp.copyto,
        "current_stream": library.current_stream,
        "float": float,
        **{f"{name}_dtype": dtype.numpy for name, dtype in DTYPES.items()},
        **_arenas(),
        "allocate_pool": library.allocate,
        "slot_view": lambda memory, start, buffer: library.slot_view(
            memory, start, program.buffers[buffer].meta
        ),
        "empty": lambda buffer: library.empty(program.buffers[buffer].meta),
        "accept": lambda buffer, value: accept(program, buffer, value, library),
        "conform": lambda buffer, value: conform(program, buffer, value, library),
        "out_of_range": lambda kernel: _raise_out_of_range(program.kernels[kernel]),
    }
    for name, kernel in program.kernels.items():
        names[written.kernels[name]] = library.bind(kernels[name], kernel)
    for buffer in program.buffers.values():
        if buffer.role == "constant":
            names[written.names[buffer.name]] = accept(
                program, buffer.name, array_of(constants[buffer.name]), library
            )
    for step in program.steps:
        if isinstance(step, External):
            prefix = INTO_PREFIX if step.into else EXTERNAL_PREFIX
            names[prefix + identifier(step.target)] = _routine(step, library)
            for arg in step.args:
                if isinstance(arg, SubgraphRef):
                    names[SUBGRAPH_PREFIX + arg.name] = constants[arg.name]
    exec(compile(written.text, path, "exec"), names)
    run = names[written.function]
    run.source_text = written.text
    run.program = program
    return run


def _routine(step: External, library: ArrayLibrary) -> Callable:
    """What an external call calls: the library's own routine with `out=`, or the operator's eager kernel."""
    if step.into:
        return getattr(library.xp, step.target)
    return eager_call(step.target, library.xp)


def _arenas() -> dict[str, Callable]:
    """Memory for a call's temporaries, kept between calls: one arena per call that runs at the same time.

    A list's append and pop are atomic, so threads and nested calls each get an arena of their own. On a GPU
    work of the last call may still run, but on its own stream, and arenas never change streams.
    """
    free: dict[Any, list[Any]] = {}

    def take(new: Callable[[], Any], stream: Any = None) -> Any:
        try:
            return free[stream].pop()
        except (KeyError, IndexError):
            return new()

    def give(arena: Any, stream: Any = None) -> None:
        free.setdefault(stream, []).append(arena)

    return {"take_arena": take, "give_arena": give}


def _raise_out_of_range(kernel: Kernel) -> None:
    lines = [origin.caret() for origin in kernel.origins] or [f"  in kernel {kernel.name}"]
    raise IndexError(
        "an index tensor holds a position outside the dimension it indexes; the computation came from\n"
        + "\n".join(lines)
        + "\nindex out of range: check the index tensor's values (negative ones count from the end)"
    )


class _Dtypes:
    """`cutaway.float32` and `cutaway.device(...)`, as arguments print."""

    device = staticmethod(device_of)


for _name, _dtype in DTYPES.items():
    setattr(_Dtypes, _name, _dtype)
