"""DistributedDataParallel with a compression hook, with autocast, and with clipping, beside one process."""

import copy

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def compressed(state, bucket):
    """Half the bytes: bfloat16 travels. What it returns has wait(), and then the buffer has the mean."""
    half = bucket.buffer().to(torch.bfloat16)
    work = dist.all_reduce(half, dist.ReduceOp.AVG, async_op=True)
    state.append(half.element_size())

    class Then:
        def wait(self):
            work.wait()
            return half.to(torch.float32)

    return Then()


def train(run, parameters, data, cast=False, clip=False):
    optimizer = torch.optim.SGD(parameters, lr=0.1)
    seen = []
    for x, y in data:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=cast):
            out = run(x)
        loss = ((out.float() - y) ** 2).mean()
        loss.backward()
        if clip:
            seen.append(float(nn.utils.clip_grad_norm_(parameters, 0.01)))
        optimizer.step()
    return seen


def main():
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    start = nn.Sequential(nn.Linear(6, 40), nn.Tanh(), nn.Linear(40, 3))
    data = [(torch.randn(8 * size, 6), torch.randn(8 * size, 3)) for _ in range(3)]
    mine = [(x[rank::size], y[rank::size]) for x, y in data]
    for name, close in {"clip": 1e-6, "autocast": 5e-3, "hook": 5e-3, "autocast compiled": 5e-3}.items():
        alone, model = copy.deepcopy(start), copy.deepcopy(start)
        ddp = DistributedDataParallel(model, bucket_cap_mb=0.0005)
        sizes = []
        if name == "hook":
            ddp.register_comm_hook(sizes, compressed)
        run = torch.compile(ddp) if name.endswith("compiled") else ddp
        cast, clip = name.startswith("autocast"), name == "clip"
        wanted = train(alone, list(alone.parameters()), data, cast, clip)
        found = train(run, list(model.parameters()), mine, cast, clip)
        assert all(abs(a - b) < 1e-5 for a, b in zip(wanted, found, strict=True)), (name, wanted, found)
        error = max(
            (a - b).abs().max().item() for a, b in zip(alone.parameters(), model.parameters(), strict=True)
        )
        moved = max(
            (a - b).abs().max().item() for a, b in zip(alone.parameters(), start.parameters(), strict=True)
        )
        assert error < close and error < moved / 4, (name, error, moved)
        assert name != "hook" or (len(sizes) == 3 * len(ddp.reducer.buckets) and set(sizes) == {2}), sizes
    dist.destroy_process_group()
    print(f"rank {rank}: hooks and casts equal to one process")


main()
