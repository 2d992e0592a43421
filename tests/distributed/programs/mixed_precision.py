"""fully_shard with a MixedPrecisionPolicy, beside one process that casts, averages and steps by hand.

Usage: mixed_precision.py. The dtypes in which gathers and reductions travel are compared as well.
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.func import functional_call

from stage_contracts import communicators

BF16, F32 = torch.bfloat16, torch.float32
POLICIES = {  # policy -> the dtypes of gathers, of reductions, of what comes out
    "param": (MixedPrecisionPolicy(param_dtype=BF16), BF16, BF16, BF16),
    "reduce": (MixedPrecisionPolicy(param_dtype=BF16, reduce_dtype=F32), BF16, F32, BF16),
    "output": (MixedPrecisionPolicy(param_dtype=BF16, reduce_dtype=F32, output_dtype=F32), BF16, F32, F32),
    "reduce only": (MixedPrecisionPolicy(reduce_dtype=BF16), F32, BF16, F32),
}
STEPS, RATE = 3, 0.1


def model():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 31), nn.Tanh(), nn.Linear(31, 3))


def loss_of(out, y):
    return ((out.float() - y) ** 2).mean()


class Seen:
    """A communicator that notes the dtype of each gather and reduction."""

    def __init__(self, real):
        self.real, self.rank, self.size = real, real.rank, real.size
        self.dtypes = {"all_gather": set(), "reduce_scatter": set()}

    def start(self, operation, words, source, *rest):
        self.dtypes.get(operation, set()).add(source.dtype.name)
        return self.real.start(operation, words, source, *rest)

    def run(self, operation, words, source, *rest):
        self.dtypes.get(operation, set()).add(source.dtype.name)
        self.real.run(operation, words, source, *rest)


def by_hand(policy, batches):
    """The weights after SGD on the mean of all ranks' gradients, each computed and rounded as the policy says."""
    made = model()
    weights = {name: p.detach().clone() for name, p in made.named_parameters()}
    kind, wide = policy.param_dtype or F32, policy.reduce_dtype or policy.param_dtype
    for step in range(STEPS):
        total = {name: torch.zeros_like(w) for name, w in weights.items()}
        for x, y in batches[step]:
            cast = {name: w.to(kind).detach().clone().requires_grad_() for name, w in weights.items()}
            loss_of(functional_call(made, cast, (x.to(kind),)), y).backward()
            for name in total:
                total[name] += cast[name].grad.to(wide).float()
        for name in weights:
            weights[name] = weights[name] - RATE * (total[name] / len(batches[step])).to(wide).float()
    return weights


def train(run, parameters, batches):
    optimizer = torch.optim.SGD(parameters, lr=RATE)
    for x, y in batches:
        optimizer.zero_grad()
        out = run(x)
        loss_of(out, y).backward()
        optimizer.step()
    return out


def main():
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    batches = [[(torch.randn(8, 6), torch.randn(8, 3)) for _ in range(size)] for _ in range(STEPS)]
    mine = [of_ranks[rank] for of_ranks in batches]
    seen = Seen(communicators.communicator("world"))
    communicators.leave("world")
    communicators.enter("world", seen)
    for name, (policy, gathers, reductions, results) in POLICIES.items():
        wanted = by_hand(policy, batches)
        for way in ("eager", "compiled"):
            for found in seen.dtypes.values():
                found.clear()
            sharded = fully_shard(model(), mp_policy=policy)
            run = torch.compile(sharded, fullgraph=True) if way == "compiled" else sharded
            out = train(run, sharded.parameters(), mine)
            about = f"{name}, {way}"
            assert out.dtype is results, about
            assert all(p.dtype is F32 and p.grad.dtype is F32 for p in sharded.parameters()), about
            told = {"all_gather": {gathers.name}, "reduce_scatter": {reductions.name}}
            assert seen.dtypes == told, f"{about}: {seen.dtypes}"
            close = 1e-6 if way == "eager" and reductions is F32 else 1e-2  # fused kernels round less often
            full = {name: sharded.unsharded(name).detach() for name in sharded.shapes}
            error = max((full[n] - wanted[n]).abs().max().item() for n in wanted)
            moved = max((full[n] - w).abs().max().item() for n, w in model().named_parameters())
            assert error < close and error < moved / 4, f"{about}: {error}, moved {moved}"
    dist.destroy_process_group()
    print(f"rank {rank}: mixed precision as by hand")


main()
