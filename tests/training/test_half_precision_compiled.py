"""Half precision through aot_eager: rounded where eager rounds, so that forward and gradients are bit for bit eager's.

Input: functions that compute in float32 inside, alone and one after another, on float16 and bfloat16.
"""

import numpy as np
import pytest
from cutaway.nn import functional as F

import cutaway

DTYPES = (cutaway.float16, cutaway.bfloat16)
LABELS = cutaway.tensor([0, 1, 2, 3])
FUNCTIONS = {
    "softmax": lambda x, w: F.softmax(x * 3, -1),
    "log_softmax": lambda x, w: F.log_softmax(x, 0),
    "logsumexp": lambda x, w: cutaway.logsumexp(x, -1),
    "layer_norm": lambda x, w: F.layer_norm(x, (6,)) * w,
    "group_norm": lambda x, w: F.group_norm(x.reshape(2, 4, 3), 2),
    "batch_norm": lambda x, w: F.batch_norm(x, None, None, training=True),
    "variance": lambda x, w: x.var(-1),
    "mean": lambda x, w: x.mean(0) * w,
    "sum": lambda x, w: (x * w).sum(0),
    "cumsum": lambda x, w: cutaway.cumsum(x, 1),
    "gelu": lambda x, w: F.gelu(x) + F.gelu(x, approximate="tanh"),
    "silu": lambda x, w: F.silu(x) * F.sigmoid(w),
    "matmul": lambda x, w: x @ x.transpose(0, 1),
    "linear": lambda x, w: F.linear(x, x, x[:, 0]),
    "cross_entropy": lambda x, w: F.cross_entropy(x, LABELS),
    "attention": lambda x, w: F.scaled_dot_product_attention(x, x * w, x),
    "a user's cast": lambda x, w: (x.float().sin().to(x.dtype) * w).float() * 1.1,
    "a chain": lambda x, w: F.softmax(F.layer_norm(F.gelu(x @ x.transpose(0, 1)), (4,)) * 2, -1) @ x * w,
}


def run(function, dtype):
    rng = np.random.default_rng(0)
    x, w = (cutaway.tensor(rng.normal(size=s), dtype=dtype, requires_grad=True) for s in ((4, 6), (6,)))
    out = function(x, w)
    (out.float() * cutaway.tensor(rng.normal(size=out.shape), dtype=cutaway.float32)).sum().backward()
    return [out.detach(), *(t.grad for t in (x, w) if t.grad is not None)]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_bits_are_eagers(name, dtype):
    compiled = cutaway.compile(FUNCTIONS[name], backend="aot_eager", fullgraph=True)
    for a, b in zip(run(compiled, dtype), run(FUNCTIONS[name], dtype), strict=True):
        assert a.dtype is b.dtype
        np.testing.assert_array_equal(a.float().numpy(), b.float().numpy())
