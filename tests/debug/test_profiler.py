"""The profiler: which events there are, how they nest, when they are recorded, and that nothing stays behind.

Input: the profiling guide's model with two breaks, a training step, a loop of ten steps. trace_format.py says what a
trace must be.
"""

import gc
import gzip
import json

import pytest

import cutaway
from cutaway.compiled_function import CompiledFunction
from cutaway.profiler import kernels
from cutaway.profiler.events import ProfilerEvent, nested
from cutaway.torch_api import torch
from stage2_autograd.runtime.compiled_backward import CompiledBackward
from tests.debug.test_compile_profiler import ModelWithBreaks
from tests.debug.trace_format import problems

nn, profiler = torch.nn, torch.profiler
REGION, FORWARD, BACKWARD = "Torch-Compiled Region", "CompiledFunction", "CompiledFunctionBackward"


def model_and_input():
    torch.manual_seed(0)
    return torch.compile(ModelWithBreaks()), torch.randn(4, 8)


def step(model, x):
    with profiler.record_function("forward"):
        loss = model(x).sum()
    with profiler.record_function("backward"):
        loss.backward()
    return loss


@pytest.fixture(scope="module")
def trained():
    """A recording of one training step that is compiled already, and what it computes without a profiler."""
    model, x = model_and_input()
    plain = step(model, x)
    with profiler.profile(record_shapes=True, profile_memory=True, with_stack=True) as prof:
        profiled = step(model, x)
    assert torch.equal(plain, profiled)
    return prof


def named(prof, name):
    return [event for event in prof.events() if event.name == name]


def read(path):
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


# ---- what is recorded --------------------------------------------------------------------------------------------


def test_two_breaks_are_three_regions_each_inside_the_one_before(trained):
    first, second, third = named(trained, REGION)
    assert second.parent is first and third.parent is second
    assert first.parent.name == "forward" and first.args["function"] == "ModelWithBreaks.forward"
    for region in (first, second, third):
        assert [child.name for child in region.children if child.category == "graph"] == [FORWARD]


def test_a_region_has_the_ids_of_its_frame_and_its_compile():
    f, g = (
        torch.compile(lambda x: x + 1, dynamic=False, backend="eager"),
        torch.compile(lambda x: x * 2, backend="eager"),
    )
    sizes = [(f, 2), (f, 3), (g, 2), (f, 2), (f, 3)]
    f(torch.ones(2))
    with profiler.profile() as prof:
        for compiled, size in sizes:
            compiled(torch.ones(size))
    ids = [(e.args["frame id"], e.args["frame compile id"]) for e in named(prof, REGION)]
    assert ids == [(0, 0), (0, 1), (1, 0), (0, 0), (0, 1)]
    lookups = named(prof, "TorchDynamo Cache Lookup")
    assert [e.args["entries"] for e in lookups] == [1, 1, 1, 2, 2] and {e.parent.name for e in lookups} == {
        REGION
    }


def test_two_functions_one_after_the_other_are_regions_side_by_side():
    compiled = [torch.compile(lambda x: x.sin() + 1), torch.compile(lambda x: x.cos() * 2)]
    x = torch.ones(3)
    with profiler.profile() as prof:
        for f in compiled:
            f(x)
    assert [event.parent for event in named(prof, REGION)] == [None, None]
    assert len(named(prof, "Call CompiledFxGraph")) == 2 and not named(prof, FORWARD)


def test_each_backward_has_its_forward(trained):
    forwards, backwards = named(trained, FORWARD), named(trained, BACKWARD)
    assert [e.flow for e in backwards] == [e.flow for e in reversed(forwards)]
    assert all(event.parent.name == "backward" for event in backwards)


def test_every_launch_of_a_kernel_is_an_event(trained):
    """As many as the programs' steps say, though a call of one program may be one call of C++."""
    model, x = model_and_input()
    step(model, x)
    programs = [
        half.run.program for made in model.artifacts for half in (made.forward, made.backward) if half
    ]
    steps = [type(s).__name__ for program in programs for s in program.steps]
    assert len(programs) == 6 and steps.count("Launch") > 6
    found = [event.category for event in trained.events()]
    assert found.count("kernel") == steps.count("Launch")
    assert found.count("library") == steps.count("External")
    assert all(
        event.parent.name in (FORWARD, BACKWARD) for event in trained.events() if event.category == "kernel"
    )
    a_kernel = next(event for event in trained.events() if event.category == "kernel")
    assert [4, 8] in a_kernel.args["Input Dims"] and "mod1" not in a_kernel.args["lines"]


def attention():
    torch.manual_seed(0)
    compiled = torch.compile(
        lambda q, k, v: nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    )
    return compiled, [torch.randn(2, 3, 64, 32, requires_grad=True) for _ in range(3)]


def values(compiled, inputs):
    for x in inputs:
        x.grad = None
    out = compiled(*inputs)
    out.sum().backward()
    return [out, *(x.grad for x in inputs)]


@pytest.mark.parametrize("whole", [False, True])
def test_blocks_of_rows_give_the_same_values(whole, monkeypatch):
    """Kernels that C++ runs block by block, in one step; and, planted, a system without a clock for C++."""
    compiled, inputs = attention()
    plain = values(compiled, inputs)
    if whole:
        monkeypatch.setattr(kernels, "stamped", lambda *_: None)
    with profiler.profile() as prof:
        profiled = values(compiled, inputs)
    after = values(compiled, inputs)
    assert all(
        torch.equal(a, b) and torch.equal(a, c) for a, b, c in zip(plain, profiled, after, strict=True)
    )
    found = [event.name for event in prof.events() if event.category in ("kernel", "library")]
    if whole:
        assert len(found) == 2 and all(name.endswith(" steps)") for name in found), found
    else:
        assert any(name.endswith(" by rows") and "fused_" in name for name in found), found


def test_of_two_that_share_a_kernel_the_first_may_go():
    """The same C++ function behind two compiled ones: what the profiler knows of it does not go with the first."""
    first, second = torch.compile(lambda x: x.sin() + 1), torch.compile(lambda x: x.sin() + 1)
    x = torch.randn(5)
    want = first(x)
    second(x)
    del first
    gc.collect()
    with profiler.profile() as prof:
        assert torch.equal(second(x), want)
    assert [event for event in prof.events() if event.category == "kernel"]


def test_the_phases_of_a_first_call_are_inside():
    model, x = model_and_input()
    with cutaway.config.patch(force_disable_caches=True), profiler.profile() as prof:
        model(x)
    compiles = [e for e in prof.events() if e.name == "compile ModelWithBreaks.forward"]
    regions = named(prof, REGION)
    assert [e.parent for e in compiles] == regions and len(regions) == 3
    inside = {child.name for e in compiles for child in e.children}
    assert {"capture", "functionalize", "differentiate", "partition", "build", "launch"} <= inside
    breaks = [e for e in prof.events() if e.name == "graph break GB0021" and not e.args["passed_on"]]
    assert len(breaks) == 2


def test_a_range_inside_a_compiled_function_changes_nothing():
    @torch.compile
    def ranged(x):
        with profiler.record_function("inside"):
            y = x.sin()
        return y + 1

    @profiler.record_function("around")
    def around(x):
        return ranged(x)

    x = torch.ones(3)
    around(x)
    with profiler.profile() as prof:
        around(x)
    assert not ranged.breaks and len(ranged.entries) == 1
    assert named(prof, REGION)[0].parent is named(prof, "around")[0] and not named(prof, "inside")


def test_an_error_of_the_users_ends_its_events():
    @torch.compile
    def fails(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y @ torch.ones(7)

    with profiler.profile() as prof:
        for _ in range(2):
            with pytest.raises(RuntimeError), profiler.record_function("tried"):
                fails(torch.ones(3))
        torch.compile(lambda x: x * 3)(torch.ones(3))
    assert len(named(prof, "tried")) == 2
    assert named(prof, REGION)[-1].parent is None


# ---- when --------------------------------------------------------------------------------------------------------


def test_a_schedule_over_ten_steps():
    actions = profiler.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)
    assert "".join("-wrs"[actions(i).value] for i in range(10)) == "--wrs-wrs-"
    f = torch.compile(lambda x: x.exp() + 1)
    x, seen = torch.ones(3), []

    def ready(prof):
        seen.append(
            (prof.step_num, [e.name for e in prof.events() if e.category in ("user_annotation", "region")])
        )

    with profiler.profile(schedule=actions, on_trace_ready=ready) as prof:
        for _ in range(10):
            f(x)
            prof.step()
    assert seen == [
        (5, ["ProfilerStep#3", REGION, "ProfilerStep#4", REGION]),
        (9, ["ProfilerStep#7", REGION, "ProfilerStep#8", REGION]),
    ]
    assert not named(prof, "put timers in")  # that is what the warm-up is for


def test_a_schedule_without_end_begins_again():
    actions = profiler.schedule(wait=0, warmup=0, active=1)
    assert {actions(i) for i in range(9)} == {profiler.ProfilerAction.RECORD_AND_SAVE}
    with pytest.raises(ValueError, match="active=0"):
        profiler.schedule(wait=1, warmup=1, active=0)


def test_one_profiler_records_at_a_time():
    with profiler.profile(), pytest.raises(RuntimeError, match="another profiler is recording"):
        profiler.profile().start()
    with profiler.profile():
        pass


def test_nothing_stays_behind():
    """Off, a call runs the very code that it ran before: the methods, the graph's name, the launch function."""

    def state():
        half = next(made for made in model.artifacts if made.forward)
        runs = [half.forward.run, half.backward.run]
        entries = [entry for f in model.compiled._leads_to.values() for entry in f.entries]
        return [
            CompiledFunction.__call__, CompiledFunction._miss, CompiledFunction.run_only, CompiledBackward.apply,
            *({name: id(value) for name, value in run.__globals__.items()} for run in runs),
            *(entry.run.__globals__.get(entry.frame.graph_name) for entry in entries),
        ]  # fmt: skip

    model, x = model_and_input()
    step(model, x)
    before = state()
    assert len(before) > 8
    with profiler.profile():
        during = state()
        step(model, x)
        inside = state()
    assert state() == before
    assert during[:4] != before[:4] and all(a != b for a, b in zip(inside[:6], before[:6], strict=True))


# ---- tables, traces, stacks --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_the_trace_is_in_chromes_format(trained, tmp_path, name):
    trained.export_chrome_trace(tmp_path / name)
    trace = read(tmp_path / name)
    assert problems(trace) == []
    events = trace["traceEvents"]
    assert sum(e["ph"] == "s" for e in events) == sum(e["ph"] == "f" for e in events) == 3
    assert {e["name"] for e in events if e["ph"] == "M"} == {"process_name", "process_labels", "thread_name"}
    region = next(e for e in events if e["name"] == REGION)
    assert any("test_profiler.py" in line for line in region["args"]["Call stack"])


WRONG = {
    "no duration": lambda events: events[3].pop("dur"),
    "a phase that is none": lambda events: events[3].update(ph="Q"),
    "text for a time": lambda events: events[3].update(ts="0"),
    "an arrow without an end": lambda events: events.remove(next(e for e in events if e["ph"] == "f")),
    "an end outside": lambda events: next(e for e in events if e["ph"] == "f").update(tid=-1),
    "events that cross": lambda events: crossing(events),
}


def crossing(events):
    """The first span that has another in it ends in the middle of that."""
    spans = [e for e in events if e["ph"] == "X" and e["dur"] > 1]
    outer, inner = next(
        (o, i)
        for o in spans
        for i in spans
        if i is not o
        and i["tid"] == o["tid"]
        and i["ts"] - o["ts"] > 0
        and i["ts"] + i["dur"] < o["ts"] + o["dur"]
    )
    outer["dur"] = inner["ts"] - outer["ts"] + inner["dur"] / 2


@pytest.mark.parametrize("fault", WRONG)
def test_the_validator_sees_a_planted_fault(trained, tmp_path, fault):
    trained.export_chrome_trace(tmp_path / "trace.json")
    trace = read(tmp_path / "trace.json")
    WRONG[fault](trace["traceEvents"])
    assert problems(trace)


def test_the_table_adds_up(trained):
    rows = {row.key: row for row in trained.key_averages()}
    assert rows[REGION].count == 3
    region = named(trained, REGION)[0]
    assert rows[REGION].cpu_time_total == pytest.approx(
        region.duration_ns / 1000
    )  # the inner ones are part of it
    whole = sum(e.duration_ns for e in trained.events() if e.parent is None) / 1000
    assert trained.key_averages().self_cpu_time_total == pytest.approx(whole)
    assert rows[BACKWARD].cpu_memory_usage > 0
    text = trained.key_averages().table(sort_by="self_cpu_time_total", row_limit=3)
    assert len(text.splitlines()) == 3 + 3 + 2 and "Self CPU Mem" in text
    shapes = trained.key_averages(group_by_input_shape=True).table(sort_by="count")
    assert "[[4, 8], [8, 8]]" in shapes and "[[8, 4], [4, 8]]" in shapes
    with pytest.raises(ValueError, match="did you mean 'cpu_time_total'"):
        trained.key_averages().table(sort_by="cpu_time_totl")


def test_stacks_name_the_users_lines(trained, tmp_path):
    trained.export_stacks(tmp_path / "stacks.txt")
    lines = (tmp_path / "stacks.txt").read_text().splitlines()
    assert all(line.rpartition(" ")[2].isdigit() for line in lines)
    frames = next(line for line in lines if f"{FORWARD} " in line).split(";")
    assert frames[-2].endswith("_step") and frames[-2].count("test_profiler.py(") == 1
    with profiler.profile() as prof:
        pass
    with pytest.raises(RuntimeError, match="with_stack=True"):
        prof.export_stacks(tmp_path / "none.txt")


def test_events_nest_by_thread_and_time():
    def event(name, start, took, thread=1, category="kernel"):
        return ProfilerEvent(name, category, start, took, thread)

    rows = [event("b", 10, 5), event("a", 0, 20), event("c", 16, 4), event("other", 1, 3, thread=2),
            event("point", 12, 0, category="instant"), event("d", 20, 5)]  # fmt: skip
    parents = {e.name: e.parent and e.parent.name for e in nested(rows)}
    assert parents == {"a": None, "b": "a", "c": "a", "point": "b", "other": None, "d": None}
    assert {e.name: e.self_ns for e in rows}["a"] == 11


def test_what_the_environment_lacks_is_said(capsys):
    activity = profiler.ProfilerActivity
    assert profiler.supported_activities() == {activity.CPU}
    profiler.profile(activities=[activity.CPU, activity.CUDA])
    with pytest.raises(TypeError, match="ProfilerActivity"):
        profiler.profile(activities=["cpu"])
    with profiler.profile() as prof:
        pass
    assert "recorded nothing" in prof.key_averages().table()


def test_it_is_there_under_both_names(tmp_path):
    assert cutaway.profiler.profile is profiler.profile
    with cutaway.torch_api.as_torch():
        from torch.autograd.profiler import record_function
        from torch.profiler._utils import _init_for_cuda_graphs
    _init_for_cuda_graphs()
    assert record_function is profiler.record_function
    with profiler.profile(on_trace_ready=profiler.tensorboard_trace_handler(tmp_path, "w")):
        torch.compile(lambda x: x - 1)(torch.ones(2))
    (file,) = tmp_path.glob("w.*.pt.trace.json")
    assert problems(read(file)) == []


def test_operations_are_counted_when_asked_for_and_recordings_are_kept():
    """with_flops: a product of 8x16 and 16x4 is 2*8*16*4 operations. acc_events: both steps of a schedule stay."""
    compiled = torch.compile(lambda x, w: x @ w)
    x, w = torch.ones(8, 16), torch.ones(16, 4)
    compiled(x, w)
    each = profiler.schedule(wait=0, warmup=0, active=1, repeat=2)
    for kept in (False, True):
        with profiler.profile(schedule=each, with_flops=True, acc_events=kept) as prof:
            for _ in range(2):
                compiled(x, w)
                prof.step()
        (row,) = [row for row in prof.key_averages() if row.flops]
        assert (row.count, row.flops) == ((2, 2048) if kept else (1, 1024))
        assert "Total MFLOPs" in prof.key_averages().table()
    with profiler.profile() as prof:
        compiled(x, w)
    assert "MFLOPs" not in prof.key_averages().table()


def test_an_option_that_adds_nothing_is_said(capsys):
    with profiler.profile(with_modules=True):
        pass
    assert "profile(with_modules=...) records nothing more here; with_stack=True" in capsys.readouterr().err
