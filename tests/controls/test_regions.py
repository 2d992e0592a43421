"""torch.compiler.nested_compile_region: equal blocks are one set of kernels, and the results stay eager's.

Input: models of blocks whose forward is marked. The kernels are counted in the artifacts. A call that cannot be a graph
of its own is followed as if there were no mark, which a fallback event says.
"""

import re

import numpy as np
import pytest

from cutaway.torch_api import torch
from stage0_eager.control_flow.operators import INVOKE_SUBGRAPH
from stage_contracts.events import EVENT_LOG

nn, F = torch.nn, torch.nn.functional
region = torch.compiler.nested_compile_region
BACKENDS = ("eager", "aot_eager", "inductor")
SIZE, HEADS = 16, 2


class Block(nn.Module):
    """A transformer's block."""

    def __init__(self):
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(SIZE), nn.LayerNorm(SIZE)])
        self.qkv, self.out = nn.Linear(SIZE, 3 * SIZE), nn.Linear(SIZE, SIZE)
        self.up, self.down = nn.Linear(SIZE, 4 * SIZE), nn.Linear(4 * SIZE, SIZE)

    @region
    def forward(self, x):
        rows, length, _ = x.shape
        parts = self.qkv(self.norms[0](x)).split(SIZE, -1)
        q, k, v = (t.view(rows, length, HEADS, SIZE // HEADS).transpose(1, 2) for t in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
        x = x + self.out(mixed.reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class Blocks(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.first, self.blocks = nn.Linear(SIZE, SIZE), nn.ModuleList([Block() for _ in range(count)])

    def forward(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return x.square().mean()


def model_of(count):
    torch.manual_seed(0)
    return Blocks(count), torch.randn(2, 5, SIZE)


def regions_in(graph):
    """How often the graph calls a region, and how many regions it has."""
    calls = [node for node in graph.calls if node.target is INVOKE_SUBGRAPH]
    return len(calls), len({node.args[0].target for node in calls})


def kernels_of(model, x, backward):
    """The kernels of the compiled model, as (half, subgraph, kernel)."""
    compiled = torch.compile(model, fullgraph=True)
    with torch.set_grad_enabled(backward):
        loss = compiled(x)
    if backward:
        loss.backward()
    return kernels_in(compiled)


def kernels_in(compiled):
    made = compiled.compiled.artifacts[-1]
    halves = [half for half in (made.forward, made.backward) if half is not None]
    parts = [(half.core.name, name, part) for half in halves for name, part in half.subgraphs.items()]
    programs = [(half.core.name, "", half) for half in halves] + parts
    return [
        (which, name, kernel)
        for which, name, half in programs
        for kernel in half.emitted[half.target.name].kernels
    ]


@pytest.mark.parametrize("backward", [False, True], ids=["forward", "with_gradients"])
def test_24_equal_blocks_are_one_set_of_kernels(backward):
    one, many = (kernels_of(*model_of(count), backward) for count in (1, 24))
    inside = [kernel for kernel in many if kernel[1]]
    assert inside == [kernel for kernel in one if kernel[1]]
    assert len(inside) > 2
    # what is left outside: the first layer, the loss, and their gradients
    assert len(many) - len(inside) == len(one) - len(inside)


@pytest.mark.parametrize("backend", BACKENDS)
def test_results_and_gradients_are_those_of_eager(backend):
    model, x = model_of(3)
    wanted = model(x)
    wanted.backward()
    gradients = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    compiled = torch.compile(model, backend=backend, fullgraph=True)
    for _ in range(2):
        model.zero_grad()
        loss = compiled(x)
        loss.backward()
    assert regions_in(compiled.compiled.artifacts[-1].captured) == (3, 1)
    np.testing.assert_allclose(loss.item(), wanted.item(), rtol=1e-5)
    for p, g in zip(model.parameters(), gradients, strict=True):
        np.testing.assert_allclose(p.grad.numpy(), g.numpy(), rtol=1e-4, atol=1e-6)


# ---- what a region may be --------------------------------------------------------------------------------------------

w, b = torch.randn(4, 4), torch.randn(4)


@region
def layer(x, weight, *, scale=1.0, both=False):
    y = torch.tanh(x @ weight) * scale
    return (y, {"sum": y.sum(0)}, None) if both else y


@region
def outer(x, weight):
    return layer(layer(x, weight), weight) + x


@region
def with_blocks(x):
    with torch.no_grad():
        y = x.sin()
    return x * y


@region
def gives_the_gradient_on(x, bias):
    return x + bias


@region
def transposes(x, weight):
    return (x @ weight).T.contiguous()


@region
def writes_its_own(x):
    y = x * 2
    y += 1
    y[0] = 0
    return y


ONE_GRAPH = {
    "calls_with_words": (lambda x: layer(layer(x, w, scale=2.0), w, scale=2.0), (2, 1)),
    "other_constants": (lambda x: layer(layer(x, w, scale=2.0), w, scale=3.0), (2, 2)),
    "a_tree_of_results": (lambda x: [*layer(x, w, both=True)[:2], layer(x, w, both=True)[2]], (2, 1)),
    "inside_each_other": (lambda x: outer(outer(x, w), w), (2, 1)),
    "no_grad_inside": (lambda x: with_blocks(with_blocks(x)), (2, 1)),
    "a_gradient_passed_on": (lambda x: gives_the_gradient_on(gives_the_gradient_on(x, b), b), (2, 1)),
    "another_layout_given": (lambda x: layer(layer(x, w).T, w), (2, 2)),
    "results_made_row_major": (lambda x: transposes(transposes(x, w), w), (2, 1)),
    "writes_to_what_it_made": (lambda x: writes_its_own(writes_its_own(x)), (2, 1)),
    "another_dtype": (lambda x: layer(x, w).double() + layer(x.double(), w.double()), (2, 2)),
    "written_to_outside": (lambda x: layer(layer(x, w).mul_(2).add_(x), w), (2, 1)),
    "under_no_grad": (torch.no_grad()(lambda x: layer(layer(x, w), w)), (2, 2)),  # x requires grad
    "twice_on_the_same": (lambda x: layer(x, w) + layer(x, w), (2, 1)),
}


def results_of(function, x):
    out = function(x)
    leaves = [t for t in torch.utils._pytree.tree_leaves(out) if t is not None]
    wanting = [t.sum() for t in leaves if t.requires_grad]
    if wanting:
        sum(wanting).backward()
    grad, x.grad = x.grad, None
    return [t.detach().numpy() for t in (*leaves, *([] if grad is None else [grad]))]


def compare(function, backend, size=4):
    x = torch.randn(size, 4, requires_grad=True)
    wanted = results_of(function, x)
    compiled = torch.compile(function, backend=backend, fullgraph=True)
    found = results_of(compiled, x)
    assert len(found) == len(wanted)
    for a, e in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, e, rtol=1e-5, atol=1e-6)
        assert a.strides == e.strides
    return compiled.artifacts[-1].captured


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("name", ONE_GRAPH)
def test_a_region(name, backend):
    function, count = ONE_GRAPH[name]
    assert regions_in(compare(function, backend)) == count


def test_a_gradient_only_where_one_is_wanted():
    frozen, free = torch.randn(4, 4), torch.randn(4, 4, requires_grad=True)
    compiled = torch.compile(lambda x: layer(layer(x, frozen), free), backend="inductor", fullgraph=True)
    compiled(torch.randn(3, 4)).sum().backward()
    joint = compiled.artifacts[-1].joint.graph
    assert regions_in(joint) == (3, 3)  # the first is never walked back through
    assert free.grad is not None


# ---- what cannot be one ----------------------------------------------------------------------------------------------

seen = []
state = torch.zeros(4)


def _inlined(name, reason):
    def register(function):
        INLINED[name] = region(function), reason
        return function

    return register


INLINED = {}


@_inlined("random_numbers", "draws random numbers")
def drops(x):
    return F.dropout(x, 0.5) * 2


@_inlined("a_side_effect", "side effect|must not|changed")
def notes(x):
    seen.append(1)
    return x.sin()


@_inlined("a_write_to_an_argument", "side effect")
def writes(x):
    state.add_(1)
    return x * state


@_inlined("the_argument_itself", "an argument, or a view")
def gives_back(x):
    x.sin()
    return x


@_inlined("a_view_of_the_argument", "an argument, or a view")
def turned(x):
    return x.cos().sin() if x.shape[0] == 7 else x[1:]


@_inlined("results_that_share", "share memory")
def halves(x):
    y = x.sin()
    return y[:1], y[1:]


@_inlined("not_row_major", "row-major")
def columns(x):
    return x.sin().T


@_inlined("another_object", "returns")
def wrapped(x):
    return iter([x.sin()])


@pytest.mark.parametrize("name", INLINED)
def test_what_cannot_be_a_region_is_inlined(name):
    function, reason = INLINED[name]

    def calls(x):
        out = function(x * 1)
        return list(out) if name == "another_object" else out

    seen.clear()
    state.zero_()
    mark = EVENT_LOG.mark()
    torch.manual_seed(3)
    x = torch.randn(3, 4)
    compiled = torch.compile(calls, backend="eager", fullgraph=True)
    found = compiled(x)
    told = [event for event in EVENT_LOG.since(mark, "fallback") if event.name == "region"]
    assert len(told) == 1
    assert re.search(reason, told[0].details["reason"]), told[0].details["reason"]
    assert regions_in(compiled.artifacts[-1].captured) == (0, 0)
    once = list(seen), state.tolist()
    seen.clear()
    state.zero_()
    torch.manual_seed(3)
    torch.randn(3, 4)
    wanted = calls(x)
    assert once == (seen, state.tolist())
    for a, e in zip(*(torch.utils._pytree.tree_leaves(out) for out in (found, wanted)), strict=True):
        assert a.tolist() == e.tolist()


def test_a_break_inside_is_a_break():
    @region
    def breaks(x):
        torch._dynamo.graph_break()
        return x.sin()

    compiled = torch.compile(lambda x: breaks(x) + 1, backend="eager")
    x = torch.randn(3)
    assert compiled(x).tolist() == (x.sin() + 1).tolist()


def test_open_sizes_are_inlined():
    compiled = torch.compile(lambda x: layer(layer(x, w), w), backend="eager", dynamic=True, fullgraph=True)
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        assert compiled(x).tolist() == layer(layer(x, w), w).tolist()
    assert len(compiled.artifacts) == 1
