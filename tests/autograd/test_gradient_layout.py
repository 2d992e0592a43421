"""A new `.grad` lies in memory as its leaf does, by rows where the leaf has gaps: torch's "gradient layout contract".

Input: leaves of many layouts, and functions whose gradients come turned. Before, a linear layer's `weight.grad.view(-1)`
raised: the gradient of what was turned came turned.
"""

import pytest
from cutaway.nn import functional as F

import cutaway

LEAVES = {  # how a leaf is made, and the strides of its gradient
    "by rows": (lambda: cutaway.randn(3, 4), (4, 1)),
    "by columns": (lambda: cutaway.randn(4, 3).t(), (1, 3)),
    "channels last": (lambda: cutaway.randn(2, 4, 5, 3).permute(0, 3, 1, 2), (60, 1, 15, 3)),
    "with gaps": (lambda: cutaway.randn(6, 4)[::2], (4, 1)),
    "expanded": (lambda: cutaway.randn(1, 4).expand(3, 4), (4, 1)),
    "empty": (lambda: cutaway.randn(0, 3), (3, 1)),
    "of one size 1": (lambda: cutaway.randn(3, 1, 4), (4, 4, 1)),
}
FUNCTIONS = {
    "sum": lambda x: x.sum(),
    "turned": lambda x: (x.transpose(0, -1).contiguous() * 2).sum(),
    "flat": lambda x: x.reshape(-1).exp().sum(),
    "a weight": lambda x: F.linear(cutaway.ones(5, x.shape[-1]), x.reshape(-1, x.shape[-1])).sum(),
    "two uses": lambda x: x.transpose(0, -1).exp().sum() + x.sum(),
}


WAYS = {  # how the backward of a function of x is run
    "eager": lambda function: lambda x: function(x).backward(),
    "compiled": lambda function: lambda x: cutaway.compile(function)(x).backward(),
    "inside": lambda function: cutaway.compile(lambda x: function(x).backward()),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("leaf", LEAVES)
def test_a_gradient_lies_as_its_leaf(leaf, function, way):
    make, wanted = LEAVES[leaf]
    x = make().detach().requires_grad_()
    WAYS[way](FUNCTIONS[function])(x)
    assert x.grad.stride() == wanted


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_layers_gradients_are_flat(compiled):
    layer = cutaway.nn.Linear(8, 4)
    run = cutaway.compile(layer) if compiled else layer
    run(cutaway.randn(2, 3, 8)).sum().backward()
    assert layer.weight.grad.view(-1).shape == (32,)


@pytest.mark.parametrize("mode", [cutaway.no_grad, cutaway.inference_mode])
def test_a_leaf_that_has_another_shape_by_now(mode):
    """As in torch the gradient has that shape; one that lay in another order met an error (seed 11846 of fuzz-kernels)."""
    leaf, weights = cutaway.ones(2, 3, requires_grad=True), cutaway.arange(6.0).reshape(3, 2)
    out = leaf.t() * weights
    with mode():
        leaf.unsqueeze_(0)
    out.sum().backward()
    assert leaf.grad.tolist() == [weights.t().tolist()]
