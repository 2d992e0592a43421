"""The table: kernels, bytes moved and time of each contender, for six programs.

Input: CONTENDERS of backend.py: name -> a function from a graph of core operators to a Program without memory and
source. They are ranked by bytes, then by kernels, which are facts. The time beside them is your machine's, today.
`python -m lab18_backend.ranking` prints the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from cutaway.profiler.peaks import least_seconds_of
from stage0_eager.core_interpreter import interpreter
from stage3_lowering import tiny
from stage3_lowering.lowering import emit, fuse, lower, schedule
from stage3_lowering.tests.graphs import trace
from stage3_lowering.tiny.fuse import program as as_steps
from stage4_runtime.runtime import build, launch, plan_memory
from stage_contracts.graph import Graph
from stage_contracts.loop_ir import buffer_refs
from stage_contracts.program import External, Launch, Program, Target, step_accesses

CPP = Target("cpp")
Contender = Callable[[Graph], Program]


def softmax(c: Any, x: Any) -> Any:
    e = c.exp(c.sub(x, c.amax(x, (1,), True)))
    return c.div(e, c.sum(e, (1,), True))


def gelu(c: Any, x: Any, bias: Any) -> Any:
    y = c.add(x, bias)
    return c.mul(c.mul(y, 0.5), c.add(c.erf(c.mul(y, 0.70710678)), 1.0))


def waves(c: Any, x: Any) -> Any:
    return c.sin(x), c.cos(x), c.mul(x, x)


def moments(c: Any, x: Any) -> Any:
    return c.sum(x, (1,)), c.sum(c.mul(x, x), (1,)), c.amax(x, (1,))


def residual(c: Any, x: Any, y: Any) -> Any:
    z = c.add(x, c.tanh(y))
    return z, c.maximum(z, 0.0)


def columns(c: Any, x: Any) -> Any:
    return c.sum(x, (0,)), c.exp(c.permute(x, (1, 0)))


def drawn(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


SHAPE = (384, 512)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "softmax": (softmax, (drawn(*SHAPE),)),
    "gelu": (gelu, (drawn(*SHAPE), drawn(SHAPE[1], seed=1))),
    "waves": (waves, (drawn(*SHAPE),)),
    "moments": (moments, (drawn(*SHAPE),)),
    "residual": (residual, (drawn(*SHAPE), drawn(*SHAPE, seed=1))),
    "columns": (columns, (drawn(*SHAPE),)),
}


@cache
def core(name: str) -> Graph:
    """The graph of core operators of a program."""
    function, arrays = PROGRAMS[name]
    return trace(function, *arrays)


# ---- what is ranked -----------------------------------------------------------------------------------------------


def kernels_launched(program: Program) -> int:
    """Launches, and calls of eager kernels."""
    return sum(isinstance(step, Launch | External) for step in program.steps)


def bytes_moved(program: Program) -> int:
    """Every buffer that a step reads, and every one that it writes, whole, once a step."""
    moved = 0
    for step in program.steps:
        if isinstance(step, Launch | External):
            reads, writes = step_accesses(step, program.kernels)
            moved += sum(program.buffers[name].meta.nbytes for name in {*reads} | {*writes})
    return moved


def compiled(program: Program) -> Callable[..., tuple]:
    """The program with memory and source, built by stage 4, as a callable on arrays."""
    made = emit(plan_memory(program), CPP)
    kernels = {name: kernel for unit in made.units for name, kernel in build(unit).items()}
    return launch(made, kernels, {})


# ---- contenders that are always there -------------------------------------------------------------------------------


def one_by_one(graph: Graph) -> Program:
    """A kernel for each operator, its loops as written: what eager does."""
    lowered = tiny.lower(graph)
    outputs = {ref.name for ref in buffer_refs(lowered.outputs)}
    return tiny.schedule(as_steps(lowered, list(lowered.nodes), outputs, ()), CPP)


def tiny_parts(graph: Graph) -> Program:
    """The tiny parts of stage 3."""
    return tiny.schedule(tiny.fuse(tiny.lower(graph)), CPP)


def cutaways_own(graph: Graph) -> Program:
    """The real stage 3."""
    return schedule(fuse(lower(graph)), CPP)


ALWAYS: dict[str, Contender] = {
    "one by one": one_by_one,
    "tiny": tiny_parts,
    "cutaway": cutaways_own,
}


@dataclass(frozen=True)
class Row:
    """One contender: per program (kernels, bytes, milliseconds), and the sums that it is ranked by."""

    name: str
    cells: tuple[tuple[int, int, float], ...]

    @property
    def rank(self) -> tuple[int, int]:
        return sum(nbytes for _, nbytes, _ in self.cells), sum(kernels for kernels, _, _ in self.cells)


def rows(contenders: Mapping[str, Contender], timed: bool = True) -> list[Row]:
    """Every contender on every program, the best first. A wrong result is an error that names both."""
    found = []
    for name, contender in contenders.items():
        cells = []
        for title, (_, arrays) in PROGRAMS.items():
            program = contender(core(title))
            milliseconds = 0.0
            if timed:
                run = compiled(program)
                same(run(*arrays), title, name)
                milliseconds = least_seconds_of(partial(run, *arrays)) * 1e3
            cells.append((kernels_launched(program), bytes_moved(program), milliseconds))
        found.append(Row(name, tuple(cells)))
    return sorted(found, key=lambda row: row.rank)


def same(results: tuple, title: str, name: str) -> None:
    for got, want in zip(results, interpreter(core(title))(*PROGRAMS[title][1]), strict=True):
        if got.shape != want.shape or not np.allclose(got, want, 1e-4, 1e-4):
            raise ValueError(
                f"{name} computes {title} wrongly: {got.reshape(-1)[:4]} for {want.reshape(-1)[:4]}"
            )


def table(found: list[Row], timed: bool = True) -> str:
    """A table in Markdown: one line a contender."""
    heads = ["rank", "contender", "MB", "kernels", *PROGRAMS]
    lines = ["| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
    for number, row in enumerate(found, 1):
        nbytes, kernels = row.rank
        cells = [f"{k} k, {b / 1e6:.2f} MB" + (f", {ms:.2f} ms" if timed else "") for k, b, ms in row.cells]
        lines.append(
            "| " + " | ".join([str(number), row.name, f"{nbytes / 1e6:.2f}", str(kernels), *cells]) + " |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    from .backend import CONTENDERS

    try:
        text = table(rows({**ALWAYS, **CONTENDERS}))
    except NotImplementedError as error:  # a body of the starter
        text = f"{table(rows(ALWAYS))}\n\n{error}"
    print(text)
    path = Path(__file__).parent / "ranking.md"
    path.write_text(f"{text}\n", encoding="utf-8")
    print(f"wrote {path.name}")
