"""How many versions of a function are compiled, in which order they are asked, and what is said at the limits.

Input: small functions with a backend that runs graphs as captured; counts of entries and events of the event log.
"""

import asyncio
import re
import threading
import warnings

import pytest

import cutaway
from cutaway import compiler
from stage_contracts import config, events


def scaled(x, n=2):
    return x * len([n] * n)  # n is a constant of the capture: it decides the length of a list


def test_twenty_shapes_with_dynamic_off_are_eight_compiled_and_twelve_eager():
    counter = compiler.CompileCounter()
    f = cutaway.compile(scaled, backend=counter, dynamic=False)
    with pytest.warns(
        UserWarning, match=r"recompile limit \(8\); calls that need another recompile run eagerly"
    ) as caught:
        for _ in range(2):
            for size in range(20):
                assert f(cutaway.ones(size)).tolist() == [2] * size
    assert len(caught) == 1 and counter.frame_count == 8 == len(f.entries)


def test_the_warning_stands_at_the_users_call_however_deep_the_module():
    model = cutaway.nn.Sequential(cutaway.nn.ReLU())
    compiled = cutaway.compile(model, backend="eager", dynamic=False, options={"recompile_limit": 1})
    with pytest.warns(UserWarning, match="recompile limit") as caught:
        for size in (2, 3):
            compiled(cutaway.ones(size))
    assert caught[0].filename == __file__


def test_old_entries_stay_in_use_at_the_limit():
    f = cutaway.compile(scaled, backend="eager", dynamic=False, options={"recompile_limit": 2})
    with pytest.warns(UserWarning, match="recompile limit"):
        for size in (1, 2, 3):
            f(cutaway.ones(size))
    sizes = f.entries
    ran = []
    for entry in sizes:
        entry.run = lambda *args, run=entry.run: ran.append(1) or run(*args)
    f(cutaway.ones(1)), f(cutaway.ones(2)), f(cutaway.ones(3))
    assert len(ran) == 2


def test_the_accumulated_limit_counts_all_functions_of_one_code_object():
    def make(by):
        return lambda x: x * by

    functions = [cutaway.compile(make(by), backend="eager") for by in range(4)]
    with config.patch(accumulated_recompile_limit=3), pytest.warns(UserWarning, match="accumulated"):
        assert [f(cutaway.ones(1)).tolist() for f in functions] == [[0], [1], [2], [3]]
    assert [len(f.entries) for f in functions] == [1, 1, 1, 0]


def test_the_most_recently_used_entry_is_asked_first():
    f = cutaway.compile(scaled, backend="eager", dynamic=False)
    one, two = cutaway.ones(1), cutaway.ones(2)
    f(one)
    first = f.entries[0]
    f(two)
    assert f.entries[0] is not first
    f(one)
    assert f.entries[0] is first and len(f.entries) == 2


def test_fullgraph_raises_at_the_limit():
    f = cutaway.compile(
        scaled, backend="eager", fullgraph=True, dynamic=False, options={"recompile_limit": 1}
    )
    f(cutaway.ones(1))
    with pytest.raises(
        compiler.RecompileError,
        match=r"recompile limit \(1\), and fullgraph=True is set\. Last reason: x\.shape\[0\]",
    ):
        f(cutaway.ones(2))


@pytest.mark.parametrize(
    ("second", "line"),
    [
        (lambda: (cutaway.ones(3),), "x.shape[0]: 2 -> 3 at "),
        (
            lambda: (cutaway.ones(2, dtype=cutaway.float64),),
            "x.dtype: cutaway.float32 -> cutaway.float64 at ",
        ),
        (lambda: (cutaway.ones(2), 3), "n: 2 -> 3 at "),
        (lambda: (cutaway.ones(2), 2.5), "type(n): int -> float"),
    ],
)
def test_each_recompile_is_one_line(second, line):
    f = cutaway.compile(lambda x, n=2: x * len([n] * int(n)), backend="eager", dynamic=False)
    f(cutaway.ones(2))
    mark = events.EVENT_LOG.mark()
    f(*second())
    (event,) = events.EVENT_LOG.since(mark, "recompile")
    reason = event.details["reason"]
    assert (
        reason.startswith(line.removesuffix(" at "))
        and "\n" not in reason
        and "test_recompilation.py" in reason
    )
    assert ("mark_dynamic(x, 0) would avoid it" in reason) == ("shape" in line)


def test_two_threads_compile_and_call_the_same_function():
    counter = compiler.CompileCounter()
    f = cutaway.compile(scaled, backend=counter, dynamic=False)
    wrong, start = [], threading.Barrier(4)

    def work(seed):
        start.wait()
        for i in range(40):
            size = 1 + (i + seed) % 6
            if f(cutaway.ones(size)).tolist() != [2] * size:
                wrong.append(size)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and counter.frame_count == 6 == len(f.entries)


def test_tasks_of_asyncio_call_a_compiled_function():
    counter = compiler.CompileCounter()
    f = cutaway.compile(scaled, backend=counter, dynamic=False)

    async def work(size):
        first = f(cutaway.ones(size)).tolist()
        await asyncio.sleep(0)
        return first == f(cutaway.ones(size)).tolist() == [2] * size

    async def several():
        return await asyncio.gather(*(work(1 + i % 3) for i in range(9)))

    assert all(asyncio.run(several())) and counter.frame_count == 3


def test_recursion_and_a_backend_that_calls_the_function_it_compiles():
    def countdown(x, n):
        return x if n == 0 else countdown(x + 1, n - 1)

    assert cutaway.compile(countdown, backend="eager")(cutaway.zeros(1), 5).tolist() == [5]

    def eager_inside(graph_module, inputs):
        assert f(cutaway.ones(4)).tolist() == [2] * 4
        return graph_module.forward

    f = cutaway.compile(scaled, backend="eager", dynamic=False)
    f(cutaway.ones(4))
    g = cutaway.compile(scaled, backend=eager_inside, dynamic=False)
    assert g(cutaway.ones(5)).tolist() == [2] * 5


def test_nothing_to_say_nothing_printed(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        f = cutaway.compile(scaled, backend="eager")
        for size in (1, 2, 3):
            f(cutaway.ones(size))
    assert capsys.readouterr() == ("", "")


def test_twenty_shapes_in_kernels_are_eight_compiled_and_twelve_eager():
    f = cutaway.compile(scaled, backend="inductor", dynamic=False)
    with pytest.warns(
        UserWarning, match=r"recompile limit \(8\); calls that need another recompile run eagerly"
    ) as caught:
        for size in range(20):
            assert f(cutaway.ones(size)).tolist() == [2] * size
    assert len(caught) == 1 and len(f.entries) == 8


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_a_size_that_changed_says_what_would_have_avoided_the_compile(backend):
    f = cutaway.compile(scaled, backend=backend)
    mark = events.EVENT_LOG.mark()
    for n in (640, 8, 3):
        f(cutaway.ones(2, n))
    (event,) = events.EVENT_LOG.since(mark, "recompile")
    reason = event.details["reason"]
    assert re.fullmatch(
        r"x\.shape\[1\]: 640 -> 8 at test_recompilation\.py:\d+; mark_dynamic\(x, 1\) would avoid it", reason
    )


def test_a_fixed_size_says_where_it_was_fixed():
    def f(x):
        return x * 2 if x.shape[0] > 4 else x

    compiled = cutaway.compile(f, backend="eager", dynamic=True)
    mark = events.EVENT_LOG.mark()
    for n in (8, 2):
        compiled(cutaway.ones(n))
    (event,) = events.EVENT_LOG.since(mark, "recompile")
    assert "x.shape[0] > 4): held -> fails at test_recompilation.py" in event.details["reason"]
