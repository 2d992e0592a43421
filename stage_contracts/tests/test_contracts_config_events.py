"""The configuration (environment, patches, errors, threads) and the event log (events, counters, listeners, threads).

Input: a made-up environment; an event log of its own.
"""

import contextvars
import dataclasses
import threading

import pytest

from stage_contracts import config
from stage_contracts.events import EVENT_LOG, KINDS, Event, EventLog, record
from stage_contracts.origin import Origin

# ---- configuration ----------------------------------------------------------------------------------------------


def test_defaults_come_from_nothing():
    assert config.from_environment({}) == config.Config()
    assert config.Config().runtime.cache is True and config.Config().capture.recompile_limit == 8


def test_the_environment_is_read_by_type():
    read = config.from_environment({
        "CUTAWAY_CAPTURE_RECOMPILE_LIMIT": "3", "CUTAWAY_RUNTIME_CACHE": "off", "CUTAWAY_RUNTIME_CXX": "clang++",
        "CUTAWAY_AUTOGRAD_VERIFY_PASSES": "YES", "CUTAWAY_SOMETHING_ELSE": "1", "PATH": "x",
    })  # fmt: skip
    assert read.capture.recompile_limit == 3 and read.runtime.cache is False and read.runtime.cxx == "clang++"
    assert read.autograd.verify_passes is True and read.lowering == config.LoweringConfig()
    for text in ("0", "false", "No", ""):
        assert config.from_environment({"CUTAWAY_RUNTIME_CACHE": text}).runtime.cache is False


@pytest.mark.parametrize(
    ("variable", "value", "text"),
    [
        ("CUTAWAY_RUNTIME_CACHE", "maybe", "CUTAWAY_RUNTIME_CACHE='maybe': expected one of 1, true"),
        ("CUTAWAY_CAPTURE_RECOMPILE_LIMIT", "many", "CUTAWAY_CAPTURE_RECOMPILE_LIMIT='many': expected int"),
    ],
)
def test_wrong_variables_are_named(variable, value, text):
    with pytest.raises(ValueError, match=text):
        config.from_environment({variable: value})


def test_patches_nest_and_end():
    before = config.current()
    with config.patch(cache=not before.runtime.cache) as inner:
        assert config.current() is inner and inner.runtime.cache is not before.runtime.cache
        with config.patch({"capture.recompile_limit": 99}, fusion=False):
            assert config.current().capture.recompile_limit == 99 and not config.current().lowering.fusion
            assert config.current().runtime.cache is inner.runtime.cache
        assert config.current() is inner
        with pytest.raises(ZeroDivisionError), config.patch(fusion=False):
            raise ZeroDivisionError
        assert config.current() is inner
    assert config.current() is before


@pytest.mark.parametrize(
    ("changes", "kind", "text"),
    [
        (
            {"cach": True},
            AttributeError,
            "no configuration field 'cach'; did you mean 'cache'",
        ),
        ({"capture.cache": True}, AttributeError, "no configuration field 'capture.cache'"),
        ({"runtime.cache": 1}, TypeError, "runtime.cache expects bool, but got 1"),
        ({"recompile_limit": "8"}, TypeError, "capture.recompile_limit expects int, but got '8'"),
    ],
)
def test_wrong_changes_are_named_and_change_nothing(changes, kind, text):
    before = config.current()
    with pytest.raises(kind, match=text), config.patch(changes):
        pass
    assert config.current() is before


def test_a_patch_belongs_to_its_thread_and_its_context():
    seen = {}

    def look(name):
        seen[name] = config.current().capture.recompile_limit

    with config.patch(recompile_limit=77):
        thread = threading.Thread(target=look, args=("thread",))
        thread.start()
        thread.join()
        copied = contextvars.copy_context()
    copied.run(look, "copied context")
    assert seen == {"thread": config.Config().capture.recompile_limit, "copied context": 77}


def test_a_configuration_never_changes():
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.current().runtime.cache = False  # type: ignore[misc]
    for section in dataclasses.fields(config.Config):
        assert dataclasses.is_dataclass(getattr(config.Config(), section.name))


# ---- the event log -------------------------------------------------------------------------------------------------


def test_events_are_numbered_counted_and_found():
    event_log = EventLog()
    first = event_log.record("cache", "hit", key="abc")
    mark = event_log.mark()
    second = event_log.record("build", "cpp", duration_ns=2_500_000, origin=Origin("m.py", 1))
    assert (first.number, second.number, mark) == (0, 1, 1) and second.start_ns >= first.start_ns > 0
    assert (
        event_log.since() == [first, second]
        and event_log.since(mark) == [second]
        and event_log.since(kind="cache") == [first]
    )
    event_log.count("launches", 3)
    event_log.count("launches")
    assert event_log.counters == {"cache.hit": 1, "build.cpp": 1, "launches": 4}
    assert str(first) == "[cache] hit key=abc" and str(second) == "[build] cpp 2.50 ms"
    assert str(Event(0, "cache", "miss", 1, details={"big": [1]})) == "[cache] miss"
    event_log.clear()
    assert event_log.since() == [] and event_log.counters == {} and event_log.mark() >= 0


def test_marks_hold_after_clear():
    event_log = EventLog()
    for _ in range(3):
        event_log.record("cache", "hit")
    event_log.clear()
    mark = event_log.mark()
    after = event_log.record("cache", "hit")
    assert event_log.since(mark) == [after]


def test_unknown_kinds_are_refused():
    with pytest.raises(ValueError, match="unknown event kind 'compiled'; expected one of compile, pass"):
        EventLog().record("compiled", "x")
    assert all(KINDS.values())


def test_timed_blocks():
    event_log = EventLog()
    with event_log.timed("pass", "fuse", nodes=3) as details:
        details["kernels"] = 1
    with pytest.raises(KeyError), event_log.timed("pass", "lower"):
        raise KeyError("x")
    good, bad = event_log.since()
    assert good.details == {"nodes": 3, "kernels": 1} and good.duration_ns > 0
    assert bad.details == {"error": "KeyError"} and bad.name == "lower"


def test_the_oldest_events_go_first():
    event_log = EventLog(limit=5)
    for i in range(8):
        event_log.record("cache", "hit", i=i)
    assert [e.details["i"] for e in event_log.since()] == [3, 4, 5, 6, 7] and event_log.counters[
        "cache.hit"
    ] == 8
    assert event_log.mark() == 8 and event_log.since(6)[0].details["i"] == 6


def test_listeners_hear_events_only_while_their_block_runs():
    event_log, heard = EventLog(), []
    with event_log.listening(heard.append):
        event = event_log.record("cache", "hit")
        with event_log.listening(lambda e: event_log.count("inner")):  # a listener may use the event_log
            event_log.record("cache", "miss")
    event_log.record("cache", "hit")
    assert heard[0] is event and len(heard) == 2 and event_log.counters["inner"] == 1


def test_threads_lose_nothing():
    event_log = EventLog()

    def work():
        for _ in range(500):
            event_log.record("cache", "hit")
            event_log.count("n", 2)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert [e.number for e in event_log.since()] == list(range(2000)) and event_log.counters == {
        "cache.hit": 2000,
        "n": 4000,
    }


def test_there_is_one_event_log():
    mark = EVENT_LOG.mark()
    event = record("fallback", "numpy", reason="a test")
    assert event in EVENT_LOG.since(mark)
