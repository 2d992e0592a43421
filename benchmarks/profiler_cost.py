"""What the profiler costs a training step: off, idle (inside a schedule's wait), and recording.

Input: the small GPT-2 of benchmarks/language_model.py, compiled; a step is its forward and its backward. And what the
generated code pays for its timestamps while nobody asks for them: a chain of tiny steps with and without their lines.
Everything is measured in turns, in time of the processor, the least of many. `make profiler-cost` keeps the report.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from importlib import import_module
from typing import Any

import cutaway
from benchmarks.language_model import SEED, SIZES, batches, text_as_numbers
from benchmarks.quick import too_slow, unless_quick
from cutaway import profiler
from stage_contracts import config
from stage_contracts.tests.report_heading import heading
from tests.models.cases import load_file

ROUNDS, STEPS = unless_quick((60, 2), (1, 1))
CHAIN, CHAIN_ROUNDS, CHAIN_CALLS = 30, *unless_quick((300, 200), (1, 2))
IDLE_LIMIT, RUNNING_LIMIT, STAMP_LIMIT = 1.0, 5.0, 1.0  # percent
emission: Any = import_module("stage3_lowering.lowering.emit")  # the package has a function of this name
RECORDINGS: dict[str, dict[str, Any]] = {
    "off": {},
    "idle": {"schedule": profiler.schedule(wait=10**9, warmup=0, active=1)},
    "recording": {},
    "with shapes and memory": {"record_shapes": True, "profile_memory": True},
}


def training_step() -> Callable[[], None]:
    """The forward and backward of the language model, compiled already."""
    _, numbers, alphabet = text_as_numbers()
    cutaway.manual_seed(SEED)
    gpt2 = load_file("gpt2", cutaways=True)
    model = cutaway.compile(gpt2.GPT2(gpt2.GPT2Config(vocab_size=alphabet, **SIZES)))
    ((inputs, targets),) = batches(numbers, 1, SEED)
    tokens, following = cutaway.from_numpy(inputs), cutaway.from_numpy(targets)

    def step() -> None:
        for parameter in model.parameters():
            parameter.grad = None
        _, loss = model(tokens, following)
        loss.backward()

    step()
    step()
    return step


def seconds(step: Callable[[], object], calls: int) -> float:
    began = time.process_time()
    for _ in range(calls):
        step()
    return (time.process_time() - began) / calls


def in_turns(step: Callable[[], None]) -> dict[str, float]:
    """Seconds of the processor for a step, for each way to profile it: the least over rounds."""
    best = dict.fromkeys(RECORDINGS, float("inf"))
    for _ in range(ROUNDS):
        for name, options in RECORDINGS.items():
            with ExitStack() as around:
                if name != "off":
                    around.enter_context(profiler.profile(**options))
                step()  # the timers go in
                best[name] = min(best[name], seconds(step, STEPS))
    return best


def chain(stamps: bool) -> Callable[[], object]:
    """A compiled function of many tiny steps; without its lines for timestamps if asked so."""

    def many(x: Any, w: Any) -> Any:
        for _ in range(CHAIN):
            x = (x @ w).relu()
        return x

    plain = emission.with_run
    try:
        if not stamps:
            emission.with_run = lambda program: _without_stamps(plain(program))
        with config.patch({"runtime.cache": False}):
            compiled = cutaway.compile(many)
            x, w = cutaway.ones(2, 2), cutaway.ones(2, 2)
            compiled(x, w)
    finally:
        emission.with_run = plain
    text = compiled.artifacts[-1].forward.run.program.units[-1].text
    assert text.count(".stamp(") == (2 * CHAIN + 1) * stamps, text.count(".stamp(")
    return lambda: compiled(x, w)


def _without_stamps(program: Any) -> Any:
    *before, unit = program.units
    lines = [line for line in unit.text.split("\n") if ".stamp(" not in line]
    return program.with_(units=(*before, replace(unit, text="\n".join(lines))))


def say(name: str, took: float, base: float, limit: float | None) -> bool:
    added = (took / base - 1) * 100
    holds = limit is None or not too_slow(added > limit)
    verdict = "" if limit is None else f"  {'ok' if holds else 'FAIL'}: at most {limit:g} %"
    print(f"  {name:<26}{took * 1e6:12.2f} us {added:+7.2f} %{verdict}")
    return holds


def main() -> int:
    print(heading("What the profiler costs", "make profiler-cost", SEED, more="one thread"))
    print(f"\nforward and backward of the small GPT-2, {SIZES}: processor time of a step, least of {ROUNDS}")
    limits = {"idle": IDLE_LIMIT, "recording": RUNNING_LIMIT}
    took = in_turns(training_step())
    good = [say(name, each, took["off"], limits.get(name)) for name, each in took.items()]
    print(
        f"\n{2 * CHAIN} steps on four numbers, no profiler: processor time of a call, least of {CHAIN_ROUNDS}"
    )
    ways = {"without lines for times": chain(False), "as generated": chain(True)}
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(CHAIN_ROUNDS):
        for name, call in ways.items():
            best[name] = min(best[name], seconds(call, CHAIN_CALLS))
    base = best["without lines for times"]
    good += [
        say(name, each, base, STAMP_LIMIT if name == "as generated" else None) for name, each in best.items()
    ]
    print("\nall hold" if all(good) else "\nsome do not hold")
    return int(not all(good))


if __name__ == "__main__":
    sys.exit(main())
