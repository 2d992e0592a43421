"""Faults planted at every step of the machine: values as eager's, one event, and nothing half-written.

Input: programs that write in place, draw, run backward, have opaque operators; and the places: each pass that a clean
compile reports, the checks, the draw, the launch, what a launch calls, the write-back, each late copy, the backward.
On the tree before the fix, 12 of these 31 calls, draws, copies and backwards differed: a donated update or a
copy done twice, a draw given back that was not done, a fault of the backward taken for the program's own.
"""

import importlib
import itertools
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest

import cutaway
from cutaway import inductor, library
from stage2_autograd.runtime import compiled_backward, input_checks, runtime_wrapper, write_back
from stage_contracts import config, events

pytestmark = [pytest.mark.internal_errors, pytest.mark.filterwarnings("ignore:cutaway:UserWarning")]
# where its package has a function of that name
launch = importlib.import_module("stage4_runtime.runtime.launch")
NUMBERS = itertools.count(2)  # a constant of its own for each program: no cache knows it


class Planted(Exception):
    """The fault."""


@library.custom_op("cutaway_planted::twice", mutates_args=())
def twice(x: cutaway.Tensor) -> cutaway.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return cutaway.empty_like(x)


# ---- the programs: (x, w, k) -> results; x may be on the tape, w is written -----------------------------------------


def update(x, w, k):
    with cutaway.no_grad():
        w.mul_(k).add_(x)


def views(x, w, k):
    w.mul_(k)
    return w[1:], x + w, w


def on_the_tape(x, w, k):
    w.mul_(x * k)
    return (w * x).sum()


def through_a_view(x, w, k):
    w[1:].mul_(x[1:] * k)
    return w.sum()


def opaque(x, w, k):
    y = twice(x.detach() * k)
    w.add_(y)
    return (y * x).sum()


def random(x, w, k):
    w.add_(cutaway.rand(4) * k)
    return (w.detach() * x).sum()


def only_draws(x, w, k):
    return (cutaway.rand(4) * x * k).sum()


PROGRAMS = (update, views, on_the_tape, through_a_view, opaque, random, only_draws)


def outcome(function, program, k):
    """All that can be seen of a call and its backward."""
    cutaway.manual_seed(3)
    x = cutaway.tensor([0.5, 1.5, -2.0, 3.0], requires_grad=program is not update)
    whole = cutaway.arange(8.0) * 1.0
    if program is through_a_view:
        whole = whole * x.sum()
    w = whole[2:6]
    made = function(x, w, k)
    if isinstance(made, cutaway.Tensor) and made.requires_grad:
        made.backward()
    seen = [made] if isinstance(made, cutaway.Tensor) else list(made or ())
    values = [t.detach().numpy().copy() for t in (*seen, x, whole, w, cutaway.rand(2))]
    values += [x.grad.numpy().copy()] if x.grad is not None else []
    return values, [w._version, x._version, *(t.requires_grad for t in (*seen, w, whole))]


# ---- the places -----------------------------------------------------------------------------------------------------


@contextmanager
def in_pass(name, monkeypatch, met):
    timed = events.timed

    @contextmanager
    def fails(kind, at, **details):
        with timed(kind, at, **details) as found:
            if (kind, at) == ("pass", name):
                met.append(name)
                raise Planted(name)
            yield found

    with monkeypatch.context() as patch:
        patch.setattr(events, "timed", fails)
        yield


def clean_passes(program):
    mark = events.EVENT_LOG.mark()
    k = float(next(NUMBERS))
    outcome(cutaway.compile(program), program, k)
    return list(dict.fromkeys(e.name for e in events.EVENT_LOG.since(mark, "pass")))


def agrees(got, expected):
    assert got[1] == expected[1]
    for a, b in zip(got[0], expected[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def one_event(mark):
    (event,) = events.internal_errors(mark)
    assert "Planted" in event.details["report"] and "please report" in event.details["report"]


@pytest.mark.parametrize("program", [update, on_the_tape, opaque])
def test_a_fault_in_each_pass(program, monkeypatch, tmp_path):
    with cutaway.config.patch({"runtime.cache_dir": str(tmp_path)}):  # where no program is known
        names = clean_passes(program)
    monkeypatch.setattr(inductor, "on_disk", lambda *_: None)  # stage 2 runs in each of these compiles
    assert {"capture", "functionalize", "decompose.views", "lower", "emit", "build", "launch"} <= {*names}
    reached = 0
    for name in names:
        k, met, mark = float(next(NUMBERS)), [], events.EVENT_LOG.mark()
        compiled = cutaway.compile(program)
        with in_pass(name, monkeypatch, met):
            got = outcome(compiled, program, k)
        agrees(got, outcome(program, program, k))
        if not met:  # a program that the cache knows is not lowered again
            continue
        one_event(mark)
        reached += 1
    assert reached >= 12, (reached, names)


# What a call goes through, each failing at its first, second and third time.
AT_A_CALL = [
    (input_checks, "_refuse_leaves"),
    (input_checks, "_refuse_shared_memory"),
    (runtime_wrapper, "Tensor"),
    (runtime_wrapper, "CompiledBackward"),
    (runtime_wrapper.SavingPlan, "save"),
    (runtime_wrapper.CompiledBackward, "expect_versions_of_now"),
    (write_back, "version_of"),
    (write_back, "write_through"),
    (write_back, "root"),
    (write_back, "_undoing"),
    (write_back, "_put_on_tape"),
    (write_back, "_to_copy"),
    (compiled_backward, "_laid_out"),
    (launch, "conform"),
]


# `update` writes in the launch itself: what fails behind it is done again, for eager would write a second time.
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_fault_at_a_call(program, monkeypatch):
    met = 0
    for home, name in AT_A_CALL:
        for number in range(3):
            calls = [0]
            original = getattr(home, name)
            armed = [False]

            def fails(*args, calls=calls, original=original, number=number, armed=armed, **kwargs):
                calls[0] += armed[0]
                if armed[0] and calls[0] == number + 1:
                    raise Planted
                return original(*args, **kwargs)

            with monkeypatch.context() as patch:
                patch.setattr(home, name, fails)
                k = 2.0
                compiled = cutaway.compile(program)
                agrees(outcome(compiled, program, k), outcome(program, program, k))
                mark, armed[0] = events.EVENT_LOG.mark(), True
                got = outcome(compiled, program, k)
                armed[0] = False
                agrees(got, outcome(program, program, k))
                if calls[0] > number:
                    met += 1
                    one_event(mark)
    assert met


@pytest.mark.parametrize("half", ["forward", "backward"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_fault_of_a_launch(program, half, monkeypatch):
    armed, failed, original = [], set(), inductor.lower_and_build

    def lower_and_build(core, *rest):
        def finish():
            made = built()
            run = made.run

            def failing(*arrays):
                if core.name in armed:
                    failed.add(id(made))
                    raise Planted
                return run(*arrays)

            made.run = failing
            return made

        built = original(core, *rest)
        return finish

    monkeypatch.setattr(inductor, "lower_and_build", lower_and_build)
    compiled = cutaway.compile(program)
    expected = outcome(program, program, 2.0)
    agrees(outcome(compiled, program, 2.0), expected)
    armed.append(half)
    mark = events.EVENT_LOG.mark()
    for _ in range(2):
        agrees(outcome(compiled, program, 2.0), expected)
    assert len(events.internal_errors(mark)) == len(failed)  # each told once
    assert failed or half == "backward"


def test_an_update_in_place_is_donated():
    """Otherwise the tests above would not show it."""
    compiled = cutaway.compile(update)
    outcome(compiled, update, 2.0)
    program = compiled.artifacts[-1].forward.planned
    assert len(program.written_inputs) > len(program.updates)


# ---- the draw ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("program", [random, only_draws])
def test_a_fault_of_the_draw_itself(program, monkeypatch):
    compiled, library = cutaway.compile(program), runtime_wrapper.array_library
    expected = outcome(program, program, 2.0)
    agrees(outcome(compiled, program, 2.0), expected)

    def move(*_):
        raise Planted

    mark = events.EVENT_LOG.mark()
    with monkeypatch.context() as patch:
        patch.setattr(runtime_wrapper, "array_library", SimpleNamespace(**{**vars(library), "move": move}))
        agrees(outcome(compiled, program, 2.0), expected)
    one_event(mark)


def draws_then_takes(x, i):
    return (cutaway.rand(4) * x)[i].sum() + cutaway.rand(1)


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("planted", [False, True])
def test_an_index_outside_between_draws_leaves_eagers_state(planted, grad, monkeypatch):
    """The generator stands where eager leaves it: after the first draw, whether the launch or eager found the index."""
    compiled, left = cutaway.compile(draws_then_takes), []
    compiled(cutaway.ones(4, requires_grad=grad), cutaway.tensor([1]))
    for function in (draws_then_takes, compiled):
        cutaway.manual_seed(5)
        with monkeypatch.context() as patch:
            if planted and function is compiled:
                patch.setattr(runtime_wrapper, "array_library", SimpleNamespace(move=launch_fails))
            with pytest.raises(IndexError):
                function(cutaway.ones(4, requires_grad=grad), cutaway.tensor([9]))
        left.append(cutaway.rand(3).tolist())
    assert left[0] == left[1]


def launch_fails(*_):
    raise Planted


# ---- late copies ------------------------------------------------------------------------------------------------------


class Guarded(np.ndarray):
    """Memory whose writes by `memory[...] = new` fail once, when they are told to."""

    armed = False

    def __setitem__(self, key, value):
        if Guarded.armed:
            Guarded.armed = False
            raise Planted
        super().__setitem__(key, value)


def writes_two(p, q, k):
    p.mul_(k)
    q.add_(p)
    return q[1:], p[:1]


def writes_three(p, q, k):
    q.mul_(k)
    p.add_(q)
    q.add_(p)
    return p[2:], q


def gives_nothing(p, q, k):
    p.mul_(k)
    q.add_(p)


@pytest.mark.parametrize("program", [writes_two, writes_three])
@pytest.mark.parametrize("place", [0, 1, None])
def test_a_copy_that_fails_after_another(program, place):
    """On the tree before, the first tensor was written twice."""

    def tensors(place):
        made = [cutaway.arange(4.0), cutaway.ones(4)]
        if place is not None:
            made[place]._data = made[place]._data.view(Guarded)
        return made

    def seen(function, place=None):
        made = tensors(place)
        results = function(*made, 3.0)
        return [t.tolist() for t in (*results, *made)], [t._version for t in (*made, *results)]

    compiled = cutaway.compile(program)
    with config.patch({"autograd.disabled_passes": "plan_memory.donate"}):  # else nothing is copied
        assert seen(compiled) == seen(program)
    mark, Guarded.armed = events.EVENT_LOG.mark(), place is not None
    assert seen(compiled, place) == seen(program)
    assert not Guarded.armed
    assert len(events.internal_errors(mark)) == (place is not None)


@pytest.mark.parametrize("on_tape", [False, True])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("program", [writes_two, writes_three, gives_nothing])
def test_memory_that_cannot_be_written(program, place, on_tape):
    """Eager writes what comes before, raises, and so does compiled code."""
    compiled, left = cutaway.compile(program), []
    k = cutaway.ones(4, requires_grad=True) if on_tape else 3.0
    program(cutaway.ones(4), cutaway.ones(4), k)
    compiled(cutaway.ones(4), cutaway.ones(4), k)
    mark = events.EVENT_LOG.mark()
    for function in (program, compiled):
        made = [cutaway.arange(4.0), cutaway.ones(4)]
        made[place]._data.flags.writeable = False
        try:
            function(*made, k)
            raised = None
        except Exception as error:
            raised = type(error)
        left.append(([t.tolist() for t in made], raised))
    assert left[0] == left[1]
    assert events.internal_errors(mark) == []


# ---- a backward that fails with the program's type ---------------------------------------------------------------------


def test_a_backward_whose_core_graph_fails_too(monkeypatch):
    """Another error of the same type is a bug in both: it is reported."""
    launch_errors = importlib.import_module("cutaway.launch_errors")
    compiled, number = cutaway.compile(lambda x: (x.sin() * x).sum()), itertools.count()
    x = cutaway.ones(3, requires_grad=True)
    compiled(x)

    def fails(*_):
        raise KeyError(f"fault {next(number)}")

    y = compiled(x)
    y.grad_fn.backward = fails
    monkeypatch.setattr(launch_errors, "interpreter", lambda core: fails)
    mark = events.EVENT_LOG.mark()
    with pytest.raises(KeyError, match="fault 1"):
        y.backward()
    (event,) = events.internal_errors(mark)
    assert "fault 0" in event.details["report"]


# ---- a program whose own error comes behind a write -----------------------------------------------------------------


def takes(p, q, i):
    p.mul_(2)
    return (q * p.sum())[i]


def inverts(p, q, i):
    p.mul_(2)
    return cutaway.linalg.inv(q)


@pytest.mark.parametrize(
    "program, good, bad",
    [(takes, (cutaway.ones(5), [0]), (cutaway.ones(5), [9])), (inverts, (cutaway.eye(2), [0]), (cutaway.zeros(2, 2), [0]))],
)  # fmt: skip
def test_a_write_is_done_once_where_a_later_step_raises(program, good, bad):
    compiled, mark, left = cutaway.compile(program), events.EVENT_LOG.mark(), []
    for function in (program, compiled):
        p = cutaway.ones(1000)
        function(p, good[0], cutaway.tensor(good[1]))
        with pytest.raises(Exception) as caught:
            function(p, bad[0], cutaway.tensor(bad[1]))
        left.append((p[0].item(), caught.type))
    assert left[0] == left[1] == (4.0, left[0][1])
    assert events.internal_errors(mark) == []
