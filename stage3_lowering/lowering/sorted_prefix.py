"""How much of its sorted rows a program reads: of top-k the first k elements, of a k-th value no more.

Input: a Program, the buffer of a sort's values or positions, the step that makes it, and the dimension along which it
is sorted. Kernels that read it read only where their loops take them, so the last place is known; where data decides a
place it may be any.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import sympy

from stage3_lowering.lowering.step_uses import OUTSIDE, step_uses
from stage_contracts.index_expr import split_multiple
from stage_contracts.loop_ir import Instr, LoopNest
from stage_contracts.program import Kernel, Launch, Program
from stage_contracts.tensor_meta import contiguous_strides


class Reader(NamedTuple):
    """A launch whose kernel reads the buffer as this param."""

    number: int  # of the step
    step: Launch
    kernel: Kernel
    param: str


def narrowed(program: Program, name: str, maker: int, dim: int) -> Program:
    """The program with a buffer that has only the elements that are read: the first of each row."""
    meta = program.buffers[name].meta
    row, inner = meta.shape[dim], math.prod(meta.shape[dim + 1 :])
    readers = _readers(program, name, maker)
    counts = [
        _count(index, nest, row, inner)
        for reader in readers
        for nest in reader.kernel.nests
        for index in _loads(nest, reader.param)
    ]
    if not counts or max(counts) >= row:
        return program
    kept = max(counts)
    kernels, steps = dict(program.kernels), [*program.steps]
    for reader in readers:
        nests = tuple(_moved(n, reader.param, row * inner, kept * inner) for n in reader.kernel.nests)
        others = [s for s in steps if isinstance(s, Launch) and s.kernel == reader.kernel.name]
        own = reader.kernel.name if len(others) == 1 else _free(reader.kernel.name, kernels)
        kernels[own] = replace(reader.kernel, name=own, nests=nests)
        steps[reader.number] = replace(reader.step, kernel=own)
    shape = (*meta.shape[:dim], kept, *meta.shape[dim + 1 :])
    less = meta.with_(shape=shape, strides=contiguous_strides(shape))
    buffers = {**program.buffers, name: replace(program.buffers[name], meta=less)}
    return program.with_(kernels=kernels, steps=tuple(steps), buffers=buffers)


def _readers(program: Program, name: str, maker: int) -> list[Reader]:
    """The launches that read the buffer, if nothing else does."""
    found: list[Reader] = []
    for number in sorted(step_uses(program).users[name] - {maker}):
        step = program.steps[number]
        if number == OUTSIDE or not isinstance(step, Launch):
            return []
        kernel = program.kernels[step.kernel]
        if kernel.template or kernel.rows or step.buffers.count(name) != 1:
            return []
        found.append(Reader(number, step, kernel, kernel.params[step.buffers.index(name)]))
    return found


def _loads(nest: LoopNest, param: str) -> Iterable[Any]:
    return (instr.args[1] for instr in nest.body if instr.op == "load" and instr.args[0] == param)


def _moved(nest: LoopNest, param: str, block: int, kept: int) -> LoopNest:
    """The nest, where the elements of the param that lay in blocks of so many lie in shorter ones."""

    def moved(instr: Instr) -> Instr:
        if instr.op != "load" or instr.args[0] != param:
            return instr
        whole, rest = split_multiple(sympy.expand(instr.args[1]), sympy.Integer(block))
        return instr.with_args((param, sympy.expand(whole * kept + rest), *instr.args[2:]))

    return replace(nest, body=tuple(map(moved, nest.body)))


def _count(index: Any, nest: LoopNest, row: int, inner: int) -> int:
    """How many of the first elements of a row the index reaches; the whole row where that is not known.

    The part of the index that is a multiple of a row's length chooses the row, so the rest must stay inside it.
    """
    variables = (*nest.loop_variables, *nest.reduction_variables)
    sizes = dict(zip(variables, (*nest.ranges, *nest.reduction_ranges), strict=True))
    _, rest = split_multiple(sympy.expand(index), sympy.Integer(row * inner))
    last = 0
    for term in sympy.Add.make_args(rest):
        step, variable = term.as_coeff_Mul()
        size = 2 if variable == 1 else sizes.get(variable)
        if not isinstance(size, int) or step < 0:
            return row
        last += int(step) * (size - 1)
    return min(last // inner + 1, row)


def _free(name: str, taken: dict[str, Kernel]) -> str:
    return next(f"{name}_{k}" for k in range(len(taken) + 1) if f"{name}_{k}" not in taken)


def without_copy(program: Program, name: str, maker: int) -> tuple[Program, str]:
    """The program without the kernel that only copies the buffer, and the buffer that the maker may write at once."""
    readers = _readers(program, name, maker)
    copy = _copied(readers[0], program.buffers[name].meta.numel) if len(readers) == 1 else None
    if copy is None or min(step_uses(program).users[copy] - {OUTSIDE}) < readers[0].number:
        return program, name
    steps = tuple(step for n, step in enumerate(program.steps) if n != readers[0].number)
    launched = {step.kernel for step in steps if isinstance(step, Launch)}
    kernels = {n: k for n, k in program.kernels.items() if n != readers[0].kernel.name or n in launched}
    buffers = {n: buffer for n, buffer in program.buffers.items() if n != name}
    return program.with_(steps=steps, kernels=kernels, buffers=buffers), copy


def _copied(reader: Reader, count: int) -> str | None:
    """The buffer to which a launch copies all `count` elements of the one it reads, each to the same place."""
    nest = reader.kernel.nests[0]
    ops = [instr.op for instr in nest.body]
    if len(reader.kernel.nests) > 1 or ops != ["load", "store"] or len(nest.body[0].args) > 2:
        return None
    load, store = nest.body
    if (
        sympy.expand(load.args[1] - store.args[1]) != 0
        or math.prod((*nest.ranges, *nest.reduction_ranges)) != count
    ):
        return None
    return reader.step.buffers[reader.kernel.params.index(store.args[0])]
