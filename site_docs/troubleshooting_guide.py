"""The programs of the troubleshooting guides, and what each prints when the site is built: PROGRAMS and SHOWN.

Input: torch's guides of that name, the older one first, whose steps the programs follow in their order. guide_page.py
runs them.
"""

PROGRAMS = {
    "ablation.py": """\
import torch

def fn(x, y):
    return torch.nn.functional.relu(x @ y).sum()

x, y = torch.randn(8, 8), torch.randn(8, 8)
for backend in ("eager", "aot_eager", "inductor"):
    print(backend, torch.allclose(torch.compile(fn, backend=backend)(x, y), fn(x, y)))
""",
    "test_assertion_error.py": """\
import torch
import torch._dynamo as dynamo

def test_assertion_error():
    y = torch.ones(200, 200)
    z = {y: 5}
    return z

compiled_test_assertion_error = torch.compile(test_assertion_error, backend="eager")
print(len(compiled_test_assertion_error()))
""",
    "levels.py": """\
import logging
import torch

torch._dynamo.config.log_level = logging.INFO
torch._dynamo.config.verbose = True

@torch.compile
def fn(x):
    return x.sin() + 1

fn(torch.ones(3))
""",
    "test_backend_error.py": """\
import torch
import torch._dynamo as dynamo

model = torch.nn.Sequential(*[torch.nn.Linear(200, 200) for _ in range(5)])

def test_backend_error():
    y = torch.ones(200, 200)
    x = torch.ones(200, 200)
    z = x + y
    a = torch.ops.aten._foobar(z)  # an operator that does not exist
    return model(a)

compiled_test_backend_error = torch.compile(test_backend_error, backend="inductor")
compiled_test_backend_error()
""",
    "toy_compiler.py": """\
import torch
import torch._dynamo as dynamo

model = torch.nn.Sequential(*[torch.nn.Linear(200, 200) for _ in range(5)])

# fails if the graph contains relu
def toy_compiler(gm: torch.fx.GraphModule, _):
    for node in gm.graph.nodes:
        if node.target == torch.relu:
            assert False
    return gm

def test_backend_error():
    y = torch.ones(200, 200)
    x = torch.ones(200, 200)
    z = x + y
    a = torch.relu(z)
    return model(a)

compiled_test_backend_error = torch.compile(test_backend_error, backend=toy_compiler)
compiled_test_backend_error()
""",
    "profiler.py": """\
import torch
from torch._dynamo.utils import CompileProfiler

def my_model(x):
    y = x.sin()
    print("between")
    return y.cos() * 2

with CompileProfiler() as prof:
    profiler_model = torch.compile(my_model, backend=prof)
    profiler_model(torch.ones(3))
    profiler_model(torch.ones(4))
    print(prof.report())
""",
    "test_model.py": """\
import torch

@torch.compile()
def test_model(x):
    model = torch.nn.Sequential(
        torch.nn.Linear(10, 10),
        torch.nn.LayerNorm(10),
        torch.nn.ReLU(),
    )
    return model(x)

y = test_model(torch.ones(10, 10))
""",
    "toy_example.py": """\
import torch
import torch._dynamo as dynamo

def toy_example(a, b):
    x = a / (torch.abs(a) + 1)
    print("woo")
    if b.sum() < 0:
        b = b * -1
    return x * b

a, b = torch.randn(10), torch.ones(10)
print(dynamo.explain(toy_example)(a, b))

explanation, out_guards, graphs, ops_per_graph, break_reasons, explanation_verbose = dynamo.explain(toy_example, a, b)
print(explanation)
print(out_guards[-1])

compiled_toy = torch.compile(toy_example, fullgraph=True, backend="eager")
compiled_toy(a, b)
""",
    "recompiles.py": """\
import torch

torch._dynamo.config.recompile_limit = 4

@torch.compile(backend="eager")
def shift(x, name):
    return x + len(name)

for name in ("a", "bc", "def", "ghij", "klmno", "pqrstu"):
    shift(torch.ones(3), name)
print(shift)

@torch.compile(backend="eager")
def double(x):
    return x * 2

x = torch.ones(3)
torch._dynamo.mark_dynamic(x, 0)
double(x)
double(torch.ones(5))
print(double)
""",
    "compile_times.py": """\
import torch

@torch.compile
def loss(x, w):
    return (x @ w).relu().mean()

loss(torch.randn(32, 64), torch.randn(64, 16, requires_grad=True)).backward()
print(torch._dynamo.utils.compile_times())
""",
    "guarded.py": """\
import torch

def is_ten(x):
    return x.shape[0] == 10

@torch.compile(dynamic=True)
def fn(x):
    return x + 1 if is_ten(x) else x - 1

fn(torch.randn(10))
""",
    "read_file.py": """\
import torch

@torch.compile
def fn(x):
    x = x + 1
    with open("on_cutaway.py", "r") as f:
        return x + len(f.read())

fn(torch.ones(3, 3))
""",
    "data.py": """\
import torch

@torch.compile
def fn(x):
    y = x.sum()
    if y > 0:
        return x + y.item()
    return x - y.item()

@torch.compile(fullgraph=True)
def fn_cond(x):
    y = x.sum()
    return torch.cond(y > 0, lambda x, y: x + y, lambda x, y: x - y, (x, y))

print(torch.equal(fn(torch.ones(3, 3)), fn_cond(torch.ones(3, 3))))
""",
    "undefined.py": """\
import torch

def inner1(x):
    x = x + 1
    x = y  # not defined
    return x

@torch.compile(fullgraph=True)
def fn(x):
    return inner1(x)

fn(torch.ones(3, 3))
""",
    "constants.py": """\
import torch

@torch.compile
def fn(x, c):
    return x + c

for i in range(1, 5):
    fn(torch.ones(3, 3), i / 2)
for i in range(1, 5):
    fn(torch.ones(3, 3), torch.tensor(i / 2))
print(fn)

mod = torch.nn.Linear(3, 3)
opt = torch.optim.Adam(mod.parameters(), lr=0.01)
sched = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)

@torch.compile
def step(inp):
    opt.zero_grad(True)
    out = mod(inp).sum()
    out.backward()
    opt.step()
    sched.step()

for i in range(5):
    step(torch.ones(3, 3))
print(step)
""",
    "workarounds.py": """\
import operator

import numpy
import torch

class Mod(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)

    def forward(self, x):
        return self.not_compiled(x).relu()

    @torch.compiler.disable
    def not_compiled(self, x):
        return self.lin(x)

mod = Mod()
mod.compile()
print("disable:", tuple(mod(torch.ones(2, 3)).shape))

@torch.compile
def fn(x):
    return x + 1 if torch.compiler.is_compiling() else x

with torch.compiler.set_stance("force_eager"):
    print("force_eager:", fn(torch.zeros(2)))
print("default:", fn(torch.zeros(2)))

@torch.library.custom_op("mylib::sinc", mutates_args=())
def sinc(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(numpy.sinc(x.numpy()))

@sinc.register_fake
def _(x):
    return torch.empty_like(x)

print("custom_op:", torch.compile(lambda x: sinc(x) + 1, fullgraph=True)(torch.zeros(2)))

@torch.compiler.substitute_in_graph(operator.indexOf)
def indexOf(a, b, /):
    for i, item in enumerate(a):
        if item is b or item == b:
            return i
    raise ValueError("sequence.index(x): x not in sequence")

found = torch.compile(lambda x, names: x + operator.indexOf(names, "c"), fullgraph=True)(torch.ones(2), ["a", "b", "c"])
print("substitute_in_graph:", found)

def traced(gm, inputs):
    print("a backend's graph:", [node.name for node in gm.graph.nodes])
    return gm.forward

torch.compile(lambda x: x.sin() + 1, backend=traced)(torch.ones(2))
""",
}

RUN = "python on_cutaway.py"
SHOWN = {
    "ablation": (f"{RUN} ablation.py", 12),
    "capture error": (f'TORCH_LOGS="+dynamo" {RUN} test_assertion_error.py 2>&1 | grep Step', 6),
    "levels": (f"{RUN} levels.py 2>&1 | head -n 12", 12),
    "backend error": (f"{RUN} test_backend_error.py 2>&1 | tail -n 4", 4),
    "repro": (f'TORCHDYNAMO_REPRO_AFTER="dynamo" {RUN} toy_compiler.py 2>&1 | grep "^cutaway: "', 8),
    "profiler": (f"{RUN} profiler.py", 40),
    "debug": (
        f"TORCH_COMPILE_DEBUG=1 {RUN} test_model.py\n"
        "ls torch_compile_debug/*/torchinductor/*\n"
        "head -n 12 torch_compile_debug/*/torchinductor/*/ir_post_fusion.txt",
        30,
    ),
    "explain": (f"{RUN} toy_example.py", 70),
    "recompiles": (f"TORCH_LOGS=recompiles {RUN} recompiles.py", 30),
    "extended": (
        'TORCHDYNAMO_EXTENDED_DEBUG_GUARD_ADDED="Eq(s0, 10)" TORCHDYNAMO_EXTENDED_DEBUG_CREATE_SYMBOL="s0" '
        f"{RUN} guarded.py",
        48,
    ),
    "caches": (f"TORCHINDUCTOR_FORCE_DISABLE_CACHES=1 {RUN} compile_times.py", 20),
    "trace": (f"TORCH_TRACE=traces {RUN} guarded.py\nls traces\nhead -n 3 traces/*", 5),
    "graph breaks": (f'TORCH_LOGS="graph_breaks" {RUN} read_file.py data.py', 50),
    "undefined": (f"{RUN} undefined.py 2>&1 | tail -n 5", 6),
    "constants": (f'TORCH_LOGS="recompiles" {RUN} constants.py', 20),
    "workarounds": (f"{RUN} workarounds.py", 20),
}
