"""Programs on several streams without a GPU: which steps go where, what orders them, and that any timing gives the same.

Input: hand-written and random programs. The fake CuPy's streams run their work as late or as early as a draw says, and
freed memory goes to the next who asks, so a wait that is missing gives another result.
"""

import random
import sys
from dataclasses import replace

import pytest

from stage4_runtime.runtime import plan_memory, stream_costs
from stage4_runtime.runtime.parallel_streams import dependencies, parallel_streams, place
from stage4_runtime.tests.fake_cupy import array
from stage4_runtime.tests.programs import (
    chain,
    external,
    meta,
    program,
    sum_kernel,
)
from stage4_runtime.tests.stream_programs import (
    CUDA,
    branches,
    drawn,
    evaluated,
    numbers,
    planned,
    same,
    streams_of,
    waits_of,
)
from stage_contracts import config
from stage_contracts.graph import GraphError
from stage_contracts.loop_ir import BufferRef
from stage_contracts.program import (
    External,
    Launch,
    RecordEvent,
    Return,
    WaitEvent,
)
from stage_contracts.races import races
from stage_contracts.stream_order import has_streams

# ---- where steps go ------------------------------------------------------------------------------------------------


def test_branches_go_to_streams_of_their_own_and_come_together():
    made = planned(branches(3, 2))
    assert streams_of(made) == [0, 0, 1, 1, 2, 2, 0]
    assert [(type(s).__name__, s.event, s.stream) for s in made.steps if isinstance(s, RecordEvent | WaitEvent)] == [
        ("RecordEvent", 0, 0), ("WaitEvent", 0, 1), ("RecordEvent", 1, 1), ("WaitEvent", 0, 2), ("RecordEvent", 2, 2),
        ("WaitEvent", 2, 0), ("WaitEvent", 1, 0),
    ]  # fmt: skip


def test_a_chain_stays_on_one_stream():
    assert not has_streams(planned(chain(6)))


def test_the_rule_asks_for_room_on_the_device():
    room, none = branches(4, 3, 1 << 10), branches(4, 3, 1 << 24)
    assert has_streams(planned(room, "on")) and not has_streams(planned(none, "on"))
    assert has_streams(planned(none, "force"))


def test_the_rule_asks_for_more_than_the_events_cost(monkeypatch):
    of = branches(4, 3)
    assert has_streams(planned(of, "on"))
    monkeypatch.setattr(stream_costs, "EVENT", 20.0)
    assert not has_streams(planned(of, "on"))


def test_by_default_only_graphs_have_them():
    of = branches(4, 3)
    assert config.current().runtime.parallel_streams == "auto"
    assert not has_streams(planned(of, "auto"))
    assert has_streams(planned(of, "auto", **{"runtime.cuda_graphs": True}))
    assert not has_streams(planned(of, "off", **{"runtime.cuda_graphs": True}))


def test_a_program_of_the_cpu_has_none():
    with config.patch({"runtime.parallel_streams": "force"}):
        assert not has_streams(plan_memory(branches(3)))


def test_streams_that_are_there_stay():
    made = planned(branches(3, 2))
    assert planned(made, "auto") == made and planned(made, "force") == made


def test_what_a_library_allocates_for_stays_on_the_callers_stream():
    steps = [
        external("neg", "x", out="a"),
        external("sort", "x", out="b"),
        external("matmul", "x", "x", out="c"),
    ]
    steps += [external("matmul", "x", "w", out="d"), external("scatter_add", "c", "d", out="y")]
    inputs, temporaries = dict.fromkeys("xw", meta(8, 8)), dict.fromkeys("abcd", meta(8, 8))
    made = planned(program(inputs, temporaries, {"y": meta(8, 8)}, [], steps, ["y", "a", "b"]))
    calls = {s.outputs[0]: s for s in made.steps if isinstance(s, External)}
    assert {name for name, step in calls.items() if step.stream} and not {*"aby"} & {
        name for name, step in calls.items() if step.stream
    }
    assert all(step.into for step in calls.values() if step.stream)


def test_a_convolution_beside_others_writes_to_planned_memory():
    """New memory would come from the caller's stream, which may just have freed it."""
    image, weight = meta(1, 8, 6, 6), meta(8, 8, 1, 1)
    words = (1, 1), (0, 0), (1, 1), False, (0, 0), 1
    steps = [external("convolution", "x", name, *words, out=f"{name}x") for name in "uv"]
    steps += [Launch("total", ("ux", "vx", "y"))]
    kernels = [sum_kernel("total", "y", ["ux", "vx"], 288)]
    of = program(
        {"x": image, "u": weight, "v": weight},
        {"ux": image, "vx": image},
        {"y": image},
        kernels,
        steps,
        ["y"],
    )
    first, second = (s for s in planned(of).steps if isinstance(s, External))
    assert (first.stream, first.into, second.stream, second.into) == (0, False, 1, True)


def test_costs_of_a_product_and_a_nest():
    of = program({"x": meta(64, 512), "w": meta(512, 512)}, {}, {"y": meta(64, 512)}, [], [
        external("matmul", "x", "w", out="y")], ["y"])  # fmt: skip
    cost = stream_costs.cost_of(of.steps[0], of)
    assert cost.share == 8 / stream_costs.MULTIPROCESSORS  # one tile of rows, eight of columns
    flops = 2 * 64 * 512 * 512 / 8 / stream_costs.FLOPS["float32"]
    assert cost.time == pytest.approx(stream_costs.KERNEL + flops)
    small, large = chain(1, 1 << 10), chain(1, 1 << 24)
    shares = [stream_costs.cost_of(each.steps[0], each).share for each in (small, large)]
    assert shares == [1 / stream_costs.MULTIPROCESSORS, 1.0]


# ---- random programs -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(60))
def test_any_timing_gives_the_same(seed, on_streams):
    draw = random.Random(seed)
    of = drawn(draw)
    run, fake = on_streams(planned(of), random.Random(seed))
    for _ in range(4):
        given = numbers(draw)
        assert same(fake, run(*map(array, given)), evaluated(of, given))


@pytest.mark.parametrize("seed", range(30))
def test_any_timing_of_a_graph_gives_the_same(seed, on_streams):
    """The fake refuses products while a stream is captured, as CuPy does."""
    draw = random.Random(seed)
    of = drawn(draw, calls=False)
    run, fake = on_streams(planned(of), random.Random(seed), cuda_graph=True)
    x, w = map(array, numbers(draw))
    for _ in range(5):
        given = numbers(draw)
        x[...], w[...] = given
        assert same(fake, run(x, w), evaluated(of, given))
    assert any(entry[0] == "graph" for entry in fake.log)


def test_each_wait_is_needed():
    """Without any one of them there is a race."""
    for seed in range(150):
        made = planned(drawn(random.Random(seed)))
        assert races(made) == []
        for k, step in enumerate(made.steps):
            if isinstance(step, WaitEvent):
                assert races(made.with_(steps=made.steps[:k] + made.steps[k + 1 :])), (seed, k)


def test_a_program_with_a_race_is_not_launched(on_streams):
    made = planned(branches(3, 2))
    without = made.with_(steps=tuple(s for s in made.steps if s != waits_of(made)[-1]))
    with pytest.raises(GraphError, match="a race: .* Expected stream 0 to wait for stream 1"):
        on_streams(without)


def test_the_fake_shows_a_wait_that_is_missing(on_streams, monkeypatch):
    """Most of the waits in random programs, in a few draws each: so these tests can fail."""
    monkeypatch.setattr(sys.modules["stage4_runtime.runtime.launch"], "check_races", lambda program: program)
    seen = missed = 0
    for seed in range(12):
        draw = random.Random(seed)
        of = drawn(draw)
        made = planned(of)
        for k, step in enumerate(made.steps):
            if not isinstance(step, WaitEvent) or step.stream:
                continue
            without = made.with_(steps=made.steps[:k] + made.steps[k + 1 :])
            wrong = False
            for timing in range(8):
                run, fake = on_streams(without, random.Random(timing))
                for _ in range(2):
                    given = numbers(draw)
                    wrong = wrong or not same(fake, run(*map(array, given)), evaluated(of, given))
            seen, missed = seen + wrong, missed + (not wrong)
    assert seen > 3 * missed


def test_slots_are_shared_by_what_events_order_only():
    """Two branches use bytes of their own at the same time, and the second buffer of each lies where it may."""
    made = planned(branches(2, 4, 1 << 10))
    slot = {name: b.slot for name, b in made.buffers.items() if b.slot}
    stream = {step.buffers[-1]: step.stream for step in made.steps if isinstance(step, Launch)}
    for a in slot:
        for b in slot:
            apart = (
                slot[a].offset + slot[a].nbytes <= slot[b].offset
                or slot[b].offset + slot[b].nbytes <= slot[a].offset
            )
            assert apart or stream[a] == stream[b], (a, b)
    assert sum(made.pools) < sum(each.nbytes for each in slot.values())


# ---- the simulation that places -----------------------------------------------------------------------------------


def test_dependencies_are_of_values_and_of_memory():
    """A kernel that writes over an input waits for who read it."""
    kernels = [sum_kernel("a", "t", ["x"], 64), sum_kernel("b", "new", ["x"], 64)]
    steps = [
        Launch("a", ("x", "t")),
        Launch("b", ("x", "x")),
        Launch("a", ("x", "t")),
        Return((BufferRef("x"),)),
    ]
    of = program({"x": meta(64)}, {"t": meta(64)}, {"new": meta(64)}, kernels, steps[:-1], ["x"])
    assert dependencies(of) == [set(), {0}, {0, 1}, {1}]


def test_placing_predicts_the_longest_branch():
    of = branches(4, 3, 1 << 10).with_(device=CUDA)
    placed = place(of, dependencies(of))
    one = stream_costs.cost_of(of.steps[0], of).time
    assert placed.alone > 13 * stream_costs.KERNEL and placed.together < 4 * one + 3 * stream_costs.EVENT + 1


def test_the_pass_changes_nothing_but_streams_and_events():
    for seed in range(40):
        of = drawn(random.Random(seed)).with_(device=CUDA)
        with config.patch({"runtime.parallel_streams": "force"}):
            made = parallel_streams(of)
        plain = [replace(s, stream=0, into=False) if isinstance(s, External) else replace(s, stream=0) if isinstance(s, Launch) else s
                 for s in made.steps if not isinstance(s, RecordEvent | WaitEvent)]  # fmt: skip
        assert plain == [*of.steps]


def test_an_event_says_what_was_chosen_and_what_was_predicted(event_log):
    planned(branches(4, 3, 1 << 10), "on")
    (said,) = [e.details for e in event_log("policy") if e.name == "parallel_streams"]
    assert said["streams"] == 4 and said["waits"] == 6 and " us on one stream, " in said["predicted"]
