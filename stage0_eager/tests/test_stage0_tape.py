"""The tape as torch users know it: modes, graphs kept and freed, errors by torch's words, gradients of gradients.

Input: small expressions whose gradients are known by hand.
"""

import inspect
import threading

import numpy as np
import pytest

from stage0_eager import enable_grad, is_grad_enabled, no_grad, set_grad_enabled
from stage0_eager import functions as f
from stage0_eager.autograd.backward_pass import backward, grad
from stage0_eager.functions.creation import ones, tensor, zeros
from stage0_eager.table.operator import Operator
from stage0_eager.table.registry import TABLE
from stage0_eager.tensor import Tensor


def leaf(*values):
    return tensor([float(v) for v in values], requires_grad=True)


def test_backward_fills_and_accumulates_leaves():
    x, y = leaf(1, 2), leaf(3, 4)
    (x * y).sum().backward()
    assert x.grad.tolist() == [3, 4] and y.grad.tolist() == [1, 2]
    (x * 2).sum().backward()
    assert x.grad.tolist() == [5, 6] and y.grad.tolist() == [1, 2]
    assert x.is_leaf and x.grad_fn is None and not x.grad.requires_grad


def test_one_tensor_used_many_times():
    x = leaf(3)
    y = x * x
    z = y * y + y + x
    z.sum().backward()
    assert x.grad.tolist() == [4 * 27 + 2 * 3 + 1]


def test_a_chain_longer_than_pythons_stack():
    x = leaf(1)
    y = x
    for _ in range(3000):
        y = y + 1
    y.sum().backward()
    assert x.grad.tolist() == [1]


def test_gradient_argument_and_its_shape():
    x = leaf(1, 2)
    (x * x).backward(tensor([10.0, 1.0]))
    assert x.grad.tolist() == [20, 4]
    with pytest.raises(RuntimeError, match=r"Mismatch in shape: grad_output\[0\] has a shape of \[3\]"):
        (x * x).backward(tensor([1.0, 1.0, 1.0]))
    with pytest.raises(RuntimeError, match="grad can be implicitly created only for scalar outputs"):
        (x * x).backward()
    with pytest.raises(RuntimeError, match="does not require grad and does not have a grad_fn"):
        tensor([1.0]).sum().backward()


def test_a_second_backward_needs_retain_graph():
    x = leaf(1, 2)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4, 8]
    with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
        y.backward()
    z = (x * 2).sum()  # torch frees every node alike; so does this, also where nothing was saved
    z.backward()
    with pytest.raises(RuntimeError, match="a second time"):
        z.backward()


def test_grad_returns_and_accumulates_nothing():
    x, y = leaf(1, 2), leaf(3, 4)
    inner = x * y
    gi, gx = grad((inner * inner).sum(), [inner, x])
    assert gi.tolist() == [6, 16] and gx.tolist() == [18, 64] and x.grad is None
    with pytest.raises(RuntimeError, match="appears to not have been used in the graph"):
        grad((x * x).sum(), [x, y])
    assert grad((x * x).sum(), [x, y], allow_unused=True)[1] is None


def test_grad_of_grad():
    x = leaf(2, 3)
    (first,) = grad((x**3).sum(), x, create_graph=True)
    assert first.requires_grad and first.tolist() == [12, 27]
    (second,) = grad(first.sum(), x, create_graph=True)
    assert second.tolist() == [12, 18]
    (third,) = grad(second.sum(), x)
    assert third.tolist() == [6, 6] and not third.requires_grad


def test_create_graph_in_backward():
    x = leaf(2)
    (x**3).sum().backward(create_graph=True)
    penalty = (x.grad * x.grad).sum()  # (3x^2)^2
    x.grad = None
    penalty.backward()
    assert x.grad.tolist() == [36 * 8]


def test_several_roots():
    x = leaf(1, 2)
    backward([(x * x).sum(), x * 3], [None, tensor([1.0, 10.0])])
    assert x.grad.tolist() == [5, 34]


def test_modes_nest_and_are_restored():
    x = leaf(1)
    with no_grad():
        assert not (x * 2).requires_grad
        with enable_grad():
            assert (x * 2).requires_grad
        assert not is_grad_enabled()
    assert is_grad_enabled()
    with pytest.raises(ZeroDivisionError), no_grad():
        raise ZeroDivisionError
    assert is_grad_enabled()

    @no_grad()
    def off(a):
        return a * 2, is_grad_enabled()

    y, mode = off(x)
    assert not y.requires_grad and not mode and is_grad_enabled()

    set_grad_enabled(False)
    assert not is_grad_enabled()
    set_grad_enabled(True)
    with set_grad_enabled(False):
        assert not is_grad_enabled()
    assert is_grad_enabled()

    @set_grad_enabled(False)
    def also_off():
        return is_grad_enabled()

    assert is_grad_enabled() and not also_off() and is_grad_enabled()


def test_modes_belong_to_their_thread():
    seen = []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append(is_grad_enabled()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_threads_compute_gradients_at_once():
    def work(k, results):
        for _ in range(20):
            x = leaf(*range(1, 8))
            (x * x * k).sum().backward()
            results[k] = x.grad.tolist()

    results = {}
    threads = [threading.Thread(target=work, args=(k, results)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert results == {k: [2.0 * k * v for v in range(1, 8)] for k in range(4)}


def test_detach_cuts_and_shares():
    x = leaf(1, 2)
    d = x.detach()
    assert not d.requires_grad and d.is_leaf
    d.mul_(10)
    assert x.tolist() == [10, 20]
    (x * x.detach()).sum().backward()
    assert x.grad.tolist() == [10, 20]


def test_requires_grad_flags():
    x = tensor([1, 2])
    with pytest.raises(RuntimeError, match="floating point"):
        x.requires_grad_()
    y = leaf(1) * 2
    with pytest.raises(RuntimeError, match="leaf variables"):
        y.requires_grad_(False)
    assert not (leaf(1) > 0).requires_grad
    assert leaf(1).requires_grad_(False).requires_grad is False


def test_numpy_of_what_requires_grad_is_refused():
    with pytest.raises(RuntimeError, match=r"Can't call numpy\(\) on Tensor that requires grad"):
        leaf(1).numpy()


# ---- writing in place ------------------------------------------------------------------------------------------


def test_a_leaf_is_not_written_while_gradients_are_recorded():
    x = leaf(1, 2)
    for write in (lambda: x.add_(1), lambda: x.zero_(), lambda: x.copy_(zeros(2))):
        with pytest.raises(
            RuntimeError, match="a leaf Variable that requires grad is being used in an in-place"
        ):
            write()
    with pytest.raises(RuntimeError, match="a view of a leaf Variable"):
        x[0] = 3.0
    with no_grad():
        x.add_(1)
    assert x.tolist() == [2, 3] and x.is_leaf


def test_in_place_on_the_tape():
    x, w = leaf(1, 2), leaf(3, 4)
    y = x * 2
    y.add_(w)
    y.mul_(3)
    assert y.tolist() == [15, 24]
    y.sum().backward()
    assert x.grad.tolist() == [6, 6] and w.grad.tolist() == [3, 3]
    z = zeros(2)
    z.copy_(x)
    assert z.requires_grad
    z.sum().backward()
    assert x.grad.tolist() == [7, 7]


def test_a_saved_tensor_written_since_is_refused():
    x = leaf(1, 2)
    y = x.exp()  # saves its output
    y.add_(1)
    with pytest.raises(
        RuntimeError, match="has been modified by an inplace operation.*is at version 1; expected version 0"
    ):
        y.sum().backward()
    a = x * 1
    b = a * a  # saves a
    a[0] = 5.0  # through a view
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        b.sum().backward()


def test_a_write_that_nothing_saved_is_harmless():
    x = leaf(1, 2)
    y = x + 1
    z = y * 2  # saves no tensor
    y.add_(1)
    z.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_versions_are_shared_by_views_and_not_by_copies():
    base = zeros(2, 3)
    views = [base[0], base.t(), base.reshape(6), base.detach(), base[0][1:], base.expand(4, 2, 3)]
    copies = [base.clone(), base.t().reshape(6), base + 0, base.double()]
    base.add_(1)
    assert [v.version for v in views] == [1] * 6 and [c.version for c in copies] == [0] * 4
    views[0].add_(1)
    assert base.version == 2 and base.tolist() == [[2, 2, 2], [1, 1, 1]]
    assert [v.sum().item() for v in views] == [6, 9, 9, 9, 4, 36]


def test_a_write_to_the_base_reaches_its_views_on_the_tape():
    x = tensor([1.0, 2.0, 3.0], requires_grad=True)
    y = x * 1
    view = y[1:]
    y.mul_(x.detach() + 4)
    view.sum().backward()
    assert view.tolist() == [12.0, 21.0] and x.grad.tolist() == [0.0, 6.0, 7.0]


def test_a_write_through_a_view_reaches_base_and_siblings_on_the_tape():
    x, w = leaf(1, 2, 3, 4), leaf(5, 6)
    y = (x * 2).reshape(2, 2)
    row, column = y[0], y[:, 1]
    row.add_(w * w)
    (y.sum() + column.sum() * 10 + row.sum()).backward()
    assert x.grad.tolist() == [4, 24, 2, 22]
    assert w.grad.tolist() == [2 * 5 * 2, 2 * 6 * 12]


def test_a_buffer_without_gradient_takes_one_by_a_write():
    w = leaf(5, 6)
    buffer = zeros(2, 2)
    sibling = buffer[0]
    buffer[0] = w
    assert buffer.requires_grad and (sibling * 1).requires_grad
    (buffer * buffer).sum().backward(retain_graph=True)
    assert w.grad.tolist() == [10, 12]
    w.grad = None
    (sibling * 3).sum().backward()
    assert w.grad.tolist() == [3, 3]


@pytest.mark.parametrize(
    ("name", "view"),
    {
        "row": lambda y: y[1],
        "column": lambda y: y[:, 1],
        "steps": lambda y: y[:, ::2],
        "turned": lambda y: y.t()[1],
        "reshaped": lambda y: y.reshape(6)[1:4],
        "of a view of a view": lambda y: y[1][1:][0:1],
        "all of it": lambda y: y.view(3, 2),
        "squeezed": lambda y: y.unsqueeze(1)[0, 0],
    }.items(),
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_writes_through_any_view_match_the_functional_program(name, view):
    """The same program with numpy-style assignment of a product, by finite differences in the written values."""
    rng = np.random.default_rng(0)
    base, weights = rng.normal(size=(2, 3)), rng.normal(size=(2, 3))
    part = np.asarray(view(tensor(base)).tolist())
    values = rng.normal(size=part.shape)

    def run(a, v):
        y = tensor(a) * 2
        view(y).copy_(tensor(v))
        return float((y * y * tensor(weights)).sum().item())

    x, v = tensor(base, requires_grad=True), tensor(values, requires_grad=True)
    y = x * 2
    view(y).copy_(v * 1)
    (y * y * tensor(weights)).sum().backward()
    for given, found, place in ((base, x.grad, 0), (values, v.grad, 1)):
        for i in np.ndindex(given.shape):
            high, low = given.copy(), given.copy()
            high[i] += 1e-6
            low[i] -= 1e-6
            args = ((high, values), (low, values)) if place == 0 else ((base, high), (base, low))
            assert abs((run(*args[0]) - run(*args[1])) / 2e-6 - found.numpy()[i]) < 1e-7, (name, place, i)


def test_a_write_to_an_expanded_tensor_is_refused():
    with pytest.raises(
        RuntimeError, match="more than one element of the written-to tensor refers to a single memory"
    ):
        zeros(2, 1).expand(2, 3).add_(1)


def test_a_write_to_an_expanded_tensor_on_the_tape_is_refused():
    x = ones(2, 3, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="more than one element of the written-to tensor"):
        x.expand(4, 2, 3).mul_(2)


def test_a_part_of_an_expanded_tensor_is_written_on_the_tape():
    leaf = ones(2, 3, requires_grad=True)
    x = leaf * 2
    seen = x.expand(4, 2, 3)
    seen[1, 1].mul_(5)
    assert x.tolist() == [[2, 2, 2], [10, 10, 10]] and seen[3].tolist() == x.tolist()
    x.sum().backward()
    assert leaf.grad.tolist() == [[2, 2, 2], [10, 10, 10]]


def test_a_view_is_no_leaf_once_its_base_came_onto_the_tape():
    whole, x = zeros(4), ones(1, requires_grad=True)
    view = whole[1:2]
    whole[1:2].add_(x)
    assert not view.is_leaf and view.requires_grad


def test_overlapping_source_and_destination():
    x = tensor([1.0, 2.0, 3.0, 4.0])
    x[1:] = x[:-1]
    assert x.tolist() == [1, 1, 2, 3]


MATRIX_FORMS = {"addmv": 1, "addr": 2, "addmm": 2, "baddbmm": 3, "addbmm": 2, "tril": 2, "triu": 2}


@pytest.mark.parametrize("name", MATRIX_FORMS)
def test_matrix_forms_in_place(name):
    rng = np.random.default_rng(0)
    shapes = {
        "addmv": ((3, 3), (3,)),
        "addr": ((3,), (3,)),
        "addmm": ((3, 3), (3, 3)),
        "tril": (),
        "triu": (),
    }
    rest = [Tensor(rng.normal(size=s)) for s in shapes.get(name, ((2, 3, 3), (2, 3, 3)))]
    x = Tensor(rng.normal(size=(2, 3, 3)[-MATRIX_FORMS[name] :]))
    want = TABLE[f"cutaway.{name}"](x, *rest)
    assert getattr(x, f"{name}_")(*rest) is x and x.tolist() == want.tolist()


IN_PLACE_FORMS = [
    name.removesuffix("_")
    for name, op in vars(f.inplace).items()
    if isinstance(op, Operator)
    and op.mutates
    and name not in ("_op", "copy_", "zero_", "fill_", "float_power_")
]


@pytest.mark.parametrize(
    "name",
    [
        n
        for n in IN_PLACE_FORMS
        if n not in ("addcmul", "addcdiv", "lerp", "masked_fill", "clamp", "clip", *MATRIX_FORMS)
    ],
)
def test_in_place_forms_do_what_the_plain_form_does(name):
    x, other = tensor([0.25, 0.5, 0.75]), tensor([2.0, 3.0, 0.5])
    if name.startswith("bitwise") or name in ("gcd", "lcm"):
        x, other = tensor([1, 2, 3]), tensor([2, 0, 1])
    if name == "float_power":
        x = x.double()
    plain = TABLE[f"cutaway.{name}"]
    needed = [p for p in inspect.signature(plain.bind).parameters.values() if p.default is p.empty]
    rest = [0.5, 3.0] if name == "threshold" else [other] * (len(needed) - 1)
    rest = [0] if name in ("cumsum", "cumprod") else [1] if name == "mvlgamma" else rest
    want = plain(x, *rest).to(x.dtype)
    y = x.clone()
    alias = y.view(3)
    result = getattr(f.inplace, f"{name}_")(y, *rest)
    bits = np.array(want.tolist()).tobytes()  # NaN is NaN
    assert result is y and y.version == 1
    assert np.array(y.tolist()).tobytes() == bits and np.array(alias.tolist()).tobytes() == bits


def test_in_place_forms_with_more_operands():
    x, a, b = tensor([1.0, 2.0]), tensor([3.0, 4.0]), tensor([5.0, 8.0])
    assert x.clone().addcmul_(a, b, value=2).tolist() == [31, 66]
    assert x.clone().addcdiv_(b, a, value=3).tolist() == [6, 8]
    assert x.clone().lerp_(a, 0.5).tolist() == [2, 3]
    assert x.clone().masked_fill_(tensor([True, False]), 9.0).tolist() == [9, 2]
    assert x.clone().clamp_(max=1.5).tolist() == [1, 1.5]
    assert x.clone().fill_(7).tolist() == [7, 7] and x.clone().zero_().tolist() == [0, 0]


def test_in_place_keeps_dtype_and_shape_or_refuses():
    with pytest.raises(
        RuntimeError, match="result type float32 can't be cast to the desired output type int64"
    ):
        tensor([1, 2]).add_(1.5)
    with pytest.raises(RuntimeError, match="can't be cast to the desired output type int64"):
        tensor([1, 2]).div_(2)
    with pytest.raises(RuntimeError, match="result type int64 can't be cast to the desired output type bool"):
        tensor([True]).add_(1)
    with pytest.raises(
        RuntimeError, match=r"output with shape \[2\] doesn't match the broadcast shape \[3, 2\]"
    ):
        tensor([1.0, 2.0]).add_(zeros(3, 2))
    narrow = tensor([1.0, 2.0]).add_(tensor([1.0, 1.0], dtype="float64"))
    assert narrow.dtype.name == "float32" and narrow.tolist() == [2, 3]
    assert tensor([1, 2]).copy_(tensor([1.7, -2.7])).tolist() == [1, -2]
    with pytest.raises(RuntimeError):
        tensor([1.0, 2.0]).copy_(zeros(1, 2))
    x = tensor([1, 2])
    x += 1
    x *= 3
    x -= 1
    assert x.tolist() == [5, 8] and x.version == 3


def test_in_place_forms_keep_what_their_gradient_needs():
    for name in ("sin_", "square_", "log_", "reciprocal_", "exp_", "silu_", "tanh_"):
        leaf, plain = tensor([0.5, 2.0]).requires_grad_(), tensor([0.5, 2.0]).requires_grad_()
        getattr(f.inplace, name)(leaf * 1).sum().backward()
        TABLE[f"cutaway.{name[:-1]}"](plain).sum().backward()
        assert leaf.grad.tolist() == plain.grad.tolist(), name
    x, y = (tensor([0.5, 2.0]).requires_grad_() for _ in range(2))
    (x * 1).mul_(y).sum().backward()
    assert x.grad.tolist() == y.tolist() and y.grad.tolist() == x.tolist()
