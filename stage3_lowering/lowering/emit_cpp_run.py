"""C++ that runs a whole graph: one function per segment, called from Python once, runs the steps in order.

Input: a planned Program whose kernels have their source. Arrays arrive as Python objects, and the function reads their
memory here. Temporaries are places in the pools. Contractions call NumPy's own BLAS. stage_contracts/host_interface.py
lists what the process must provide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from stage3_lowering.lowering.cpp_contractions import has_panels, products_text, row_blocks_text, uses_team
from stage3_lowering.lowering.cpp_ops import MEMORY_TYPES
from stage3_lowering.lowering.cpp_panels import PANELS_CPP
from stage3_lowering.lowering.cpp_statements import INDENT, comma_list, cpp_index
from stage3_lowering.lowering.cpp_steps_alike import steps_alike
from stage_contracts import config
from stage_contracts.blas import contraction
from stage_contracts.host_interface import BLAS_TEAM_CPP, HOST_CPP, NOT_AS_COMPILED
from stage_contracts.loop_text import origin_comments
from stage_contracts.origin import Origin
from stage_contracts.program import (
    Buffer,
    External,
    Kernel,
    Launch,
    Program,
    RowBlocks,
    step_accesses,
)
from stage_contracts.segments import Segment, segments
from stage_contracts.size_vars import is_open
from stage_contracts.tensor_meta import TensorMeta


def with_run(program: Program) -> Program:
    """The program, its C++ unit followed by one function for each segment."""
    found = [part for part in segments(program) if isinstance(part, Segment)]
    if not found:
        return program
    *before, unit = program.units
    products = [step for segment in found for step in segment.steps if uses_team(step, program)]
    team = [BLAS_TEAM_CPP] * bool(products) + [PANELS_CPP] * any(map(has_panels, products))
    text = "\n".join([unit.text, HOST_CPP, *team, *(_segment_text(segment, program) for segment in found)])
    entry_points = (*unit.kernels, *(segment.function for segment in found))
    return program.with_(units=(*before, replace(unit, text=text, kernels=entry_points)))


def _segment_text(segment: Segment, program: Program) -> str:
    return "\n".join([*_steps_function(segment, program), *_called_from_python(segment, program)])


# ---- the steps, as a reader wants to see them ----------------------------------------------------------------


def _steps_function(segment: Segment, program: Program) -> Iterator[str]:
    running = dict(enumerate(segment.running))
    texts = {k: _step_text(step, program) for k, step in running.items() if not isinstance(step, Launch)}
    teams = {k: lines for k, lines in texts.items() if uses_team(running[k], program)}
    functions, calls = steps_alike(teams, f"{segment.function}_step", program)
    yield from functions
    yield "// Returns 0, the number of the kernel that met a bad index, or -1: an input is not as it was compiled for."
    yield f"CUTAWAY_AS_WRITTEN static int64_t {segment.function}_steps("
    params = (
        "const Host& host, const Array* const* arrays, char* const* pools, const int64_t* sizes, bool check"
    )
    yield f"{INDENT}{params}) {{"
    for line in _steps(segment, {**texts, **calls}, program):
        yield f"{INDENT}{line}" if line else ""
    yield f"{INDENT}return 0;"
    yield "}"
    yield ""


def _step_text(step: Any, program: Program) -> list[str]:
    """The lines of a step with products."""
    if isinstance(step, RowBlocks):
        return list(row_blocks_text(step, program))
    found = contraction(step, program.buffers)
    assert found is not None
    return list(products_text(found, program))


def _steps(segment: Segment, texts: Mapping[int, Sequence[str]], program: Program) -> Iterator[str]:
    for number, size in enumerate(program.sizes):
        yield f"const int64_t {size.name} = sizes[{number}];"
    touched, written = _touched(segment, program), program.written_inputs
    if segment.checked:
        yield from _checks([program.buffers[name] for name in segment.arrays[: segment.checked]], written)
    for number, name in enumerate(segment.arrays):
        if name in touched:
            yield _declared(program.buffers[name], f"arrays[{number}]->data")
    numbers = {name: number for number, name in enumerate(program.kernels, start=1)}
    for buffer in program.buffers.values():  # made in this segment, or by a step before it
        if buffer.slot is not None and buffer.name in touched:
            yield _declared(buffer, f"pools[{buffer.slot.pool}] + {cpp_index(buffer.slot.offset)}")
    for begun, step in enumerate(segment.running):
        yield f"host.stamp({begun});"
        if isinstance(step, Launch):
            yield from _launched(program.kernels[step.kernel], step.buffers, numbers[step.kernel], program)
        else:
            yield from _lines_of(step.origins)
            yield from texts[begun]
    yield f"host.stamp({len(segment.running)});"


def _launched(kernel: Kernel, buffers: Sequence[str], number: int, program: Program) -> Iterator[str]:
    """The call of a kernel; the columns of its table first, each an array of pointers."""
    bound = kernel.bindings(buffers)
    written = {name for nest in kernel.nests for name in nest.writes}
    words = list(bound[0].values())
    columns: list[str] = []
    for param in kernel.columns:
        name = f"{param}_rows"
        while name in program.buffers:
            name += "_"
        cpp = MEMORY_TYPES[program.buffers[bound[0][param]].meta.dtype.name]
        head = f"{'' if param in written else 'const '}{cpp}* const {name}[] = {{"
        columns += comma_list(head, [row[param] for row in bound], "};")
        words[kernel.params.index(param)] = name
    call = f"if ({kernel.name}({', '.join([*words, *kernel.sizes])})) return {number};"
    if not columns:
        yield call
        return
    yield "{"
    yield from (INDENT + line for line in [*columns, call])
    yield "}"


def _touched(segment: Segment, program: Program) -> set[str]:
    """The buffers whose memory a step of the segment names."""
    found: set[str] = set()
    for step in segment.steps:
        if isinstance(step, Launch):
            found.update(step.buffers)
        elif isinstance(step, External):
            found.update((*step.outputs, *(arg.name for arg in step.args)))
        elif isinstance(step, RowBlocks):
            for names in step_accesses(step, program.kernels):
                found.update(names)
    return found


def _lines_of(origins: tuple[Origin, ...]) -> Iterator[str]:
    if config.current().lowering.comments:
        yield from (line.replace("#", "//", 1) for line in origin_comments(origins))


def _declared(buffer: Buffer, place: str) -> str:
    cpp = MEMORY_TYPES[buffer.meta.dtype.name]
    return f"auto {buffer.name} = ({cpp}*)({place});  // {buffer.meta}"


def _checks(inputs: Sequence[Buffer], written: Sequence[str]) -> Iterator[str]:
    """A table of what each input must be, and the loop that compares them. (As separate tests of 800 inputs, g++ took
    13 s.)"""
    metas = [buffer.meta for buffer in inputs]
    fixed = not any(map(is_open, (size for meta in metas for size in (*meta.shape, *meta.strides))))
    most = max([1, *(len(meta.shape) for meta in metas)])
    yield f"{'static ' * fixed}const Layout<{most}> inputs[] = {{"
    for buffer in inputs:
        yield f"{INDENT}{_layout(buffer.meta, buffer.name in written)},  // {buffer.name}"
    yield "};"
    yield f"for (int k = 0; check && k < {len(inputs)}; ++k)"
    yield f"{INDENT}if (!fits(host, arrays[k], inputs[k])) return {NOT_AS_COMPILED};"


def _layout(meta: TensorMeta, written: bool) -> str:
    of, itemsize = meta.dtype.name, meta.dtype.itemsize
    shape = ", ".join(map(cpp_index, meta.shape))
    strides = ", ".join(cpp_index(stride * itemsize) for stride in meta.strides)
    words = [f"&Host::{of}_dtype", str(itemsize), "true" if written else "false", str(len(meta.shape))]
    return f"{{{', '.join([*words, f'{{{shape}}}', f'{{{strides}}}'])}}}"


# ---- the way in ------------------------------------------------------------------------------------------------


def _called_from_python(segment: Segment, program: Program) -> Iterator[str]:
    """A built-in function: (arrays..., pools..., sizes..., check) -> 0, or what went wrong."""
    arrays, pools, sizes = len(segment.arrays), len(program.pools), len(program.sizes)
    name = segment.function
    yield "// Called by Python, with the arrays, where each pool begins, the open sizes, and whether to check."
    yield f'extern "C" Object* {name}(const Array* table, const Object* const* words, int64_t) {{'
    yield f"{INDENT}const Host& host = *(const Host*)table->data;"
    for what, cpp, start, count in (
        ("pools", "char*", arrays, pools),
        ("sizes", "int64_t", arrays + pools, sizes),
    ):
        each = "".join(f"({cpp})host.as_int64(words[{start + k}]), " for k in range(count)).rstrip(", ")
        yield f"{INDENT}{cpp} {what}[] = {{{each or 'nullptr' if what == 'pools' else each or '0'}}};"
    yield f"{INDENT}const bool check = host.as_int64(words[{arrays + pools + sizes}]);"
    if any(uses_team(step, program) for step in segment.steps):
        yield f"{INDENT}const OneBlasThread blas(host);"
    yield f"{INDENT}void* thread = host.save_thread();  // other threads of Python may run"
    yield f"{INDENT}const int64_t status = {name}_steps(host, (const Array* const*)words, pools, sizes, check);"
    yield f"{INDENT}host.restore_thread(thread);"
    yield f"{INDENT}return host.from_int64(status);"
    yield "}"
    yield ""
