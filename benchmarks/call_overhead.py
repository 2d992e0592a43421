"""What a call of a compiled function costs beyond the computation: beside torch.compile, and against module size.

Input: torch beside it (the extra `oracle`). `make call-overhead` keeps what this prints in
reports/call-overhead.txt. Both sides run in one process, in turns, on one thread; each figure is the least of many, in
time of the processor.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

import torch

import cutaway
from benchmarks.quick import too_slow, unless_quick
from cutaway import nn
from stage_contracts.tests.report_heading import heading

ROUNDS, CALLS = unless_quick((60, 500), (1, 20))
MANY = unless_quick(1000, 10)  # parameters
FAILED: list[str] = []


def least(
    functions: dict[str, Callable[[], object]], rounds: int = ROUNDS, calls: int = CALLS
) -> dict[str, float]:
    """Microseconds per call of each function: the least over rounds, in which they take turns."""
    best = dict.fromkeys(functions, float("inf"))
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.process_time()
            for _ in range(calls):
                function()
            best[name] = min(best[name], (time.process_time() - start) / calls * 1e6)
    return best


def check(name: str, seen: float, limit: float, unit: str) -> None:
    holds = not too_slow(seen > limit)
    print(f"{'ok  ' if holds else 'FAIL'} {name}: {seen:.2f}{unit}, at most {limit:g}{unit}")
    if not holds:
        FAILED.append(name)


def one_tensor() -> None:
    """x + 1 on four numbers: compiled (backend eager) minus plain, here and in torch."""

    def plus_one(x):
        return x + 1

    mine, theirs = cutaway.ones(4), torch.ones(4)
    compiled = cutaway.compile(plus_one, backend="eager")
    torch_compiled = torch.compile(plus_one, backend="eager")
    with torch.no_grad():
        compiled(mine), torch_compiled(theirs)
        took = least(
            {
                "cutaway plain": lambda: plus_one(mine),
                "cutaway compiled": lambda: compiled(mine),
                "torch plain": lambda: plus_one(theirs),
                "torch compiled": lambda: torch_compiled(theirs),
            }
        )
    for name, microseconds in took.items():
        print(f"     {name:<18}{microseconds:8.2f} us")
    added = took["cutaway compiled"] - took["cutaway plain"]
    torch_added = took["torch compiled"] - took["torch plain"]
    print(f"     added by compile: cutaway {added:.2f} us, torch {torch_added:.2f} us")
    check("a hit on a one-tensor function, of what torch.compile adds", added / torch_added, 0.3, "")


class Sum(nn.Module):
    """Adds `count` parameters to its input."""

    def __init__(self, count: int) -> None:
        super().__init__()
        for i in range(count):
            setattr(self, f"p{i}", nn.Parameter(cutaway.ones(4)))
        self.count = count

    def forward(self, x):
        for i in range(self.count):
            x = x + getattr(self, f"p{i}")
        return x


def overheads(counts: tuple[int, ...]) -> dict[int, float]:
    """Compiled call minus the graph called on the same inputs, without gradients, for each count of parameters.

    The graph is one that returns its first input at once: it is the same on both sides, and its own milliseconds
    would hide the microseconds around it.
    """
    x = cutaway.ones(4)

    def at_once(*inputs):
        return (inputs[0],)

    functions: dict[str, Callable[[], object]] = {}
    for count in counts:
        model = cutaway.compile(Sum(count), backend=lambda graph_module, examples: at_once)
        model(x)
        inputs = [x, *model._parameters.values()]
        assert len(model.artifacts[0].captured.placeholders) == len(inputs)
        functions[f"{count} compiled"] = lambda model=model: model(x)
        functions[f"{count} direct"] = lambda inputs=inputs: at_once(*inputs)
    took = least(functions)
    return {count: took[f"{count} compiled"] - took[f"{count} direct"] for count in counts}


def optimizer_steps(count: int) -> None:
    """A compiled step of AdamW over many small parameters: nearly all of it is what surrounds the kernel."""

    def step_of(library: Any, parameter: Any) -> Callable[[], object]:
        parameters = [parameter(library.ones(8, 8)) for _ in range(count)]
        for p in parameters:
            p.grad = library.ones(8, 8)
        step = library.compile(library.optim.AdamW(parameters, lr=1e-3).step)
        for _ in range(3):
            step()
        return step

    steps = {
        "cutaway": step_of(cutaway, nn.Parameter),
        "torch": step_of(torch, torch.nn.Parameter),
    }
    took = least(steps, rounds=max(1, ROUNDS // 6), calls=max(2, CALLS // 5))
    for name, microseconds in took.items():
        print(f"     AdamW over {count} tensors of 8x8, {name}: {microseconds:.0f} us")
    check("an optimizer's step, of torch.compile's", took["cutaway"] / took["torch"], 1.4, "")


def main() -> int:
    print(heading("What a call costs", "make call-overhead", "none (ones)", "torch"))
    torch.set_num_threads(1)
    one_tensor()
    with cutaway.no_grad():
        found = overheads((1, MANY))
    for count, microseconds in found.items():
        print(f"     {count} parameters: {microseconds:.2f} us beyond the graph itself")
    check(f"{MANY:,} parameters more than one", found[MANY] - found[1], 20, " us")
    optimizer_steps(unless_quick(50, 2))
    print("all hold" if not FAILED else f"FAILED: {', '.join(FAILED)}")
    return bool(FAILED)


if __name__ == "__main__":
    sys.exit(main())
