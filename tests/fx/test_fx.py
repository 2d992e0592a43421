"""torch.fx without torch: passes over graphs, interpreters, your own tracers, copies, and backends written for it.

Input: modules() of cutaway.torch_api.
"""

import copy
import operator
import pickle
import threading

import numpy as np
import pytest

from cutaway.torch_api import torch
from tests.fx.programs import PROGRAMS, inputs_of

fx, nn = torch.fx, torch.nn


def twice_relu(x):
    return torch.relu(x) + torch.relu(x) * 2


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

    def forward(self, x):
        return self.inner(x).relu()


# ---- edits and checks ----------------------------------------------------------------------------------------------


def test_a_pass_replaces_calls():
    module = fx.symbolic_trace(twice_relu)
    for node in module.graph.nodes:
        if node.target is torch.relu:
            with module.graph.inserting_after(node):
                new = module.graph.call_function(torch.abs, node.args, node.kwargs)
            node.replace_all_uses_with(new)
            module.graph.erase_node(node)
    module.graph.lint()
    before = module(torch.tensor([-1.0])).tolist()
    module.recompile()
    assert before == [0] and module(torch.tensor([-1.0])).tolist() == [3]
    assert [n.target for n in module.graph.nodes if n.op == "call_function"] == [
        torch.abs,
        torch.abs,
        operator.mul,
        operator.add,
    ]


def test_the_rules_of_a_graph():
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(torch.relu, (x,))
    graph.output(y)
    assert list(x.users) == [y] and y.all_input_nodes == [x] and y.next.op == "output" and x.prev is None
    with pytest.raises(RuntimeError, match="still had 1 users"):
        graph.erase_node(x)
    graph.lint()
    y.append(x)
    with pytest.raises(RuntimeError, match="'x' of Node 'relu' was used before it has been defined"):
        graph.lint()
    y.prepend(x)
    graph.call_module("nowhere", (x,))
    with pytest.raises(RuntimeError, match="no such attribute was provided"):
        fx.GraphModule({}, graph)
    with pytest.raises(ValueError, match="must be callable"):
        graph.call_function("relu", (x,))
    with pytest.raises(AssertionError, match="a node's op is one of"):
        graph.create_node("call", torch.relu)


def test_dead_calls_go_and_effects_stay():
    module = fx.symbolic_trace(lambda x: (x.exp(), x.add_(1), torch._assert(x, "m"), x * 2)[-1])
    assert module.graph.eliminate_dead_code()
    assert [n.name for n in module.graph.nodes] == ["x", "add_", "_assert", "mul", "output"]


def test_a_graph_is_shown(capsys):
    module = fx.symbolic_trace(twice_relu)
    module.graph.print_tabular()
    table = capsys.readouterr().out
    assert (
        table.split("\n")[0].split() == ["opcode", "name", "target", "args", "kwargs"]
        and "<function torch.relu>" in table
    )
    assert "%relu_1 : [num_users=1] = call_function[target=torch.relu](args = (%x,), kwargs = {})" in str(
        module.graph
    )
    assert "relu = torch.relu(x)" in str(module)


# ---- interpreters and tracers --------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_an_interpreter_gives_what_the_module_gives(program):
    traced, shapes = program(torch)
    module = fx.symbolic_trace(traced)
    inputs = inputs_of(torch, shapes)
    if program.__name__ == "stars":
        inputs = [inputs[0], inputs[1]]
        module = fx.symbolic_trace(lambda x, y: x + y)
    found, wanted = fx.Interpreter(module).run(*inputs), module(*inputs)
    again = fx.Transformer(module).transform()(*inputs)
    assert str(found) == str(wanted) == str(again)


def test_a_transformer_makes_other_calls():
    class NoRelu(fx.Transformer):
        def call_function(self, target, args, kwargs):
            return args[0] if target is torch.relu else super().call_function(target, args, kwargs)

    new = NoRelu(fx.symbolic_trace(twice_relu)).transform()
    assert new(torch.tensor([-1.0])).tolist() == [-3]
    with pytest.raises(RuntimeError, match="Expected positional argument for parameter x") as told:
        fx.Interpreter(new).run()
    assert "While executing %x" in str(told.value.__notes__)


def test_a_tracer_of_ones_own():
    class Whole(fx.Tracer):
        def is_leaf_module(self, m, module_qualified_name):
            return isinstance(m, nn.Sequential) or super().is_leaf_module(m, module_qualified_name)

    net = Net().eval()
    graph = Whole().trace(net)
    assert [n.target for n in graph.nodes if n.op == "call_module"] == ["inner"]
    x = torch.randn(4, 3)
    assert torch.equal(fx.GraphModule(net, graph)(x), net(x))
    assert [n.target for n in fx.Tracer().trace(net).nodes if n.op == "call_module"] == ["inner.0", "inner.1"]


@fx.wrap
def helper(x, n):
    return x * n if n > 1 else x


def test_wrapped_functions_are_one_node():
    module = fx.symbolic_trace(lambda x: helper(x, 3) + 1)
    assert [n.target for n in module.graph.nodes if n.op == "call_function"][0] is helper
    assert (
        module(torch.ones(1)).tolist() == [4] and helper(1, 2) == 2 and not fx._symbolic_trace.is_fx_tracing()
    )
    with pytest.raises(NotImplementedError, match="top level of a module"):
        fx.wrap("len")


def test_proxies_append_to_a_graph():
    graph = fx.symbolic_trace(lambda x: torch.nn.functional.gelu(x)).graph
    new, made = fx.Graph(), {}
    tracer = fx.proxy.GraphAppendingTracer(new)
    for node in graph.nodes:
        if node.op == "call_function":
            x = fx.Proxy(made[node.args[0]], tracer)
            made[node] = (torch.relu(x) * x + torch.nn.functional.silu(x)).node
        else:
            made[node] = new.node_copy(node, made.__getitem__)
    x = torch.tensor([2.0])
    assert fx.GraphModule({}, new)(x).tolist() == (torch.relu(x) * x + torch.nn.functional.silu(x)).tolist()


def test_a_trace_leaves_other_threads_alone():
    """What a trace replaces is the whole process's; another thread still gets values."""
    net, results = Net().eval(), []

    def forward(x):
        other = threading.Thread(
            target=lambda: results.append(net(torch.ones(1, 3)) + torch.nn.functional.relu(torch.ones(3)))
        )
        other.start(), other.join()
        return x + 1

    fx.symbolic_trace(forward)
    assert isinstance(results[0], torch.Tensor)


# ---- copies --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "again",
    [copy.deepcopy, copy.copy, lambda m: pickle.loads(pickle.dumps(m))],
    ids=["deep", "shallow", "pickle"],
)
def test_a_copy_is_a_module_of_its_own(again):
    module = fx.symbolic_trace(Net().eval())
    twin, x = again(module), torch.randn(2, 3)
    assert type(twin) is not type(module) and torch.equal(twin(x), module(x)) and twin.code == module.code
    next(n for n in twin.graph.nodes if n.op == "call_method").target = "neg"
    twin.recompile()
    assert torch.equal(module(x), module(x).relu()) and not torch.equal(twin(x), module(x))


def test_submodules_come_and_go():
    module = fx.symbolic_trace(Net())
    assert module.add_submodule("a.b", nn.Linear(1, 1)) and not module.add_submodule(
        "a.b.weight.c", nn.ReLU()
    )
    module.delete_all_unused_submodules()
    assert [name for name, _ in module.named_modules()] == ["", "inner", "inner.0", "inner.1"]
    assert module.delete_submodule("inner.1") and not module.delete_submodule("inner.1")


# ---- with the compiler -----------------------------------------------------------------------------------------------


def f(x, y):
    return torch.relu(x @ y) + x.sum() * 2


SEEDED = torch.Generator().manual_seed(0)  # the same inputs whatever ran before
INPUTS = [tuple(torch.randn(n, n, generator=SEEDED) for _ in range(2)) for n in (3, 4)]


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_a_backend_edits_what_it_gets(backend, dynamic, capsys):
    """torch's documentation: print the table, change calls, lint, recompile, and return forward or hand it on."""

    def mine(gm: fx.GraphModule, example_inputs):
        assert isinstance(gm, fx.GraphModule) and isinstance(gm, nn.Module) and isinstance(gm.graph, fx.Graph)
        gm.graph.print_tabular()
        for node in gm.graph.nodes:
            if node.op == "call_function" and node.target is torch.relu:
                with gm.graph.inserting_after(node):
                    new = gm.graph.call_method("clamp", (node.args[0],), {"max": 0.5})
                    new.meta = {}
                node.replace_all_uses_with(new)
                gm.graph.erase_node(node)
        gm.graph.lint()
        gm.recompile()
        if backend == "eager":
            return gm.forward
        return torch._dynamo.lookup_backend(backend)(gm, example_inputs)

    compiled = torch.compile(f, backend=mine, dynamic=dynamic)
    for x, y in INPUTS:
        assert torch.allclose(compiled(x, y), (x @ y).clamp(max=0.5) + x.sum() * 2, atol=1e-6)  # may cancel
    assert "placeholder" in capsys.readouterr().out


def test_a_backend_interprets_what_it_gets():
    counts = []

    class Count(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            counts.append(target)
            return super().call_function(target, args, kwargs)

    compiled = torch.compile(f, backend=lambda gm, example_inputs: Count(gm).run)
    x, y = INPUTS[0]
    assert torch.allclose(compiled(x, y), f(x, y)) and torch.relu in counts


def test_a_traced_module_is_compiled():
    net = Net().eval()
    x = torch.randn(2, 3)
    compiled = torch.compile(fx.symbolic_trace(net), fullgraph=True, backend="aot_eager")
    assert np.allclose(compiled(x).detach().numpy(), net(x).detach().numpy(), atol=1e-6)
