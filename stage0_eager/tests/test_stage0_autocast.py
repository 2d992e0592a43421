"""autocast and what stands beside it: dtypes chosen in a region, the cast of weights, the scaler, custom functions.

Input: small tensors on the CPU. What a region gives is compared with the same calls on operands cast by hand.
"""

import threading
import warnings

import numpy as np
import pytest

from stage0_eager import TABLE, nn, optim
from stage0_eager.amp.autocast import (
    autocast,
    autocast_as,
    clear_autocast_cache,
    get_autocast_dtype,
    is_autocast_cache_enabled,
    is_autocast_enabled,
    set_autocast_cache_enabled,
    set_autocast_dtype,
    set_autocast_enabled,
)
from stage0_eager.amp.autocast_lists import MEANING, POLICIES, SOMETIMES, contracts
from stage0_eager.autograd.checkpoint import checkpoint
from stage0_eager.functions.creation import ones, randn, tensor
from stage0_eager.namespaces import autograd
from stage0_eager.namespaces.amp import GradScaler, custom_bwd, custom_fwd
from stage0_eager.nn import functional as F
from stage0_eager.state import modes, no_grad
from stage0_eager.transforms.func import vmap
from stage_contracts import dtype as dt


def same_bits(a, b):
    assert a.dtype is b.dtype
    np.testing.assert_array_equal(a.detach().float().numpy(), b.detach().float().numpy())


@pytest.fixture
def x():
    return randn(3, 3)


def test_every_name_on_a_list_is_an_operator():
    for lists in POLICIES.values():
        assert lists and set(lists.values()) <= set(MEANING)
        assert not [name for name in lists if f"cutaway.{name}" not in TABLE]
    assert not [name for _, name in SOMETIMES if f"cutaway.{name}" not in TABLE]


def test_products_are_narrow_losses_wide_and_the_rest_as_it_comes(x):
    half = x.to(dt.bfloat16)
    with autocast("cpu"):
        product, loss, sum_ = x @ x, F.mse_loss(half, half), x + half
        joined, left = TABLE["cutaway.cat"]([half, x]), half.exp()
    same_bits(product, half @ half)
    same_bits(loss, F.mse_loss(half.float(), half.float()))
    assert (sum_.dtype, joined.dtype, left.dtype) == (dt.float32, dt.float32, dt.bfloat16)
    assert (x @ x).dtype is dt.float32 and modes() == ()


def test_float64_integers_in_place_and_out_are_left_alone(x):
    wide, whole = x.double(), ones(2, 2, dtype=dt.int64)
    with autocast("cpu"):
        assert (wide @ wide).dtype is dt.float64 and (whole @ whole).dtype is dt.int64
        target = x.clone()
        target.addmm_(x, x)
        out = x.clone()
        TABLE["cutaway.matmul"](x, x, out=out)
    same_bits(target, x.addmm(x, x))
    same_bits(out, x @ x)


def test_lists_that_depend_on_the_call(x):
    half = x.to(dt.bfloat16)
    with autocast("cpu"):
        assert F.pad(half, (1, 1), mode="reflect").dtype is dt.float32
        assert F.pad(half, (1, 1)).dtype is dt.bfloat16
    assert (
        contracts("ij,jk->ik") and contracts("i,i") and not contracts("i,j->ij") and not contracts("ij->ji")
    )


def test_regions_nest_and_are_left_by_exceptions(x):
    with pytest.raises(KeyError), autocast("cpu"):
        with autocast("cpu", dtype=dt.float16):
            assert (x @ x).dtype is dt.float16 and get_autocast_dtype("cpu") is dt.float16
            with autocast("cpu", enabled=False):
                assert (x @ x).dtype is dt.float32 and not is_autocast_enabled("cpu")
        assert (x @ x).dtype is dt.bfloat16
        raise KeyError
    assert not is_autocast_enabled("cpu") and not is_autocast_enabled("cuda")


def test_one_object_is_a_region_again_and_again_and_a_decorator(x):
    region = autocast("cpu")
    with region:
        with region:
            assert (x @ x).dtype is dt.bfloat16
        assert (x @ x).dtype is dt.bfloat16

    @autocast("cpu", dtype=dt.float16)
    def product(a, again=True):
        """A product."""
        return product(a, again=False) if again else a @ a

    assert product(x).dtype is dt.float16 and product.__doc__ == "A product." and modes() == ()


def test_switches_by_hand(x):
    set_autocast_dtype("cpu", dt.float16)
    set_autocast_enabled("cpu", True)
    try:
        assert (x @ x).dtype is dt.float16 and is_autocast_enabled("cpu")
    finally:
        set_autocast_enabled("cpu", False)
        set_autocast_dtype("cpu", dt.bfloat16)
    assert get_autocast_dtype("cpu") is dt.bfloat16 and get_autocast_dtype("cuda") is dt.float16
    assert modes() == ()  # what is as it was at first is no mode
    set_autocast_cache_enabled(False)
    assert not is_autocast_cache_enabled()
    set_autocast_cache_enabled(True)
    with pytest.raises(RuntimeError, match="unsupported scalarType"):
        get_autocast_dtype("tpu")


def test_a_region_is_its_threads_own(x):
    found = []
    with autocast("cpu"):
        thread = threading.Thread(target=lambda: found.append((x @ x).dtype))
        thread.start()
        thread.join()
    assert found == [dt.float32]


def test_wrong_regions():
    with pytest.raises(ValueError, match="Expected `device_type` of type `str`"):
        autocast(3)
    with pytest.raises(RuntimeError, match="unsupported autocast device_type 'tpu'"):
        autocast("tpu")
    with pytest.warns(UserWarning, match="the target dtype is not supported. Disabling autocast"):
        region = autocast("cpu", dtype=dt.float64)
    with region:
        assert not is_autocast_enabled("cpu")


def test_gradients_have_the_dtype_of_what_they_are_of(x):
    layer = nn.Linear(3, 2)
    x.requires_grad_()
    with autocast("cpu"):
        out = layer(x)
        loss = F.mse_loss(out, ones(3, 2))
        loss.backward()  # a backward in the region: torch advises against it; gradients are the same
    assert out.dtype is dt.bfloat16 and loss.dtype is dt.float32
    inside = [p.grad for p in (*layer.parameters(), x)]
    assert {g.dtype for g in inside} == {dt.float32}
    for p in (*layer.parameters(), x):
        p.grad = None
    with autocast("cpu"):
        loss = F.mse_loss(layer(x), ones(3, 2))
    loss.backward()
    for p, g in zip((*layer.parameters(), x), inside, strict=True):
        same_bits(p.grad, g)


def test_a_weight_is_cast_once_in_a_region(x):
    weight = randn(3, 3).requires_grad_()
    half, rest = weight.to(dt.bfloat16), x.to(dt.bfloat16)
    ((rest @ half) + (rest @ half @ half)).float().sum().backward()
    by_hand, weight.grad = weight.grad, None
    with autocast("cpu"):
        y = (x @ weight) + (x @ weight @ weight)
    y.float().sum().backward()
    same_bits(weight.grad, by_hand)
    with autocast("cpu"):
        with no_grad():
            assert not (x @ weight).requires_grad
        assert (x @ weight).requires_grad  # not the cast that was made without gradients
        with no_grad():
            weight.mul_(0)
        assert (x @ weight).float().abs().sum().item() == 0  # nor the one of the old values
        clear_autocast_cache()


def test_a_checkpoint_runs_again_under_the_same_casts(x):
    layer = nn.Linear(3, 3)
    grads = []
    for call in (lambda: layer(x) @ layer.weight, lambda: checkpoint(lambda a: layer(a) @ layer.weight, x)):
        with autocast("cpu"):
            loss = call().float().sum()
        loss.backward()
        grads.append(layer.weight.grad)
        layer.weight.grad = None
    assert grads[0].dtype is grads[1].dtype is dt.float32
    np.testing.assert_allclose(grads[0].numpy(), grads[1].numpy(), rtol=2e-2)


def test_under_vmap(x):
    with autocast("cpu"):
        out = vmap(lambda row: x @ row)(x)
    assert out.dtype is dt.bfloat16
    np.testing.assert_allclose(out.float().numpy(), (x @ x.T).T.numpy(), rtol=0.05, atol=0.05)


def test_norms_take_a_narrow_input_with_wide_weights(x):
    image = randn(2, 4, 3, 3)
    for norm, value in (
        (nn.LayerNorm(3), x), (nn.RMSNorm(3), x), (nn.GroupNorm(2, 4), image), (nn.BatchNorm2d(4), image),
        (nn.BatchNorm2d(4).eval(), image), (nn.InstanceNorm2d(4, affine=True), image),
    ):  # fmt: skip
        out = norm(value.to(dt.bfloat16))
        assert out.dtype is dt.bfloat16
        np.testing.assert_allclose(
            out.detach().float().numpy(), norm(value).detach().numpy(), rtol=0.05, atol=0.05
        )


@pytest.mark.parametrize("module", [nn.LSTM, nn.GRU, nn.RNN])
def test_recurrent_layers_are_products(module):
    layer, x = module(3, 4), randn(5, 2, 3)
    with autocast("cpu"):
        out, _ = layer(x)
    assert out.dtype is dt.bfloat16
    np.testing.assert_allclose(out.detach().float().numpy(), layer(x)[0].detach().numpy(), atol=0.05)


# ---- GradScaler --------------------------------------------------------------------------------------------------


def test_the_scaler_scales_skips_and_adapts():
    p = nn.Parameter(ones(2))
    optimizer = optim.SGD([p], lr=0.5)
    scaler = GradScaler("cpu", init_scale=8.0, growth_interval=2)
    for expected in (8.0, 16.0):  # two good steps: twice the scale
        optimizer.zero_grad()
        scaler.scale((p * 0.5).sum()).backward()
        assert p.grad.tolist() == [4.0, 4.0]
        scaler.step(optimizer)
        scaler.update()
        assert scaler.get_scale() == expected
    assert p.tolist() == [0.5, 0.5]
    p.grad = tensor([float("inf"), 1.0])
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.5, 0.5] and scaler.get_scale() == 8.0
    state = scaler.state_dict()
    other = GradScaler("cpu")
    other.load_state_dict(state)
    assert other.state_dict() == state and other.get_scale() == 8.0
    assert [t.item() for t in scaler.scale([ones(()), ones(())])] == [8.0, 8.0]


def test_the_scaler_refuses_calls_out_of_order():
    p = nn.Parameter(ones(2))
    optimizer = optim.SGD([p], lr=0.5)
    scaler = GradScaler("cpu")
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        scaler.step(optimizer)  # none of its parameters has a gradient
    scaler = GradScaler("cpu")
    p.grad = ones(2)
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) has already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"step\(\) has already been called"):
        scaler.step(optimizer)
    with pytest.raises(RuntimeError, match=r"unscale_\(\) is being called after step\(\)"):
        scaler.unscale_(optimizer)
    scaler.update(4.0)
    assert scaler.get_scale() == 4.0
    with pytest.raises(AssertionError, match="growth factor must be > 1"):
        GradScaler("cpu", growth_factor=1.0)


def test_a_disabled_scaler_hands_through():
    p = nn.Parameter(ones(1))
    optimizer = optim.SGD([p], lr=0.5)
    scaler = GradScaler(enabled=False)
    scaler.scale((p * 2).sum()).backward()
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()
    assert p.tolist() == [0.0] and scaler.state_dict() == {} and not scaler.is_enabled()


# ---- functions with a backward of their own ----------------------------------------------------------------------


def test_custom_functions_run_backward_as_forward(x):
    seen = []

    class Product(autograd.Function):
        @staticmethod
        @custom_fwd(device_type="cpu")
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @custom_bwd(device_type="cpu")
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            seen.append(is_autocast_enabled("cpu"))
            return g @ b.T, a.T @ g

    class Wide(Product):
        @staticmethod
        @custom_fwd(device_type="cpu", cast_inputs=dt.float32)
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            seen.append((a.dtype, is_autocast_enabled("cpu")))
            return a @ b

    x.requires_grad_()
    with autocast("cpu"):
        y = Product.apply(x, x)
    y.float().sum().backward()
    assert y.dtype is dt.bfloat16 and seen == [True] and x.grad.dtype is dt.float32
    with autocast("cpu"):
        z = Wide.apply(x.to(dt.bfloat16), x)
    z.sum().backward()
    assert z.dtype is dt.float32 and seen[1:] == [(dt.float32, False), False]
    with pytest.raises(ValueError, match="device_type"):
        custom_fwd(lambda ctx: None, device_type=3)


def test_cuda_without_a_gpu_warns_and_stays_off(x):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        region = autocast("cuda")
        GradScaler("cuda")
    if caught:  # there is no GPU here
        assert [str(w.message).split(".")[0] for w in caught] == [
            "User provided device_type of 'cuda', but CUDA is not available",
            "torch",
        ]
    with region:
        assert (x @ x).dtype is dt.float32


def test_settings_of_another_time(x):
    with autocast_as((("cpu", dt.float16),)):
        assert (x @ x).dtype is dt.float16
    assert (x @ x).dtype is dt.float32
