"""What lab 7 asks of generated C++: it compiles, it computes what the loops do, it reads and writes memory once.

Input: the learner's `emit` and its parts, on programs that the tiny `lower` and `fuse` make. Kernels run in a child
process, since wrong ones may crash.
"""

from __future__ import annotations

import ctypes
import math
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np

from stage3_lowering import tiny
from stage3_lowering.interpret import interpret_program
from stage3_lowering.tests.cpp_runner import build, run_cpp
from stage3_lowering.tests.graphs import trace
from stage_contracts import dtype as dt
from stage_contracts.program import Launch, Program, Target

from ..answer import Answer
from ..checks import Wrong
from ..core_programs import PROGRAMS, WHOLE, CoreProgram, X
from ..hidden import hidden_check
from ..in_child import in_child
from ..programs import SPECIAL, same, short

CPP = Target("cpp")
KERNEL, NUMBERS, REDUCE, LOOPS = (
    "page.md#the-function",
    "page.md#numbers",
    "page.md#reductions",
    "page.md#loops",
)
LONG = np.concatenate([np.full((1, 1), 2.0**24, np.float32), np.ones((1, 999), np.float32)], 1)
MORE = {
    "cast_to_bool": CoreProgram(lambda c, x: c.cast(x, dt.bool_), (X / 4,)),
    "cast_to_int": CoreProgram(lambda c, x: c.cast(c.mul(x, 1e3), dt.int64), (SPECIAL,)),
    "whole extremes": CoreProgram(lambda c, x: (c.amax(x, (1,)), c.amin(x, (1,))), (WHOLE - 100,)),
    "product": CoreProgram(lambda c, x: c.prod(x, (1,)), (X,)),
    "any and all": CoreProgram(lambda c, m: (c.any(m, (1,)), c.all(m, (1,))), (X > 0,)),
    "doubles": CoreProgram(lambda c, x: c.mul(x, 0.1), (X.astype("f8"),)),
    "a long sum": CoreProgram(lambda c, x: c.sum(x, (1,)), (LONG,)),
}
LITERALS = [
    (0.5, dt.float32), (-0.0, dt.float32), (math.inf, dt.float32), (-math.inf, dt.float64), (math.nan, dt.float32),
    (1e-45, dt.float32), (3.0, dt.float32), (1e300, dt.float64), (0.1, dt.float64), (7, dt.int64),
    (-(2**63), dt.int64), (2**63 - 1, dt.int64), (True, dt.bool_), (False, dt.bool_),
]  # fmt: skip
HEAD = "#include <cmath>\n#include <cstdint>\n"


@cache
def fused(name: str) -> Program:
    """A program to emit. Its kernels have its name in theirs, so that many programs fit in one source text."""
    program = {**PROGRAMS, **MORE}[name]
    made = tiny.fuse(tiny.lower(trace(program.function, *program.arrays)))
    names = {kernel: f"{kernel}_{name.replace(' ', '_')}" for kernel in made.kernels}
    steps = [replace(s, kernel=names[s.kernel]) if isinstance(s, Launch) else s for s in made.steps]
    kernels = {names[k]: replace(kernel, name=names[k]) for k, kernel in made.kernels.items()}
    return made.with_(kernels=kernels, steps=tuple(steps))


def emitted(answer: Answer, name: str) -> tuple[Program, str]:
    """The program with the learner's source, and the text; "" if there are no kernels."""
    made = answer.emit(fused(name), CPP)
    return made, "\n".join(unit.text for unit in made.units)


def library(text: str, what: str, read: str) -> ctypes.CDLL:
    """Compiled text. What the compiler refuses is Wrong, with its first message."""
    if shutil.which("g++") is None:
        raise Wrong(
            "there is no g++ on this machine", "a C++ compiler: this lab is about its input", read=read
        )
    try:
        return build(text)
    except RuntimeError as error:
        said = [line for line in str(error).splitlines() if "error:" in line]
        first = said[0].partition("error:")[2].strip() if said else str(error).splitlines()[0]
        raise Wrong(f"{what}: g++ refuses it: {first}", "C++ that compiles", text, read) from error


def loops_are_nested(answer: Answer) -> None:
    """`loops` runs its lines for every point, the last variable fastest."""
    lines = answer.loops("i", (3, 2), ["out[n++] = 10 * i0 + i1;"], set())
    text = f'{HEAD}extern "C" void run(int64_t* out) {{ int64_t n = 0;\n' + "\n".join(lines) + "\n}\n"
    library(text, "loops over (3, 2)", LOOPS)

    def run() -> list[int]:
        out = (ctypes.c_int64 * 64)(*[-1] * 64)
        build(text).run(out)
        return [v for v in out if v >= 0]

    got = in_child(run)
    if got != [0, 1, 10, 11, 20, 21]:
        raise Wrong(f"over (3, 2) the points 10 * i0 + i1 come as {got}", "[0, 1, 10, 11, 20, 21]: i1 is the inner "
                    "loop", "\n".join(lines), LOOPS)  # fmt: skip
    if answer.loops("i", (), ["x;"], set()) != ["x;"]:
        raise Wrong("without sizes there are loops", "the lines as they are", read=LOOPS)


def numbers_are_exact(answer: Answer) -> None:
    """`cpp_literal` writes every number so that C++ has the same, of the same type, to the sign of zero."""
    texts = [answer.cpp_literal(value, dtype) for value, dtype in LITERALS]
    lines = [f"out[{k}] = double({text}); size[{k}] = sizeof({text});" for k, text in enumerate(texts)]
    text = f'{HEAD}extern "C" void run(double* out, int64_t* size) {{\n' + "\n".join(lines) + "\n}\n"
    library(text, "the literals " + ", ".join(texts), NUMBERS)

    def run() -> list[tuple[float, int]]:
        out, size = (ctypes.c_double * len(texts))(), (ctypes.c_int64 * len(texts))()
        build(text).run(out, size)
        return list(zip(out, size))

    for (value, dtype), written, (got, size) in zip(LITERALS, texts, in_child(run), strict=True):
        want = float(np.array(value).astype(dtype.numpy).astype(float))
        right = got == want and math.copysign(1, got) == math.copysign(1, want) or want != want and got != got
        if not right:
            raise Wrong(
                f"{value!r} of {dtype.name} is written as {written}, which is {got!r}",
                f"{want!r}",
                read=NUMBERS,
            )
        if math.isfinite(value) and size != dtype.itemsize and dtype is not dt.int64:
            raise Wrong(f"{value!r} of {dtype.name} is written as {written}, which has {size} bytes",
                        f"{dtype.itemsize} bytes", read=NUMBERS)  # fmt: skip


def functions_have_their_parameters(answer: Answer) -> None:
    """A kernel is an extern "C" function that returns int64_t; what it only reads is const."""
    for name in ("sin_cos", "softmax", "integers"):
        made, text = emitted(answer, name)
        for kernel in made.kernels.values():
            (nest,) = kernel.nests
            types = {
                p: {"float32": "float", "int64": "int64_t"}[made.buffers[p].meta.dtype.name]
                for p in kernel.params
            }
            wanted = ", ".join(
                f"{'' if p in nest.writes else 'const '}{types[p]}* {p}" for p in kernel.params
            )
            head = f'extern "C" int64_t {kernel.name}({wanted})'
            if head not in " ".join(text.split()):
                seen = next((line for line in text.splitlines() if f"{kernel.name}(" in line), "nothing")
                raise Wrong(f"{name}: {seen}", head, read=KERNEL)


def compute(answer: Answer, names: Sequence[str], read: str) -> None:
    """Raise Wrong unless the kernels of these programs compute what their loops do. All are compiled at once."""
    made = {name: emitted(answer, name) for name in names}
    together = "\n".join(text for _, text in made.values())
    try:
        library(together, "all programs together", read)
    except Wrong:
        for name, (_, text) in made.items():
            library(text, name, read)
        raise

    def run() -> dict[str, tuple[np.ndarray, ...]]:
        got = {}
        for name, (program, _) in made.items():
            units = tuple(replace(unit, text=together) for unit in program.units)
            got[name] = run_cpp(program.with_(units=units), inputs(name))
        return got

    with np.errstate(all="ignore"):
        for name, results in in_child(run).items():
            wanted = interpret_program(fused(name), inputs(name))
            for k, (g, w) in enumerate(zip(results, wanted, strict=True)):
                if g.dtype != w.dtype or not same(g, w, 0 if w.dtype.kind != "f" else 2e-6):
                    raise Wrong(f"{name}: result {k} is {short(g)}", short(w), made[name][1], read)


def inputs(name: str) -> tuple[np.ndarray, ...]:
    return {**PROGRAMS, **MORE}[name].arrays


def loops_compute(answer: Answer) -> None:
    """Kernels without a reduction compute what their loops say: NaN, strides, broadcasting, no elements."""
    names = (
        "sin_cos diamond broadcast chain transposed_input integers empty result_in_the_middle read_transposed"
    )
    compute(answer, [*names.split(), "call_between", "doubles"], KERNEL)


def types_are_converted(answer: Answer) -> None:
    """A cast gives what NumPy gives: 0.5 is true, infinity is the smallest integer."""
    compute(answer, ["cast_to_bool", "cast_to_int"], NUMBERS)


def reductions_compute(answer: Answer) -> None:
    """Reductions compute what their loops say: a maximum with NaN is NaN, and a long float sum is exact."""
    names = "sum_of_squares mean_then_exp nan column_in_a_sum_and_after softmax layer_norm"
    more = ["whole extremes", "product", "any and all", "a long sum"]
    compute(answer, [*names.split(), *more], REDUCE)


def memory_is_touched_once(answer: Answer) -> None:
    """Every load and every store of the loops is in the text once, and no other: nothing is left to eager."""
    for name in ("sin_cos", "softmax", "layer_norm"):
        made, text = emitted(answer, name)
        if [type(s) for s in made.steps] != [type(s) for s in fused(name).steps] or len(made.units) != 1:
            raise Wrong(f"{name} has {len(made.units)} units, and the steps {made.steps}", "one unit, the same steps",
                        read=KERNEL)  # fmt: skip
        for kernel in made.kernels.values():
            if kernel.unit != made.units[0].name or kernel.name not in made.units[0].kernels:
                raise Wrong(f"{kernel.name} has the unit {kernel.unit!r}", made.units[0].name, read=KERNEL)
        wanted = sum(
            i.op in ("load", "store") for k in made.kernels.values() for n in k.nests for i in n.body
        )
        got = len(re.findall(r"\b(?:in_|buf)\w+\[", text))
        if got != wanted:
            raise Wrong(f"{name} has {got} accesses of memory", f"{wanted}", text, KERNEL)


def people_can_read_it(answer: Answer) -> None:
    """Above each kernel are the lines of the program that it comes from, and inner loops are marked for SIMD."""
    made, text = emitted(answer, "softmax")
    missing = [str(o) for k in made.kernels.values() for o in k.origins if f"// {o}" not in text]
    if missing:
        raise Wrong(f"no comment names {missing[0]}", f"// {missing[0]}", text, KERNEL)
    lines = [line.strip() for line in emitted(answer, "sin_cos")[1].splitlines()]
    marks = [k for k, line in enumerate(lines) if line.startswith("#pragma omp simd")]
    if len(marks) != 1 or not lines[marks[0] + 1].startswith("for (int64_t i1"):
        raise Wrong(f"{len(marks)} loops of sin_cos are marked", "`#pragma omp simd` above the innermost loop",
                    "\n".join(lines), LOOPS)  # fmt: skip


HIDDEN_PROGRAMS = {
    "h0": CoreProgram(lambda c, x, y: c.sub(c.mul(x, 3), y), (WHOLE, WHOLE * 2 + 1)),
    "h1": CoreProgram(lambda c, x: c.sum(c.where(c.lt(x, 7), x, -1), (1,)), (WHOLE,)),
    "h2": CoreProgram(lambda c, x: (c.amin(x, (1,), True), c.prod(x, (1,))), (WHOLE % 5 - 2,)),
    "h3": CoreProgram(lambda c, x: c.cast(c.gt(c.mul(x, 0.5), 1.0), dt.int64), (WHOLE,)),
}
MORE |= HIDDEN_PROGRAMS


def whole_results(answer: Answer) -> Any:
    """What the kernels of whole-number programs compute."""
    text = "\n".join(emitted(answer, name)[1] for name in HIDDEN_PROGRAMS)
    library(text, "programs of whole numbers", KERNEL)

    def run() -> list[Any]:
        found = []
        for name in HIDDEN_PROGRAMS:
            program, _ = emitted(answer, name)
            units = tuple(replace(unit, text=text) for unit in program.units)
            found.append([r.reshape(-1).tolist() for r in run_cpp(program.with_(units=units), inputs(name))])
        return found

    return in_child(run)


HIDDEN = {"the results of four programs of whole numbers": whole_results}


CHECKS: tuple[Any, ...] = (
    loops_are_nested,
    numbers_are_exact,
    functions_have_their_parameters,
    loops_compute,
    types_are_converted,
    reductions_compute,
    memory_is_touched_once,
    people_can_read_it,
    hidden_check(__file__, HIDDEN, KERNEL),
)
