"""While a frame compiles, Python collects no old garbage; afterwards it does as before, whatever happened inside.

Input: a backend that looks at the collector's thresholds, compiles that fail, nested ones, and two at once.
"""

import gc
import threading

import pytest

import cutaway
from cutaway import full_collections
from cutaway.full_collections import NEVER, SELDOM, put_off


@pytest.fixture(autouse=True)
def thresholds():
    before = gc.get_threshold()
    gc.set_threshold(700, 11, 13)
    yield
    gc.set_threshold(*before)


def oldest():
    return gc.get_threshold()[2]


@pytest.mark.parametrize("fails", [False, True])
def test_a_compile_puts_them_off(fails):
    seen = []

    def backend(graph, inputs):
        seen.append(gc.get_threshold())
        if fails:
            raise ZeroDivisionError
        return graph.forward

    compiled = cutaway.compile(lambda x: x + 1, backend=backend)
    if fails:
        with pytest.raises(Exception, match="ZeroDivisionError"):
            compiled(cutaway.ones(2))
    else:
        compiled(cutaway.ones(2))
    assert seen == [(700 * SELDOM, 11, NEVER)]
    assert gc.get_threshold() == (700, 11, 13)


def test_garbage_of_a_compile_is_still_collected():
    class Cyclic:
        pass

    freed = []
    with put_off():
        for _ in range(2000 * SELDOM):
            garbage = Cyclic()
            garbage.itself = garbage
        freed.append(gc.get_count()[0] < 1500 * SELDOM)
    assert freed == [True]


def test_the_last_of_several_ends_it():
    started, may_end = threading.Event(), threading.Event()

    def other():
        with put_off():
            started.set()
            may_end.wait()

    thread = threading.Thread(target=other)
    thread.start()
    started.wait()
    with put_off(), put_off():
        assert oldest() == NEVER
    assert oldest() == NEVER
    may_end.set()
    thread.join()
    assert oldest() == 13
    assert not full_collections._WAITING


def test_what_is_set_meanwhile_stays():
    with put_off():
        gc.set_threshold(5, 6, 7)
    assert gc.get_threshold() == (5, 6, 7)


def test_what_a_compile_made_is_old_at_its_end_and_what_a_program_froze_stays_frozen(monkeypatch):
    """conftest.py freezes what is there before the tests: that is a program's own freezing."""
    assert gc.get_freeze_count()
    with put_off():
        pass
    assert gc.get_freeze_count() and full_collections._FROZEN_BY_OTHERS.is_set()
    monkeypatch.setattr(full_collections, "_FROZEN_BY_OTHERS", threading.Event())
    gc.unfreeze()
    try:
        with put_off():
            made = [[k] for k in range(2000)]
        young = {id(one) for generation in (0, 1) for one in gc.get_objects(generation=generation)}
        assert young.isdisjoint(map(id, made)) and not gc.get_freeze_count()
    finally:
        gc.freeze()
