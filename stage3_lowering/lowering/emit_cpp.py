"""C++ for a Program: one translation unit, a function per kernel, written to be read.

Input: a Program whose kernels have schedules (one without gets its own), planned or not. cpp_loops.py writes the
loops of a kernel, cpp_statements.py the statements in them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from dataclasses import replace

from stage3_lowering.lowering.cpp_contractions import has_panels
from stage3_lowering.lowering.cpp_kernel import KernelText
from stage3_lowering.lowering.cpp_loops import kernel_loops
from stage3_lowering.lowering.cpp_math import BINARY, UNARY, math_text
from stage3_lowering.lowering.cpp_one_body import one_body
from stage3_lowering.lowering.cpp_ops import CPP_TYPES, HELPERS, MEMORY_TYPES, NUMBERS, OPENMP_FOLDS
from stage3_lowering.lowering.cpp_places_first import places_checked_first
from stage3_lowering.lowering.cpp_statements import INDENT, comma_list
from stage3_lowering.lowering.placed_in_order import with_plain_stores
from stage3_lowering.lowering.schedule_kernels import schedule_of
from stage_contracts import config
from stage_contracts.dtype import float64
from stage_contracts.loop_text import origin_comments
from stage_contracts.program import Kernel, Program, RowBlocks, SourceUnit, Target
from stage_contracts.tensor_meta import TensorMeta


def emit_cpp(program: Program, target: Target) -> Program:
    """The program with one C++ translation unit that defines all its kernels."""
    metas = {name: buffer.meta for name, buffer in program.buffers.items()}
    functions = one_body([emit_kernel(kernel, metas) for kernel in program.kernels.values()])
    unit_name = f"{program.name}_cpp"
    blocks = [step for step in program.steps if isinstance(step, RowBlocks)]  # of products alone: no kernel
    rows = any(step.local or has_panels(step) for step in blocks)
    # the last word is for the local memory of those blocks
    code = "\n".join([*functions, *["cutaway::Row"] * rows])
    text = "\n".join([_preamble(code, _float_types(program.kernels.values())), *functions])
    unit = SourceUnit(unit_name, "cpp", text, tuple(program.kernels), target)
    kernels = {name: replace(kernel, unit=unit_name) for name, kernel in program.kernels.items()}
    return program.with_(kernels=kernels, units=(*program.units, *[unit] * bool(functions or blocks)))


def _float_types(kernels: Iterable[Kernel]) -> set[str]:
    """The types whose mathematical functions the kernels call. Those of a type that nobody asks for would take an
    eighth of the compiler's time for a small unit."""
    calls = (*UNARY, *BINARY, "sigmoid")
    dtypes = {i.dtype for kernel in kernels for nest in kernel.nests for i in nest.body if i.op in calls}
    return {"double" if dtype is float64 else "float" for dtype in dtypes}


def _preamble(code: str, types: Collection[str]) -> str:
    """Includes and the helpers that `code` calls; mathematics of these types."""
    used = set(re.findall(r"cutaway::(\w+)", code))
    used |= set(re.findall(r"cutaway::(\w+)", "\n".join(HELPERS[name] for name in used & set(HELPERS))))
    lines = ["#include <stdint.h>  // no other header: each costs more time than a kernel", ""]
    helpers = [text for name, text in HELPERS.items() if name in used]
    mathematics = math_text("\n".join([code, *helpers]), types)
    if helpers or mathematics:
        lines += [
            "namespace cutaway {",
            *[mathematics] * bool(mathematics),
            *helpers,
            "}  // namespace cutaway",
            "",
        ]
    defined = [f"#define {name} {text}" for name, text in NUMBERS.items() if name in code]
    types = ", ".join(t for t in CPP_TYPES.values() if t not in ("bool", "uint16_t"))
    for name, combine in OPENMP_FOLDS.items():
        if f"reduction({name}:" in code:
            reduction = f"{name} : {types} : {combine}"
            defined.append(f"#pragma omp declare reduction({reduction}) initializer(omp_priv = omp_orig)")
    return "\n".join([*lines, *defined, *[""] * bool(defined)])


def emit_kernel(kernel: Kernel, metas: dict[str, TensorMeta]) -> str:
    """One kernel as `extern "C" int64_t name(pointers)`."""
    kernel = with_plain_stores(kernel)
    pointers = _pointer_types(kernel, metas)
    schedule = kernel.schedule or schedule_of(kernel)
    text = KernelText(kernel, schedule, any(i.op == "indirect_index" for n in kernel.nests for i in n.body))
    params = [
        f"{of} const* {text.column_names[p]}" if p in kernel.columns else f"{of} {p}"
        for p, of in pointers.items()
    ]
    params += [f"int64_t {size}" for size in kernel.sizes]
    lines = origin_comments(kernel.origins) if config.current().lowering.comments else []
    lines = [line.replace("#", "//", 1) for line in lines]
    lines += _wrapped(f'extern "C" int64_t {kernel.name}(', params)
    lines += [INDENT + "int64_t bad_index = 0;"] * text.checks
    lines += [INDENT + line for line in places_checked_first(kernel)]
    lines += [INDENT + line for line in (_over_rows(text, pointers) if kernel.rows else kernel_loops(text))]
    lines += [INDENT + ("return bad_index;" if text.checks else "return 0;"), "}", ""]
    return "\n".join(lines)


def _pointer_types(kernel: Kernel, metas: dict[str, TensorMeta]) -> dict[str, str]:
    """The C++ type of each parameter: const where the kernel only reads."""
    written = {name for nest in kernel.nests for name in nest.writes}
    return {
        p: f"{'' if p in written else 'const '}{MEMORY_TYPES[metas[p].dtype.name]}*" for p in kernel.params
    }


def _over_rows(text: KernelText, pointers: dict[str, str]) -> list[str]:
    """The kernel's loops inside one over the rows of its table."""
    kernel, row = text.kernel, text.fresh("row")
    lines, inside = [], []
    for size, numbers in kernel.row_sizes.items():
        column = text.fresh(f"{size}_rows")
        lines += comma_list(f"static const int64_t {column}[] = {{", [str(n) for n in numbers], "};")
        inside.append(f"const int64_t {size} = {column}[{row}];")
    inside += [f"{pointers[p]} {p} = {text.column_names[p]}[{row}];" for p in kernel.columns]
    threads = {"within": ["#pragma omp parallel"], "across": ["#pragma omp parallel for schedule(dynamic)"]}
    lines += threads.get(text.schedule.table, [])
    lines.append(f"for (int64_t {row} = 0; {row} < {kernel.rows}; ++{row}) {{")
    return lines + [INDENT + line for line in [*inside, *kernel_loops(text)]] + ["}"]


def _wrapped(head: str, params: list[str]) -> list[str]:
    """`head(a, b) {`, over several lines where it gets long."""
    if len(head) + sum(len(p) + 2 for p in params) <= 100:
        return [f"{head}{', '.join(params)}) {{"]
    return [head, *(f"{INDENT}{p}," for p in params[:-1]), f"{INDENT}{params[-1]}) {{"]
