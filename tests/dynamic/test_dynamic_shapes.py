"""Sizes and numbers left open: how many compiles a program needs, which questions fix a size, and who asked them.

Input: programs run at several sizes with a backend that counts graphs; every result is compared with eager's.
"""

import numpy as np
import pytest

import cutaway
from cutaway import compiler, nn
from stage_contracts import events
from stage_contracts.sizes import ConstraintViolationError


@pytest.fixture
def counter():
    return compiler.CompileCounter()


def check(f, compiled, *calls):
    for args in calls:
        got, want = compiled(*args), f(*args)
        assert type(got) is type(want)
        if isinstance(want, cutaway.Tensor):
            got, want = got.detach().numpy(), want.detach().numpy()
            assert got.dtype == want.dtype and got.strides == want.strides
        np.testing.assert_array_equal(got, want)


def shapes(*sizes, width=3):
    return [(cutaway.randn(n, width),) for n in sizes]


def test_a_network_at_five_batch_sizes_is_compiled_twice(counter):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    check(model, cutaway.compile(model, backend=counter, fullgraph=True), *shapes(64, 3, 2, 1, 0, width=8))
    assert counter.frame_count == 2


def test_dynamic_true_is_one_compile_and_false_one_for_each(counter):
    def f(x):
        return (x * 2).sum(0) / x.shape[0]

    check(f, cutaway.compile(f, backend=counter, dynamic=True, fullgraph=True), *shapes(4, 5, 2, 9))
    assert counter.frame_count == 1
    check(f, cutaway.compile(f, backend=counter, dynamic=False, fullgraph=True), *shapes(4, 5, 2, 9))
    assert counter.frame_count == 5


def test_a_hundred_learning_rates_are_one_compile(counter):
    def step(p, g, lr, scale):
        return p - g * (lr / scale) + lr

    p, g = cutaway.randn(5), cutaway.randn(5)
    calls = [(p, g, n * 1e-3, 2.0 + n) for n in range(1, 101)]
    compiled = cutaway.compile(step, backend=counter, fullgraph=True)
    check(step, compiled, *calls)
    assert counter.frame_count == 1
    whole = cutaway.compile(step, fullgraph=True)
    for call in calls[:5]:
        np.testing.assert_allclose(whole(*call).numpy(), step(*call).numpy(), rtol=1e-6)
    assert len(whole.entries) == 1


def test_a_divisor_that_becomes_zero_raises_what_eager_raises(counter):
    compiled = cutaway.compile(lambda x, n: x * (1 / n), backend=counter)
    compiled(cutaway.ones(2), 4)
    with pytest.raises(ZeroDivisionError):
        compiled(cutaway.ones(2), 0)


def test_numbers_of_another_type_or_beyond_a_floats_integers_are_other_cases(counter):
    def f(x, n):
        return x * n

    x = cutaway.ones(2)
    compiled = cutaway.compile(f, backend=counter, fullgraph=True)
    check(f, compiled, (x, 3), (x, -7), (x, 2**53 + 1), (x, 2.5), (x, True), (x, 0), (x, -0.0))
    assert 4 <= counter.frame_count <= 5


def test_a_question_about_a_number_is_a_guard_with_its_line(counter):
    def f(x, n):
        if n > 10:
            return x * n
        return x + n

    x = cutaway.ones(2)
    compiled = cutaway.compile(f, backend=counter, fullgraph=True)
    check(f, compiled, (x, 1), (x, 2), (x, 10), (x, 11), (x, 50))
    assert counter.frame_count == 2
    (guard,) = [g for g in compiled.entries[0].guards if g.kind == "SHAPE" and ">" in str(g.expected)]
    assert "n > (10)" in str(guard) and guard.origin.text.startswith("n > 10")
    mark = events.EVENT_LOG.mark()
    compiled(x, 2.5)
    (event,) = events.EVENT_LOG.since(mark, "recompile")
    assert "type(n): int -> float" in event.details["reason"]


def test_a_question_about_a_size_is_a_guard_with_its_line(counter):
    def f(x):
        if x.shape[0] * 2 > 8:
            return x.relu()
        return x + x.shape[0]

    compiled = cutaway.compile(f, backend=counter, dynamic=True, fullgraph=True)
    check(f, compiled, *shapes(7, 5, 30), *shapes(2, 3, 1, 0))
    assert counter.frame_count == 2
    texts = [str(g) for e in compiled.entries for g in e.guards if g.kind == "SHAPE"]
    assert all("x.shape[0]" in t and "test_dynamic_shapes.py" in t for t in texts)


def test_sizes_flow_through_reshapes_and_arithmetic(counter):
    def f(x):
        b, t, c = x.shape
        y = x.view(b, t, 2, c // 2).transpose(1, 2)
        return y.reshape(b * 2, t, c // 2) * b, b + t

    def calls():
        return [(cutaway.randn(b, t, 6),) for b, t in ((2, 5), (3, 4), (7, 9), (5, 2))]

    compiled = cutaway.compile(f, backend=counter, dynamic=True, fullgraph=True)
    for args in calls():
        (y, n), (z, m) = compiled(*args), f(*args)
        assert n == m and type(n) is int
        np.testing.assert_array_equal(y.numpy(), z.numpy())
    assert counter.frame_count == 1


def test_what_needs_the_size_fixes_it(counter):
    def f(x):
        return [x[i] * i for i in range(x.shape[0])]

    compiled = cutaway.compile(f, backend=counter, dynamic=True)
    for (x,) in shapes(2, 3, 2):
        assert [r.tolist() for r in compiled(x)] == [r.tolist() for r in f(x)]
    assert counter.frame_count == 2


def test_marks(counter):
    def f(x):
        return x * 2

    compiled = cutaway.compile(f, backend=counter, fullgraph=True)
    for x in (cutaway.ones(4, 3), cutaway.ones(6, 3)):
        compiler.mark_dynamic(x, 0, min=2, max=8, name="batch")
        check(f, compiled, (x,))
    assert counter.frame_count == 1
    assert "float32[batch, 3]" in str(compiled.entries[0].frame.graph)
    check(f, compiled, *shapes(9))
    assert counter.frame_count == 2
    marked_only = cutaway.compile(f, backend=counter, dynamic=False, fullgraph=True)
    for x in (cutaway.ones(4, 3), cutaway.ones(6, 3)):
        compiler.mark_dynamic(x, 0)
        check(f, marked_only, (x,))
    assert counter.frame_count == 3
    always = cutaway.compile(f, backend=counter, dynamic=True, fullgraph=True)
    for n in (2, 3):
        x = cutaway.ones(n)
        compiler.mark_static(x)
        check(f, always, (x,))
    assert counter.frame_count == 5
    with pytest.raises(ValueError, match="size 4, but you marked it with min=5"):
        compiler.mark_dynamic(cutaway.ones(4), 0, min=5)
    with pytest.raises(IndexError, match="Dimension out of range"):
        compiler.mark_dynamic(cutaway.ones(4), 1)


def test_a_marked_size_that_the_program_fixes_is_an_error(counter):
    def f(x):
        return x.view(4, 3) + 1

    x = cutaway.ones(4, 3)
    compiler.mark_dynamic(x, 0)
    with pytest.raises(
        ConstraintViolationError, match=r"x\.shape\[0\] must be 4 at .*test_dynamic_shapes.py"
    ):
        cutaway.compile(f, backend=counter)(x)
    y = cutaway.ones(4, 3)
    compiler.maybe_mark_dynamic(y, 0)
    check(f, cutaway.compile(f, backend=counter), (y,))


def test_another_layout_is_another_case(counter):
    def f(x):
        return x + 1

    compiled = cutaway.compile(f, backend=counter, dynamic=True)
    x = cutaway.randn(6, 8)
    check(f, compiled, (x,), (x.t(),), (x[::2],), (cutaway.randn(4, 5),), (cutaway.randn(3, 9).t(),))
    assert counter.frame_count == 3


def test_operands_that_broadcast_or_do_not(counter):
    def f(x, y):
        return x + y

    compiled = cutaway.compile(f, backend=counter, dynamic=True)
    pairs = [
        ((4, 3), (4, 3)),
        ((5, 2), (5, 2)),
        ((1, 3), (4, 3)),
        ((4, 1), (1, 3)),
        ((3,), (4, 3)),
        ((1, 1), (1, 1)),
    ]
    check(f, compiled, *[(cutaway.randn(a), cutaway.randn(b)) for a, b in pairs])
    with pytest.raises(RuntimeError, match="must match"):
        compiled(cutaway.randn(4, 3), cutaway.randn(5, 3))


@pytest.mark.parametrize("name", ["cumsum", "cumprod", "cummax"])
def test_an_open_int_that_is_a_dimension(name):
    compiled = cutaway.compile(lambda x, dim: getattr(x, name)(dim), dynamic=True)
    mark = events.EVENT_LOG.mark()
    for x, dim in ((cutaway.randn(7), -1), (cutaway.randn(3, 13), 0), (cutaway.randn(3, 13), 1)):
        got, want = compiled(x, dim), getattr(x, name)(dim)
        assert cutaway.allclose(*(y[0] if name == "cummax" else y for y in (got, want)))
    assert not list(events.EVENT_LOG.since(mark, "fallback"))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_an_int_that_becomes_a_size_is_open_after_its_first_change(backend):
    def f(x, n):
        return x.view(n, -1) + cutaway.arange(n).view(n, 1), x[: n * 2] * n

    compiled = cutaway.compile(f, backend=backend, fullgraph=True)
    x = cutaway.randn(24)
    for n in (2, 3, 4, 6, 1):
        for got, want in zip(compiled(x, n), f(x, n), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6)
    assert len(compiled.entries) == 2


def test_dimensions_of_one_name_are_one_size(counter):
    def f(x, y):
        return x * 2 + y.sum(0)

    compiled = cutaway.compile(f, backend=counter, fullgraph=True)
    for n in (3, 5, 4):
        x, y = cutaway.randn(n), cutaway.randn(2, n)
        compiler.mark_dynamic(x, 0, name="width")
        compiler.mark_dynamic(y, 1, name="width")
        check(f, compiled, (x, y))
    assert counter.frame_count == 1
    assert "x.shape[0]" in str([g for g in compiled.entries[0].guards if g.kind == "SHAPE"][0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_number_made_of_open_sizes(backend):
    """The step of linspace is 1 / (n - 1)."""

    def ramp(x):
        return x * cutaway.linspace(0, 1, x.shape[0])

    compiled = cutaway.compile(ramp, backend=backend, dynamic=True)
    for n in (5, 7):
        x = cutaway.arange(float(n))
        np.testing.assert_array_equal(compiled(x).numpy(), ramp(x).numpy())
    # a kernel takes no such number: inductor compiles for each size
    assert len(compiled.entries) == (2 if backend == "inductor" else 1) and not compiled.breaks


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_a_backward_that_needs_sizes_and_no_values(backend):
    def f(x):
        return (x.reshape(-1) * 2).sum()

    compiled = cutaway.compile(f, backend=backend, dynamic=True, fullgraph=True)
    mark = events.EVENT_LOG.mark()
    for shape in ((3, 4), (1, 5), (0, 2), (8, 8)):
        x = cutaway.randn(shape).requires_grad_()
        compiled(x).backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.full(shape, 2, np.float32))
    assert len(compiled.entries) == 1 and not list(events.EVENT_LOG.since(mark, "fallback"))


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_products_with_nothing_to_add_up_are_zeros(backend):
    """BLAS's gemv writes nothing then. The programs with masks that pick no row (unbacked_programs.py) found it:
    mask_then_product with inputs(3); before the fix, a vector times a matrix held what was in memory."""
    product = cutaway.compile(lambda a, b: (a @ b * 3, b.T @ (a * 2) * 3), backend=backend, dynamic=True)
    for k in (3, 0, 5, 0):
        a, b = cutaway.randn(k), cutaway.randn(k, 3)
        for found, wanted in zip(product(a, b), (a @ b * 3, b.T @ (a * 2) * 3), strict=True):
            np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-5, atol=1e-6)


def test_an_open_number_that_other_code_fixes():
    """The text of the graph says it by name, so the program of one number, in the cache, was taken for another."""

    def f(x, n):
        return hash(n), x % n, x // n, x**n, x.clamp(max=n)

    compiled, x = cutaway.compile(f), cutaway.tensor([1.0, 2.0, 8.0, -3.0])
    for n in (3, 2, 5, 4, 2):
        (fixed, *mine), (wanted_fixed, *wanted) = compiled(x, n), f(x, n)
        assert fixed == wanted_fixed
        for a, b in zip(mine, wanted, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), 1e-6, err_msg=str(n))
