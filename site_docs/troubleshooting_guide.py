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
for options in (
    {"backend": "eager"},
    {"backend": "aot_eager"},
    {"backend": "aot_eager_decomp_partition"},
    {"backend": "inductor"},
    {"mode": "reduce-overhead"},
    {"mode": "max-autotune"},
    {"dynamic": True},
    {"dynamic": False},
):
    print(options, torch.allclose(torch.compile(fn, **options)(x, y), fn(x, y)))
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
    "repro_file.py": """\
import torch
from torch import tensor, device
import torch.fx as fx
from torch._dynamo.testing import rand_strided
from math import inf
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import *

class Repro(torch.nn.Module):
    def forward(self, add):
        relu = torch.ops.aten.relu.default(add);  add = None
        return (relu,)

args = [((200, 200), (200, 1), torch.float32, 'cpu')]
args = [rand_strided(shape, stride, dtype, device) for shape, stride, dtype, device in args]
mod = make_fx(Repro())(*args)
from torch._inductor.compile_fx import compile_fx_inner

compiled = compile_fx_inner(mod, args)
print("make_fx:", tuple(compiled(*args)[0].shape))

from torch._dynamo.debug_utils import run_fwd_maybe_bwd

mod = Repro()
opt_mod = torch.compile(mod, backend="inductor")
args = [((200, 200), (200, 1), torch.float32, 'cpu', False)]
args = [rand_strided(sh, st, dt, dev).requires_grad_(rg) for (sh, st, dt, dev, rg) in args]
with torch.cuda.amp.autocast(enabled=False):
    ref = run_fwd_maybe_bwd(mod, args)
    res = run_fwd_maybe_bwd(opt_mod, args)
print("run_fwd_maybe_bwd:", torch.equal(ref[0][0], res[0][0]))
""",
    "recorded.py": """\
import torch

scale = torch.tensor(2.0)

def refuses(gm, inputs):
    raise ValueError("no graph is good enough")

@torch.compile(backend=refuses)
def fn(x):
    return x * scale

torch._dynamo.config.replay_record_enabled = True
fn(torch.ones(3))
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
    "recompiled.py": """\
import torch

@torch.compile
def fn(x):
    return x + 1

fn(torch.ones(3, 3))
fn(torch.ones(4, 4))
""",
    "dynamic.py": """\
import torch

@torch.compile(dynamic=True)
def fn(x):
    return x + 1

fn(torch.ones(3, 3))
fn(torch.ones(4, 4))
""",
    "train.py": """\
import torch

model = torch.nn.Linear(4, 3)
opt_model = torch.compile(model)
print("inference:", tuple(opt_model(torch.randn(2, 4)).shape))

opt = torch.optim.Adam(model.parameters())

@torch.compile
def train(mod, data):
    opt.zero_grad(True)
    pred = mod(data[0])
    loss = torch.nn.CrossEntropyLoss()(pred, data[1])
    loss.backward()
    opt.step()

for _ in range(3):
    train(model, (torch.randn(2, 4), torch.tensor([0, 1])))
print("training:", train)

def bad1_inner(x):
    return x + torch.compiler.is_compiling()

@torch.compiler.disable
def bad1_outer(x):
    return bad1_inner(x)

def bad2_inner(x):
    return x + torch.compiler.is_compiling()

@torch.compiler.disable(recursive=False)
def bad2_outer(x):
    return bad2_inner(x)

@torch.compile(backend="eager")
def fn(x):
    return bad1_outer(x), bad2_outer(x)

print("disabled:", fn(torch.zeros(1)))
torch._dynamo.config.suppress_errors = True  # errors of the compiler, and of backends: run eagerly
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

# what does not depend on the arguments is computed before
x = torch.randn(3, 3)
cond = (x.sum() > 0).item()

@torch.compile(fullgraph=True)
def fn_constant(y):
    return y + x if cond else y - x

torch._dynamo.config.capture_scalar_outputs = True  # or TORCHDYNAMO_CAPTURE_SCALAR_OUTPUTS=1

@torch.compile(fullgraph=True)
def fn_item(x):
    return x + x.sum().item()

print(tuple(fn_constant(x).shape), fn_item(torch.ones(2)))
""",
    "logging_functions.py": """\
import torch

torch._dynamo.config.reorderable_logging_functions.add(print)

@torch.compile
def fn(x):
    x += 1
    print("log!")
    return torch.sin(x)

fn(torch.ones(3, 3))
""",
    "wrong_call.py": """\
import torch

@torch.compile
def fn(x):
    y = torch.sin(x, x)
    return y

fn(torch.ones(3, 3))
""",
    "limit.py": """\
import torch

@torch.compile(dynamic=False, backend="eager")
def fn(x):
    return x + 1

for i in range(1, 10):
    fn(torch.ones(i))
print(torch._dynamo.config.recompile_limit, torch._dynamo.config.accumulated_recompile_limit)
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
    "traced.py": """\
import torch

def g(x, y):
    return x + y

@torch.compile(backend="eager")
def f(x):
    x = torch.sin(x)
    x = g(x, x)
    return x

f(torch.ones(3, 3))
""",
    "stopped.py": """\
import torch
from torch._dynamo.comptime import comptime

@torch.compile(backend="eager")
def f(x):
    y = x + 1
    comptime.breakpoint()
    y = y + 1
    return y

f(torch.ones(3, 3))
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
    "repro file": (f"{RUN} repro_file.py", 4),
    "record": (
        f"{RUN} recorded.py 2>&1 | tail -n 3; cutaway replay --show cutaway_repro/*.rec | head -n 6",
        12,
    ),
    "capture error": (f'TORCH_LOGS="+dynamo" {RUN} test_assertion_error.py 2>&1 | grep Step', 6),
    "levels": (f"{RUN} levels.py 2>&1 | head -n 12", 12),
    "backend error": (f"{RUN} test_backend_error.py 2>&1 | tail -n 4", 4),
    "repro": (
        f'TORCHDYNAMO_REPRO_AFTER="dynamo" {RUN} toy_compiler.py 2>&1 | grep "^cutaway: "\n'
        "python minifier_launcher.py 2>&1 | tail -n 1\n"
        "tail -n +9 repro.py",
        40,
    ),
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
    "terms": (
        f'TORCH_LOGS="guards,recompiles" {RUN} recompiled.py\n'
        f'TORCH_LOGS="dynamic,recompiles" {RUN} dynamic.py',
        20,
    ),
    "where": (f'TORCH_LOGS="recompiles" {RUN} train.py', 8),
    "wrong call": (f"{RUN} wrong_call.py 2>&1 | tail -n 1", 4),
    "limit": (f"{RUN} limit.py", 6),
    "traced": (f'TORCH_LOGS="trace_bytecode,trace_source,graph_code" {RUN} traced.py', 40),
    "stopped": (
        f"printf 'ctx.print_bt()\\nctx.print_locals()\\nctx.print_graph()\\nc\\n' | {RUN} stopped.py",
        20,
    ),
    "all logs": (
        f"TORCH_LOGS=+all {RUN} recompiled.py 2>&1 | grep -o '^\\[[a-z_]*\\]' | sort | uniq -c",
        30,
    ),
    "trace": (f"TORCH_TRACE=traces {RUN} guarded.py\nls traces\nhead -n 3 traces/*", 5),
    "graph breaks": (f'TORCH_LOGS="graph_breaks" {RUN} read_file.py data.py logging_functions.py', 50),
    "undefined": (f"{RUN} undefined.py 2>&1 | tail -n 5", 6),
    "constants": (f'TORCH_LOGS="recompiles" {RUN} constants.py', 20),
    "workarounds": (f"{RUN} workarounds.py", 20),
}
