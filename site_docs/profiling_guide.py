"""The programs of the profiling guide, and what each prints when the site is built: PROGRAMS and SHOWN.

Input: torch's guide "Profiling to understand torch.compile performance", whose steps the programs follow in its order,
on a small residual network with drawn weights. guide_page.py runs them.
"""

NETWORK = '''\
"""A small residual network, with weights drawn here: nothing is downloaded."""

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.first = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(width)
        self.second = nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return torch.relu(x + self.second(torch.relu(self.norm(self.first(x)))))


def small_resnet(width=8, blocks=2):
    stem = nn.Conv2d(3, width, 3, stride=2, padding=1)
    head = nn.Linear(width, 10)
    return nn.Sequential(stem, *(Block(width) for _ in range(blocks)), nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)
'''

PROGRAMS = {
    "network.py": NETWORK,
    "basics.py": """\
import torch
from network import small_resnet

images = [torch.randn(2, 3, 32, 32) for _ in range(4)]
model = torch.compile(small_resnet())

def train_on(batch):
    model(batch).sum().backward()

train_on(images[0])  # the first call compiles, so it is outside

with torch.profiler.profile() as prof:
    for batch in images[1:]:
        train_on(batch)
        prof.step()

prof.export_chrome_trace("trace.json")
print(prof.key_averages().table(sort_by="cpu_time_total", row_limit=6))
""",
    "cuda_graphs.py": """\
import torch

torch.profiler._utils._init_for_cuda_graphs()
print("nothing to start")
""",
    "compiling.py": """\
import torch
from network import small_resnet

def small(x):
    return x.sin().relu()

model = torch.compile(small_resnet())

with torch.profiler.profile() as prof:
    with torch.profiler.record_function("a small compile"):
        torch.compile(small)(torch.rand(2, 2, requires_grad=True)).sum().backward()
    with torch.profiler.record_function("the network's compile"):
        model(torch.randn(2, 3, 32, 32)).sum().backward()

prof.export_chrome_trace("trace_compile.json")
for event in prof.events():
    depth, around = 0, event.parent
    while around is not None:
        depth, around = depth + 1, around.parent
    if depth == 0 or event.name.startswith(("compile ", "capture", "ahead", "lower", "build")) and depth < 5:
        print(f"{'  ' * depth}{event.name}: {event.duration_ns / 1e6:.1f} ms")
print(torch._dynamo.utils.compile_times())
""",
    "breaks.py": """\
import torch
from torch import nn

def layers():
    return nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU())

class ModelWithBreaks(nn.Module):
    def __init__(self):
        super().__init__()
        self.mod1, self.mod2, self.mod3, self.mod4 = (layers() for _ in range(4))

    def forward(self, x):
        x = self.mod1(x)
        torch._dynamo.graph_break()
        x = self.mod2(x)
        torch._dynamo.graph_break()
        x = self.mod3(x)
        torch._dynamo.graph_break()
        return self.mod4(x)

model = torch.compile(ModelWithBreaks())
inputs = [torch.randn(128, 128) for _ in range(4)]

def train_on(batch):
    model(batch).sum().backward()

train_on(inputs[0])

with torch.profiler.profile() as prof:
    for batch in inputs[1:]:
        train_on(batch)
        prof.step()

prof.export_chrome_trace("trace_break.json")

def show(event, depth=0):
    if event.name.startswith(("Torch-Compiled", "CompiledFunction")):
        print("  " * depth + event.name)
        for child in event.children:
            show(child, depth + 1)

first = next(event for event in prof.events() if event.name == "Torch-Compiled Region")
show(first)
side_by_side = sum(event.parent is None for event in prof.events() if event.name == first.name)
print(f"{side_by_side} calls side by side, {sum(e.name == first.name for e in prof.events())} regions")
""",
    "kernels.py": """\
import torch

@torch.compile
def f(x, w):
    return torch.softmax(x @ w, 1).sort().values

x, w = torch.randn(64, 32), torch.randn(32, 16)
f(x, w)
with torch.profiler.profile(record_shapes=True) as prof:
    f(x, w)

for event in prof.events():
    if event.category in ("kernel", "library"):
        print(f"{event.category}: {event.name}, inputs {event.args['Input Dims']}, from {event.args.get('lines')}")
""",
    "training.py": """\
import torch
from network import small_resnet

network = small_resnet()
model = torch.compile(network)
optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
for _ in range(20):
    loss = model(torch.randn(2, 3, 32, 32)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "gaps.py": """\
import torch

@torch.compile
def f(x):
    return (x.sin() + 1).relu()

for rows in (1, 4096):
    x = torch.randn(rows, 64)
    f(x)
    with torch.profiler.profile() as prof:
        for _ in range(100):
            f(x)
    calls = sum(event.duration_ns for event in prof.events() if event.name == "Torch-Compiled Region")
    kernels = sum(event.duration_ns for event in prof.events() if event.category == "kernel")
    print(f"{rows} rows: kernels take {100 * kernels / calls:.0f} % of the time of the calls")
""",
}

# mark -> (lines of the shell, how many lines to show)
SHOWN = {
    "basics": ("python on_cutaway.py basics.py", 20),
    "cuda graphs": ("python on_cutaway.py cuda_graphs.py", 5),
    "compiling": ("CUTAWAY_RUNTIME_CACHE=0 python on_cutaway.py compiling.py", 40),
    "breaks": ("python on_cutaway.py breaks.py", 20),
    "kernels": ("python on_cutaway.py kernels.py", 10),
    "gaps": ("python on_cutaway.py gaps.py", 5),
    "command": ("cutaway profile --as-torch --steady training.py", 40),
}
