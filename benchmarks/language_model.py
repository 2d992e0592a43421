"""A small GPT-2 trained on a real text, in torch and in Cutaway: the same file, weights and batches, and both curves.

Input: the Python reference in English that comes with every Python (pydoc_data.topics), read as bytes; an installed
torch. Usage, from the repository's root:
    python -m benchmarks.language_model > reports/language-model.txt
"""

from __future__ import annotations

import hashlib
import sys
import time
from pydoc_data.topics import topics
from typing import Any

import numpy as np

import cutaway
from benchmarks.quick import QUICK, unless_quick
from stage_contracts.tests.report_heading import heading
from tests.models.cases import load_file
from tests.models.compare import move

SEED = 0
STEPS = unless_quick(500, 3)
EVERY, BATCH, LENGTH = 20, 12, 64
LIMIT = 0.01  # relative, between the final losses
SIZES = {"block_size": LENGTH, "n_layer": 4, "n_head": 4, "n_embd": 128, "dropout": 0.0}


def text_as_numbers() -> tuple[bytes, np.ndarray, int]:
    """(the text, the number of each of its bytes, how many different ones there are)."""
    text = "\n".join(topics[key] for key in sorted(topics)).encode()
    alphabet, numbers = np.unique(np.frombuffer(text, np.uint8), return_inverse=True)
    return text, numbers.astype(np.int64), len(alphabet)


def batches(numbers: np.ndarray, count: int, seed: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """`count` pairs of (inputs, targets one further), each (BATCH, LENGTH), at random places."""
    starts = np.random.default_rng(seed).integers(0, len(numbers) - LENGTH, (count, BATCH))
    windows = [np.stack([numbers[s : s + LENGTH + 1] for s in row]) for row in starts]
    return [(np.ascontiguousarray(w[:, :-1]), np.ascontiguousarray(w[:, 1:])) for w in windows]


def train(
    torch: Any, model: Any, training: list, held_out: list, say: Any
) -> tuple[list[float], float, float]:
    """(the loss of each step, the loss on what was held out, seconds of a step). `torch` is either framework."""
    optimizer = model.configure_optimizers(weight_decay=0.1, learning_rate=1e-3, betas=(0.9, 0.95))
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=len(training), eta_min=1e-4)
    losses = []
    started = time.perf_counter()
    for step, (inputs, targets) in enumerate(training):
        _, loss = model(torch.from_numpy(inputs), torch.from_numpy(targets))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % EVERY == 0 or step == len(training) - 1:
            say(f"step {step:4}: loss {losses[-1]:.4f}, {time.perf_counter() - started:.0f} s")
    seconds = (time.perf_counter() - started) / len(training)
    model.eval()
    with torch.no_grad():
        out = [model(torch.from_numpy(i), torch.from_numpy(t))[1].item() for i, t in held_out]
    return losses, sum(out) / len(out), seconds


def say(name: str) -> Any:
    """Progress, beside the report."""
    return lambda line: print(f"{name}: {line}", file=sys.stderr, flush=True)


def main() -> int:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    text, numbers, alphabet = text_as_numbers()
    cut = len(numbers) * 9 // 10
    training, held_out = batches(numbers[:cut], STEPS, SEED), batches(numbers[cut:], 20, SEED + 1)
    sides = {name: load_file("gpt2", cutaways=name == "cutaway") for name in ("torch", "cutaway")}
    models = {name: m.GPT2(m.GPT2Config(vocab_size=alphabet, **SIZES)) for name, m in sides.items()}
    move(models["torch"].state_dict(), models["cutaway"])
    title = "A small GPT-2 on a real text, in torch and in Cutaway"
    print(heading(title, "make language-model", SEED, "cutaway", "torch", more="one thread, float32"))
    print(
        f"Text: pydoc_data.topics, {len(text)} bytes, sha256 {hashlib.sha256(text).hexdigest()[:16]}, {alphabet} "
        f"symbols; the last tenth is held out.\n{models['torch'].get_num_params()} parameters, {SIZES}; "
        f"{STEPS} steps of {BATCH} x {LENGTH} bytes, AdamW, cosine schedule, gradients clipped at 1.\n"
    )
    frameworks = {"torch": torch, "cutaway": cutaway}
    found = {n: train(frameworks[n], models[n], training, held_out, say(n)) for n in frameworks}
    (theirs, their_rest, their_time), (ours, our_rest, our_time) = found["torch"], found["cutaway"]
    print(f"{'step':>8}  {'torch':>9}  {'cutaway':>9}  cutaway / torch")
    for step in sorted({*range(0, STEPS, EVERY), STEPS - 1}):
        print(f"{step:8}  {theirs[step]:9.5f}  {ours[step]:9.5f}  {ours[step] / theirs[step]:.6f}")
    rows = {"last 20": (sum(theirs[-20:]) / 20, sum(ours[-20:]) / 20), "held out": (their_rest, our_rest)}
    for name, (a, b) in rows.items():
        print(f"{name:>8}  {a:9.5f}  {b:9.5f}  {b / a:.6f}")
    print(f"{'s / step':>8}  {their_time:9.3f}  {our_time:9.3f}  {our_time / their_time:.2f}")
    worst = max(abs(b / a - 1) for a, b in [*rows.values(), (theirs[-1], ours[-1])])
    print(f"\nfinal losses differ by at most {worst:.1e} relative; the limit is {LIMIT:g}")
    learns = QUICK or ours[-1] < 0.7 * ours[0]
    return int(worst > LIMIT or not learns)


if __name__ == "__main__":
    sys.exit(main())
