"""C++ for a Program: one translation unit, a function per kernel, written to be read.

Input: a Program whose kernels have schedules (one without gets its own), planned or not. cpp_loops.py writes the
loops of a kernel, cpp_statements.py the statements in them.
"""

from __future__ import annotations

import re
from dataclasses import replace

from stage3_lowering.lowering.cpp_loops import KernelText
from stage3_lowering.lowering.cpp_math import math_text
from stage3_lowering.lowering.cpp_ops import CPP_TYPES, HELPERS, NUMBERS, OPENMP_FOLDS
from stage3_lowering.lowering.cpp_statements import INDENT
from stage3_lowering.lowering.schedule_kernels import schedule_of
from stage_contracts import config
from stage_contracts.loop_text import origin_comments
from stage_contracts.program import Kernel, Program, SourceUnit, Target
from stage_contracts.tensor_meta import TensorMeta


def emit_cpp(program: Program, target: Target) -> Program:
    """The program with one C++ translation unit that defines all its kernels."""
    metas = {name: buffer.meta for name, buffer in program.buffers.items()}
    functions = [emit_kernel(kernel, metas) for kernel in program.kernels.values()]
    unit_name = f"{program.name}_cpp"
    text = "\n".join([_preamble("\n".join(functions)), *functions])
    unit = SourceUnit(unit_name, "cpp", text, tuple(program.kernels), target)
    kernels = {name: replace(kernel, unit=unit_name) for name, kernel in program.kernels.items()}
    return program.with_(kernels=kernels, units=(*program.units, unit) if functions else program.units)


def _preamble(code: str) -> str:
    """Includes and the helpers that `code` calls."""
    used = set(re.findall(r"cutaway::(\w+)", code))
    lines = ["#include <stdint.h>  // no other header: each costs more time than a kernel", ""]
    helpers = [text for name, text in HELPERS.items() if name in used]
    mathematics = math_text("\n".join([code, *helpers]))
    if helpers or mathematics:
        lines += [
            "namespace cutaway {",
            *[mathematics] * bool(mathematics),
            *helpers,
            "}  // namespace cutaway",
            "",
        ]
    lines += [f"#define {name} {text}" for name, text in NUMBERS.items() if name in code]
    types = ", ".join(t for t in CPP_TYPES.values() if t != "bool")
    for name, combine in OPENMP_FOLDS.items():
        if f"reduction({name}:" in code:
            fold = f"{name} : {types} : {combine}"
            lines += [f"#pragma omp declare reduction({fold}) initializer(omp_priv = omp_orig)", ""]
    return "\n".join(lines)


def emit_kernel(kernel: Kernel, metas: dict[str, TensorMeta]) -> str:
    """One kernel as `extern "C" int64_t name(pointers)`."""
    written = {name for nest in kernel.nests for name in nest.writes}
    params = [
        f"{'' if p in written else 'const '}{CPP_TYPES[metas[p].dtype.name]}* {p}" for p in kernel.params
    ]
    params += [f"int64_t {size}" for size in kernel.sizes]
    checks = any(i.op == "indirect_index" for nest in kernel.nests for i in nest.body)
    lines = origin_comments(kernel.origins) if config.current().lowering.comments else []
    lines = [line.replace("#", "//", 1) for line in lines]
    lines += _wrapped(f'extern "C" int64_t {kernel.name}(', params)
    lines += [INDENT + "int64_t bad_index = 0;"] * checks
    schedule = kernel.schedule or schedule_of(kernel)
    lines += [INDENT + line for line in KernelText(kernel, schedule, checks).lines()]
    lines += [INDENT + ("return bad_index;" if checks else "return 0;"), "}", ""]
    return "\n".join(lines)


def _wrapped(head: str, params: list[str]) -> list[str]:
    """`head(a, b) {`, over several lines where it gets long."""
    if len(head) + sum(len(p) + 2 for p in params) <= 100:
        return [f"{head}{', '.join(params)}) {{"]
    return [head, *(f"{INDENT}{p}," for p in params[:-1]), f"{INDENT}{params[-1]}) {{"]
