"""What is compiled besides the function itself: resume functions, callees, callbacks; tracebacks and threads.

Input: the driver, which is cutaway.compile without the later stages.
"""

import threading
import traceback
import types

import pytest

from stage1_capture.tests.driver import Compiled
from stage1_capture.tests.harness import tensor

LOG = []


def names(compiled):
    return sorted(frame.function_name for frame in compiled.counts.frames if frame.graph is not None)


def callee(x):
    y = x + 1
    print("callee")
    return y * 2


def by_key(x):
    LOG.append((x + 1).shape)
    return -x.shape[0]


def test_a_callee_with_a_break_is_compiled_on_its_own(capsys):
    def caller(x):
        return callee(x * 2) + 1

    compiled = Compiled(caller)
    compiled(tensor(3))
    found = names(compiled)
    assert [n.rpartition(".")[2] for n in found] == ["callee", "callee", "caller", "caller"]


def test_a_function_that_c_calls_back_is_compiled():
    def caller(items):
        return sorted(items, key=printing_key)

    compiled = Compiled(caller)
    items = [tensor(2), tensor(4), tensor(3)]
    assert compiled(items) == sorted(items, key=printing_key)
    assert "printing_key" in {frame.function_name for frame in compiled.counts.frames}


def printing_key(x):
    print("key")
    return -(x * 2).shape[0]


def test_functions_that_are_data_stay_themselves():
    def caller(x, f, g):
        chosen = max(f, g, key=print_name)
        return chosen, x + 1

    def print_name(function):
        print(function.__name__)
        return function.__name__

    chosen, _ = Compiled(caller)(tensor(3), callee, by_key)
    assert chosen is callee


def test_a_traceback_shows_the_users_lines():
    def fails(x):
        y = x + 1
        print("before")
        raise ValueError(f"at {y.shape}")  # this line

    with pytest.raises(ValueError, match="at ") as caught:
        Compiled(fails)(tensor(3))
    lines = [
        entry.line for entry in traceback.extract_tb(caught.value.__traceback__) if entry.filename == __file__
    ]
    assert 'raise ValueError(f"at {y.shape}")  # this line' in lines


def test_a_caught_exception_that_lives_on_shows_the_users_lines(capsys):
    def fails(x):
        try:
            raise ValueError(f"at {x.shape}")  # and this line
        except ValueError as error:
            print("break")
            return x + 1, error

    (_, compiled), (_, eager) = Compiled(fails)(tensor(3)), fails(tensor(3))
    one, other = (traceback.extract_tb(e.__traceback__) for e in (compiled, eager))
    assert [vars(entry) for entry in map(_place, one)] == [vars(entry) for entry in map(_place, other)]


def _place(entry):
    return types.SimpleNamespace(line=entry.line, columns=(entry.colno, entry.end_colno), name=entry.name)


def test_a_loop_with_a_break_does_not_nest_calls(capsys):
    def loop(x, n):
        for i in range(n):
            print(i)
            x = x + 1
        return x

    compiled = Compiled(loop)
    assert compiled(tensor(3), 2000)._data[0] == loop(tensor(3), 2000)._data[0]
    assert compiled.counts.graphs <= 6


def test_resume_functions_of_one_place_share_their_entries(capsys):
    def f(x, flag):
        y = x + 1 if flag else x + 2
        print("break")
        return y * 2

    compiled = Compiled(f)
    compiled(tensor(3), True)
    before = len(compiled.counts.frames)
    compiled(tensor(3), False)
    assert len(compiled.counts.frames) == before + 1


def test_an_aliased_argument_is_noticed_when_the_other_is_changed():
    def f(x, a, b):
        a.append(1)
        return x + len(b)

    compiled = Compiled(f)
    compiled(tensor(3), [1], [2])
    shared = [1]
    result = compiled(tensor(3), shared, shared)
    assert result._data.tolist() == (tensor(3) + 2)._data.tolist()


def test_threads_may_run_one_function_at_once(capsys):
    def f(x):
        y = x + 1
        print("t")
        return y * 2

    compiled, results = Compiled(f), []
    threads = [threading.Thread(target=lambda: results.append(compiled(tensor(3)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({repr(r._data.tolist()) for r in results}) == 1 and len(results) == 4


def test_the_frame_is_left_whole_when_the_program_reads_it(capsys):
    def f(x):
        y = x + 1
        print("break")
        return sorted(locals()), y

    compiled = Compiled(f)
    assert compiled(tensor(3))[0] == ["x", "y"]
    assert compiled.counts.frames[0].residual is None
