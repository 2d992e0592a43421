"""Policies: kernels that build while calls run, compiled code that gives way to a faster eager, none when deterministic."""

import threading
import time

import numpy as np
import pytest

import cutaway
from cutaway.policies import TIMED, WARM_UP
from stage_contracts import config, events


def f(x):
    return (x * 2 + 1).sin()


@pytest.fixture
def slow_build():
    """The default pipeline, whose builds wait until they are let go; and what lets them."""
    from dataclasses import replace

    go, pipeline = threading.Event(), cutaway.DEFAULT_PIPELINE

    def build(unit):
        assert go.wait(60)
        return pipeline.build(unit)

    yield replace(pipeline, build=build), go
    go.set()


def test_first_calls_do_not_wait_for_the_build(slow_build):
    pipeline, go = slow_build
    x = cutaway.arange(8).float()
    with config.patch({"runtime.background": True}):
        compiled = cutaway.compile(f, pipeline=pipeline)
        before = compiled(x)
        np.testing.assert_allclose(before.numpy(), f(x).numpy(), rtol=1e-6)
        mark = events.EVENT_LOG.mark()
        go.set()
        for _ in range(200):
            after = compiled(x)
            if events.EVENT_LOG.since(mark, "pass"):
                break
            time.sleep(0.05)
    assert [e.name for e in events.EVENT_LOG.since(mark, "pass")] == ["build", "launch"]
    np.testing.assert_allclose(after.numpy(), f(x).numpy(), rtol=1e-6)


@pytest.mark.parametrize("slow, kept", [("compiled", "eager"), ("eager", "compiled")])
def test_the_faster_way_stays(slow, kept):
    from cutaway.policies import Trial
    from stage_contracts.pipeline import Entry

    def way(name):
        def run():
            calls.append(name)
            time.sleep(0.005 if name == slow else 0)

        return run

    calls, mark = [], events.EVENT_LOG.mark()
    entry = Entry((), lambda: True, way("compiled"), None)
    entry.run = Trial(entry, entry.run, way("eager"), "f")
    for _ in range(2 * (WARM_UP + TIMED)):
        entry.run()
    assert calls[:4] == ["compiled", "eager", "compiled", "eager"]
    calls.clear()
    entry.run()
    assert calls == [kept]
    (event,) = [e for e in events.EVENT_LOG.since(mark) if e.name == "never_slower"]
    assert f"{kept} from here on" in event.details["reason"]


def test_each_call_on_trial_runs_once():
    counter = cutaway.zeros(())

    def count(x):
        counter.add_(1)
        return x + counter

    with config.patch({"runtime.never_slower": True}):
        compiled = cutaway.compile(count)
        for k in range(2 * (WARM_UP + TIMED) + 3):
            assert compiled(cutaway.zeros(2)).tolist() == [k + 1, k + 1]


def test_nothing_is_measured_when_deterministic():
    mark = events.EVENT_LOG.mark()
    with config.patch({"runtime.never_slower": True, "runtime.deterministic": True}):
        compiled = cutaway.compile(f)
        for _ in range(20):
            compiled(cutaway.ones(3))
    assert not [e for e in events.EVENT_LOG.since(mark) if e.name == "never_slower"]
