"""The one change that would pay most, in one sentence, with what it would save.

Input: where the time of a run went. Each rule of RULES estimates what its change saves at best; the largest wins. An
estimate is an upper bound: a kernel at this machine's best, or no time at all between two kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cutaway.profiler.events import ProfilerEvent
from cutaway.profiler.where_time_goes import TimeSpent

LEAST = 0.02  # a change that saves less than this part of the time is not worth a sentence


@dataclass(frozen=True)
class Advice:
    """`saves`: seconds, at best."""

    saves: float
    sentence: str


def recompiles(spent: TimeSpent) -> Iterator[Advice]:
    """Compiles of a function after its first: a guard failed, and the reason says which."""
    again = {name: took[1:] for name, took in _compiles(spent).items() if len(took) > 1}
    if again:
        name = max(again, key=lambda name: sum(again[name]))
        yield Advice(
            sum(again[name]),
            f"`{name}` was compiled {len(again[name]) + 1} times: keep what its guards test the same, or mark the size "
            f"that changes with mark_dynamic (CUTAWAY_LOGS=recompiles says what changed)",
        )


def compiling(spent: TimeSpent) -> Iterator[Advice]:
    """First compiles."""
    yield Advice(
        sum(took[0] for took in _compiles(spent).values()),
        "most of a run this short is compiling: run more steps, or look with --steady at what comes after the "
        "last compile",
    )


def _compiles(spent: TimeSpent) -> dict[str, list[float]]:
    """The seconds of each compile of a function, in order. What a function calls is compiled inside it."""
    found: dict[str, list[float]] = {}
    for event in spent.events:  # by start
        if event.category == "compile" and event.name.startswith("compile "):
            found.setdefault(event.name.removeprefix("compile "), []).append(_without_imports(event) / 1e9)
    return found


def _without_imports(event: ProfilerEvent) -> int:
    return event.self_ns + sum(_without_imports(e) for e in event.children if e.category != "import")


def breaks(spent: TimeSpent) -> Iterator[Advice]:
    """Regions inside regions: what a break leaves is a call of its own, with guards and Python between."""
    inner = [e for e in spent.events if e.category == "region" and e.parent and e.parent.category == "region"]
    if inner:
        broken = {id(e): e for e in (*inner, *(e.parent for e in inner if e.parent))}
        graphs = [child for e in inner for child in e.children if child.category == "graph"]
        guards = [child for e in broken.values() for child in e.children if child.category == "guards"]
        lost = sum(e.self_ns for e in (*broken.values(), *graphs, *guards))
        name = Counter(str(e.args.get("function")) for e in inner).most_common(1)[0][0]
        yield Advice(
            lost / 1e9,
            f"remove the graph breaks in `{name}`: {len(inner)} calls went on in another graph "
            f"(CUTAWAY_LOGS=graph_breaks names the lines)",
        )


def outside(spent: TimeSpent) -> Iterator[Advice]:
    yield Advice(
        spent.parts["outside"] * 0.8,
        "compile more of the loop, such as the optimizer's step: it is eager operators and Python outside of compiled "
        "functions that take long",
    )


def small_calls(spent: TimeSpent) -> Iterator[Advice]:
    """What each call costs, whatever it computes."""
    calls = sum(e.category == "region" for e in spent.events) or 1
    lost = spent.parts["gaps"] + spent.parts["guards"]
    yield Advice(
        lost * 0.8,
        f"give each call more work (a larger batch, several steps in one compiled function): around their kernels "
        f"{calls} calls take {lost / calls * 1e6:.0f} us each",
    )


def slow_kernel(spent: TimeSpent) -> Iterator[Advice]:
    """The kernel that is furthest from this machine's best, in time."""
    for row in spent.kernels:
        if row.least is not None:
            where = f" ({row.lines[0].rpartition('/')[2]})" if row.lines else ""
            what, reached = "arithmetic" if row.bound == "compute" else "memory", 100 * (row.share or 0)
            yield Advice(
                row.seconds - row.least,
                f"look at `{row.name}`{where}: it reaches {reached:.0f} % of what {what} of this machine "
                f"allows (--kernels FOLDER writes it as a file that runs alone)",
            )


RULES: tuple[Callable[[TimeSpent], Iterator[Advice]], ...] = (
    recompiles, compiling, breaks, outside, small_calls, slow_kernel,
)  # fmt: skip


def best_advice(spent: TimeSpent) -> str:
    """One sentence. Importing modules is no part of the time: there is nothing to change about it."""
    whole = spent.seconds - spent.parts["importing"]
    found = [advice for rule in RULES for advice in rule(spent)]
    best = max(found, key=lambda advice: advice.saves, default=None)
    if best is None or whole <= 0 or best.saves < LEAST * whole:
        return "No one change would save more than 2 % of the time."
    most, of = min(best.saves / whole, 1.0), " without imports" if spent.parts["importing"] else ""
    return (
        f"{best.sentence[0].upper()}{best.sentence[1:]}. At best it saves {100 * most:.0f} % of the time{of}."
    )
