"""What lab 13 asks of a Triton kernel: a grid that covers all points once, masks, neutral lanes, and right numbers.

Input: the learner's functions. Single lines run on a stand-in for `tl`; whole kernels run in Triton's interpreter, are
compiled for a GPU that need not be here, and run on the GPU if there is one.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

import cutaway
from cutaway.torch_api import machine
from stage3_lowering import tiny
from stage3_lowering.interpret import interpret_program
from stage3_lowering.tests.graphs import trace
from stage_contracts import dtype as dt
from stage_contracts.loop_ir import Instr
from stage_contracts.program import External, Kernel, Program, SourceUnit, Target

from ..answer import Answer
from ..checks import Wrong
from ..core_programs import PROGRAMS, CoreProgram
from ..hidden import hidden_check
from ..programs import numbers, same, short
from .stand_in import Pointer, StandIn, number, run_lines

GRID, POINTS = "page.md#how-many-programs", "page.md#which-points"
MEMORY, FOLD, WHOLE = "page.md#loads-and-stores", "page.md#reductions", "page.md#do-it"
TRITON = Target("triton")
SHAPES = ((5, 7), (1024,), (1025,), (3, 4, 5), (2,), (2, 3000))
MORE = {
    "two blocks": CoreProgram(lambda c, x: c.exp(x), (numbers(3, 700),)),
    "a column of a matrix": CoreProgram(lambda c, x: c.sum(x, (1,)), (numbers(40, 3).T,)),
    "any and all": CoreProgram(lambda c, m: (c.any(m, (1,)), c.all(m, (1,))), (numbers(5, 7) > 0,)),
    "a product": CoreProgram(lambda c, x: c.prod(x, (1,)), (numbers(5, 7),)),
    "whole extremes": CoreProgram(lambda c, x: (c.amax(x, (1,)), c.amin(x, (1,))), (np.arange(-35, 0).reshape(5, 7),)),
}  # fmt: skip


@cache
def fused(name: str) -> Program:
    program = {**PROGRAMS, **MORE}[name]
    return tiny.fuse(tiny.lower(trace(program.function, *program.arrays)))


def types_of(program: Program) -> dict[str, Any]:
    return {name: buffer.meta.dtype for name, buffer in program.buffers.items()}


@cache
def pointwise(*shape: int) -> tuple[Kernel, dict[str, Any]]:
    """The kernel of x.sin() + row for a shape: one load that varies in all variables, one in the last."""
    x, row = np.zeros(shape, np.float32), np.zeros(shape[-1:], np.float32)
    program = tiny.fuse(tiny.lower(trace(lambda c, a, b: c.add(c.sin(a), b), x, row)))
    (kernel,) = program.kernels.values()
    return kernel, types_of(program)


@cache
def rows(count: int, length: int) -> tuple[Kernel, dict[str, Any]]:
    """The kernel of (x * column).sum(1): one load varies along the row, the other does not."""
    arrays = np.zeros((count, length), np.float32), np.zeros((count, 1), np.float32)
    program = tiny.fuse(tiny.lower(trace(lambda c, a, b: c.sum(c.mul(a, b), (1,)), *arrays)))
    (kernel,) = program.kernels.values()
    return kernel, types_of(program)


def grid_covers_all_points(answer: Answer) -> None:
    """There are as many programs as are needed, and a block is a power of two: at most 1024 points, or a whole row."""
    for shape in SHAPES:
        points = math.prod(shape)
        check_grid(answer.triton_grid(*pointwise(*shape)), f"{points} points", "XBLOCK", points, 1024)
    for count, length in ((5, 7), (3, 64), (2, 65), (4, 2)):
        found = answer.triton_grid(*rows(count, length))
        what = f"{count} rows of {length}"
        check_grid(found, what, "RBLOCK", length, 1 << 30)
        if found["grid"] != (count, 1, 1):
            raise Wrong(
                f"{what}: the grid is {found['grid']}", f"({count}, 1, 1): a program for each row", read=GRID
            )


def check_grid(found: dict[str, Any], what: str, name: str, points: int, most: int) -> None:
    block = found["constants"].get(name)
    if block is None:
        raise Wrong(f"{what}: the constants are {found['constants']}", f"{name}", read=GRID)
    if block & (block - 1) or block < 1:
        raise Wrong(f"{what}: {name} is {block}", "a power of two: tl.arange takes no other", read=GRID)
    if (want := 1 << (min(points, most) - 1).bit_length()) != block:
        raise Wrong(f"{what}: {name} is {block}", f"{want}", read=GRID)
    if name == "XBLOCK" and found["grid"][0] != (want := math.ceil(points / block)):
        raise Wrong(f"{what}, {block} for a program: {found['grid'][0]} programs", f"{want}", read=GRID)


def each_point_once(answer: Answer) -> None:
    """The lines of `triton_points` give every program its own points, in row-major order, and mask the rest."""
    for shape in SHAPES:
        kernel, types = pointwise(*shape)
        (nest,) = kernel.nests
        grid, lines, seen = answer.triton_grid(kernel, types), answer.triton_points(nest), []
        for program in range(grid["grid"][0]):
            found = run_lines(lines, StandIn(program), grid["constants"])
            lanes = np.broadcast_to(found["mask"], (grid["constants"]["XBLOCK"],))
            names = [str(v) for v in nest.loop_variables]
            seen += list(
                zip(*(np.broadcast_to(found[n], lanes.shape)[lanes].tolist() for n in names), strict=True)
            )
        want = list(np.ndindex(*(int(n) for n in nest.ranges)))
        if seen != want:
            where = next((k for k, (a, b) in enumerate(zip(seen, want)) if a != b), min(len(seen), len(want)))
            got = seen[where] if where < len(seen) else "nothing"
            expected = want[where] if where < len(want) else "nothing: there are no more points"
            raise Wrong(
                f"loops over {shape}: point {where} is {got}", f"{expected}", "\n".join(lines), POINTS
            )
    kernel, types = rows(3, 5)
    (nest,) = kernel.nests
    lines = answer.triton_points(nest)
    found = run_lines(lines, StandIn(2), {"RBLOCK": 8})
    mask, r0 = np.asarray(found["mask"]).tolist(), np.asarray(found["r0"]).tolist()
    if mask != [k < 5 for k in range(8)] or r0 != list(range(8)) or np.asarray(found["i0"]).tolist() != 2:
        raise Wrong(f"the third of 3 rows of 5: i0 is {found['i0']}, r0 {r0}, mask {mask}",
                    "i0 2, r0 0 to 7, and a mask true for 5 lanes", "\n".join(lines), POINTS)  # fmt: skip


def nothing_outside_is_touched(answer: Answer) -> None:
    """An address that varies along the block has the mask; one that does not has none."""
    for (kernel, types), what in ((pointwise(5, 7), "35 points"), (rows(5, 7), "5 rows of 7")):
        (nest,) = kernel.nests
        grid = answer.triton_grid(kernel, types)
        load, store = answer.triton_memory(nest)
        axes = set(nest.reduction_variables if nest.is_reduction else nest.loop_variables)
        for instr in nest.body:
            if instr.op not in ("load", "store"):
                continue
            line = load(instr, *instr.args) if instr.op == "load" else store(instr, *instr.args)
            tl = StandIn(0)
            names = {**{p: Pointer(p) for p in kernel.params}, **grid["constants"]}
            names |= {i.name: number(0.0) for i in nest.body if i.name}
            run_lines([*answer.triton_points(nest), line], tl, names)
            if len(tl.accesses) != 1:
                raise Wrong(f"{what}: {line!r} touches memory {len(tl.accesses)} times", "once", read=MEMORY)
            _, index, mask = tl.accesses[0]
            varies = bool(instr.args[1].free_symbols & axes)
            if varies and mask is None:
                raise Wrong(f"{what}: {line!r} has no mask, so lanes beyond the end touch memory that is not theirs",
                            "`, mask`: this address varies along the block", read=MEMORY)  # fmt: skip
            if not varies and mask is not None:
                raise Wrong(f"{what}: {line!r} has a mask of {np.size(mask)} lanes for one address", "no mask: this "
                            "address is the same for the whole block", read=MEMORY)  # fmt: skip


def lanes_beyond_are_neutral(answer: Answer) -> None:
    """A reduction ignores the lanes beyond the row, whatever is in them; a maximum with NaN is NaN."""
    row = np.array([-3.0, 2.0, -0.5], np.float32)
    for kind, values, want in (
        ("sum", row, -1.5), ("prod", row, 3.0), ("amax", row - 5, -3.0), ("amin", row + 9, 6.0),
        ("amax", np.array([1, np.nan, 2], np.float32), np.nan), ("amin", np.array([np.nan, 1, 2], np.float32), np.nan),
        ("amax", np.array([-9, -7, -8]), -7), ("any", np.array([False] * 3), False),
        ("any", np.array([False, True, False]), True), ("all", np.array([True] * 3), True),
        ("all", np.array([True, False, True]), False),
    ):  # fmt: skip
        of = {"f": dt.float32, "i": dt.int64, "b": dt.bool_}[values.dtype.kind]
        for beyond in {"f": (np.nan, 1e9, -1e9), "i": (99, -99), "b": (True, False)}[values.dtype.kind]:
            lanes = np.concatenate([values, np.full(5, beyond, values.dtype)])
            line = answer.triton_reduction(Instr("r", "reduction", (kind, "v"), of), kind, "v")
            names = {"v": number(lanes), "mask": number(np.arange(8) < 3), "float": float}
            got = np.asarray(run_lines([line], StandIn(0), names)["r"]).item()
            if got != want and not (got != got and want != want):
                raise Wrong(f"{kind} of {values.tolist()}, with {beyond} in the lanes beyond: {got}", f"{want}", line,
                            FOLD)  # fmt: skip


def emitted(answer: Answer, program: Program) -> Program:
    """The program with a Triton module for each kernel, as the compiler's `emit` puts them together."""
    types, kernels, units = types_of(program), {}, []
    for name, kernel in program.kernels.items():
        grid, unit = answer.triton_grid(kernel, types), f"{name}_triton"
        units.append(SourceUnit(unit, "triton", answer.triton_kernel(kernel), (name,), TRITON, {name: grid}))
        kernels[name] = replace(kernel, unit=unit, grid=grid)
    return program.with_(kernels=kernels, units=tuple(units))


def compute(answer: Answer, names: str, read: str) -> None:
    """Raise Wrong unless the kernels give in Triton's interpreter what their loops do."""
    if importlib.util.find_spec("triton") is None:
        raise Wrong(
            "Triton is not installed",
            "pip install 'cutaway[triton]': its interpreter needs no GPU",
            read=read,
        )
    from stage3_lowering.triton_interpreter import run_in_interpreter

    for name in names.split(","):
        program, arrays = fused(name), {**PROGRAMS, **MORE}[name].arrays
        made = emitted(answer, program)
        text = "\n".join(unit.text for unit in made.units)
        try:
            results = run_in_interpreter(made, arrays)
        except RuntimeError as error:
            raise Wrong(f"{name}: {str(error).splitlines()[0]}", "a kernel that runs", text, read) from error
        with np.errstate(all="ignore"):
            wanted = interpret_program(program, arrays)
        for k, (got, want) in enumerate(zip(results, wanted, strict=True)):
            if got.dtype != want.dtype or not same(got, want, 0 if want.dtype.kind != "f" else 4e-6):
                raise Wrong(f"{name}: result {k} is {short(got)}", short(want), text, read)


def points_compute(answer: Answer) -> None:
    """Kernels without a reduction run in Triton's interpreter and give what their loops do: strides, two blocks."""
    compute(answer, "sin_cos,broadcast,transposed_input,integers,read_transposed,two blocks", WHOLE)


def reductions_compute(answer: Answer) -> None:
    """Reductions run in Triton's interpreter and give what their loops do: NaN, transposed rows, truth values."""
    compute(answer, "softmax,layer_norm,nan,any and all,a product,whole extremes,a column of a matrix", FOLD)


def gpu_would_take_it(answer: Answer) -> None:
    """No operator is left to a call, and each kernel compiles for a GPU. A GPU, if there is one, agrees."""
    from stage3_lowering.triton_interpreter import compile_to_ptx

    for name in ("sin_cos", "softmax"):
        made = emitted(answer, fused(name))
        text = "\n".join(unit.text for unit in made.units)
        if any(isinstance(step, External) for step in made.steps) or not text.count("@triton.jit"):
            raise Wrong(f"{name} calls an eager kernel", "kernels of your own only", text, WHOLE)
        try:
            compile_to_ptx(made)
        except RuntimeError as error:
            raise Wrong(
                f"{name}: {str(error).splitlines()[0]}", "a kernel that Triton compiles", text, WHOLE
            ) from error
    on_the_gpu(answer)


def on_the_gpu(answer: Answer) -> None:
    """Train nothing, but run a softmax on the GPU in the real compiler. Without a GPU there is nothing to do."""
    if not machine.is_available():
        return
    pipeline = replace(cutaway.TINY_PIPELINE, emit=lambda program, target: emitted(answer, program))
    function = lambda x: cutaway.softmax(x, 1)  # noqa: E731
    x = cutaway.from_numpy(numbers(33, 65)).to("cuda")
    got = cutaway.compile(function, pipeline=pipeline, options={"runtime.cache": False})(x).cpu().numpy()
    if not same(got, function(x).cpu().numpy(), 4e-6):
        raise Wrong(f"on the GPU, softmax is {short(got)}", short(function(x).cpu().numpy()), read=WHOLE)


def grids(kernels: Any) -> Any:
    def case(answer: Answer) -> Any:
        found = [answer.triton_grid(*kernel) for kernel in kernels()]
        return [(f["grid"], sorted(f["constants"].items()), sorted(f["signature"].items())) for f in found]

    return case


HIDDEN = {
    "the grids of 41 pointwise kernels": grids(lambda: [pointwise(k, 3 * k + 1) for k in range(1, 42)]),
    "the grids of 20 reductions": grids(lambda: [rows(k + 2, 7 * k + 2) for k in range(20)]),
}

CHECKS = (
    grid_covers_all_points,
    each_point_once,
    nothing_outside_is_touched,
    lanes_beyond_are_neutral,
    points_compute,
    reductions_compute,
    gpu_would_take_it,
    hidden_check(__file__, HIDDEN, GRID),
)
