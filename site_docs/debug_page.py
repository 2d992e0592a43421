"""What the pages on troubleshooting show as printed: each command is run when the site is built, and its output put in.

Input: PROGRAMS, which the pages show as they are, and SHOWN: the mark, the variables, the command. hooks.py asks.
"""

import os
import re
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from cutaway.debug.switches import page

ROOT = Path(__file__).parent.parent

PROGRAMS = {
    "example.py": """\
import cutaway

@cutaway.compile
def layer(x, w):
    y = (x @ w).relu()
    if y.sum() > 0:
        y = y + 1
    return y * 2

for rows in (4, 5):
    layer(cutaway.ones(rows, 8), cutaway.ones(8, 2))
""",
    "profiled.py": """\
from cutaway.torch_api import torch

def step(x):
    y = x.sin()
    print("between")
    return y.cos() * 2

with torch._dynamo.utils.CompileProfiler() as prof:
    profiled = torch.compile(step, backend=prof)
    profiled(torch.ones(3))
    profiled(torch.ones(4))
    print(prof.report())
""",
    "timed.py": """\
from cutaway.torch_api import torch

def loss(x, w):
    return (x @ w).relu().mean()

w = torch.randn(64, 16, requires_grad=True)
torch.compile(loss)(torch.randn(32, 64), w).backward()
print(torch._dynamo.utils.compile_times())
""",
    "small_training.py": """\
import cutaway
from cutaway import nn

net = nn.Sequential(nn.Linear(256, 512), nn.GELU(), nn.Linear(512, 10))
optimizer = cutaway.optim.SGD(net.parameters(), lr=0.1)
x, labels = cutaway.randn(64, 256), cutaway.randint(0, 10, (64,))

@cutaway.compile
def loss_of(x, labels):
    return nn.functional.cross_entropy(net(x), labels)

for _ in range(50):
    loss = loss_of(x, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
    "model_with_breaks.py": """\
from cutaway.torch_api import torch

class ModelWithBreaks(torch.nn.Module):
    def __init__(self):
        super().__init__()

        def block():
            return torch.nn.Sequential(
                torch.nn.Linear(128, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128), torch.nn.ReLU()
            )

        self.mod1, self.mod2, self.mod3, self.mod4 = block(), block(), block(), block()

    def forward(self, inp):
        mod1 = self.mod1(inp)
        torch._dynamo.graph_break()
        mod2 = self.mod2(mod1)
        torch._dynamo.graph_break()
        mod3 = self.mod3(mod2)
        return self.mod4(mod3)

model = torch.compile(ModelWithBreaks())
inputs = torch.randn(64, 128)
schedule = torch.profiler.schedule(wait=1, warmup=1, active=1)
with torch.profiler.profile(schedule=schedule, profile_memory=True) as prof:
    for _ in range(3):
        model(inputs).sum().backward()
        prof.step()
print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=12))
""",
}

# mark -> (variables, words after `python`, how many lines to show)
SHOWN = {
    "steps": ({"TORCH_LOGS": "dynamo"}, ["example.py"], 9),
    "breaks": ({"CUTAWAY_LOGS": "graph_breaks,recompiles"}, ["example.py"], 40),
    "json": ({"CUTAWAY_LOGS": "recompiles", "CUTAWAY_DEBUG_LOG_FORMAT": "json"}, ["example.py"], 1),
    "unhonoured": (
        {"TORCHINDUCTOR_COORDINATE_DESCENT_TUNING": "1", "TORCHDYNAMO_VERBOS": "1"},
        ["-c", "import cutaway"],
        5,
    ),
    "wrong log": ({"CUTAWAY_LOGS": "graph_brakes"}, ["-c", "import cutaway"], 2),
    "switches": (
        {"CUTAWAY_RUNTIME_CACHE": "0", "TORCHDYNAMO_VERBOSE": "1"},
        ["-m", "cutaway.cli", "switches"],
        10,
    ),
    "profiled": ({}, ["profiled.py"], 60),
    "timed": ({"CUTAWAY_RUNTIME_CACHE": "0"}, ["timed.py"], 20),
    "profiler table": ({}, ["model_with_breaks.py"], 30),
    "doctor": ({}, ["-m", "cutaway.cli", "doctor", "--report"], 60),
    "threads": ({"OMP_NUM_THREADS": "four"}, ["-m", "cutaway.cli", "doctor", "--only", "threads"], 5),
    "all logs": ({"CUTAWAY_LOGS": "help"}, ["-c", "import cutaway"], 60),
}


def run(variables, words, folder):
    """What a command prints, on either stream."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("CUTAWAY_", "TORCH"))}
    environment = {**plain, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **variables}
    result = subprocess.run(
        [sys.executable, *words], env=environment, cwd=folder, capture_output=True, text=True, timeout=300
    )
    return (result.stdout + result.stderr).replace(f"{folder}/", "").replace(f"{ROOT}/", "")


@cache
def shown(name):
    """The command and its output, as a block of the page."""
    variables, words, lines = SHOWN[name]
    with tempfile.TemporaryDirectory() as folder:
        _write_programs(folder)
        printed = run(variables, words, folder).rstrip().splitlines()
    before = " ".join(f"{k}={v}" for k, v in variables.items())
    quoted = " ".join(f'"{word}"' if " " in word else word for word in words)
    rest = ["..."] if len(printed) > lines else []
    return _fence(
        "console", "\n".join([f"$ {before} python {quoted}".replace("$  ", "$ "), *printed[:lines], *rest])
    )


@cache
def debug_folder():
    """The tree of files that TORCH_COMPILE_DEBUG=1 leaves, and what two of them print when they are run."""
    with tempfile.TemporaryDirectory() as folder:
        _write_programs(folder)
        run({"TORCH_COMPILE_DEBUG": "1"}, ["example.py"], folder)
        root = Path(folder) / "torch_compile_debug"
        tree = [
            f"{'  ' * (len(p.relative_to(root).parts) - 1)}{p.name}{'/' if p.is_dir() else ''}"
            for p in sorted(root.rglob("*"))
            if not any(re.match(r"model__[^0]", part) for part in p.parts)
        ]
        model = next(root.rglob("model__0_*"))
        lines = ["$ TORCH_COMPILE_DEBUG=1 python example.py", "$ ls -R torch_compile_debug", *tree]
        for name in ("fx_graph_runnable.py", "output_code.py"):
            lines += [f"$ python .../{model.name}/{name}", run({}, [str(model / name)], folder).rstrip()]
    return _fence("console", re.sub(r"run_[\d_]+-pid_\d+", "run_<time>-pid_<n>", "\n".join(lines)))


@cache
def profile_command():
    """What `cutaway profile` prints, and what one of the kernels' files prints that `--kernels` leaves."""
    with tempfile.TemporaryDirectory() as folder:
        _write_programs(folder)
        words = ["profile", "--steady", "--kernels", "kernels", "small_training.py"]
        printed = run({}, ["-m", "cutaway.cli", *words], folder).rstrip()
        one = printed.splitlines()[-1].removeprefix("wrote ")
        lines = [
            f"$ cutaway {' '.join(words)}",
            printed,
            "",
            f"$ python {one}",
            run({}, [one], folder).rstrip(),
        ]
    return _fence("console", "\n".join(lines))


def _write_programs(folder):
    for name, text in PROGRAMS.items():
        (Path(folder) / name).write_text(text, encoding="utf-8")


def _fence(language, text):
    fence = "````" if "```" in text else "```"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}"


TEXTS = {f"<!-- shown: {name} -->": lambda name=name: shown(name) for name in SHOWN}
TEXTS |= {
    f"<!-- program: {name} -->": lambda text=text: _fence("python", text) for name, text in PROGRAMS.items()
}
TEXTS["<!-- debug folder -->"] = debug_folder
TEXTS["<!-- profile command -->"] = profile_command
TEXTS["<!-- all switches -->"] = page
