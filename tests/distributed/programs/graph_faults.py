"""A compiled training loop that saves a sharded checkpoint after each step, and one fault drawn from a seed.

Usage: graph_faults.py SEED FOLDER. At a drawn collective of a drawn step the last rank is killed, exits, sleeps, or
asks for something else than the others; or it raises beside the backward; or it is killed while it writes its part. It
leaves the moment in FOLDER/when.
"""

import os
import random
import signal
import sys
import time
from datetime import timedelta
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.distributed_c10d import _set_pg_timeout
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

from cutaway.distributed import checkpoint
from stage_contracts import communicators
from tests.distributed.programs_run import GRAPH_FAULTS, TIMED

seed, folder = int(sys.argv[1]), Path(sys.argv[2])
rng = random.Random(seed)
FAULT = GRAPH_FAULTS[seed % len(GRAPH_FAULTS)]
SHARDED, BACKEND = rng.random() < 0.5, rng.choice(["aot_eager", "inductor"])
BETWEEN = ("raises", "killed in save")  # not inside a collective
STEP, CALL = rng.randrange(3), rng.randrange(4)


def happens():
    (folder / "when").write_text(repr(time.time()))


def end():
    happens()
    if FAULT in ("killed", "killed in save"):
        os.kill(os.getpid(), signal.SIGKILL)
    if FAULT == "raises":
        raise ValueError("the last rank has had enough")
    if FAULT == "exits":
        os._exit(3)
    if FAULT == "slow":
        time.sleep(60)


class Faulty:
    """The group's communicator, whose CALL-th call in step STEP goes wrong."""

    def __init__(self, real):
        self.real, self.step, self.call = real, -1, 0
        self.rank, self.size = real.rank, real.size

    def changed(self, operation, words, source, destination, where):
        self.call += 1
        if self.step != STEP or self.call != CALL + 1 or FAULT in BETWEEN:
            return operation, words, source, destination, where
        if FAULT == "shape":
            happens()
            source = np.concatenate([source.reshape(-1)] * 2)
            destination = np.empty(2 * destination.size, destination.dtype)
        elif FAULT == "dtype":
            happens()
            source, destination = source.astype(np.float64), destination.astype(np.float64)
        elif FAULT == "another collective":
            happens()
            operation, words, destination = "all_reduce", ("max",), np.empty_like(source)
        else:
            end()
        return operation, words, source, destination, where

    def start(self, *call):
        return self.real.start(*self.changed(*call))

    def run(self, *call):
        self.real.run(*self.changed(*call))


def main():
    dist.init_process_group("mpi", timeout=timedelta(seconds=60))  # while they compile, on a busy machine
    last = dist.get_rank() == dist.get_world_size() - 1
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 9), nn.Tanh(), nn.Linear(9, 7), nn.Tanh(), nn.Linear(7, 3))
    made = fully_shard(model) if SHARDED else DistributedDataParallel(model, bucket_cap_mb=0.0001)
    run = torch.compile(made, backend=BACKEND)
    optimizer = torch.optim.SGD(made.parameters(), lr=0.1)
    x = torch.randn(4, 5)
    run(x).sum().backward()  # all ranks have compiled: what follows is not slow
    dist.barrier()
    if FAULT in TIMED:
        _set_pg_timeout(timedelta(seconds=2))
    faulty = Faulty(communicators.communicator("world"))
    if last:
        communicators.leave("world")
        communicators.enter("world", faulty)
    for step in range(3):
        faulty.step, faulty.call = step, 0
        optimizer.zero_grad()
        loss = run(x).sum()
        end() if FAULT == "raises" and last and step == STEP and CALL < 2 else None
        loss.backward()
        end() if FAULT == "raises" and last and step == STEP else None
        optimizer.step()
        if FAULT == "killed in save" and last and step == STEP:
            write = checkpoint.write_tensors

            def half(values, path, write=write):
                write(values, path)
                whole = Path(path).read_bytes()
                Path(path).write_bytes(whole[: len(whole) // 2])
                end()

            checkpoint.write_tensors = half
        checkpoint.save(made if SHARDED else made.module, folder / "saved")
    print("ended well", faulty.call)


main()
