"""Faults, by name on the command line: every rank must end, and one of them must say what was wrong.

Usage: faults.py FAULT WHERE [nccl]. With "nccl" the calls go to the stand-in for CuPy's NCCL.
       faults.py mismatches FAULT WHERE...: ranks that disagree, one after another, each with a group of its own. Every
rank catches each error and compares it with what it must say. The last one is not caught.
"""

import os
import re
import signal
import sys
import time
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _set_pg_timeout
from torch.nn.parallel import DistributedDataParallel

from tests.distributed.programs_run import SAYS, TIMED

START = timedelta(seconds=60)  # until all ranks are there, on a machine that does much else
SHORT = timedelta(seconds=2)


class Fault:
    """One fault of the last rank, and where it happens."""

    def __init__(self, name, where):
        self.name, self.where = name, where
        self.last = dist.get_rank() == dist.get_world_size() - 1

    def happens_to(self, name):
        return self.last and self.name == name

    def go_wrong(self):
        """What ends or stops the last rank. Only waits that must end have a short limit, and only from here on."""
        if self.name in TIMED:
            dist.barrier()
            _set_pg_timeout(SHORT)
        if self.happens_to("raises"):
            raise ValueError("the last rank has had enough")
        if self.happens_to("exits"):
            sys.exit(3)
        if self.happens_to("killed"):
            os.kill(os.getpid(), signal.SIGKILL)
        if self.happens_to("slow"):
            time.sleep(60)
        while self.happens_to("never calls"):
            time.sleep(1)

    def collective(self):
        shape = 3 if self.happens_to("shape") else 2
        x = torch.ones(shape, dtype=torch.float64 if self.happens_to("dtype") else torch.float32)
        if self.happens_to("another collective"):
            dist.broadcast(x, 0)
        elif self.happens_to("another reduction"):
            dist.all_reduce(x, dist.ReduceOp.MAX)
        else:
            dist.all_reduce(x)

    def at_once(self):
        self.go_wrong()
        self.collective()

    def after_some(self):
        for _ in range(5):
            dist.all_reduce(torch.ones(1000))
        self.at_once()

    def in_backward(self):
        model = DistributedDataParallel(torch.nn.Linear(4, 2 + self.happens_to("model")))
        out = model(torch.ones(1, 4))
        out.register_hook(lambda g: self.at_once())
        out.sum().backward()

    def in_a_graph(self):
        how = dist.ReduceOp.MAX if self.happens_to("another graph") else dist.ReduceOp.SUM

        def step(x):
            dist.all_reduce(x, how)
            return x * 2

        compiled = torch.compile(step, fullgraph=True)
        compiled(torch.ones(2)) if self.name != "another graph" else None
        self.go_wrong()
        compiled(torch.ones(3 if self.happens_to("shape") else 2))

    def run(self):
        getattr(self, self.where.replace(" ", "_"))()


def started(name, where, backend="mpi"):
    dist.init_process_group(backend, timeout=START)
    dist.barrier()
    return Fault(name, where)


def caught(name, where):
    """One fault that all ranks see. They go on, with a new group."""
    fault, last = started(name, where), dist.get_world_size() - 1
    try:
        fault.run()
    except RuntimeError as error:
        said = SAYS[name].replace("rank 1", f"rank {last}")
        assert re.search(said, str(error), re.S), f"{name} {where}: {error}"
    else:
        sys.exit(f"{name} {where}: no error")
    dist.destroy_process_group()
    torch._dynamo.reset()


def main():
    name, where, *more = sys.argv[1:]
    if name == "mismatches":
        pairs = [*zip(sys.argv[2::2], sys.argv[3::2], strict=True)]
        for pair in pairs[:-1]:
            caught(*pair)
        print(f"{len(pairs) - 1} mismatches named")
        (name, where), more = pairs[-1], []
    if more:
        from tests.distributed import nccl_standin

        nccl_standin.install()
    started(name, where, *more).run()
    dist.barrier()
    print("ended well")


main()
