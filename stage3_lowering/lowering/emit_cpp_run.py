"""C++ that runs a whole graph: one function per segment, called from Python once, runs the steps in order.

Input: a planned Program whose kernels have their source. Arrays arrive as Python objects, and the function reads their
memory here. Temporaries are places in the pools. Contractions call NumPy's own BLAS. stage_contracts/host_interface.py
lists what the process must provide.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from stage3_lowering.lowering.cpp_ops import CPP_TYPES
from stage3_lowering.lowering.cpp_statements import INDENT, comma_list, cpp_index
from stage_contracts import config
from stage_contracts.blas import Contraction, Matrix, contraction
from stage_contracts.host_interface import HOST_CPP, NOT_AS_COMPILED
from stage_contracts.loop_text import origin_comments
from stage_contracts.origin import Origin
from stage_contracts.program import Allocate, Buffer, External, Free, Kernel, Launch, Program
from stage_contracts.segments import Segment, segments
from stage_contracts.size_vars import is_open
from stage_contracts.tensor_meta import TensorMeta


def with_run(program: Program) -> Program:
    """The program, its C++ unit followed by one function for each segment."""
    found = [part for part in segments(program) if isinstance(part, Segment)]
    if not found:
        return program
    *before, unit = program.units
    text = "\n".join([unit.text, HOST_CPP, *(_segment_text(segment, program) for segment in found)])
    entry_points = (*unit.kernels, *(segment.function for segment in found))
    return program.with_(units=(*before, replace(unit, text=text, kernels=entry_points)))


def _segment_text(segment: Segment, program: Program) -> str:
    return "\n".join([*_steps_function(segment, program), *_called_from_python(segment, program)])


# ---- the steps, as a reader wants to see them ----------------------------------------------------------------


def _steps_function(segment: Segment, program: Program) -> Iterator[str]:
    yield "// Returns 0, the number of the kernel that met a bad index, or -1: an input is not as it was compiled for."
    yield f"static int64_t {segment.function}_steps("
    params = (
        "const Host& host, const Array* const* arrays, char* const* pools, const int64_t* sizes, bool check"
    )
    yield f"{INDENT}{params}) {{"
    for line in _steps(segment, program):
        yield f"{INDENT}{line}" if line else ""
    yield f"{INDENT}return 0;"
    yield "}"
    yield ""


def _steps(segment: Segment, program: Program) -> Iterator[str]:
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
    for step in segment.steps:
        match step:
            case Launch(kernel=kernel, buffers=buffers):
                yield from _launched(program.kernels[kernel], buffers, numbers[kernel], program)
            case External():
                found = contraction(step, program.buffers)
                assert found is not None
                yield from _lines_of(step.origins)
                yield from _contraction(found)
            case Allocate() | Free():
                pass


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
        cpp = CPP_TYPES[program.buffers[bound[0][param]].meta.dtype.name]
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
    return found


def _lines_of(origins: tuple[Origin, ...]) -> Iterator[str]:
    if config.current().lowering.comments:
        yield from (line.replace("#", "//", 1) for line in origin_comments(origins))


def _declared(buffer: Buffer, place: str) -> str:
    cpp = CPP_TYPES[buffer.meta.dtype.name]
    return f"auto {buffer.name} = ({cpp}*)({place});  // {buffer.meta}"


def _checks(inputs: Sequence[Buffer], written: Sequence[str]) -> Iterator[str]:
    """A table of what each input must be, and the loop that looks: g++ took 13 s over as many tests of 800 inputs."""
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


# ---- contractions ----------------------------------------------------------------------------------------------


def _contraction(of: Contraction) -> Iterator[str]:
    """Calls of BLAS: a matrix times a vector where one side has one row or column; loops over the batch."""
    scalar = "1.0f" if of.letter == "s" else "1.0"
    zero = "0.0f" if of.letter == "s" else "0.0"
    depth = 0
    for depth, size in enumerate(of.batch, start=1):
        yield f"{INDENT * (depth - 1)}for (int64_t b{depth} = 0; b{depth} < {cpp_index(size)}; ++b{depth})"
    a, b, c = map(_place, (of.a, of.b, of.c))
    if of.n == 1 and not is_open(of.n):
        step = of.b.row if not of.b.transposed else 1
        words = [*_lies(of.a, of.m, of.k), scalar, a, _row(of.a), b, _row_of(step), zero, c, "1"]
        words[-1] = _row_of(of.c.row)
        call = f"host.{of.letter}gemv(RowMajor, {', '.join(words)});"
    elif of.m == 1 and not is_open(of.m):
        step = 1 if not of.a.transposed else of.a.row
        words = [
            *_lies(of.b, of.k, of.n, flipped=True),
            scalar,
            b,
            _row(of.b),
            a,
            _row_of(step),
            zero,
            c,
            "1",
        ]
        call = f"host.{of.letter}gemv(RowMajor, {', '.join(words)});"
    else:
        lies = [_TRANSPOSED[of.a.transposed], _TRANSPOSED[of.b.transposed]]
        sizes = [cpp_index(size) for size in (of.m, of.n, of.k)]
        words = [*lies, *sizes, scalar, a, _row(of.a), b, _row(of.b), zero, c, _row(of.c)]
        call = f"host.{of.letter}gemm(RowMajor, {', '.join(words)});"
    yield f"{INDENT * depth}{call}"


_TRANSPOSED = {False: "AsIs", True: "Transposed"}


def _lies(matrix: Matrix, rows: Any, columns: Any, flipped: bool = False) -> list[str]:
    """How gemv is told of a matrix: whether to transpose it, and its rows and columns as it lies."""
    stored = (columns, rows) if matrix.transposed else (rows, columns)
    return [_TRANSPOSED[matrix.transposed is not flipped], *map(cpp_index, stored)]


def _place(matrix: Matrix) -> str:
    steps = [f"b{k} * {_factor(step)}" for k, step in enumerate(matrix.batch, start=1) if step != 0]
    offset = [cpp_index(matrix.offset)] if matrix.offset != 0 else []
    return " + ".join([matrix.buffer, *offset, *steps])


def _factor(step: Any) -> str:
    return f"({cpp_index(step)})" if is_open(step) else cpp_index(step)


def _row(matrix: Matrix) -> str:
    return _row_of(matrix.row)


def _row_of(row: Any) -> str:
    """BLAS refuses rows of no length, which open sizes may come to."""
    return f"at_least_one({cpp_index(row)})" if is_open(row) else cpp_index(row)


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
    yield f"{INDENT}void* thread = host.save_thread();  // other threads of Python may run"
    yield f"{INDENT}const int64_t status = {name}_steps(host, (const Array* const*)words, pools, sizes, check);"
    yield f"{INDENT}host.restore_thread(thread);"
    yield f"{INDENT}return host.from_int64(status);"
    yield "}"
    yield ""
