"""Random programs of collectives and arithmetic, on a pool of tensors; each rank simulates all ranks in NumPy.

Usage: random_programs.py COUNT SEED. The same numbers come out, for integers bit by bit, or a rank says where not.
"""

import sys

import numpy as np
import torch
import torch.distributed as dist

REDUCTIONS = {"SUM": np.sum, "MIN": np.min, "MAX": np.max, "BXOR": np.bitwise_xor.reduce}
STEPS = 12


def program(rng, size):
    """A list of steps: (what, arguments), the same on every rank."""
    steps = []
    for _ in range(STEPS):
        a, b = (int(n) for n in rng.integers(0, 3, 2))
        what = rng.choice(["all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter", "all_to_all", "ring",
                           "add", "own", "sub group", "async"])  # fmt: skip
        steps.append((str(what), a, b, int(rng.integers(size)), str(rng.choice(list(REDUCTIONS)))))
    return steps


def simulate(step, pools, size):
    """What the step does to the pools of all ranks: pools[rank][name]."""
    what, a, b, root, op = step
    every = np.stack([pool[a] for pool in pools])
    reduced = REDUCTIONS[op](every, axis=0) if op != "BXOR" else np.bitwise_xor.reduce(every, axis=0)
    for rank, pool in enumerate(pools):
        if what in ("all_reduce", "async") or (what == "reduce" and rank == root):
            pool[a] = reduced.copy()
        elif what == "broadcast":
            pool[a] = every[root].copy()
        elif what == "all_gather":
            pool[b] = np.bitwise_xor.reduce(every, axis=0)
        elif what == "reduce_scatter":
            pool[b] = np.resize(reduced.reshape(size, -1)[rank], reduced.shape)
        elif what == "all_to_all":
            pool[b] = np.concatenate([every[r].reshape(size, -1)[rank] for r in range(size)]).reshape(
                every[0].shape
            )
        elif what == "ring":
            pool[b] = every[rank - 1].copy()
        elif what == "add":
            pool[b] = pool[a] + pool[b]
        elif what == "own":
            pool[a] = pool[a] * 3 + rank
        elif what == "sub group" and rank <= root:
            pool[a] = every[: root + 1].sum(0)


def run(step, pool, rank, size, groups):
    what, a, b, root, op = step
    x, how = pool[a], dist.ReduceOp[op]
    if what == "all_reduce":
        dist.all_reduce(x, how)
    elif what == "async":
        work = dist.all_reduce(x, how, async_op=True)
        while not work.is_completed():
            pass
    elif what == "reduce":
        dist.reduce(x, root, how)
    elif what == "broadcast":
        dist.broadcast(x, root)
    elif what == "all_gather":
        parts = [torch.empty_like(x) for _ in range(size)]
        dist.all_gather(parts, x)
        pool[b] = parts[0]
        for part in parts[1:]:
            pool[b] = pool[b] ^ part
    elif what == "reduce_scatter":
        out = torch.empty(x.numel() // size, dtype=x.dtype)
        dist.reduce_scatter_tensor(out, x.reshape(-1), how)
        pool[b] = torch.cat([out] * size).reshape(x.shape)
    elif what == "all_to_all":
        out = torch.empty_like(x.reshape(-1))
        dist.all_to_all_single(out, x.reshape(-1))
        pool[b] = out.reshape(x.shape)
    elif what == "ring":
        out = torch.empty_like(x)
        sending = dist.isend(x, (rank + 1) % size)
        dist.recv(out, (rank - 1) % size)
        sending.wait()
        pool[b] = out
    elif what == "add":
        pool[b] = x + pool[b]
    elif what == "own":
        pool[a] = x * 3 + rank
    elif what == "sub group" and rank <= root:
        x = x.clone()
        dist.all_reduce(x, group=groups[root])
        pool[a] = x


def main():
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    groups = [dist.new_group(range(root + 1)) for root in range(size)]
    for number in range(count):
        rng = np.random.default_rng(seed + number)
        steps = program(rng, size)
        pools = [{k: rng.integers(-99, 99, (size, 5)) for k in range(3)} for _ in range(size)]
        pool = {k: torch.from_numpy(v.copy()) for k, v in pools[rank].items()}
        for place, step in enumerate(steps):
            simulate(step, pools, size)
            run(step, pool, rank, size, groups)
            for key, wanted in pools[rank].items():
                assert (pool[key].numpy() == wanted).all(), (
                    f"program {seed + number}, step {place} of {steps}"
                )
    dist.destroy_process_group()
    print(f"rank {rank}: {count} programs equal")


main()
