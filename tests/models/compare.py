"""The model files on torch and on Cutaway, from the same weights: loss, gradients, buffers, eval mode, side by side.

Input: cases.py and an installed torch. `make models` keeps what this prints as reports/models.txt. `--names` prints the names
and shapes of the small models' state instead, which state_dict.txt keeps for the tests that have no torch; `--seeds`
prints the seeds of batches on which a model with ReLUs has a gradient that float32 can tell apart.
"""

from __future__ import annotations

import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import cutaway
from stage_contracts.tests.report_heading import heading
from tests.models.cases import FULL, TINY, Case, load_file, tensors

SEED = 0  # of the weights
LIMITS = {"float32": 1e-4, "float64": 1e-8}


@dataclass(frozen=True)
class Outcome:
    """What one training step and one call in eval mode gave, as float64 arrays."""

    logits: np.ndarray
    loss: float
    gradients: dict[str, np.ndarray]
    buffers: dict[str, np.ndarray]  # after the step: running statistics have moved
    evaluated: np.ndarray
    seconds: float  # of forward and backward


def torch_model(case: Case, torch: Any) -> tuple[Any, Any]:
    """The file's module and the model, its constant weights shaken: behind a zero every gradient would be zero."""
    torch.manual_seed(SEED)
    module = load_file(case.file, cutaways=False)
    model = case.build(module)
    with torch.no_grad():
        for p in model.parameters():
            if p.numel() > 1 and bool((p == p.flatten()[0]).all()):
                p.add_(0.1 * torch.randn_like(p))
        case.settle(torch, model)
    return module, model


def cutaway_model(case: Case, state: dict[str, Any]) -> tuple[Any, Any]:
    """The same model in Cutaway, with torch's state."""
    module = load_file(case.file, cutaways=True)
    return module, move(state, case.build(module))


def move(state: dict[str, Any], model: Any) -> Any:
    """Load torch's state into Cutaway's `model`, through a safetensors file; returns the model."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "state.safetensors"
        cutaway.save({name: cutaway.from_numpy(t.numpy()) for name, t in state.items()}, path)
        model.load_state_dict(cutaway.load(path))
    return model


def step(case: Case, torch: Any, module: Any, model: Any, dtype: str) -> Outcome:
    model.to(getattr(torch, dtype)).train()
    batch = tensors(torch, case.batch(np.random.default_rng(case.seed)), dtype)
    started = time.perf_counter()
    logits, loss = case.run(module, model, batch)
    loss.backward()
    seconds = time.perf_counter() - started
    buffers = {name: _array(b) for name, b in model.named_buffers()}
    gradients = {name: _array(p.grad) for name, p in model.named_parameters() if p.grad is not None}
    model.eval()
    with torch.no_grad():
        evaluated = case.run(module, model, batch)[0]
    return Outcome(_array(logits), loss.item(), gradients, buffers, _array(evaluated), seconds)


def _array(tensor: Any) -> np.ndarray:
    return tensor.detach().numpy().astype(np.float64)


def distance(got: np.ndarray, wanted: np.ndarray) -> float:
    """|got - wanted| / |wanted|, Frobenius norms."""
    assert got.shape == wanted.shape, f"{got.shape}, not {wanted.shape}"
    size = float(np.linalg.norm(wanted))
    gap = float(np.linalg.norm(got - wanted))
    return gap / size if size else gap


def errors(case: Case, got: Outcome, wanted: Outcome) -> dict[str, Any]:
    """By quantity: the relative error, for gradients and buffers the worst one and whose it is."""
    assert got.gradients.keys() == wanted.gradients.keys() and got.buffers.keys() == wanted.buffers.keys()
    whole = float(np.sqrt(sum(np.sum(g**2) for g in wanted.gradients.values())))
    each = {}
    for name, g in wanted.gradients.items():
        mine = got.gradients[name]
        noise = bool(case.zero_gradients) and name.endswith(case.zero_gradients)
        each[name] = float(np.linalg.norm(mine - g)) / whole if noise else distance(mine, g)
    buffers = {name: distance(got.buffers[name], b) for name, b in wanted.buffers.items()}
    worst = max(each, key=lambda name: each[name])
    return {
        "logits": distance(got.logits, wanted.logits),
        "loss": abs(got.loss - wanted.loss) / abs(wanted.loss),
        "gradient": each[worst],
        "buffers": max(buffers.values(), default=0.0),
        "eval": distance(got.evaluated, wanted.evaluated),
        "whose": worst,
    }


def compare(case: Case, torch: Any, dtype: str) -> tuple[dict[str, Any], Outcome, Outcome]:
    """(errors, Cutaway's outcome, torch's) of one case in one dtype."""
    module, model = torch_model(case, torch)
    mine = cutaway_model(case, model.state_dict())
    wanted = step(case, torch, module, model, dtype)
    got = step(case, cutaway, *mine, dtype)
    return errors(case, got, wanted), got, wanted


# ---- the report ----------------------------------------------------------------------------------------------

COLUMNS = ("logits", "loss", "gradient", "buffers", "eval")


def report(torch: Any, cases: tuple[Case, ...] = FULL) -> int:
    """Print the table; returns how many rows are beyond their limit."""
    torch.set_num_threads(1)
    title = "The model files of tests/models, on Cutaway and on torch"
    print(heading(title, "make models", SEED, "cutaway", "torch", more="one thread"))
    print(
        "Weights made by torch, constant ones shaken, moved by safetensors; dropout 0; one training step, then eval."
    )
    print(
        "Columns: relative error (Frobenius norm; for gradients and buffers the worst tensor's), seconds of the step."
    )
    print(f"Limits: {', '.join(f'{limit:g} in {dtype}' for dtype, limit in LIMITS.items())}.")
    print("'torch' rows hold torch's float32 against torch's float64: how much of an error is rounding.\n")
    print(
        f"{'model':26} {'':8} " + " ".join(f"{c:>8}" for c in COLUMNS) + "   cutaway   torch  worst gradient"
    )
    failed = 0
    for case in cases:
        outcomes = {}
        for dtype, limit in LIMITS.items():
            found, got, wanted = compare(case, torch, dtype)
            outcomes[dtype] = wanted
            bad = max(found[c] for c in COLUMNS) > limit
            failed += bad
            times = f"{got.seconds:8.2f}s {wanted.seconds:6.2f}s"
            _row(case.name, dtype, found, times, "  ABOVE THE LIMIT" if bad else "")
        rounding = errors(case, outcomes["float32"], outcomes["float64"])
        _row(case.name, "torch", rounding, " " * 17)
        if case.zero_gradients:
            print(
                f"  (*.{case.zero_gradients}: 0 in exact arithmetic; held against the norm of the whole gradient)"
            )
    print(f"\n{failed} of {2 * len(cases)} rows above the limit" if failed else "\nall within the limits")
    return failed


def _row(name: str, kind: str, found: dict[str, Any], times: str, verdict: str = "") -> None:
    numbers = " ".join(f"{found[c]:8.1e}" for c in COLUMNS)
    print(f"{name:26} {kind:8} {numbers} {times}  {found['whose']}{verdict}", flush=True)


def steady_seed(case: Case, torch: Any, sigmas: float = 4.0) -> int:
    """The first seed whose batch brings no value within `sigmas` rounding errors (of its layer) of a ReLU's kink.

    The rounding error of a layer is the root mean square of torch's float32 minus its float64 there.
    """
    for seed in range(1000):
        single, double = (_before_relus(case, torch, seed, dtype) for dtype in LIMITS)
        errors = [float((a.double() - b).square().mean().sqrt()) for a, b in zip(single, double, strict=True)]
        if all(float(b.abs().min()) > sigmas * e for b, e in zip(double, errors, strict=True)):
            return seed
    raise RuntimeError(f"{case.name}: no such batch; take fewer or smaller images")


def _before_relus(case: Case, torch: Any, seed: int, dtype: str) -> list[Any]:
    """What each ReLU of the model is given."""
    module, model = torch_model(case, torch)
    model.to(getattr(torch, dtype))
    seen: list[Any] = []
    for m in model.modules():
        if isinstance(m, torch.nn.ReLU):
            m.register_forward_pre_hook(lambda _, args: seen.append(args[0].clone()))
    with torch.no_grad():
        case.run(module, model, tensors(torch, case.batch(np.random.default_rng(seed)), dtype))
    return seen


def names(torch: Any) -> None:
    for case in TINY:
        for name, tensor in torch_model(case, torch)[1].state_dict().items():
            print(case.name, name, *tensor.shape)


def main() -> int:
    import torch

    if "--names" in sys.argv:
        names(torch)
        return 0
    if "--seeds" in sys.argv:
        print(*(f"{c.name}: {steady_seed(c, torch)}" for c in (*FULL, *TINY) if c.file == "resnet"), sep="\n")
        return 0
    chosen = [a for a in sys.argv[1:] if not a.startswith("-")]
    chosen = chosen or ["gpt2"] * ("--quick" in sys.argv)
    return report(torch, tuple(c for c in FULL if not chosen or c.file in chosen))


if __name__ == "__main__":
    sys.exit(bool(main()))
