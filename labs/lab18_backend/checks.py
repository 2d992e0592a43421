"""What lab 18 asks of a backend: eager's values, few bytes and kernels, schedules that fit the loops, no way round it.

Input: the learner's functions. Bytes and kernels are counted; the times that ranking.py prints decide nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import cutaway
from stage0_eager.core_interpreter import interpreter
from stage3_lowering import tiny
from stage3_lowering.interpret import interpret_program
from stage3_lowering.lowering import lower
from stage3_lowering.tests.graphs import trace
from stage_contracts import config
from stage_contracts.errors import CompilerMissing
from stage_contracts.graph import GraphError
from stage_contracts.loop_ir import ExternCall
from stage_contracts.program import Kernel, Launch, Program

from ..answer import Answer
from ..checks import Wrong
from ..core_programs import PROGRAMS as SMALL
from ..core_programs import lowered, same_values, verified
from ..hidden import hidden_check
from ..programs import SPECIAL, numbers, short
from .ranking import ALWAYS, PROGRAMS, SHAPE, bytes_moved, compiled, core, kernels_launched, rows

FUSION, SCHEDULE, BACKEND, TABLE = (
    "page.md#which-loops-become-one", "page.md#how-a-kernel-runs", "page.md#the-backend", "page.md#the-table",
)  # fmt: skip
QUICK = {"runtime.cxx_flags": "-O1 -ffp-contract=off -fopenmp"}
# At most so many kernels, and so many whole arrays of 384 by 512 that move.
GOALS = {
    "softmax": (3, 5),
    "gelu": (1, 2),
    "waves": (1, 4),
    "moments": (3, 3),
    "residual": (1, 4),
    "columns": (2, 3),
}


def what_is_saved(answer: Answer) -> None:
    """`saved` gives the bytes of the buffers that two nests both use, read or written; nothing for a call."""
    for name in ("softmax", "diamond", "matmul_then_relu", "chain", "broadcast"):
        graph = lowered(name)
        for k, a in enumerate(graph.nodes):
            for b in graph.nodes[k + 1 :]:
                both = {*a.reads, *a.writes} & {*b.reads, *b.writes}
                call = isinstance(a, ExternCall) or isinstance(b, ExternCall)
                want = 0 if call else sum(graph.buffers[buffer].nbytes for buffer in both)
                if (got := answer.saved(a, b, graph)) != want:
                    shared = ", ".join(sorted(both)) or "nothing"
                    raise Wrong(
                        f"{name}: {a.name} and {b.name}, which share {shared}, save {got} bytes",
                        f"{want}",
                        read=FUSION,
                    )


def values_stay(answer: Answer) -> None:
    """The fused program computes what the loops compute one by one: strides, NaN, no elements, calls between."""
    for name in SMALL:
        same_values(verified(answer.fuse(lowered(name)), name, FUSION), name, FUSION)
    arrays = (numbers(7, 7), numbers(7, 7, seed=1))
    graph = trace(lambda c, x, w: c.add(c.sin(x), c.matmul(w, w)), *arrays)
    made = verified(answer.fuse(tiny.lower(graph)), "sin(x) + w @ w", FUSION)
    for got, want in zip(interpret_program(made, arrays), interpreter(graph)(*arrays), strict=True):
        if not np.allclose(got, want, 1e-5, 1e-5):
            raise Wrong(f"sin(x) + w @ w is {short(got)}", short(want), text_of(made), FUSION)


def few_bytes_move(answer: Answer) -> None:
    """The six programs of the table need few kernels and few bytes: nests that only share an input are one, too."""
    whole = 4 * SHAPE[0] * SHAPE[1]
    for name, (most, arrays) in GOALS.items():
        made = verified(answer.fuse(lower(core(name))), name, FUSION)
        if (got := kernels_launched(made)) > most:
            raise Wrong(f"{name} has {got} kernels", f"at most {most}", text_of(made), FUSION)
        if (moved := bytes_moved(made)) > (arrays + 0.1) * whole:
            raise Wrong(f"{name} moves {moved:,} bytes", f"about {arrays * whole:,}: {arrays} arrays of 384 by 512",
                        text_of(made), FUSION)  # fmt: skip


def text_of(program: Program) -> str:
    return "\n".join(f"{s.kernel}: {', '.join(s.buffers)}" for s in program.steps if isinstance(s, Launch))


# ---- schedules ------------------------------------------------------------------------------------------------------


def turned(c: Any, x: Any) -> Any:
    return c.add(c.exp(c.permute(x, (1, 0))), 1.0)


def mixed(c: Any, x: Any, y: Any) -> Any:
    return c.mul(c.permute(x, (1, 0)), c.mul(c.permute(y, (1, 0)), 2.0))


def kernel_of(function: Any, *arrays: np.ndarray) -> Kernel:
    """The kernel of a program that is one loop nest, as written, without your fusion."""
    made = ALWAYS["one by one"](trace(function, *arrays))
    return list(made.kernels.values())[-1]


BIG = numbers(64, 96)
CASES: dict[str, tuple[Any, tuple[np.ndarray, ...], str]] = {
    "x + 1, 64 by 96": (lambda c, x: c.add(x, 1.0), (BIG,), "order=i0,i1 vector=i1 parallel=i0"),
    "x + 1, 5 by 7": (lambda c, x: c.add(x, 1.0), (numbers(5, 7),), "order=i0,i1 vector=i1"),
    "x + 1, 5000": (lambda c, x: c.add(x, 1.0), (numbers(5000),), "order=i0 vector=i0"),
    "exp of x transposed": (lambda c, x: c.exp(c.permute(x, (1, 0))), (BIG,), "order=i1,i0 vector=i0 parallel=i1"),
    "exp of x transposed, contiguous": (
        lambda c, x: c.contiguous(c.permute(x, (1, 0))), (BIG,), "order=i0,i1 vector=i1 parallel=i0",
    ),
    "the sum of each row": (lambda c, x: c.sum(x, (1,)), (BIG,), "order=i0 vector=r0 parallel=i0"),
    "the sum of each row of x transposed": (lambda c, x: c.sum(x, (1,)), (BIG.T,), "order=i0 tiles=i0:64 vector=i0"),
    "the sum of each of 5 rows, transposed": (
        lambda c, x: c.sum(x, (1,)), (numbers(7, 5).T,), "order=i0 tiles=i0:5 vector=i0",
    ),
    "exp of one number": (lambda c, x: c.exp(x), (np.full((), 2, np.float32),), "order="),
}  # fmt: skip


def steps_are_counted(answer: Answer) -> None:
    """`in_steps_of_one` counts the loads and stores of a nest that go to the next element when a loop goes one step."""
    for name, (function, arrays, _) in CASES.items():
        (nest,) = kernel_of(function, *arrays).nests
        for loop in (*nest.loop_variables, *nest.reduction_variables):
            indices = [i.args[1] for i in nest.body if i.op in ("load", "store")]
            want = sum(index.subs(loop, loop + 1) - index == 1 for index in indices)
            if (got := answer.in_steps_of_one(nest, loop)) != want:
                raise Wrong(
                    f"{name}: {got} of {indices} go one step with {loop}", f"{want}", str(nest), SCHEDULE
                )


def schedules_fit(answer: Answer) -> None:
    """`schedule_of` puts the loop that walks through memory last and in vectors; large kernels have threads."""
    for name, (function, arrays, want) in CASES.items():
        kernel = kernel_of(function, *arrays)
        made = answer.schedule_of(kernel)
        try:
            got = str(made.verify(kernel))
        except GraphError as error:
            raise Wrong(f"{name}: {error}", want, str(kernel.nests[0]), SCHEDULE) from error
        if got != want:
            raise Wrong(f"{name}: {got}", want, str(kernel.nests[0]), SCHEDULE)


def kernels_have_schedules(answer: Answer) -> None:
    """`program_of` lowers, fuses with your `fuse`, and gives each kernel your schedule."""
    for name in PROGRAMS:
        made = answer.program_of(core(name))
        want = answer.fuse(lower(core(name)))
        if kernels_launched(made) != kernels_launched(want):
            raise Wrong(f"{name}: program_of has {kernels_launched(made)} kernels, your fuse {kernels_launched(want)}",
                        "your fuse is used", read=BACKEND)  # fmt: skip
        for kernel in made.kernels.values():
            got, want_it = kernel.schedule, answer.schedule_of(kernel)
            if got != want_it:
                raise Wrong(f"{name}: {kernel.name} has the schedule {got}", str(want_it), read=BACKEND)


def kernels_compute(answer: Answer) -> None:
    """Built by stage 4, your kernels compute what the eager kernels do."""
    for name, arrays in (
        ("columns", (BIG,)),
        ("softmax", (numbers(9, 5),)),
        ("residual", (BIG, numbers(64, 96, seed=1))),
    ):
        graph = trace(PROGRAMS[name][0], *arrays)
        try:
            with config.patch(QUICK):
                got = compiled(answer.program_of(graph))(*arrays)
        except CompilerMissing as error:
            raise Wrong(str(error), "a C++ compiler: this lab runs what it writes", read=BACKEND) from error
        for k, (g, w) in enumerate(zip(got, interpreter(graph)(*arrays), strict=True)):
            if g.shape != w.shape or not np.allclose(g, w, 1e-5, 1e-5):
                raise Wrong(f"{name}: result {k} is {short(g)}", short(w), read=BACKEND)


# ---- the backend ----------------------------------------------------------------------------------------------------


def gated(x: Any, y: Any) -> Any:
    return (x * y.sigmoid()).softmax(1), x.t() + 1


def nothing_to_do(x: Any, y: Any) -> Any:
    return x.exp().sum()


def in_the_compiler(answer: Answer) -> None:
    """`cutaway.compile(f, backend=backend)` gives eager's results: odd sizes, strides, NaN; and your kernels run."""
    seen: list[Program] = []
    original = answer.module.compiled

    def look(program: Program) -> Any:
        run = original(program)

        def noted(*arrays: Any) -> Any:
            seen.append(program)
            return run(*arrays)

        return noted

    answer.module.compiled = look  # type: ignore[attr-defined]
    try:
        for function, arrays in (
            (gated, (numbers(5, 7), numbers(5, 7, seed=1))), (gated, (numbers(7, 4).T, numbers(4, 7))),
            (nothing_to_do, (SPECIAL[:2], SPECIAL)),
        ):  # fmt: skip
            seen.clear()
            x, y = map(cutaway.from_numpy, arrays)
            run = cutaway.compile(function, backend=answer.backend, fullgraph=True, dynamic=False)
            with config.patch({**QUICK, "capture.suppress_errors": False}), np.errstate(all="ignore"):
                got, want = run(x, y), function(x, y)
            many = isinstance(want, tuple)
            for k, (g, w) in enumerate(zip(got if many else [got], want if many else [want], strict=True)):
                if g.shape != w.shape or not np.allclose(g.numpy(), w.numpy(), 1e-5, 1e-5, equal_nan=True):
                    raise Wrong(
                        f"{function.__name__}: result {k} is {short(g.numpy())}",
                        short(w.numpy()),
                        read=BACKEND,
                    )
            if not any(isinstance(step, Launch) for program in seen for step in program.steps):
                why = "`compiled` of your Program: eager kernels are no backend"
                raise Wrong(f"{function.__name__}: no kernel of yours ran", why, read=BACKEND)
    finally:
        answer.module.compiled = original  # type: ignore[attr-defined]


def it_is_ranked(answer: Answer) -> None:
    """In the table, a contender of yours moves fewer bytes than the tiny parts do."""
    if not answer.CONTENDERS:
        raise Wrong("CONTENDERS is empty", "at least {'mine': program_of}", read=TABLE)
    found = rows(
        {**{name: ALWAYS[name] for name in ("one by one", "tiny")}, **answer.CONTENDERS}, timed=False
    )
    if found[0].name in ALWAYS:
        ranks = ", ".join(f"{row.name} {row.rank[0]:,} bytes" for row in found)
        raise Wrong(f"the table is led by {found[0].name}: {ranks}", "one of CONTENDERS", read=TABLE)


def schedules_of_more(answer: Answer) -> Any:
    """The schedules of kernels that no other check has, as text."""
    three = numbers(6, 40, 50)
    cases = (
        (lambda c, x: c.add(c.permute(x, (2, 0, 1)), 1.0), (three,)), (lambda c, x: c.amax(x, (2,)), (three,)),
        (lambda c, x: c.contiguous(c.permute(x, (0, 2, 1))), (three,)),
        (lambda c, x: c.sum(x, (1,)), (numbers(200, 30).T,)),
        (lambda c, x, y: c.mul(x, y), (three, three.transpose(0, 2, 1).copy().transpose(0, 2, 1))),
    )  # fmt: skip
    return [str(answer.schedule_of(kernel_of(function, *arrays))) for function, arrays in cases]


HIDDEN = {"the schedules of five more kernels": schedules_of_more}

CHECKS = (
    what_is_saved,
    values_stay,
    few_bytes_move,
    steps_are_counted,
    schedules_fit,
    kernels_have_schedules,
    kernels_compute,
    in_the_compiler,
    it_is_ranked,
    hidden_check(__file__, HIDDEN, SCHEDULE),
)
