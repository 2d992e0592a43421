"""C++ for a Program: one translation unit, a function per kernel, written to be read.

Input: fuse.py's Program (planned or not). The body of each section is run with an `ops` handler that writes
statements. Outer loops go to threads when there is work enough; the inner one is SIMD where order does not
matter.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

from stage3_lowering.lowering.cpp_math import math_text
from stage3_lowering.lowering.cpp_ops import COSTS, CPP_TYPES, FOLDS, HELPERS, NUMBERS, OPENMP_FOLDS
from stage3_lowering.lowering.cpp_statements import INDENT, Statements, cpp_index
from stage3_lowering.lowering.values import dot
from stage_contracts import config
from stage_contracts.loop_ir import LoopNest
from stage_contracts.loop_text import origin_comments, with_comments
from stage_contracts.program import Kernel, Program, SourceUnit, Target
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides

PARALLEL_WORK = 1 << 21  # additions, about half a millisecond; less is done before the threads are awake


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
    lines += [INDENT + line for line in _KernelText(kernel, checks).lines()]
    lines += [INDENT + ("return bad_index;" if checks else "return 0;"), "}", ""]
    return "\n".join(lines)


def _wrapped(head: str, params: list[str]) -> list[str]:
    """`head(a, b) {`, over several lines where it gets long."""
    if len(head) + sum(len(p) + 2 for p in params) <= 100:
        return [f"{head}{', '.join(params)}) {{"]
    return [head, *(f"{INDENT}{p}," for p in params[:-1]), f"{INDENT}{params[-1]}) {{"]


class _KernelText:
    """The loops of one kernel: outer loops around its sections."""

    def __init__(self, kernel: Kernel, checks: bool) -> None:
        self.kernel, self.checks = kernel, checks
        self.inner = next((n.reduction_ranges for n in kernel.nests if n.reduction_ranges), ())
        self.names = {*kernel.params, *kernel.sizes, *(i.name for n in kernel.nests for i in n.body)}
        self.inside: dict[str, str] = {}  # internal buffer -> what to write for its element
        self.rows = self._declare_rows()

    def fresh(self, name: str) -> str:
        while name in self.names:
            name += "_"
        self.names.add(name)
        return name

    def _declare_rows(self) -> list[str]:
        """A local array for each internal buffer that has an element per reduction point."""
        declared = []
        for nest in self.kernel.nests:
            types = {i.name: i.dtype for i in nest.body}
            row = dot(contiguous_strides(nest.reduction_ranges), nest.reduction_variables)
            for instr in nest.body[: nest.split] if nest.reduction_ranges else ():
                if instr.op == "store" and instr.args[0] in self.kernel.internal:
                    dtype, name = types[instr.args[2]], self.fresh(f"{instr.args[2]}_row")
                    assert dtype is not None
                    declared.append(f"{CPP_TYPES[dtype.name]} {name}[{math.prod(self.inner)}];")
                    self.inside[instr.args[0]] = f"{name}[{cpp_index(row)}]"
        return declared

    def lines(self) -> list[str]:
        kernel, outer = self.kernel, self.kernel.nests[0].ranges
        names = [f"i{k}" for k in range(len(outer))]
        body = list(self.rows)
        for nest in kernel.nests:
            body += self._section(nest)
        if not outer:
            return body
        work = sum(math.prod((*n.ranges, *n.reduction_ranges)) * _cost(n) for n in kernel.nests)
        return _loops(names, outer, body, _outer_pragma(len(outer), bool(self.inner), work, self.checks))

    def _section(self, nest: LoopNest) -> list[str]:
        """One pass: the reduction loops with what runs in them, and what follows them once per outer
        point."""
        writer = Statements(nest, self)
        comments = config.current().lowering.comments and len(self.kernel.origins) > 1
        parts: dict[bool, list[str]] = {False: [], True: []}
        for k, (above, instr) in enumerate(with_comments(nest, header=False)):
            statements = writer.write(instr)
            marks = [c.replace("#", "//", 1) for c in above] if comments else []
            parts[k < nest.split] += (marks if statements or marks else []) + statements
        before, inside, after = writer.accumulators, parts[True], writer.results + parts[False]
        if not nest.reduction_ranges:
            return inside + after
        names = [f"r{k}" for k in range(len(nest.reduction_ranges))]
        work = math.prod(nest.reduction_ranges) * _cost(nest)
        threads = _worth_threads(work) if not nest.ranges else "never"
        pragma = _inner_pragma(writer.folds, nest, threads, self.checks)
        return before + _loops(names, nest.reduction_ranges, inside, pragma) + after


def _loops(names: list[str], sizes: tuple[Any, ...], body: list[str], pragma: dict[int, str]) -> list[str]:
    """`body` inside nested loops; `pragma` gives the line above the k-th loop."""
    lines: list[str] = []
    for depth, (name, size) in enumerate(zip(names, sizes, strict=True)):
        if depth in pragma:
            lines.append(INDENT * depth + pragma[depth])
        lines.append(f"{INDENT * depth}for (int64_t {name} = 0; {name} < {cpp_index(size)}; ++{name}) {{")
    lines += [INDENT * len(names) + line for line in body]
    return lines + [INDENT * depth + "}" for depth in reversed(range(len(names)))]


def _worth_threads(work: Any) -> str:
    """Whether threads pay: "always", "never", or the clause that decides at the call, where sizes are open."""
    if isinstance(work, int):
        return "always" if work >= PARALLEL_WORK else "never"
    return f" if({cpp_index(work)} >= {PARALLEL_WORK})"


def _outer_pragma(depth: int, folding: bool, work: Any, checks: bool) -> dict[int, str]:
    """Threads over the outer loops when the work pays for them; SIMD over the innermost of a pointwise
    kernel."""
    simd = not folding and not checks
    status = " reduction(|:bad_index)" * checks
    threads = _worth_threads(work)
    if threads == "never":
        return {depth - 1: "#pragma omp simd"} if simd else {}
    clause = "" if threads == "always" else threads
    if simd and depth == 1:
        return {0: f"#pragma omp parallel for simd{clause.replace('if(', 'if(parallel: ')}"}
    shared = depth - 1 if simd else depth  # the innermost loop of a pointwise kernel stays whole for SIMD
    collapse = f" collapse({shared})" if shared > 1 else ""
    pragmas = {0: f"#pragma omp parallel for{collapse}{status}{clause}"}
    return pragmas | ({depth - 1: "#pragma omp simd"} if simd else {})


def _inner_pragma(folds: dict[str, list[str]], nest: LoopNest, threads: str, checks: bool) -> dict[int, str]:
    """SIMD over the innermost reduction loop: folds may be reordered, except those that remember a
    position."""
    if checks or any(i.op == "reduction" and i.args[0] not in FOLDS for i in nest.body):
        return {}
    clauses = "".join(f" reduction({fold}: {', '.join(names)})" for fold, names in folds.items())
    last = len(nest.reduction_ranges) - 1
    if threads != "never" and last == 0:
        clause = "" if threads == "always" else threads.replace("if(", "if(parallel: ")
        return {0: f"#pragma omp parallel for simd{clauses}{clause}"}
    return {last: f"#pragma omp simd{clauses}"}


def _cost(nest: LoopNest) -> int:
    return sum(COSTS.get(instr.op, 1) for instr in nest.body)
