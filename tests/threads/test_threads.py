"""Several threads, tasks and frames at once: what is compiled is the same, and nobody sees another's state.

Input: cutaway.compile with the backend that runs graphs as captured.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading

import pytest

import cutaway
from cutaway import nn
from stage0_eager import is_grad_enabled
from tests.threads import many_shapes

THREADS = 8


def in_threads(work, count=THREADS):
    """Run work(0), work(1), ... at the same time; what they returned, in order. The first error is raised."""
    barrier, results, errors = threading.Barrier(count), [None] * count, []

    def run(i):
        try:
            barrier.wait()
            results[i] = work(i)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]
    return results


def compiled(function, **options):
    return cutaway.compile(function, backend="eager", **options)


@pytest.fixture(autouse=True)
def switch_often():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def test_many_shapes_at_once():
    """Each thread asks for shapes in another order: every answer is right, and no entry is made twice."""

    def f(x, scale):
        y = x * scale
        return y.sum(0) if y.shape[0] > 3 else y + 1

    g = compiled(f, dynamic=False)

    def work(i):
        for k in range(12):
            x = cutaway.ones(1 + (i + k) % 6, 2)
            assert g(x, 2).tolist() == f(x, 2).tolist()

    in_threads(work)
    assert len(g.entries) == 6


@pytest.mark.parametrize("dynamic", [False, None])
def test_many_shapes_at_once_while_kernels_are_built_and_files_are_damaged(dynamic):
    """A slice of `make cache-faults`."""
    done, wrong = many_shapes.drive(threads=4, shapes=3, seed=1, dynamic=dynamic)
    assert not wrong and done["calls"] == 12 and 0 < done["entries"] <= 3


def test_breaks_at_once():
    lines = []

    def f(x, name):
        y = x + 1
        lines.append(name)
        cutaway.compiler.graph_break()
        for _ in range(3):
            y = y * 2
            cutaway.compiler.graph_break()
        return y, name

    g = compiled(f)

    def work(i):
        for _ in range(4):
            value, name = g(cutaway.ones(2) * i, i)
            assert value.tolist() == [(i + 1) * 8.0] * 2 and name == i

    in_threads(work)
    assert sorted(lines) == sorted(list(range(THREADS)) * 4)


def test_one_model_trained_by_none_and_called_by_many():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    twin = cutaway.compile(model, backend="aot_eager", dynamic=False)
    inputs = [cutaway.ones(1 + i % 3, 3) * i for i in range(THREADS)]
    expected = [model(x).tolist() for x in inputs]
    got = in_threads(lambda i: [twin(inputs[i]) for _ in range(5)][-1])
    assert [[[round(v, 4) for v in row] for row in out.tolist()] for out in got] == [
        [[round(v, 4) for v in row] for row in out] for out in expected
    ]


def test_an_exception_stays_in_its_thread():
    def f(x, n):
        try:
            y = x + 1
            cutaway.compiler.graph_break()
            if n % 2:
                raise ValueError(n)
        except ValueError as error:
            cutaway.compiler.graph_break()
            assert sys.exc_info()[1] is error
            if n % 4 == 3:
                raise KeyError(n) from error
            y = y * 2
        assert sys.exc_info()[1] is None
        return y

    g = compiled(f)

    def work(i):
        for _ in range(5):
            try:
                out = g(cutaway.ones(1), i).item()
            except KeyError as error:
                assert i % 4 == 3 and error.args == (i,) and error.__cause__.args == (i,)
            else:
                assert out == (4.0 if i % 2 else 2.0)

    in_threads(work)


def test_the_grad_mode_is_the_threads():
    def f(x):
        with cutaway.no_grad():
            y = x * 2
            cutaway.compiler.graph_break()
            inside = is_grad_enabled()
        return (x * y).sum(), inside

    g = compiled(f)

    def work(i):
        for _ in range(5):
            x = cutaway.ones(2, requires_grad=True)
            with cutaway.set_grad_enabled(i % 2 == 0):
                out, inside = g(x)
            assert not inside and out.requires_grad == (i % 2 == 0) and is_grad_enabled()

    in_threads(work)


@pytest.mark.filterwarnings("ignore:.*recompile limit")
def test_limits_and_resets_meanwhile():
    def f(x, n):
        return x * n + len(str(n))

    g = compiled(f)

    def work(i):
        for k in range(8):
            if i == 0:
                cutaway.compiler.reset()
            assert g(cutaway.ones(1 + k % 3), i + k).tolist() == [i + k + len(str(i + k))] * (1 + k % 3)

    in_threads(work)


def test_tasks_of_one_loop():
    """Coroutines around compiled calls: each keeps its context variables and its place."""
    who = contextvars.ContextVar("who")

    def f(x, n):
        y = x + n
        cutaway.compiler.graph_break()
        return y * 2, who.get()

    g = compiled(f)

    async def task(n):
        who.set(n)
        found = []
        for _ in range(3):
            value, name = g(cutaway.ones(1), n)
            await asyncio.sleep(0)
            found.append((value.item(), name))
        return found

    async def main():
        return await asyncio.gather(*map(task, range(5)))

    assert asyncio.run(main()) == [[((1.0 + n) * 2, n)] * 3 for n in range(5)]


def test_the_callers_generator_goes_on_where_it_stood():
    def f(x, it):
        y = x + next(it)
        cutaway.compiler.graph_break()
        return y * next(it)

    def numbers():
        yield from range(1, 100)

    g, it = compiled(f), numbers()
    assert g(cutaway.ones(1), it).item() == 4.0 and next(it) == 3
    assert g(cutaway.ones(1), it).item() == 25.0 and next(it) == 6

    def calls():
        for n in range(3):
            yield g(cutaway.ones(1), iter((n, n)))

    assert [v.item() for v in calls()] == [0.0, 2.0, 6.0]


def test_recursion():
    def down(x, n):
        if n == 0:
            cutaway.compiler.graph_break()
            return x
        return down(x * 2, n - 1) + 1

    def even(x, n):
        return x if n == 0 else odd_compiled(x + 1, n - 1)

    def odd(x, n):
        return x if n == 0 else even_compiled(x * 2, n - 1)

    even_compiled, odd_compiled = compiled(even), compiled(odd)
    assert compiled(down)(cutaway.ones(1), 6).item() == down(cutaway.ones(1), 6).item()
    assert even_compiled(cutaway.ones(1), 5).item() == 11.0 and odd_compiled(cutaway.ones(1), 4).item() == 7.0

    def own(x, n):
        cutaway.compiler.graph_break()
        return x if n == 0 else own_compiled(x + n, n - 1)

    own_compiled = compiled(own)
    assert own_compiled(cutaway.ones(1), 5).item() == 16.0


def test_recursion_without_end_is_pythons_error():
    def forever(x):
        cutaway.compiler.graph_break()
        return forever_compiled(x + 1)

    forever_compiled = compiled(forever)
    with pytest.raises(RecursionError):
        forever_compiled(cutaway.ones(1))
    assert compiled(lambda x: x + 1)(cutaway.ones(1)).item() == 2.0


def test_a_low_recursion_limit():
    """Where capture runs out of frames, the program runs eagerly."""

    def deep(x, n):
        return x if n == 0 else deep(x + 1, n - 1)

    depth, frame = 0, sys._getframe()
    while frame:
        depth, frame = depth + 1, frame.f_back
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 120)
    try:
        out = compiled(deep)(cutaway.ones(1), 30).item()
    finally:
        sys.setrecursionlimit(before)
    assert out == 31.0


def test_compile_inside_compile():
    def inner(x):
        return x + 1

    def outer(x):
        made = cutaway.compile(inner, backend="eager")
        cutaway.compiler.graph_break()
        return made(x) * compiled(lambda v: v * 3)(x)

    assert compiled(outer)(cutaway.ones(1) * 2).item() == 18.0


@pytest.mark.parametrize("install", [sys.setprofile, sys.settrace], ids=["profile", "trace"])
def test_a_profiler_or_debugger_is_active(install):
    """Events of the program's own lines keep coming, and results are the same."""
    seen = set()

    def watch(frame, event, argument):
        seen.add((frame.f_code.co_name, event))
        return watch

    def f(x, n):
        y = x + n
        try:
            cutaway.compiler.graph_break()
            int("x")
        except ValueError:
            cutaway.compiler.graph_break()
            y = y * 2
        return y

    g = compiled(f)
    before = sys.gettrace() if install is sys.settrace else sys.getprofile()
    install(watch)
    try:
        results = [g(cutaway.ones(1), 2).item() for _ in range(3)]
    finally:
        install(before)
    assert results == [6.0] * 3 and ("f", "call") in seen
