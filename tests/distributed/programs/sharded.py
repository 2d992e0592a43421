"""fully_shard, eager and compiled, beside one model on the joined batch; sharded checkpoints at another world size.

Usage: sharded.py FOLDER [groups]. Every rank checks itself. "groups": of four ranks two train and save, and three load.
"""

import copy
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

from cutaway.distributed import checkpoint


def model():
    torch.manual_seed(0)
    made = nn.Sequential(
        nn.Linear(6, 31), nn.GELU(), nn.LayerNorm(31), nn.Linear(31, 7), nn.Tanh(), nn.Linear(7, 3)
    )
    return made.double()


def batches(steps):
    torch.manual_seed(1)
    return [(torch.randn(8, 6).double(), torch.randn(8, 3).double()) for _ in range(steps)]


def train(run, parameters, data, whole=False, clip=None):
    """The losses, or with `clip` the norms before it."""
    optimizer = torch.optim.Adam(parameters, lr=1e-2)

    def step(x, y):
        optimizer.zero_grad()
        loss = ((run(x) - y) ** 2).mean()
        loss.backward()
        norm = clip(0.05) if clip else loss
        optimizer.step()
        return norm

    step = torch.compile(step, fullgraph=True) if whole else step
    return [step(x, y).item() for x, y in data]


def layer_by_layer(whole):
    for layer in (whole[0], whole[3]):
        fully_shard(layer)
    made = fully_shard(whole)
    assert len(made.own) == 4 and len(made.shapes) == 8
    return made


def differs(a, b):
    return max((a[n] - b[n]).abs().max().item() for n in a)


def check_clipping(data, mine):
    """The norm is that of the parts of all ranks together, and of what is not in parts."""
    for kind, whole in ((2.0, False), (2.0, True), (float("inf"), False)):

        def clip(of, kind=kind):
            return lambda most: nn.utils.clip_grad_norm_(of.parameters(), most, kind)

        alone, sharded = model(), layer_by_layer(model())
        norms = train(alone, alone.parameters(), data, clip=clip(alone))
        found = train(sharded, sharded.parameters(), mine, whole, clip=clip(sharded))
        assert all(abs(a - b) < 1e-10 for a, b in zip(norms, found, strict=True)), (kind, whole, norms, found)
        assert differs(sharded.full_state_dict(), alone.state_dict()) < 1e-10, (kind, whole)
    one, parts = nn.Parameter(torch.zeros(2)), fully_shard(nn.Linear(4, 4, bias=False))
    one.grad = torch.tensor([3.0, 0.0])
    parts.weight.grad = torch.ones_like(parts.weight)  # 16 ones in all
    assert nn.utils.clip_grad_norm_([one, *parts.parameters()], 1.0) == 5 and abs(one.grad[0] - 0.6) < 1e-5
    assert abs(parts.clip_grad_norm_(1.0) - 16**0.5 / 5) < 1e-5


def two_save_and_three_load(folder, rank, data, wanted):
    two, three = dist.new_group([0, 1]), dist.new_group([0, 1, 2])
    if rank < 2:
        sharded = fully_shard(model(), process_group=two)
        train(sharded, sharded.parameters(), [(x[rank::2], y[rank::2]) for x, y in data])
        checkpoint.save(sharded, folder)
    dist.barrier()
    if rank < 3:
        sharded = fully_shard(model(), process_group=three)
        assert differs(sharded.full_state_dict(), wanted) > 1e-3
        checkpoint.load(sharded, folder)
        assert differs(sharded.full_state_dict(), wanted) < 1e-10


def main():
    folder, *mode = sys.argv[1:]
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    alone = model()
    data = batches(3)
    train(alone, alone.parameters(), data)
    wanted = dict(alone.state_dict())
    if mode == ["groups"]:
        two_save_and_three_load(folder, rank, data, wanted)
        print(f"rank {rank}: loaded")
        return
    mine = [(x[rank::size], y[rank::size]) for x, y in data]
    for way in ("eager", "compiled", "compiled step"):
        sharded = fully_shard(model())
        assert sum(p.numel() for p in sharded.parameters()) <= sum(
            -(-p.numel() // size) for p in alone.parameters()
        )
        run = torch.compile(sharded, fullgraph=True) if way == "compiled" else sharded
        train(run, sharded.parameters(), mine, way == "compiled step")
        error = differs(sharded.full_state_dict(), wanted)
        assert error < 1e-10, (way, error)
        if way == "compiled":
            (made,) = run.artifacts
            kinds = [n.target.name for n in made.partition.backward.calls]
            assert "all_gather" in kinds and "reduce_scatter" in kinds, kinds
            saved = sum(s.meta.nbytes for s in made.partition.saved if s.name.startswith("all_gather"))
            assert saved == 0, made.partition.report()
    check_clipping(data, mine)
    sharded = layer_by_layer(model())
    train(torch.compile(sharded, fullgraph=True), sharded.parameters(), mine)
    assert differs(sharded.full_state_dict(), wanted) < 1e-10
    checkpoint.save(sharded, folder)
    assert len([*Path(folder).glob("*.safetensors")]) == size
    again = fully_shard(copy.deepcopy(model()))
    checkpoint.load(again, folder)
    assert differs(again.full_state_dict(), wanted) < 1e-10
    print(f"rank {rank}: sharded training equal to one process")


main()
