"""The order of the search: calls are left out, then results; then what is left is made simpler, and again. Each step
is a run.

Input: the path of a saved program. Every program that fails as the first did is kept in a folder beside it
(`NAME_checkpoints`), where the next search goes on; the smallest becomes repro.py.
"""

from __future__ import annotations

import inspect
import runpy
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cutaway.backends import Backend, find_backend
from cutaway.compile import compile
from cutaway.debug.minify.children import first_that_fails
from cutaway.debug.minify.cuts import Values, cut, results, values_of
from cutaway.debug.minify.failure import Failure
from cutaway.debug.minify.simpler import SIMPLER, State
from cutaway.debug.minify.smallest import smallest
from cutaway.repro import write_program
from cutaway.repro_calls import lifted
from cutaway.repro_program import INSTEAD
from stage_contracts.graph import Graph, Node

Told = Callable[[str], None]


class NothingToMinify(Exception):
    """The program cannot be made smaller; the message says why."""


@dataclass(frozen=True)
class Minified:
    """The result: the program, how it fails, its calls, and what it took."""

    path: Path
    failure: Failure
    operators: int
    before: int
    runs: int
    seconds: float


@dataclass
class _Search:
    """What a search knows: how it has to fail, and where it writes."""

    failure: Failure
    backend: Backend
    options: dict[str, Any]
    then: dict[str, Any]  # what a second call has otherwise
    checkpoints: Path
    deadline: float
    jobs: int
    told: Told
    runs: int = 1
    kept: int = 0
    scratch: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="minify_")))

    def first_failing(self, states: Sequence[State | None]) -> int | None:
        """Which state fails as the first program did, the first that does. It is kept."""
        paths = {}
        for number, state in enumerate(states):
            if state is None:
                continue
            path = self.scratch / f"try_{number}.py"
            try:
                self.write(path, state)
            except Exception:  # a graph that cannot be written is no smaller program
                continue
            paths[path] = number
        self.runs += len(paths)
        found = first_that_fails(list(paths), self.failure, self.deadline, self.jobs)
        if found is None:
            return None
        number = list(paths.values())[found[0]]
        self._keep(states[number])
        return number

    def write(self, path: Path, state: State) -> None:
        graph, inputs = state
        heading = f"{self.failure}\n\nMinified."
        write_program(path, graph, inputs, self.backend, heading, self.options, self.then)

    def _keep(self, state: Any) -> None:
        self.kept += 1
        count = len(state[0].calls)
        self.write(self.checkpoints / f"{self.kept:04}_{count}_operators.py", state)
        self.told(f"{count} operators, {self.runs} runs")


def minify(
    program: str | Path,
    output: str | Path = "repro.py",
    jobs: int = 2,
    deadline: float = 60.0,
    told: Told = lambda line: None,
) -> Minified:
    """Write the smallest program that fails as `program` does. Raises NothingToMinify where it does not fail."""
    began, path, output = time.perf_counter(), Path(program), Path(output)
    first = first_that_fails([path], None, deadline, 1)
    if first is None:
        raise NothingToMinify(f"{path} does not fail: there is nothing to minify")
    _check_heading(path, first[1])
    checkpoints = path.with_name(f"{path.stem}_checkpoints")
    checkpoints.mkdir(exist_ok=True)
    done = sorted(checkpoints.glob("*.py"))
    start, before = done[-1] if done else path, 0
    forward, inputs, backend, options, then = _opened(start)
    before = len(_opened(path)[0].calls) if done else len(forward.calls)
    search = _Search(first[1], backend, options, then, checkpoints, deadline, jobs, told, kept=len(done))
    told(f"{len(forward.calls)} operators; it fails with {search.failure}")
    try:
        state = _smaller(search, forward, inputs)
        search.write(search.scratch / "repro.py", state)
        if first_that_fails([search.scratch / "repro.py"], search.failure, deadline, 1) is None:
            raise NothingToMinify(f"{path} does not fail when its graph is written again; it stays as it is")
        for suffix in (".py", ".safetensors"):
            shutil.copy((search.scratch / "repro.py").with_suffix(suffix), output.with_suffix(suffix))
    finally:
        shutil.rmtree(search.scratch, ignore_errors=True)
    seconds = time.perf_counter() - began
    return Minified(output, search.failure, len(state[0].calls), before, search.runs, seconds)


def _check_heading(path: Path, failure: Failure) -> None:
    """A program says in its first line how it failed: what fails otherwise now (a backend of yours that it has to
    import, say) would be made smaller for nothing."""
    said = path.read_text(encoding="utf-8").removeprefix('"""').partition(":")[0]
    if failure.kind not in (said, "killed", "hangs") and said not in ("NotFailed", "killed", "hangs"):
        raise NothingToMinify(f"{path} failed with {said}, but now with {failure}: fix that first")


def _smaller(search: _Search, graph: Graph, inputs: Sequence[Any]) -> State:
    """Rounds of fewer calls, fewer results, simpler ones: what is simpler may need fewer calls."""
    state: State = graph, inputs
    while True:
        before = len(state[0].calls)
        try:
            values = values_of(*state)
        except Exception:
            if before == len(graph.calls):
                raise
            return state  # a simpler graph fails when it is compiled, but cannot be run
        state = _simplest(search, _fewer_calls(search, state, values))
        if len(state[0].calls) in (before, 1):
            return state


def _fewer_calls(search: _Search, state: State, values: Values) -> State:
    graph, _ = state
    calls: list[Node] = smallest(
        graph.calls, lambda parts: search.first_failing([cut(graph, values, part) for part in parts])
    )
    state = cut(graph, values, calls) or state
    given = results(graph, values, calls)
    given = smallest(
        given,
        lambda parts: search.first_failing([cut(graph, values, calls, part) for part in parts]),
    )
    if len(given) < len(state[0].outputs):
        state = cut(graph, values, calls, given) or state
    return state


def _simplest(search: _Search, state: State) -> State:
    for simpler in SIMPLER:
        while True:
            tries = list(simpler(state))
            found = search.first_failing(tries)
            if found is None:
                break
            state = tries[found]
    return state


def _opened(path: Path) -> tuple[Graph, list[Any], Backend, dict[str, Any], dict[str, Any]]:
    """A saved program's graph, captured again with sizes as they are, its inputs, its backend and its options."""
    seen: list[Any] = []
    about: list[tuple[str, Any, dict[str, Any]]] = []

    def take(
        forward: Callable[..., tuple], inputs: list[Any], then: dict[str, Any], options: dict[str, Any]
    ) -> None:
        def backend(module: Any, examples: Any) -> Callable[..., tuple]:
            seen.extend([module.graph, list(examples)])  # those that the graph reads, in its order
            return module

        compile(forward, backend=backend, dynamic=False, fullgraph=True)(*inputs)
        seen.extend([find_backend(options["backend"]), options["options"]])
        if then:  # the number that the guard is about, and what it is at both calls
            ((name, _),) = then.items()
            number = inputs[[*inspect.signature(forward).parameters].index(name)]
            about.append((name, number, then))

    token = INSTEAD.set(take)
    try:
        runpy.run_path(str(path))
    finally:
        INSTEAD.reset(token)
    if len(seen) != 4:
        raise NothingToMinify(f"{path} is no program that repro_after wrote")
    graph, used, backend, options = seen
    for name, number, then in about:
        graph, used = lifted(graph, name, number) or graph, [number, *used]
        return graph, used, backend, options, then
    return graph, used, backend, options, {}
