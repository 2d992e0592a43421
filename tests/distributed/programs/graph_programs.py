"""Random programs whose collectives are in the graph: compiled, they give eager's values and gradients on every rank.

Usage: graph_programs.py COUNT SEED [BACKEND...]. Some collectives are alike, and some have results that nobody reads:
each must run, once, in the same order on every rank.
"""

import sys
from functools import partial

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as functional

from stage_contracts import communicators

STEPS = 10
KINDS = ("all_reduce", "all_reduce", "avg", "all_gather", "reduce_scatter", "broadcast", "all_to_all", "in_place",
         "unread", "twice", "scale", "sin", "add", "matmul", "splits", "uneven_list")  # fmt: skip


def program(rng, size):
    """(kind, a, b, root) each, the same on every rank."""
    return [
        (str(rng.choice(KINDS)), *map(int, rng.integers(0, 3, 2)), int(rng.integers(size)))
        for _ in range(STEPS)
    ]


def run(steps, rank, size, *tensors):
    pool = list(tensors)
    for kind, a, b, root in steps:
        x = pool[a]
        if kind == "all_reduce":
            pool[b] = functional.all_reduce(x, "sum", dist.group.WORLD)
        elif kind == "avg":
            pool[b] = functional.all_reduce(x * (rank + 1), "avg", dist.group.WORLD)
        elif kind == "all_gather":
            pool[b] = functional.all_gather_tensor(x, 0, dist.group.WORLD).view(size, *x.shape).mean(0)
        elif kind == "reduce_scatter":
            part = functional.reduce_scatter_tensor(x, "sum", 0, dist.group.WORLD)
            pool[b] = torch.cat([part] * size) + x
        elif kind == "broadcast":
            pool[b] = functional.broadcast(x, root, dist.group.WORLD)
        elif kind == "all_to_all":
            pool[b] = functional.all_to_all_single(x, None, None, dist.group.WORLD)
        elif kind == "splits":  # one row stays, three go to the next rank, two to each other one
            sent = [{rank: 1, (rank + 1) % size: 3}.get(peer, 2) for peer in range(size)]
            came = [{rank: 1, (rank - 1) % size: 3}.get(peer, 2) for peer in range(size)]
            pool[b] = functional.all_to_all_single(x, came, sent, dist.group.WORLD)
        elif kind == "uneven_list":  # rank r has r + 1 rows
            parts = [torch.empty(r + 1, 4, dtype=x.dtype) for r in range(size)]
            dist.all_gather(parts, x[: rank + 1].detach())
            pool[b] = pool[b] * parts[root].mean()
        elif kind == "in_place":
            x = (x * 0.5).detach()
            dist.all_reduce(x)
            pool[b] = pool[b] + x
        elif kind == "unread":
            functional.all_reduce(x.detach(), "max", dist.group.WORLD)
        elif kind == "twice":
            one, other = (functional.all_reduce(x, "sum", dist.group.WORLD) for _ in range(2))
            pool[b] = one - other * 0.5
        elif kind == "scale":
            pool[b] = x / size
        elif kind == "sin":
            pool[b] = torch.sin(x) * (rank + 1)
        elif kind == "add":
            pool[b] = torch.tanh(x + pool[b])
        elif kind == "matmul":
            pool[b] = torch.tanh(x @ pool[b].t()) @ x / 8
    return torch.tanh(pool[0] + pool[1] * pool[2]).sum()


class Counted:
    """A communicator that writes down what it is asked for; of rows that differ by rank, the columns."""

    def __init__(self, real):
        self.real, self.asked = real, []
        self.rank, self.size = real.rank, real.size

    def note(self, operation, words, source):
        uneven = operation == "all_to_all_splits"
        self.asked.append((operation, () if uneven else words, source.shape[uneven:]))

    def start(self, operation, words, source, *rest):
        self.note(operation, words, source)
        return self.real.start(operation, words, source, *rest)

    def run(self, operation, words, source, *rest):
        self.note(operation, words, source)
        self.real.run(operation, words, source, *rest)


def results(call, tensors, counted):
    counted.asked.clear()
    leaves = [t.clone().requires_grad_() for t in tensors]
    loss = call(leaves)
    forward = len(counted.asked)
    loss.backward()
    found = [loss.detach(), *(t.grad if t.grad is not None else torch.zeros(1) for t in leaves)]
    return [t.numpy() for t in found], forward, list(counted.asked)


def main():
    count, seed, *backends = sys.argv[1:]
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    counted = Counted(communicators.communicator("world"))
    communicators.leave("world")
    communicators.enter("world", counted)
    for number in range(int(seed), int(seed) + int(count)):
        rng = np.random.default_rng(number)
        steps = program(rng, size)
        drawn = rng.standard_normal((size, 3, 2 * size, 4))
        tensors = [torch.from_numpy(a) for a in drawn[rank]]
        wanted, forward, _ = results(lambda given: run(steps, rank, size, *given), tensors, counted)  # noqa: B023
        for backend in backends or ("aot_eager", "inductor"):
            torch._dynamo.reset()
            call = torch.compile(partial(run, steps, rank, size), backend=backend, fullgraph=True)
            found, compiled_forward, asked = results(lambda given: call(*given), tensors, counted)  # noqa: B023
            about = f"program {number} on {backend}: {steps}"
            for a, b in zip(wanted, found, strict=True):
                assert np.allclose(a, b, rtol=1e-9, atol=1e-9), f"{about}: {a} {b}"
            assert compiled_forward == forward, (
                f"{about}: {compiled_forward} collectives forward, eager {forward}"
            )
            told = [None] * size
            dist.all_gather_object(told, asked)
            assert all(other == asked for other in told), f"{about}: the ranks' orders differ: {told}"
    dist.destroy_process_group()
    print(f"rank {rank}: {count} graphs equal")


main()
