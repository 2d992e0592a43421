"""A backend of your own: which loops become one kernel, how each kernel runs, and the way from a graph to a callable.

Input: graphs, from the compiler or from ranking.py. Lowering, memory, source, building and launching are the
compiler's. CONTENDERS at the end are the rows of the table; add as many as you like.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from typing import Any

from cutaway import from_numpy
from stage2_autograd.decompose import decompose
from stage2_autograd.functionalize import functionalize
from stage3_lowering.lowering import lower
from stage3_lowering.tiny.fuse import merge, place, program, used
from stage_contracts.graph import Graph
from stage_contracts.kernel_schedule import KernelSchedule
from stage_contracts.loop_ir import ExternCall, LoopNest, LoweredGraph, buffer_refs
from stage_contracts.program import Kernel, Program

from .ranking import compiled

PARALLEL_FROM = 4096  # elements of the loops of a kernel, from which on threads pay
TILE = 64
Group = LoopNest | ExternCall


# ---- what you write ----------------------------------------------------------------------------------------------


def saved(a: Group, b: Group, lowered: LoweredGraph) -> int:
    """How many bytes need not move if a and b are one kernel: the buffers that both use. 0 for a call."""
    # lab: begin saved
    if isinstance(a, ExternCall) or isinstance(b, ExternCall):
        return 0
    both = {*a.reads, *a.writes} & {*b.reads, *b.writes}
    return sum(lowered.buffers[name].nbytes for name in both)
    # lab: end


def fuse(lowered: LoweredGraph) -> Program:
    """Join loop nests into kernels, two at a time, until no two can be joined that save bytes.

    Two nests need not read each other's results: two that read the same buffer save a load. Which two come first is
    your choice; those that save most are a good one. `used` leaves out what nothing reads. `place` says where two
    groups can run as one, `merge` makes them one.
    """
    # lab: begin fuse
    outputs = {ref.name for ref in buffer_refs(lowered.outputs)}
    groups = list(used(lowered, outputs))
    while True:
        best: tuple[int, int, int, int, LoopNest] | None = None
        for i, j in combinations(range(len(groups)), 2):
            worth = saved(groups[i], groups[j], lowered)
            spot = place(groups, i, j)
            if not worth or spot is None or (best is not None and worth <= best[0]):
                continue
            merged, _ = merge(groups[i], groups[j])
            if merged is not None:
                best = worth, i, j, spot, merged
        if best is None:
            return program(lowered, groups, outputs, ())
        _, i, j, spot, merged = best
        groups[spot] = merged
        del groups[i + j - spot]
    # lab: end


def in_steps_of_one(nest: LoopNest, loop: Any) -> int:
    """How many loads and stores of a nest go to the next element in memory when `loop` goes one step."""
    # lab: begin in_steps_of_one
    indices = [instr.args[1] for instr in nest.body if instr.op in ("load", "store")]
    return sum(index.diff(loop) == 1 for index in indices)
    # lab: end


def schedule_of(kernel: Kernel) -> KernelSchedule:
    """How a kernel of one nest runs.

    order: the loops as written, but the one with most steps of one is last (of two that are equal, the later one).
    vector: of a reduction, its loop (the last, if it has several) when that has at least as many steps of one as the
    last of `order`; else the last of `order`. tiles: if a reduction has an outer loop as its vector, that loop in
    blocks of TILE, or of its whole size if that is less: a row of accumulators. parallel: the first of `order`, if the
    kernel has at least PARALLEL_FROM elements and this loop is not the vector.
    """
    # lab: begin schedule_of
    (nest,) = kernel.nests
    loops = list(nest.loop_variables)
    if loops:
        last = max(loops, key=lambda loop: (in_steps_of_one(nest, loop), loops.index(loop)))
        loops = [*(loop for loop in loops if loop != last), last]
    vector = loops[-1] if loops else None
    if nest.is_reduction:
        inner = nest.reduction_variables[-1]
        if vector is None or in_steps_of_one(nest, inner) >= in_steps_of_one(nest, vector):
            vector = inner
    elements = 1
    for size in (*nest.ranges, *nest.reduction_ranges):
        elements *= size
    order = tuple(map(str, loops))
    name = str(vector) if vector is not None else ""
    tiled = nest.is_reduction and name in order
    tiles = ((name, min(TILE, nest.ranges[nest.loop_variables.index(vector)])),) if tiled else ()
    parallel = order[:1] if elements >= PARALLEL_FROM and order[:1] != (name,) else ()
    return KernelSchedule(order, tiles, name, parallel)
    # lab: end


def program_of(graph: Graph) -> Program:
    """A graph of core operators as a Program: lowered, fused by you, each kernel with your schedule."""
    # lab: begin program_of
    made = fuse(lower(graph))
    kernels = {name: replace(kernel, schedule=schedule_of(kernel)) for name, kernel in made.kernels.items()}
    return made.with_(kernels=kernels)
    # lab: end


def backend(module: Any, inputs: list[Any]) -> Callable[..., tuple]:
    """What `cutaway.compile(f, backend=backend)` calls: a captured graph, to a function of tensors. Without gradients.

    functionalize, decompose, program_of, compiled; then a function that goes from tensors to arrays and back.
    """
    # lab: begin backend
    run = compiled(program_of(decompose(functionalize(module.graph).graph)))

    def call(*tensors: Any) -> tuple:
        results = run(*(tensor.detach().numpy() for tensor in tensors))
        return tuple(from_numpy(result) for result in results)

    return call
    # lab: end


# ---- the rows of the table: add yours ----------------------------------------------------------------------------

CONTENDERS: dict[str, Callable[[Graph], Program]] = {"mine": program_of}
