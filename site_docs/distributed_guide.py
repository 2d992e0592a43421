"""The programs of the guide "How to train with several processes", and what they print when the site is built.

Input: nothing; MPI (the extra `distributed`) starts two processes on this machine. guide_page.py runs them.
"""

PROGRAMS = {
    "train.py": """\
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("mpi")
torch.manual_seed(0)  # every process makes the same weights
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


@torch.compile
def step(x, y):
    optimizer.zero_grad()
    loss = ((model(x) - y) ** 2).mean()
    loss.backward()  # gradients are averaged over the processes here
    optimizer.step()
    return loss


torch.manual_seed(1 + dist.get_rank())  # from here on each process draws its own batch
rows = 32 // dist.get_world_size()
for _ in range(10):
    loss = step(torch.randn(rows, 8), torch.ones(rows, 1))
dist.all_reduce(loss, op=dist.ReduceOp.AVG)
if dist.get_rank() == 0:
    print(f"{dist.get_world_size()} processes, mean loss {loss.item():.3f}")
""",
    "collectives.py": """\
import torch.distributed as dist
from train import step

if dist.get_rank() == 0:
    steps = str(step.artifacts[-1].forward.planned).partition("@program")[2]
    for line in steps.splitlines():
        if line.strip().startswith(("external", "launch", "collective", "await")):
            print(line.strip().split(", out=")[0][:100])
""",
}

SHOWN = {
    "two": ("cutaway run --nproc 2 train.py", 10),
    "launcher": ("mpiexec -n 2 cutaway run train.py", 10),
    "collectives": ("cutaway run --nproc 2 collectives.py", 20),
}
