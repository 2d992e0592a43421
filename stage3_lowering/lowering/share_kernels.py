"""Makes kernels that are equal up to names into one: a model's layers repeat them, and each would be compiled again.

Input: a Program before its source is written. Every launch of a removed kernel calls the one that is kept, on its own
buffers; the comments of that kernel name the lines of all of them. Kernels that may meet a bad index are shared only if
they come from the same lines, because the error names the lines.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import sympy

from stage_contracts.index_expr import print_index, symbol
from stage_contracts.loop_ir import WRITES, Instr, LoopNest, Value
from stage_contracts.program import Buffer, Kernel, Launch, Program, RowBlocks


def share_kernels(program: Program) -> Program:
    """The program with one kernel of each kind."""
    kept: dict[Any, Kernel] = {}
    stands_for: dict[str, str] = {}
    for kernel in program.kernels.values():
        form = _form(kernel, program.buffers)
        if form in kept:
            kept[form] = _with_lines_of(kept[form], kernel)
        else:
            kept[form] = kernel
        stands_for[kernel.name] = kept[form].name
    steps = tuple(_renamed(step, stands_for) for step in program.steps)
    return program.with_(kernels={kernel.name: kernel for kernel in kept.values()}, steps=steps)


def _renamed(step: Any, stands_for: Mapping[str, str]) -> Any:
    """The step, with launches of the kernels that are kept."""
    if isinstance(step, RowBlocks):
        return replace(step, steps=tuple(_renamed(inner, stands_for) for inner in step.steps))
    return replace(step, kernel=stands_for[step.kernel]) if isinstance(step, Launch) else step


def _form(kernel: Kernel, buffers: Mapping[str, Buffer]) -> Any:
    """What a kernel does, without its names: two kernels with equal forms can stand for each other."""
    names = buffer_words(kernel)
    types = tuple(buffers[name].meta.dtype for name in kernel.params)
    checks = any(instr.op == "indirect_index" for nest in kernel.nests for instr in nest.body)
    nests = tuple(nest_form(nest, names) for nest in kernel.nests)
    table = kernel.rows, len(kernel.columns), tuple(kernel.row_sizes.items())
    schedule = kernel.schedule
    if schedule is not None:
        scratch, prefetch = (tuple(names[n] for n in of) for of in (schedule.scratch, schedule.prefetch))
        places = {instr.name: f"%{k}" for k, instr in enumerate(kernel.nests[0].body)}
        turned = tuple(places[n] for n in schedule.turned)
        schedule = replace(schedule, scratch=scratch, prefetch=prefetch, turned=turned)
    return kernel.template, types, kernel.origins if checks else (), schedule, table, nests


def buffer_words(kernel: Kernel) -> dict[str, str]:
    """Words that stand for the kernel's buffers, independent of their names."""
    names = {name: f"p{k}" for k, name in enumerate(kernel.params)}
    return names | {name: f"q{k}" for k, name in enumerate(kernel.internal)}


def nest_form(nest: LoopNest, names: Mapping[str, str]) -> tuple[Any, Any]:
    """The sizes of a nest, and its body, without the names of values and buffers."""
    values = {instr.name: f"%{k}" for k, instr in enumerate(nest.body) if instr.name}

    def word(arg: Any) -> Any:
        if isinstance(arg, Value):
            return "value", values[arg]
        if isinstance(arg, sympy.Basic):
            placed = {s: symbol(values[s.name]) for s in arg.free_symbols if s.name in values}
            return "index", print_index(arg.xreplace(placed) if placed else arg)
        return type(arg).__name__, repr(arg)

    def line(instr: Instr) -> Any:
        args = instr.args
        if instr.op in ("load", *WRITES):
            args = tuple(names.get(arg, arg) if type(arg) is str else arg for arg in args)
        return instr.op, instr.dtype, tuple(map(word, args))

    sizes = tuple(map(word, (*nest.ranges, None, *nest.reduction_ranges)))
    return sizes, tuple(map(line, nest.body))


def _with_lines_of(kernel: Kernel, other: Kernel) -> Kernel:
    nests = [
        replace(nest, origins=tuple(dict.fromkeys((*nest.origins, *more.origins))))
        for nest, more in zip(kernel.nests, other.nests, strict=True)
    ]
    return replace(kernel, nests=tuple(nests))
