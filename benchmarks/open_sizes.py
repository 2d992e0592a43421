"""What open sizes cost: a training step of the language model, compiled for its sizes, and with them open.

Input: `python -m benchmarks.open_sizes`. One run, the three variants in turn; prints medians and ratios.
"""

import os
import statistics
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import cutaway
from cutaway.torch_api import torch
from tests.models.cases import load_file, tensors

BATCH, LENGTH, VOCABULARY, ROUNDS = 8, 64, 256, 15


def variant(file, dynamic):
    """A training step of a model of its own, compiled."""
    cutaway.manual_seed(0)
    config = file.GPT2Config(
        block_size=LENGTH, vocab_size=VOCABULARY, n_layer=2, n_head=4, n_embd=128, dropout=0.0
    )
    model = file.GPT2(config)
    loss = cutaway.compile(lambda x, y: model(x, y)[1], dynamic=dynamic, fullgraph=True)
    if dynamic is None:  # the second batch size opens the dimension
        loss(*batch(2))

    def step():
        model.zero_grad()
        loss(*batch(BATCH)).backward()

    step()
    return step


def batch(size):
    rng = np.random.default_rng(size)
    arrays = rng.integers(0, VOCABULARY, (2, size, LENGTH))
    return tensors(torch, tuple(arrays), "float32")


def main():
    file = load_file("gpt2", True)
    steps = {
        "static": variant(file, False),
        "batch open": variant(file, None),
        "all open": variant(file, True),
    }
    times = {name: [] for name in steps}
    for _ in range(ROUNDS):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            times[name].append(time.perf_counter() - start)
    base = times["static"]
    for name, taken in times.items():
        ratio, best = statistics.median(taken) / statistics.median(base), min(taken) / min(base)
        print(f"{name:12} {statistics.median(taken) * 1e3:8.1f} ms   {ratio:.2f} of static, best {best:.2f}")


if __name__ == "__main__":
    main()
