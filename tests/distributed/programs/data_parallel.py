"""Models trained by DistributedDataParallel, eager and compiled, beside one model trained on the joined batch.

Usage: data_parallel.py [mpi|nccl|cuda] [MODEL...] [WAY...]. "cuda": on GPUs; "nccl": the same calls to the stand-in for
CuPy's NCCL.
"""

import contextlib
import copy
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from cutaway import compile_frame
from stage_contracts import config, program


class Branches(nn.Module):
    """Uses one of two layers, and which one differs between the ranks; a third is never used."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.never = nn.Linear(6, 3), nn.Linear(6, 3), nn.Linear(6, 3)

    def forward(self, x, which=0):
        return (self.second if which else self.first)(x)


def perceptron():
    return nn.Sequential(
        nn.Linear(6, 300), nn.GELU(), nn.LayerNorm(300), nn.Linear(300, 700), nn.Tanh(), nn.Linear(700, 3)
    )


def attention():
    return nn.Sequential(nn.TransformerEncoderLayer(6, 2, 12, 0.0, batch_first=True), nn.Linear(6, 3))


MODELS = {"perceptron": (perceptron, (6,)), "attention": (attention, (5, 6))}


def train(model, batches, run=None, accumulate=None, whole=False):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    run = run or model
    losses = []

    def step(x, y):
        optimizer.zero_grad()
        loss = ((run(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    if whole:
        step = torch.compile(step, fullgraph=True)
        return [step(x, y).item() for x, y in batches]
    for x, y in batches:
        optimizer.zero_grad()
        if accumulate:
            half = len(x) // 2
            with accumulate():
                (((run(x[:half]) - y[:half]) ** 2).mean() / 2).backward()
            loss = ((run(x[half:]) - y[half:]) ** 2).mean() / 2
        else:
            loss = ((run(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


WAYS = ("eager", "no_sync", "small buckets", "compiled", "compiled inside", "compiled no_sync", "compiled small buckets",
        "compiled small buckets split", "compiled step")  # fmt: skip


PARTS = []
compile_part = compile_frame._compile_part


def noted(backend, pipeline, artifacts, graph, inputs):
    """Note the parts: the frame that has them is one that torch.compile's result leads to."""
    run = compile_part(backend, pipeline, artifacts, graph, inputs)
    PARTS.extend(artifacts.parts[-1:] if graph is not artifacts.captured else [])
    return run


compile_frame._compile_part = noted


def check_artifacts(way, run):
    """The collectives are where they should be: in the backward graph, or nowhere in any of several graphs."""
    if way == "compiled small buckets":
        (made,) = run.artifacts
        started = [step for step in made.backward.planned.steps if isinstance(step, program.Collective)]
        assert len(started) > 2 and started[0] is not made.backward.planned.steps[-2], started
    if way == "compiled small buckets split":
        assert len(PARTS) > 2, PARTS
        assert not any(
            isinstance(s, program.Collective) for part in PARTS for s in part.backward.planned.steps
        )


def largest_difference(a, b):
    return max((p - q).abs().max().item() for p, q in zip(a.parameters(), b.parameters(), strict=True))


def main():
    if sys.argv[1:2] == ["nccl"]:
        from tests.distributed import nccl_standin

        nccl_standin.install()
    dist.init_process_group("nccl" if sys.argv[1:2] in (["nccl"], ["cuda"]) else "mpi")
    device = "cuda" if sys.argv[1:2] == ["cuda"] else "cpu"
    chosen = [word for word in sys.argv[2:] if word not in MODELS]
    ways = chosen or (("eager", "compiled small buckets", "compiled step") if device == "cuda" else WAYS)
    rank, size = dist.get_rank(), dist.get_world_size()
    for name, (make, shape) in MODELS.items():
        if {*sys.argv[2:]} & {*MODELS} and name not in sys.argv[2:]:
            continue
        torch.manual_seed(0)
        x, y = (
            torch.randn(3, 8 * size, *shape, dtype=torch.float64).to(device),
            torch.randn(3, 8 * size, *shape[:-1], 3).double().to(device),
        )
        whole = [(x[i], y[i]) for i in range(3)]
        mine = [(a[rank::size], b[rank::size]) for a, b in whole]
        alone = make().double().to(device)
        start = copy.deepcopy(alone)
        train(alone, whole)
        for way in ways:
            model = copy.deepcopy(start)
            if rank:  # rank 0's weights count
                with torch.no_grad():
                    model[-1].weight.add_(1)
            inner = torch.compile(model) if way == "compiled inside" else model
            ddp = DistributedDataParallel(inner, bucket_cap_mb=0.001 if "small buckets" in way else None)
            run = torch.compile(ddp) if way.startswith("compiled") and way != "compiled inside" else ddp
            with config.patch(
                {"distributed.optimize_ddp": "ddp_optimizer" if way.endswith("split") else "in_graph"}
            ):
                train(
                    model, mine, run, ddp.no_sync if way.endswith("no_sync") else None, way == "compiled step"
                )
            error = largest_difference(alone, model)
            assert error < 1e-10, (name, way, error)
            assert "small buckets" not in way or len(ddp.reducer.buckets) > 2
            check_artifacts(way, run)
    model = Branches().double().to(device)
    ddp = DistributedDataParallel(model, find_unused_parameters=True)
    x = torch.ones(4, 6, dtype=torch.float64, device=device)
    ddp(x, rank % 2).sum().backward()
    assert model.never.weight.grad is None
    share = (size + 1) // 2 / size  # of the ranks that used the first layer
    assert torch.allclose(model.first.weight.grad, torch.full((3, 6), 4 * share).double().to(device))
    assert torch.allclose(model.second.weight.grad, torch.full((3, 6), 4 * (1 - share)).double().to(device))
    model = Branches().double().to(device)
    ddp = DistributedDataParallel(model, bucket_cap_mb=0.00001)
    with contextlib.suppress(StopIteration):
        ddp(x).sum().backward()
    try:
        ddp(x)
    except RuntimeError as error:
        assert "find_unused_parameters=True" in str(error) and "never" in str(error), error
    else:
        sys.exit("no error about parameters without a gradient")
    dist.destroy_process_group()
    print(f"rank {rank}: data-parallel training equal to one process")


main()
