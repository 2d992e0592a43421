"""What a data-parallel step costs here: the link, the step without other ranks, and the step, each rank on its own core.

Usage: step_cost.py ROUNDS. Rank 0 prints a line of JSON for cost_report.py, which compares the model of cost with it.
"""

import json
import os
import sys
import time
from functools import partial
from itertools import chain

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from stage_contracts import communicators, program

SIZES = [1 << k for k in range(10, 23, 2)]
BATCH, WIDTH, LAYERS, CAP = 256, 512, 6, 2.0


def seconds(call, rounds):
    """Seconds of each of `rounds` calls that all ranks begin together."""
    found = []
    for _ in range(rounds):
        dist.barrier()
        start = time.perf_counter()
        call()
        found.append(time.perf_counter() - start)
    return found


def of_all(mine):
    """The slowest rank's seconds of each round."""
    told = [None] * dist.get_world_size()
    dist.all_gather_object(told, mine)
    return np.max(told, axis=0).tolist()


def agreed(mine):
    """The median of the rounds."""
    return float(np.median(of_all(mine)))


def main():
    rounds = int(sys.argv[1])
    cores = sorted(os.sched_getaffinity(0))
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    os.sched_setaffinity(0, {cores[rank % len(cores)]})
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS)])
    x = torch.randn(BATCH, WIDTH)

    def step_of(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=1e-3)

        def step(x):
            optimizer.zero_grad()
            loss = module(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        return torch.compile(step, fullgraph=True)

    alone, joined = step_of(model), step_of(DistributedDataParallel(model, bucket_cap_mb=CAP))
    for _ in range(3):
        alone(x), joined(x)
    halves = [
        half for made in joined.artifacts[-1:] for half in (made.forward, made.backward) if half is not None
    ]
    steps = [(half.planned, one) for half in halves for one in half.planned.steps]
    buckets = [
        planned.buffers[one.source].meta.nbytes
        for planned, one in steps
        if isinstance(one, program.Collective)
    ]
    lane = communicators.communicator("world")
    samples = []
    for nbytes in SIZES if size > 1 else ():
        a, b = np.ones(nbytes // 4, np.float32), np.empty(nbytes // 4, np.float32)
        lane.run("all_reduce", ("avg",), a, b, "")
        call = partial(lane.run, "all_reduce", ("avg",), a, b, "")
        samples.append([nbytes, agreed(seconds(call, 25))])
    one, two = [], []
    for _ in range(3 * rounds):  # call by call in turns: the machine's other work disturbs both alike
        one += seconds(lambda: alone(x), 1)
        two += seconds(lambda: joined(x), 1)
    busy = 1.0
    if size > 1:
        a, b = np.ones(1 << 20, np.float32), np.empty(1 << 20, np.float32)

        def both():
            transfer = lane.start("all_reduce", ("avg",), a, b, "")
            alone(x)
            transfer.wait()

        calls = (partial(lane.run, "all_reduce", ("avg",), a, b, ""), both, lambda: alone(x))
        turns = [[*chain(*(seconds(call, 1) for call in calls))] for _ in range(3 * rounds)]
        moved, together, without = (np.array(of_all(column)) for column in zip(*turns, strict=True))
        busy = float(np.clip(np.median((together - without) / moved), 0, 1))
    told = {"ranks": size, "alone": of_all(one), "step": of_all(two),
            "buckets": buckets, "samples": samples, "busy": busy}  # fmt: skip
    dist.barrier()
    if rank == 0:
        print("JSON " + json.dumps(told), flush=True)


main()
