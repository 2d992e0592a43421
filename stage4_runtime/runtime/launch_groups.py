"""Groups: consecutive launches on one stream of a GPU that one call of C issues, and the words that the call is given.

Input: a Program, and which of its kernels C can launch. A buffer of its own that is freed ends a group, so a call holds
no more memory than step by step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stage4_runtime.runtime.issue import MOST
from stage4_runtime.runtime.launch_names import GRID_PREFIX, ISSUE_PREFIX, identifier
from stage_contracts.program import Allocate, Free, Launch, Program


@dataclass(frozen=True)
class Group:
    """Launches that one function issues. Its words: the stream, these buffers' addresses, these sizes, then the number
    of blocks of each kernel of `grids`, which open sizes decide."""

    function: str
    launches: tuple[Launch, ...]
    buffers: tuple[str, ...]
    sizes: tuple[str, ...]
    grids: tuple[str, ...]
    stream: int = 0

    def words(self, launch: Launch, program: Program) -> tuple[list[int], int]:
        """The numbers of a launch's words, and of the word of its blocks; word 0 is a zero, 1 the stream."""
        numbers = {word: k for k, word in enumerate((*self.buffers, *self.sizes, *self.grids), 2)}
        kernel = program.kernels[launch.kernel]
        (bound,) = kernel.bindings(launch.buffers)
        names = [*(bound[param] for param in kernel.params), *kernel.sizes]
        return [numbers[name] for name in names], numbers.get(grid_name(kernel.name), 0)


def grid_name(kernel: str) -> str:
    return GRID_PREFIX + identifier(kernel)


def grouped(program: Program, issued: Mapping[str, bool]) -> Sequence[Any]:
    """The program's steps, its launches in Groups. `issued`: of each kernel that C can launch whether open sizes decide
    its grid. What a group's steps allocate is there before it; slots that they free are free after it."""
    return tuple(_grouped(program, issued)) if issued else program.steps


def _grouped(program: Program, issued: Mapping[str, bool]) -> Iterator[Any]:
    launches: list[Launch] = []
    words: set[str] = set()
    after: list[Any] = []
    count = 0
    for step in program.steps:
        can = isinstance(step, Launch) and _can(step, program, issued)
        more = _words(step, program, issued) if can else set()
        if launches and isinstance(step, Allocate):
            yield step
        elif launches and isinstance(step, Free) and program.buffers[step.buffer].slot is not None:
            after.append(step)
        else:
            if launches and (not can or step.stream != launches[0].stream or len(words | more) >= MOST):
                yield from (_group(count, launches, program, issued), *after)
                launches, words, after, count = [], set(), [], count + 1
            if can:
                launches.append(step)
                words |= more
            else:
                yield step


def _can(step: Launch, program: Program, issued: Mapping[str, bool]) -> bool:
    arguments = len(step.buffers) + len(program.kernels[step.kernel].sizes) + 2  # two scratch pointers
    return step.kernel in issued and arguments < MOST


def _words(step: Launch, program: Program, issued: Mapping[str, bool]) -> set[str]:
    grid = [grid_name(step.kernel)] if issued[step.kernel] else []
    return {*step.buffers, *program.kernels[step.kernel].sizes, *grid}


def _group(number: int, launches: Sequence[Launch], program: Program, issued: Mapping[str, bool]) -> Group:
    kernels = dict.fromkeys(launch.kernel for launch in launches)
    buffers = dict.fromkeys(buffer for launch in launches for buffer in launch.buffers)
    sizes = dict.fromkeys(size for name in kernels for size in program.kernels[name].sizes)
    grids = tuple(grid_name(name) for name in kernels if issued[name])
    function, stream = f"{ISSUE_PREFIX}{number}", launches[0].stream
    return Group(function, tuple(launches), tuple(buffers), tuple(sizes), grids, stream)
