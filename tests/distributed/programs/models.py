"""A language model and a ResNet with SyncBatchNorm: their losses are those of one process on the joined batch.

Usage: models.py STEPS DTYPE [small] [few | WAY...]. Ways: eager, compiled both ways, a whole step in one graph, and
sharded. To 1e-10 in float64; in float32 sums in another order change the last bits, and beside each distance stands that
of one process on the same rows in reverse. "small": less of each model. "few": each way with one of the models.
"""

import copy
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel

from stage_contracts import config


class LanguageModel(nn.Module):
    def __init__(self, layers, words=37, width=16):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 2, 32, 0.0, batch_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(width, words)

    def forward(self, x):
        h = self.embed(x)
        for layer in self.layers:
            h = layer(h)
        return self.head(h)


class Block(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x):
        return F.relu(x + self.second(F.relu(self.norm(self.first(x)))))


class ResNet(nn.Module):
    def __init__(self, blocks, channels=6, classes=5):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())
        self.blocks = nn.Sequential(*[Block(channels) for _ in range(blocks)])
        self.head = nn.Linear(channels, classes)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean((2, 3)))


def language(rows, dtype):
    text = torch.randint(0, 37, (rows, 9))
    return text[:, :-1], text[:, 1:]


def images(rows, dtype):
    return torch.randn(rows, 3, 8, 8).to(dtype), torch.randint(0, 5, (rows,))


MODELS = {"language model": (LanguageModel, language), "ResNet": (ResNet, images)}
WAYS = ("eager", "compiled", "compiled split", "compiled step", "sharded", "sharded compiled")
FEW = {"language model": WAYS[1::2], "ResNet": WAYS[::2]}
APART = {"float64": 1e-10, "float32": 2e-5}


def train(run, parameters, data, whole=False):
    optimizer = torch.optim.AdamW(parameters, lr=1e-3)

    def step(x, y):
        optimizer.zero_grad()
        out = run(x)
        loss = F.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss

    step = torch.compile(step) if whole else step
    return [step(x, y).detach() for x, y in data]


def wrapped(model, way):
    if way.startswith("sharded"):
        for layer in getattr(model, "layers", ()):
            fully_shard(layer)
        made = fully_shard(model)
    else:
        made = DistributedDataParallel(model, bucket_cap_mb=0.01)
    return torch.compile(made) if way in ("compiled", "compiled split", "sharded compiled") else made


def losses_of(start, way, data):
    """The mean over the ranks of each step's loss."""
    model = nn.SyncBatchNorm.convert_sync_batchnorm(copy.deepcopy(start))
    with config.patch({"distributed.optimize_ddp": "ddp_optimizer" if way.endswith("split") else "in_graph"}):
        run = wrapped(model, way)
        losses = train(run, model.parameters(), data, way == "compiled step")
    for loss in losses:
        dist.all_reduce(loss, dist.ReduceOp.AVG)
    return losses


def apart(some, others):
    return max(abs(a.item() - b.item()) for a, b in zip(some, others, strict=True))


def main():
    steps, dtype, *chosen = int(sys.argv[1]), *sys.argv[2:]
    size_of_model = 1 if "small" in chosen else 2
    chosen = [word for word in chosen if word != "small"]
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    for name, (make, draw) in MODELS.items():
        torch.manual_seed(0)
        start = make(size_of_model).to(getattr(torch, dtype))
        data = [draw(4 * size, getattr(torch, dtype)) for _ in range(steps)]
        mine = [(x[rank::size], y[rank::size]) for x, y in data]
        alone, turned = copy.deepcopy(start), copy.deepcopy(start)
        wanted = train(alone, alone.parameters(), data)
        reverse = train(turned, turned.parameters(), [(x.flip(0), y.flip(0)) for x, y in data])
        for way in FEW[name] if chosen == ["few"] else chosen or WAYS:
            losses = losses_of(start, way, mine)
            error = apart(losses, wanted)
            about = (f"{name}, {dtype}, {size} ranks, {way}: {steps} losses at most {error:.1e} apart "
                     f"(rows reversed: {apart(reverse, wanted):.1e})")  # fmt: skip
            assert error < APART[dtype], f"{about}: {losses} and {wanted}"
            assert losses[-1].item() != losses[0].item()
            if rank == 0:
                print(about, flush=True)
    dist.destroy_process_group()
    print(f"rank {rank}: models equal to one process")


main()
