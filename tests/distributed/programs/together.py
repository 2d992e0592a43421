"""What ranks do once for all: one of them builds a kernel, rank 0 decides between eager and compiled, and a data-parallel
step that was compiled before comes from the cache.

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


def a_step_comes_from_the_cache(rank):
    """The graph with averaged gradients is found without stage 2, and trains as it did; as eager ranks do, too."""
    losses = []
    for again in ("eager", "first", "again"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        run = torch.nn.parallel.DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        x = torch.randn(dist.get_world_size(), 8, 8)[rank]

        def step(x, run=run, optimizer=optimizer):
            optimizer.zero_grad()
            loss = run(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        before, call = events.EVENT_LOG.mark(), step if again == "eager" else torch.compile(step)
        losses.append([float(call(x)) for _ in range(3)] + [float(p.sum()) for p in model.parameters()])
        found = [e for e in events.EVENT_LOG.since(before, "cache") if "stage 2" in str(e)]
        assert (again == "again") == any(e.name == "hit" for e in found), (again, found)
        torch.compiler.reset()
    assert losses[1] == losses[2] and torch.allclose(torch.tensor(losses[0]), torch.tensor(losses[1])), losses


def main():
    dist.init_process_group()
    rank = dist.get_rank()
    with config.patch({"runtime.cache_dir": sys.argv[1]}):
        one_builds(rank)
        rank_0_decides(rank)
        a_step_comes_from_the_cache(rank)
    dist.destroy_process_group()
    print(f"rank {rank}: together")


main()
