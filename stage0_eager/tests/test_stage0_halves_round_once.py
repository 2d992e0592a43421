"""Composites that are one kernel in torch compute halves in float32 and round once: forward to the bit, gradients nearly.

Input: 4,096 halves for each function and dtype. The oracle is the same function of the same numbers in float32, rounded.
"""

import numpy as np
import pytest

from stage0_eager import Tensor
from stage0_eager.autograd.backward_pass import grad
from stage0_eager.functions import pointwise as P
from stage0_eager.functions import pointwise_composed as C
from stage0_eager.functions.linalg import products
from stage0_eager.nn import functional as F
from stage_contracts import dtype as dt

RNG = np.random.default_rng(0)
NUMBERS = [RNG.standard_normal((64, 64)).astype(np.float32) * scale for scale in (3, 2)]
NUMBERS.append(RNG.random((64, 64)).astype(np.float32) + 0.5)
ROUND_ONCE = {
    **{name: lambda x, y, z, name=name: getattr(F, name)(x)
       for name in ("gelu", "silu", "mish", "hardswish", "hardsigmoid", "logsigmoid", "softplus", "glu",
                    "elu", "selu", "celu")},
    "gelu by tanh": lambda x, y, z: F.gelu(x, approximate="tanh"),
    "elu with alpha": lambda x, y, z: F.elu(x, 0.3),
    "celu with alpha": lambda x, y, z: F.celu(x, 0.7),
    "softmax": lambda x, y, z: F.softmax(x, -1),
    "softmax of columns": lambda x, y, z: F.softmax(x, 0),
    "log_softmax": lambda x, y, z: F.log_softmax(x, -1),
    "layer norm": lambda x, y, z: F.layer_norm(x, (64,), y[0], z[0]),
    "rms norm": lambda x, y, z: F.rms_norm(x, (64,)),
    "rms norm with weights": lambda x, y, z: F.rms_norm(x, (64,), y[0]),
    "hypot": lambda x, y, z: C.hypot(x, y),
    "logaddexp": lambda x, y, z: C.logaddexp(x, y),
    "logaddexp2": lambda x, y, z: C.logaddexp2(x, y),
    "lerp": lambda x, y, z: P.lerp(x, y, 0.3),
    "addcmul": lambda x, y, z: P.addcmul(x, y, z, value=0.3),
    "addcdiv": lambda x, y, z: P.addcdiv(x, y, z, value=0.3),
    "linear": lambda x, y, z: F.linear(x, y, z[0]),
    "linear in three dimensions": lambda x, y, z: F.linear(x.reshape(8, 8, 64), y, z[0]).reshape(64, 64),
    "addmm": lambda x, y, z: products.addmm(z[0], x, y),
    "conv2d": lambda x, y, z: F.conv2d(x.reshape(1, 4, 32, 32), z[:, :4, None, None], y[0]).reshape(-1, 64)[:64],
    "attention": lambda x, y, z: F.scaled_dot_product_attention(x, y, z, is_causal=True),
    "attention with a mask": lambda x, y, z: F.scaled_dot_product_attention(x, y, z, attn_mask=y),
    "smooth l1": lambda x, y, z: F.smooth_l1_loss(x, y, "none"),
    "huber": lambda x, y, z: F.huber_loss(x, y, "none"),
    "binary cross entropy of logits": lambda x, y, z: F.binary_cross_entropy_with_logits(x, z, y[0], "none"),
    "mean": lambda x, y, z: x[:, :33].mean(1, keepdim=True).expand(64, 64),
}  # fmt: skip


def result_and_gradients(function, tensors):
    leaves = [t.detach().requires_grad_() for t in tensors]
    out = function(*leaves)
    (out * tensors[1][: out.shape[0], : out.shape[1]]).sum().backward()
    return [t.to(dt.float64).detach().numpy() for t in (out, *(x.grad for x in leaves if x.grad is not None))]


@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16], ids=["float16", "bfloat16"])
@pytest.mark.parametrize("name", ROUND_ONCE)
def test_a_result_is_the_rounded_float32(name, dtype):
    halves = [Tensor(x).to(dtype) for x in NUMBERS]
    got = result_and_gradients(ROUND_ONCE[name], halves)
    exact = result_and_gradients(ROUND_ONCE[name], [x.to(dt.float32) for x in halves])
    once = [Tensor(x).to(dtype).to(dt.float64).numpy() for x in exact]
    assert np.array_equal(got[0], once[0])
    for mine, rounded, wanted in zip(got[1:], once[1:], exact[1:], strict=True):
        unit = (
            np.abs(rounded - wanted).mean()
            + 2.0 ** (-11 if dtype is dt.float16 else -8) * np.abs(wanted).mean()
        )
        assert np.abs(mine - wanted).mean() <= 2 * unit


@pytest.mark.parametrize("shape", [(5, 7), (2, 3, 7), (0, 7), (1, 7), (2, 0, 7)])
@pytest.mark.parametrize("dtype", [dt.float16, dt.bfloat16], ids=["float16", "bfloat16"])
def test_linear_in_one_step_is_linear_by_operators(dtype, shape):
    leaves = [Tensor(RNG.standard_normal(s).astype(np.float32)).to(dtype) for s in (shape, (4, 7), (4,))]
    leaves = [x.requires_grad_() for x in leaves]
    found = []
    for function in (F.linear, products._linear_in_float32):
        out = function(*leaves)
        found.append([out, *grad([out], leaves, [Tensor(np.full(out.shape, 0.3)).to(dtype)])])
    for one, other in zip(*found, strict=True):
        assert one.dtype is other.dtype and one.meta.strides == other.meta.strides
        assert np.array_equal(*(x.detach().to(dt.float64).numpy() for x in (one, other)))


def test_linear_of_halves_refuses_as_by_operators():
    x, w, b = (Tensor(np.ones(s)).to(dt.bfloat16) for s in ((2, 3), (2, 4), (2,)))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        F.linear(x, w, b)
