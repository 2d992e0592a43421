"""A whole training step, in torch and in Cutaway: eager, the model compiled, the step compiled.

Input: the language model of tests/models and an MLP, at the same weights and batches; an installed torch (the extra
`oracle`). `make training-step` keeps what this prints in reports/training-step.txt. All variants run in one process
and take turns, on one thread; a figure is the median step of the quietest turn.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from benchmarks.quick import unless_quick
from cutaway.torch_api import torch as ours
from stage_contracts.tests.report_heading import heading
from tests.models.cases import load_file
from tests.models.compare import move

SEED, WARM = 0, 4
ROUNDS, STEPS = unless_quick((6, 8), (1, 1))
LANGUAGE = {
    "block_size": 64,
    "vocab_size": 107,
    "n_layer": 4,
    "n_head": 4,
    "n_embd": 128,
    "dropout": 0.0,
}
BATCH, WIDTHS = 12, (64, 256, 256, 10)

Step = Callable[[], Any]


def language_model(library: Any) -> Any:
    module = load_file("gpt2", cutaways=library is ours)
    return module.GPT2(module.GPT2Config(**LANGUAGE))


def perceptron(library: Any) -> Any:
    layers: list[Any] = []
    for wide, narrow in zip(WIDTHS, WIDTHS[1:]):
        layers += [library.nn.Linear(wide, narrow), library.nn.ReLU()]
    return library.nn.Sequential(*layers[:-1])


def language_loss(library: Any, model: Any) -> Callable[[], Any]:
    numbers = np.random.default_rng(SEED).integers(
        0, LANGUAGE["vocab_size"], (2, BATCH, LANGUAGE["block_size"])
    )
    inputs, targets = (library.from_numpy(part) for part in numbers)
    return lambda: model(inputs, targets)[1]


def perceptron_loss(library: Any, model: Any) -> Callable[[], Any]:
    generator = np.random.default_rng(SEED)
    x = library.from_numpy(generator.normal(size=(64, WIDTHS[0])).astype(np.float32))
    y = library.from_numpy(generator.integers(0, WIDTHS[-1], 64))
    return lambda: library.nn.functional.cross_entropy(model(x), y)


def make_step(library: Any, model: Any, called: Any, loss_of: Callable) -> Step:
    optimizer = library.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = library.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10_000)
    loss_now = loss_of(library, called)

    def step() -> Any:
        optimizer.zero_grad()
        loss = loss_now()
        loss.backward()
        library.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        return loss

    return step


def variants(build: Callable, loss_of: Callable) -> dict[str, Step]:
    """Each variant on a model of its own, all from the same weights."""
    first = build(torch).state_dict()

    def model(library: Any) -> Any:
        made = build(library)
        if library is torch:
            made.load_state_dict(first)
        else:
            move(first, made)
        return made

    steps: dict[str, Step] = {}
    for name, library, compiles_model, compiles_step in (
        ("torch, eager", torch, False, False),
        ("torch, model compiled", torch, True, False),
        ("cutaway, eager", ours, False, False),
        ("cutaway, model compiled", ours, True, False),
        ("cutaway, step compiled", ours, False, True),
    ):
        net = model(library)
        step = make_step(library, net, library.compile(net) if compiles_model else net, loss_of)
        steps[name] = library.compile(step, fullgraph=True) if compiles_step else step
    return steps


def measure(steps: dict[str, Step]) -> tuple[dict[str, float], dict[str, float], dict[str, float]]:
    """(seconds of a step, seconds until the first two were done, the loss after WARM steps) of each variant."""
    until, losses, best = {}, {}, dict.fromkeys(steps, float("inf"))
    for name, step in steps.items():
        started = time.perf_counter()
        step(), step()
        until[name] = time.perf_counter() - started
        for _ in range(WARM):
            losses[name] = step().item()
        print(f"{name}: ready after {until[name]:.1f} s", file=sys.stderr, flush=True)
    for _ in range(ROUNDS):
        for name, step in steps.items():
            took = []
            for _ in range(STEPS):
                started = time.perf_counter()
                step()
                took.append(time.perf_counter() - started)
            best[name] = min(best[name], statistics.median(took))
    return best, until, losses


def main() -> int:
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    title = "A training step: zero_grad, loss, backward, clip, AdamW, schedule"
    print(heading(title, "make training-step", SEED, "torch", more="one thread, float32"))
    agree = True
    cases = (
        (f"MLP {WIDTHS}, 64 examples", perceptron, perceptron_loss),
        (f"GPT-2 {LANGUAGE}, {BATCH} sequences", language_model, language_loss),
    )
    for title, build, loss_of in cases[: unless_quick(2, 1)]:
        seconds, until, losses = measure(variants(build, loss_of))
        print(
            f"\n{title}\n{'':26}  ms / step  of torch's eager  first two steps, s  loss after {WARM + 2} steps"
        )
        for name, took in seconds.items():
            share = took / seconds["torch, eager"]
            print(f"{name:26}  {took * 1e3:9.2f}  {share:16.2f}  {until[name]:18.1f}  {losses[name]:.5f}")
        agree &= max(losses.values()) - min(losses.values()) < 1e-3
    print(f"\nthe losses {'agree' if agree else 'DIFFER'} to 1e-3")
    return int(not agree)


if __name__ == "__main__":
    sys.exit(main())
