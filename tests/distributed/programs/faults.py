"""One fault, by its name on the command line: every rank must end, and one of them must say what was wrong.

Usage: faults.py FAULT WHERE [nccl]. With "nccl" the calls go to the stand-in for CuPy's NCCL.
"""

import os
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

fault, where = sys.argv[1], sys.argv[2]
if sys.argv[3:]:
    from tests.distributed import nccl_standin

    nccl_standin.install()
dist.init_process_group("nccl" if sys.argv[3:] else "mpi", timeout=timedelta(seconds=2))
rank = dist.get_rank()
last = rank == dist.get_world_size() - 1


def go_wrong():
    if not last:
        return
    if fault == "raises":
        raise ValueError("the last rank has had enough")
    if fault == "exits":
        sys.exit(3)
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if fault == "slow":
        time.sleep(60)
    if fault == "never calls":
        while True:
            time.sleep(1)


def collective():
    shape = 3 if fault == "shape" and last else 2
    dtype = torch.float64 if fault == "dtype" and last else torch.float32
    x = torch.ones(shape, dtype=dtype)
    if fault == "another collective" and last:
        dist.broadcast(x, 0)
    elif fault == "another reduction" and last:
        dist.all_reduce(x, dist.ReduceOp.MAX)
    else:
        dist.all_reduce(x)


if where == "at once":
    go_wrong()
    collective()
elif where == "after some":
    for _ in range(5):
        dist.all_reduce(torch.ones(1000))
    go_wrong()
    collective()
elif where == "in backward":
    model = DistributedDataParallel(torch.nn.Linear(4, 2 + (fault == "model" and last)))
    out = model(torch.ones(1, 4))
    out.register_hook(lambda g: go_wrong() or collective())
    out.sum().backward()
elif where == "in a graph":

    def step(x):
        dist.all_reduce(x, dist.ReduceOp.MAX if fault == "another graph" and last else dist.ReduceOp.SUM)
        return x * 2

    compiled = torch.compile(step, fullgraph=True)
    compiled(torch.ones(2)) if fault != "another graph" else None
    go_wrong()
    compiled(torch.ones(3 if fault == "shape" and last else 2))
dist.barrier()
print("ended well")
