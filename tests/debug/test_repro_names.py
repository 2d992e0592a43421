"""What the repro files of torch's guides import: such files, as they stand there, run; values are eager's.

Input: the guide's file of a graph that fails in lowering and that of a captured graph, and a module with weights.
"""

import numpy as np
import pytest

import cutaway
from cutaway.torch_api import as_torch, repro_names

LOWERED = """
import torch
from torch import tensor, device
import torch.fx as fx
from torch._dynamo.testing import rand_strided
from math import inf
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn import *

class Repro(torch.nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, add):
        relu = torch.ops.aten.relu.default(add);  add = None
        return (relu,)

args = [((200, 200), (200, 1), torch.float32, 'cpu')]
args = [rand_strided(shape, stride, dtype, device) for shape, stride, dtype, device in args]
mod = make_fx(Repro())(*args)
from torch._inductor.compile_fx import compile_fx_inner

compiled = compile_fx_inner(mod, args)
ref, res = Repro()(*args), compiled(*args)
"""
CAPTURED = """
import torch
import torch._dynamo as dynamo
from torch._dynamo.testing import rand_strided
from torch._dynamo.debug_utils import run_fwd_maybe_bwd

args = [((4, 6), (1, 4), torch.float32, 'cpu', True), ((6,), (2,), torch.float32, 'cpu', False)]
args = [rand_strided(sh, st, dt, dev).requires_grad_(rg) for (sh, st, dt, dev, rg) in args]

class Repro(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(6))

    def forward(self, x, y):
        return (torch.relu(x * self.w + y),)

mod = Repro()
opt_mod = dynamo.optimize("inductor")(mod)
with torch.cuda.amp.autocast(enabled=False):
    ref = run_fwd_maybe_bwd(mod, args)
    res = run_fwd_maybe_bwd(opt_mod, args)
"""


def ran(text):
    names = {"__name__": "repro"}
    with as_torch():
        exec(compile(text, "repro.py", "exec"), names)
    return names


def test_a_lowered_graph_s_file_runs_and_gives_eager_s_values():
    names = ran(LOWERED)
    np.testing.assert_array_equal(names["ref"][0].numpy(), names["res"][0].numpy())


def test_an_operator_that_is_not_there_is_named_as_in_the_guide():
    with pytest.raises(Exception, match="_foobar"):
        ran(LOWERED.replace("aten.relu", "aten._foobar"))


def test_a_captured_graph_s_file_runs_forward_and_backward():
    names = ran(CAPTURED)
    (x, y), ref, res = names["args"], names["ref"], names["res"]
    assert (x.stride(), y.stride()) == ((1, 4), (2,))
    assert x.grad is None  # the calls had copies
    for a, b in zip(
        (*ref[0], ref[1], ref[2]["w.grad"], ref[3][0]),
        (*res[0], res[1], res[2]["w.grad"], res[3][0]),
        strict=True,
    ):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6)
    assert ref[3][1] is res[3][1] is None


def test_make_fx_has_a_placeholder_for_each_argument_and_gives_the_function_s_form():
    w = cutaway.randn(3)

    def f(unused, b, a):
        return {"x": [a.sin() * b, w + a], "n": 3}

    args = [cutaway.randn(3) for _ in range(3)]
    graph = repro_names.make_fx(f)(*args)
    assert len(graph.graph.placeholders) == 3
    for run in (graph, repro_names.compile_fx_inner(graph, args)):
        found, wanted = run(*args), f(*args)
        assert found["n"] == 3
        for a, b in zip(found["x"], wanted["x"], strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


def test_rand_strided_lays_numbers_out_as_asked():
    zeros = repro_names.rand_strided((2, 3), (0, 2), cutaway.int64)
    assert (zeros.stride(), zeros.dtype, zeros.sum().item()) == ((0, 2), cutaway.int64, 0)
    assert repro_names.rand_strided((0, 2), (2, 1)).shape == (0, 2)
    with pytest.raises(ValueError, match="a stride for each size"):
        repro_names.rand_strided((2, 3), (1,))
