"""Small programs cut from those people write: a faulty capture, gradient or size in each was seen once.

Input: programs under torch's names, compiled with the backends that run without a compiler, against eager.
"""

import datetime
import decimal

import numpy as np
import pytest

from cutaway.torch_api import torch

nn = torch.nn
BACKENDS = ("eager", "aot_eager")


def same(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-6)


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()


def rows_decoded(rows):
    found, last = [], torch.zeros(2)
    for row in rows:
        best = (last + row).max(0).indices
        found.append(best.tolist())
        last = last + row
    return last, found


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_loop_over_rows_that_breaks_goes_on_with_another_number_of_rows(backend):
    compiled = torch.compile(rows_decoded, backend=backend)
    for count in (3, 5, 4):
        rows = torch.randn(count, 2)
        (last, found), (expected, wanted) = compiled(rows), rows_decoded(rows)
        same(last, expected)
        assert found == wanted


@pytest.mark.parametrize("backend", BACKENDS)
def test_running_statistics_of_batches_of_other_sizes(backend):
    """The unbiased variance has a factor n / (n - 1): a float made of an open size, then of a fixed one."""
    plain, moved = nn.BatchNorm2d(2), nn.BatchNorm2d(2)
    moved.load_state_dict(plain.state_dict())
    compiled = torch.compile(moved, backend=backend)
    for shape in ((4, 2, 3, 3), (3, 2, 3, 3), (2, 2, 4, 5), (1, 2, 4, 5)):
        x = torch.randn(shape)
        same(compiled(x), plain(x))
        same(moved.running_var, plain.running_var)


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_backwards_of_a_parameter_that_was_stepped_in_between(backend):
    """Written without history, it is a leaf still: the first backward frees nothing that the next needs."""

    def steps(weight, x):
        for k in range(3):
            loss = (weight * x).sum() / 2
            loss.backward()
            if k == 0:
                with torch.no_grad():
                    weight.sub_(weight.grad)
                weight.grad = None
        return loss.detach()

    x = torch.randn(3)
    weights = [nn.Parameter(torch.ones(3)) for _ in range(2)]
    same(torch.compile(steps, backend=backend)(weights[0], x), steps(weights[1], x))
    same(*weights)
    same(*(w.grad for w in weights))


def test_a_history_that_keeps_nothing_can_be_walked_twice():
    """As in torch; one that keeps something is freed by the first walk."""
    a, b = (torch.ones(2, requires_grad=True) for _ in range(2))
    negative, product = -b, a * b
    for _ in range(2):
        negative.backward(torch.ones(2))
    assert b.grad.tolist() == [-2, -2]
    product.backward(torch.ones(2))
    with pytest.raises(RuntimeError, match="a second time"):
        product.backward(torch.ones(2))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_copy_of_a_buffer_that_is_written_to_before_the_backward(backend):
    """MoCo's queue: the program copies it because the next keys overwrite it."""
    queue, x = torch.randn(3, 4), torch.randn(2, 3, requires_grad=True)
    compiled = torch.compile(lambda x: x @ queue.clone().detach(), backend=backend)
    result = compiled(x)
    expected = queue.sum(1).expand(2, 3).clone()
    queue.add_(1)
    result.sum().backward()
    same(x.grad, expected)


@pytest.mark.parametrize(
    "layer",
    [
        nn.LeakyReLU(0.2, inplace=True),
        nn.SiLU(inplace=True),
        nn.Mish(inplace=True),
        nn.Hardswish(inplace=True),
    ],
    ids=lambda layer: type(layer).__name__,
)
@pytest.mark.parametrize("recording", [True, False], ids=["recording", "no_grad"])
def test_an_activation_in_place_is_in_the_graph(layer, recording):
    model, x = nn.Sequential(nn.Linear(3, 4), layer), torch.randn(2, 3)
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    gradients = []
    for run in (model, compiled):
        with torch.set_grad_enabled(recording):
            out = run(x)
        if recording:
            model.zero_grad()
            out.square().sum().backward()
            gradients.append(model[0].weight.grad.clone())
        else:
            gradients.append(out)
    same(*gradients)


class Plain:
    pass


CASES = {
    "a tensor's number": (lambda x: f"{x.mean():.3f}", lambda x: x),
    "a tensor's own": (lambda x: f"{x.sum()}|{x[0]:>8}", lambda x: x),
    "a tensor with dimensions": (lambda x: f"{x:.3f}", lambda x: x),
    "an array's number": (lambda x: f"{np.mean(x):.3f}", lambda x: x.numpy()),
    "an array": (lambda x: f"{x:.3f}", lambda x: x.numpy()),
    "a class with a format in C": (lambda x: f"{decimal.Decimal('1.25'):.1f} {datetime.date(2020, 1, 2):%Y}", lambda x: x),
    "a class with none": (lambda x: f"{Plain():.1f}", lambda x: x),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_format_is_what_python_makes_of_it(case):
    shown, made = CASES[case]

    def program(x):
        try:
            text = shown(x)
        except TypeError as error:
            text = str(error)
        return text, x + 1

    x = made(torch.arange(3.0))
    assert torch.compile(program, backend="eager")(x)[0] == program(x)[0]


def test_a_tensor_without_dimensions_is_formatted_as_its_number():
    """As torch does."""
    assert f"{torch.tensor(1.5):.2f} {torch.tensor(2)} {torch.tensor(True)}" == "1.50 2 True"
    with pytest.raises(TypeError, match="unsupported format string passed to Tensor.__format__"):
        f"{torch.ones(2):.2f}"


@pytest.mark.parametrize("backend", BACKENDS)
def test_rows_for_an_expert_by_where_of_a_condition_alone(backend):
    def routed(x, chosen):
        out = torch.zeros_like(x)
        for expert in range(3):
            rows, slots = torch.where(chosen == expert)
            if rows.numel():
                out.index_add_(0, rows, x[rows] * (expert + 1) + slots[:, None])
        return out

    compiled = torch.compile(routed, backend=backend)
    for count in (4, 6, 1):
        x, chosen = torch.randn(count, 2), torch.arange(count * 2).reshape(count, 2) % 4
        same(compiled(x, chosen), routed(x, chosen))
    places = torch.where(torch.tensor([[True, False], [True, True]]))
    assert [p.tolist() for p in places] == [[0, 1, 1], [0, 0, 1]]
