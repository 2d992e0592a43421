"""torch.ops.aten: calls with overloads, as graphs and kernels' authors write them, beside torch and captured.

Input: the operands of call_forms.py; each call is Python on `aten` and them.
"""

import pytest

import cutaway
from cutaway.torch_api import modules
from tests.torch_names.call_forms import OPERANDS
from tests.torch_names.name_samples import difference, run

ours = modules()["torch"]
CALLS = """
add.Tensor(x, y) ; add.Tensor(x, y, alpha=2) ; add.Scalar(x, 2) ; mul.Scalar(x, 2) ; sub.Tensor(x, y) ; div.Tensor_mode(x, y, rounding_mode='floor')
relu.default(x - 0.5) ; sum.dim_IntList(x, [1], True) ; sum.default(i) ; mean.dim(x, [0]) ; amax.default(x, [1]) ; var.correction(x, [1], correction=1)
view.default(x, [2, 6]) ; expand.default(v, [3, 4]) ; permute.default(p, [2, 0, 1]) ; t.default(x) ; transpose.int(x, 0, 1)
slice.Tensor(x, 1, 1, 4, 2) ; select.int(x, 1, 2) ; index.Tensor(x, [k]) ; index.Tensor(x, [None, k]) ; cat.default([x, y], 1) ; stack.default([x, y])
split.Tensor(x, 2, 1) ; unsqueeze.default(x, 1) ; squeeze.dim(x[:1], 0) ; clone.default(x) ; _to_copy.default(x, dtype=torch.float64)
mm.default(m, w) ; addmm.default(w, w, m) ; bmm.default(p, q) ; convolution.default(image, torch.ones(3, 4, 2, 2), u, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
convolution.default(line, torch.ones(4, 3, 2), None, [2], [0], [1], True, [1], 1) ; embedding.default(x, i) ; where.self(b, x, y) ; full.default([2, 3], 0.5)
_softmax.default(x, 1, False) ; _log_softmax.default(x, 1, False) ; softmax.int(x, 1) ; gelu.default(x) ; sigmoid.default(x) ; pow.Tensor_Scalar(x, 2)
native_layer_norm.default(x, [4], v, v, 1e-5) ; native_group_norm.default(image, v, v, 2, 4, 64, 2, 1e-5) ; native_batch_norm.default(x, v, v, v.clone(), v.clone(), True, 0.1, 1e-5)
native_dropout.default(x, 0.5, False) ; max_pool2d_with_indices.default(image, [2, 2]) ; constant_pad_nd.default(x, [1, 2], 3.0) ; reflection_pad2d.default(image, [1, 2, 0, 1])
upsample_nearest2d.default(image, [5, 7]) ; upsample_bilinear2d.default(image, [5, 7], False) ; upsample_bicubic2d.default(image, [5, 7], True)
threshold_backward.default(y, x - 0.5, 0) ; gelu_backward.default(y, x) ; silu_backward.default(y, x) ; tanh_backward.default(y, x) ; sigmoid_backward.default(y, x)
mse_loss_backward.default(s, x, y, 1) ; leaky_relu_backward.default(y, x - 0.5, 0.1, False) ; hardtanh_backward.default(y, x, 0.2, 0.6)
scatter_add.default(x, 0, i, y) ; gather.default(x, 1, i) ; index_put.default(x, [k], v) ; topk.default(x, 2) ; sort.stable(x, stable=True) ; arange.start_step(0, 9, 2)
linalg_inv_ex.default(m) ; special_erfcx.default(x) ; add_.Tensor(x, y) ; relu_.default(x - 0.5) ; fill.Scalar(x, 0.5) ; sym_size.int(x, 1) ; adaptive_max_pool2d.default(image, [2, 2])
"""
SAMPLES = [
    f"torch.ops.aten.{call.strip()}" for line in CALLS.strip().splitlines() for call in line.split(" ; ")
]


@pytest.mark.parametrize("sample", SAMPLES)
def test_it_is_what_torch_gives(sample):
    torch = pytest.importorskip("torch")
    assert not difference(run(torch, sample)[0], run(ours, sample)[0])


def test_calls_are_captured_whole():
    aten = ours.ops.aten
    x, y = (ours.from_numpy(OPERANDS[name].copy()) for name in "xy")

    def function(x, y):
        z = aten.add.Tensor(x, y, alpha=2)
        z = ours.ops.aten.relu.default(aten.view.default(z, [4, 3]))
        return aten._softmax.default(z, 1, False), aten.sum.dim_IntList(z, [1])

    found = cutaway.compile(function, backend="aot_eager", fullgraph=True)(x, y)
    assert all(cutaway.allclose(a, b) for a, b in zip(found, function(x, y), strict=True))


def test_a_name_that_is_not_there():
    with pytest.raises(AttributeError, match="no attribute 'addd'; the nearest it has is add"):
        ours.ops.aten.addd  # noqa: B018
    with pytest.raises(AttributeError):
        ours.ops.aten.add.Tensr  # noqa: B018
    assert ours.ops.aten.add.default is ours.ops.aten.add and "Tensor" in ours.ops.aten.add.overloads()
