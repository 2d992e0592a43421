"""What ranks do once for all: one of them builds a kernel, and rank 0 decides between eager and compiled.

Usage: together.py FOLDER, an empty one for the disk cache.
"""

import sys
from types import SimpleNamespace

import torch
import torch.distributed as dist

from cutaway import policies
from stage_contracts import config, events

BEGUN = events.EVENT_LOG.mark()


def told(kind, *names):
    return [e for e in events.EVENT_LOG.since(BEGUN, kind) if not names or e.name in names]


def one_builds(rank):
    compiled = torch.compile(lambda x: (x.sin() * 3).cos() + 1)
    dist.barrier()
    compiled(torch.ones(8))
    builds = [None] * dist.get_world_size()
    dist.all_gather_object(builds, [len(told("build")), len([e for e in told("cache") if e.name == "hit"])])
    assert sum(made for made, _ in builds) == 1, f"builds and hits of each rank: {builds}"
    assert sum(hits for _, hits in builds) >= dist.get_world_size() - 1, builds


def rank_0_decides(rank):
    """The ranks measure differently: eager is faster on rank 1 only."""
    order = iter([1.0, 2.0] if rank == 0 else [2.0, 1.0])  # compiled, eager
    real, policies.statistics = policies.statistics, SimpleNamespace(median=lambda times: next(order))

    @torch.compile
    def step(x):
        x = x * (1.0 + rank)
        dist.all_reduce(x)
        return x

    with config.patch({"runtime.never_slower": True}):
        for _ in range(16):
            assert step(torch.ones(2)).tolist() == [3.0, 3.0]
    policies.statistics = real
    (found,) = told("policy", "never_slower") + told("fallback", "never_slower")
    kept = [None] * dist.get_world_size()
    dist.all_gather_object(kept, found.details["reason"].rpartition(": ")[2])
    assert kept == ["compiled from here on"] * dist.get_world_size(), kept


def main():
    dist.init_process_group()
    rank = dist.get_rank()
    with config.patch({"runtime.cache_dir": sys.argv[1]}):
        one_builds(rank)
        rank_0_decides(rank)
    dist.destroy_process_group()
    print(f"rank {rank}: together")


main()
