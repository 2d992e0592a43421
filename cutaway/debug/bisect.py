"""Bisector: which backend level, step, pass, fusion or operator makes a run fail, found by running it again and again.

Input: `run(settings)`, which runs the program under a few configuration fields and says how it went. bisect_command.py
runs a script in a child for it; `bisect_function` a function here. No run tells more than that it works or not, but
the last, under debug.verify, whose message names the operator and the line.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cutaway.debug.forks import Fork
from cutaway.debug.halving import first_needed
from cutaway.debug.run_script import as_variables
from stage_contracts import config
from stage_contracts.passes import PassTable

Settings = Mapping[str, Any]
RUN_SECONDS = 600.0  # until a run in a fork counts as one that hangs


@dataclass(frozen=True)
class Outcome:
    """How one run went. `text` is what it said, of which the message of debug.verify is read."""

    works: bool
    text: str = ""


@dataclass(frozen=True)
class Finding:
    """What makes the program fail: a kind ("level", "pass", "operator", ...), its name, and what avoids it."""

    kind: str
    name: str
    avoid: dict[str, Any] = field(default_factory=dict)
    runs: int = 0
    detail: str = ""  # the message that names the operator, or the line

    def __str__(self) -> str:
        """One line, and below it the message that it was read from."""
        line = f"{self.kind} {self.name}".strip()
        if self.avoid:
            line += f"; avoid it with {_shown(self.avoid)}"
        return f"{line} ({self.runs} runs)" + (f"\n{self.detail}" if self.detail else "")


def _shown(settings: Settings) -> str:
    return " ".join(f"{variable}={value}" for variable, value in as_variables(settings).items())


# What each backend adds to the one before it. A program that fails with the first is asked to run without compiling.
LEVELS = {
    "eager": "capture",
    "aot_eager": "ahead-of-time autograd",
    "inductor": "lowering, kernels or the runtime",
}
# Without these two, what a compile makes is what it made before: no cached program, no eager run in its place.
ALWAYS = {"runtime.force_disable_caches": True, "capture.suppress_errors": False}
# `verify: forward: exp = core.exp is the first operator that differs`, as stage_contracts/messages.py has it
VERIFIED = re.compile(r"verify: \S+: (\S+ = \S+) is the first operator that differs.*?(?=\n\S|\Z)", re.DOTALL)


def bisect(run: Callable[[Settings], Outcome], told: Callable[[str], None] = lambda line: None) -> Finding:
    """Find what makes `run` fail. Each run is told as a line."""
    count = 0

    def outcome(settings: Settings) -> Outcome:
        nonlocal count
        count += 1
        found = run({**ALWAYS, **settings})
        shown = _shown(settings) or "as it is"
        told(f"run {count}: {'works' if found.works else 'fails'}  {shown}")
        return found

    def works(**settings: Any) -> bool:
        return outcome({name.replace("__", "."): value for name, value in settings.items()}).works

    finding = _find(works, outcome)
    return Finding(finding.kind, finding.name, finding.avoid, count, finding.detail)


def _find(works: Callable[..., bool], outcome: Callable[[Settings], Outcome]) -> Finding:
    if works():
        return Finding("nothing:", "the program works as it is")
    if not works(capture__disable=True):
        return Finding("the program itself:", "it fails without compiling too")
    level = next((name for name in ("eager", "aot_eager") if not works(debug__backend=name)), "inductor")
    if level == "eager":
        return _in_capture(outcome)
    backend = {"debug.backend": level}
    found = _pass_of(passes_of(level), backend, outcome)
    if found is None and level == "inductor":
        # without the passes of stage 2 a graph may fail too, but for other reasons
        found = _pass_of([name for name in passes_of(level) if "." in name], backend, outcome)
    if found is None and level == "inductor":
        found = _after_autograd(outcome)
    if found is not None:
        return found
    before = {"debug.backend": {"aot_eager": "eager", "inductor": "aot_eager"}[level]}
    step = STEP.search(outcome({**backend, "autograd.verify_passes": True}).text)
    if step:
        return Finding("pass", step[1], before, detail=step[0])
    return Finding("level", f"{level} ({LEVELS[level]})", before)


Run = Callable[[Settings], Outcome]


def _in_capture(outcome: Run) -> Finding:
    """The guard that is wrong; the level, if none is seen to be."""
    wrong = GUARD.search(outcome({"debug.backend": "eager", "debug.verify": True}).text)
    if wrong:
        return Finding("guard", wrong[1], {"capture.disable": True}, detail=wrong[0])
    return Finding("level", "eager (capture)", {"capture.disable": True})


def _after_autograd(outcome: Run) -> Finding | None:
    """The switch that avoids it, and the operator at which it goes wrong; one of both will do."""
    switch = next((s for s in SWITCHES if outcome({"debug.backend": "inductor", **s[1]}).works), None)
    checked = outcome({"debug.backend": "inductor", "debug.verify": True})
    if KILLED.search(checked.text):
        checked = outcome({"debug.backend": "inductor", "debug.verify": True, "debug.verify_crashes": True})
    operator = VERIFIED.search(checked.text)
    name, detail = (operator[1], operator[0]) if operator else ("", "")
    if switch is not None:
        return Finding(switch[0], f"at {name}" if name else "", dict(switch[1]), detail=detail)
    return Finding("operator", name, {"debug.backend": "aot_eager"}, detail=detail) if operator else None


def _pass_of(names: Sequence[str], backend: Settings, outcome: Run) -> Finding | None:
    """The pass of these without which it works."""
    switched_off = first_needed(
        names, lambda off: outcome({**backend, "autograd.disabled_passes": ",".join(off)}).works
    )
    alone = {"autograd.disabled_passes": switched_off}
    if switched_off is None or not outcome({**backend, **alone}).works:
        return None
    return Finding("pass", switched_off, alone)


# What can be switched off between stages, and what it is called. `debug.verify` says at which operator it goes wrong.
SWITCHES: tuple[tuple[str, Settings], ...] = (
    ("fusion", {"lowering.fusion": False}),
    ("reuse of memory (plan_memory.slots)", {"runtime.reuse_memory": False}),
)
KILLED = re.compile(r"^killed by SIG", re.MULTILINE)  # what run_script.py and forks say of a crash
# what a checked pass or step says of itself (stage 2's and stage 3's verify.py)
STEP = re.compile(
    r"(?:pass|partitioner) (\S+) (?:changed|made what does not run|made a \w+ that is not valid).*"
)


# `verify: step: the guard type(scale) is ... is wrong: its entry was chosen, but scale: 1.0 -> 2.0`
GUARD = re.compile(r"verify: \S+: the guard (.*?) is wrong: .*", re.DOTALL)


def passes_of(level: str) -> list[str]:
    """The passes that can be left out, in order, by the names that `autograd.disabled_passes` takes."""
    from stage2_autograd.decompose.passes import DECOMPOSE
    from stage3_lowering.lowering.emit import EMITTERS
    from stage3_lowering.lowering.fuse import FUSE
    from stage3_lowering.lowering.schedule_kernels import SCHEDULE
    from stage4_runtime.runtime.plan_memory import PLAN_MEMORY

    tables: Sequence[PassTable] = (DECOMPOSE,)
    if level == "inductor":
        tables = (DECOMPOSE, FUSE, SCHEDULE, PLAN_MEMORY, EMITTERS["cpp"])
    return [
        one.name if table is DECOMPOSE else f"{table.stage}.{one.name}"
        for table in tables
        for one in table.passes
        if not one.needed
    ]


def bisect_function(
    run: Callable[[], Any],
    expected: Callable[[Any, Any], bool] | None = None,
    told: Callable[[str], None] = lambda line: None,
    in_forks: bool = False,
) -> Finding:
    """Bisect a function that compiles afresh at each call. It fails if it raises, or if `expected(eager's, its)` says
    that what it gives is not what it gives without compiling. `in_forks`: each run in a process of its own, so one that
    crashes it, or does not come back, fails too."""
    with config.patch({"capture.disable": True}):
        eager = run() if expected else None

    def attempt(settings: Settings) -> Outcome:
        with config.patch(dict(settings)):
            try:
                found = run()
            except Exception as error:
                return Outcome(False, f"{type(error).__name__}: {error}")
        return Outcome(expected is None or expected(eager, found))

    def in_fork(settings: Settings) -> Outcome:
        ending, found = Fork(lambda: dataclasses.astuple(attempt(settings)), RUN_SECONDS).wait()
        return Outcome(False, f"killed by {ending}") if ending or found is None else Outcome(*found)

    return bisect(in_fork if in_forks else attempt, told)
