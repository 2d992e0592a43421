"""The programs of the guide "Frequently asked questions", and what each prints when the site is built.

Input: torch's guide of that name, whose questions the programs follow in its order. guide_page.py runs them.
"""

PROGRAMS = {
    "training.py": """\
import torch

model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
opt_model = torch.compile(model)
x, y = torch.randn(64, 8), torch.zeros(64, 1)

losses = []
for _ in range(10):
    optimizer.zero_grad()
    loss = torch.nn.functional.mse_loss(opt_model(x), y)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
print("the loss falls:", losses[-1] < losses[0])
""",
    "whole_graph.py": """\
import torch

model = torch.nn.Linear(4, 2)
opt_model = torch.compile(model, fullgraph=True)  # any graph break is an error
print(tuple(opt_model(torch.randn(3, 4)).shape))
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

explanation = dynamo.explain(toy_example)(torch.randn(10), torch.ones(10))
print(explanation)
""",
    "shapes.py": """\
import torch

@torch.compile(backend="eager")
def f(x):
    return x * 2

for rows in range(2, 8):
    f(torch.ones(rows))
print(f)
""",
    "memory.py": """\
import torch

torch._inductor.config.triton.cudagraphs = False  # whose memory stays
torch._functorch.config.activation_memory_budget = 0.0  # recompute, and save less for the backward

def net(x, w):
    for _ in range(6):
        x = (x @ w).sin()
    return x.sum()

w = torch.randn(16, 16, requires_grad=True)
torch.compile(net)(torch.ones(4, 16), w).backward()
print(tuple(w.grad.shape))
""",
    "functional.py": """\
import torch

@torch.compile
def wrapper_fn(x):
    return torch.func.grad(lambda x: x.sin().sum())(x)

x = torch.randn(2, 3)
print(torch.allclose(wrapper_fn(x), x.cos()))

# the other way round: a transform of a compiled function
@torch.compile
def f(x):
    return torch.sin(x)

def g(x):
    return torch.func.grad(lambda x: f(x).sum())(x)

print(torch.allclose(g(x), x.cos()))

# vmap, with a closure
@torch.compile(fullgraph=True)
def my_fn(x):
    y = torch.ones(3)
    return torch.vmap(lambda x: x.sum(1) + y)(x)

print(tuple(my_fn(torch.randn(3, 3, 3)).shape))

# what capture need not look into
def inner(x):
    return torch.func.vmap(torch.sum)(x)

torch._dynamo.allow_in_graph(inner)

@torch.compile(fullgraph=True)
def said_inside(x):
    return torch._dynamo.allow_in_graph(torch.vmap(torch.sum))(x)

print(tuple(said_inside(torch.randn(2, 3)).shape))

@torch.compile(fullgraph=True)
def outer(x):
    return inner(x) + 1

print(tuple(outer(torch.randn(2, 3)).shape))
""",
    "numpy_fn.py": """\
import numpy as np
import torch

@torch.compile
def numpy_fn(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    return np.sum(X[:, :, None] * Y[:, None, :], axis=(-2, -1))

X = np.random.randn(1024, 64)
Y = np.random.randn(1024, 64)
Z = numpy_fn(X, Y)
assert isinstance(Z, np.ndarray)
print(Z.dtype, Z.shape)

X, Y = X.astype(np.float32), Y.astype(np.float32)
with torch.device("cpu"):  # "cuda" on a GPU
    Z = numpy_fn(X, Y)
assert isinstance(Z, np.ndarray)
print(Z.dtype, Z.shape)
""",
    "numpy_gradient.py": """\
import numpy as np
import torch

@torch.compile(fullgraph=True)
@torch.compiler.wrap_numpy
def numpy_fn(X, Y):
    return np.mean(np.sum(X[:, :, None] * Y[:, None, :], axis=(-2, -1)))

X = torch.randn(1024, 64, device="cpu", requires_grad=True)
Y = torch.randn(1024, 64, device="cpu")
Z = numpy_fn(X, Y)
assert isinstance(Z, torch.Tensor)
Z.backward()
print(tuple(X.grad.shape))

@torch.compile
@torch.compiler.wrap_numpy
def numpy_fn(X, Y):
    prod = X[:, :, None] * Y[:, None, :]
    print("oops, a graph break!")
    return np.sum(prod, axis=(-2, -1))

X = torch.randn(1024, 64, device="cpu")
Y = torch.randn(1024, 64, device="cpu")
with torch.device("cpu"):
    Z = numpy_fn(X, Y)
assert isinstance(Z, torch.Tensor)
print(tuple(Z.shape), Z.device.type)
""",
    "numpy_eager.py": """\
import torch
import torch._numpy as np  # in place of: import numpy as np

def numpy_fn(X, Y):
    products = X[:, :, None] * Y[:, None, :]
    print(type(products).__name__, products.shape)  # a debugger can stop here
    return np.sum(products, axis=(-2, -1))

Z = numpy_fn(np.ones((4, 3)), np.asarray(torch.ones(4, 3)))
print(Z, Z.tensor.dtype)

# or leave NumPy's functions to NumPy
import numpy
torch._dynamo.config.trace_numpy = False
doubled = torch.compile(lambda x: numpy.add(x, x))
print(doubled(numpy.ones(2)), "graph:", doubled.artifacts[0].captured)
""",
    "fine_grain.py": """\
import torch
import torch._dynamo

torch._dynamo.disallow_in_graph(torch.sub)

@torch.compile(backend="eager")
def fn(a):
    x = torch.add(a, 1)
    x = torch.sub(x, 1)
    x = torch.add(x, 1)
    return x

print("disallow_in_graph:", torch._dynamo.explain(fn)(torch.ones(2)).graph_count, "graphs")

def my_custom_function(x):
    return x.sin()

torch.compiler.allow_in_graph(my_custom_function)

@torch.compile(fullgraph=True)
def fn(a):
    x = torch.add(a, 1)
    x = my_custom_function(x)
    return torch.add(x, 1)

print("allow_in_graph:", fn(torch.zeros(2)))

@torch.compiler.disable(recursive=False)
def only_this(x):
    return x + 1

@torch.compiler.disable
def with_all_it_calls(x):
    return only_this(x)

print("disable:", torch.compile(lambda x: with_all_it_calls(x) * 2)(torch.ones(2)))

def broken(x):
    x = x.sin()
    torch._dynamo.graph_break()
    return x.cos()

print("graph_break:", torch._dynamo.explain(broken)(torch.ones(2)).graph_break_count)

@torch.compiler.assume_constant_result
def setting():
    return 3

print("assume_constant_result:", torch.compile(lambda x: x * setting(), fullgraph=True)(torch.ones(2)))

# what is compiled stays, nothing more is compiled; the function may be compiled elsewhere
def plain(x):
    return x.sin() + 1

compiled = torch.compile(plain)
compiled(torch.zeros(2))
only_run = torch._dynamo.run(plain)
print("run:", only_run(torch.zeros(2)), only_run(torch.zeros(5)).shape, compiled)
""",
}

RUN = "python on_cutaway.py"
SHOWN = {
    "training": (f"{RUN} training.py whole_graph.py", 5),
    "shapes": (
        f"TORCH_LOGS=recompiles {RUN} shapes.py\nTORCHDYNAMO_DYNAMIC_SHAPES=0 {RUN} shapes.py",
        10,
    ),
    "breaks": (f"{RUN} toy_example.py", 25),
    "memory": (f"TORCHDYNAMO_DYNAMIC_SHAPES=0 {RUN} memory.py", 5),
    "functional": (f"{RUN} functional.py", 10),
    "numpy": (f"{RUN} numpy_fn.py numpy_gradient.py numpy_eager.py", 10),
    "fine grain": (f"{RUN} fine_grain.py", 12),
}
