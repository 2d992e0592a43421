"""A wrong pass has a name: one planted in each stage, in a seam and in a table, is named by verify_passes.

Input: one small training program. Run on the tree before there were these checks, with the same setting, every wrong
seam of SEAMS compiled and nothing was said; `schedule` was no seam, and of the TABLES only DECOMPOSE was one.
"""

import importlib
import re
from collections import Counter
from dataclasses import replace

import pytest

import cutaway
from cutaway.pipelines import default_pipeline
from stage0_eager import TABLE
from stage_contracts import config, events
from stage_contracts.errors import VerifyError
from stage_contracts.graph import GraphError
from stage_contracts.loop_ir import LoopNest

# by name: some of these modules share theirs with the seam that they hold
run_passes, fuse, schedule_kernels, emit, plan_memory = map(
    importlib.import_module,
    (
        "stage2_autograd.decompose.run_passes",
        "stage3_lowering.lowering.fuse",
        "stage3_lowering.lowering.schedule_kernels",
        "stage3_lowering.lowering.emit",
        "stage4_runtime.runtime.plan_memory",
    ),
)


def program(x, w):
    x.add_(1.0)
    h = (x @ w).sin()
    k = (h @ h.transpose(0, 1)).exp()
    return ((k @ h) * h.sum(0)).sum()


def run():
    cutaway.manual_seed(0)
    x = cutaway.randn(4, 4)
    w = cutaway.randn(4, 4, requires_grad=True)
    return x, w


def compiled(settings=(("autograd.verify_passes", True),), **seams):
    f = cutaway.compile(program, pipeline=replace(default_pipeline(), **seams))
    with config.patch({**dict(settings), "capture.suppress_errors": False}):
        return f(*run())


VERIFY = (("debug.verify", True), ("runtime.cxx_flags", "-O0"), ("runtime.force_disable_caches", True))
SLOW_TO_NAME = ("schedule", "plan_memory")  # seams behind those of the same check


# ---- wrong passes ---------------------------------------------------------------------------------------------


def cosine(graph):
    """The first sine becomes a cosine."""
    sine = next((n for n in graph.calls if n.target.name == "sin"), None)
    if sine is not None:
        other = "core.cos" if sine.target.namespace == "core" else "cos"
        with graph.inserting_before(sine):
            new = graph.call_function(TABLE[other], sine.args, sine.kwargs, **sine.meta)
        graph.replace_all_uses_with(sine, new)
        graph.erase_node(sine)
    return graph


def cosine_in(artifact):
    """The same in what holds a graph."""
    return replace(artifact, graph=cosine(artifact.graph.copy()))


def slope_forgotten(joint):
    """The last gradient there is is another's: the derivative of sine stays a sine."""
    graph = joint.graph.copy()
    slope = next(n for n in graph.calls if n.target.name == "cos" and n.meta["region"] == "backward")
    with graph.inserting_before(slope):
        new = graph.call_function(TABLE["core.sin"], slope.args, slope.kwargs, **slope.meta)
    graph.replace_all_uses_with(slope, new)
    graph.erase_node(slope)
    return replace(joint, graph=graph)


def cosine_nest(nest):
    if not isinstance(nest, LoopNest):
        return nest
    return replace(nest, body=tuple(replace(i, op="cos") if i.op == "sin" else i for i in nest.body))


def cosine_nests(lowered):
    return replace(lowered, nodes=tuple(map(cosine_nest, lowered.nodes)))


def cosine_kernels(program, target=None):
    kernels = {
        name: replace(kernel, nests=tuple(map(cosine_nest, kernel.nests)))
        for name, kernel in program.kernels.items()
    }
    return program.with_(kernels=kernels)


def everything_at_zero(program):
    """Every temporary at the start of the pool."""
    buffers = {
        name: replace(b, slot=b.slot and replace(b.slot, offset=0)) for name, b in program.buffers.items()
    }
    return program.with_(buffers=buffers)


def behind(function, wrong):
    """The right pass, and then the wrong one on what it made."""

    def both(artifact, *given):
        made = function(artifact, *given)
        return wrong(artifact if made is None else made)

    return both


SEAMS = {
    "functionalize": cosine_in,
    "differentiate": slope_forgotten,
    "decompose": lambda graph: cosine(graph.copy()),
    "partition": lambda halves: replace(halves, forward=cosine(halves.forward.copy())),
    "lower": cosine_nests,
    "fuse": cosine_kernels,
    "schedule": cosine_kernels,
    "plan_memory": cosine_kernels,
}

# (module, its table, a pass of it, what is wrong)
TABLES = [
    (run_passes, "DECOMPOSE", "casts", cosine),
    (fuse, "FUSE", "unused_nests", cosine_nests),
    (fuse, "FUSE", "common_loops", cosine_nests),
    (fuse, "FUSE", "kernels", cosine_kernels),
    (schedule_kernels, "SCHEDULE", "rows_in_scratch", cosine_kernels),
    (schedule_kernels, "SCHEDULE", "kernel_schedules", cosine_kernels),
    (plan_memory, "PLAN_MEMORY", "donate", cosine_kernels),
    (plan_memory, "PLAN_MEMORY", "allocations", everything_at_zero),
]


@pytest.mark.parametrize("seam", SEAMS)
def test_a_wrong_seam_is_named(seam):
    with pytest.raises(GraphError, match=rf"(pass|step|partitioner) {seam} "):
        compiled(**{seam: behind(getattr(default_pipeline(), seam), SEAMS[seam])})


@pytest.mark.parametrize("seam", [seam for seam in SEAMS if seam not in SLOW_TO_NAME])
def test_verify_names_a_wrong_seam_and_the_user_s_line(seam):
    """debug.verify compared compiled calls with the core graph, which stage 2 makes: its own faults were not seen."""
    with pytest.raises(VerifyError, match=rf"(pass|step|partitioner) {seam} ") as raised:
        compiled(VERIFY, **{seam: behind(getattr(default_pipeline(), seam), SEAMS[seam])})
    assert re.search(r'File ".*test_verify_passes.py", line \d+\n +.*[xwhk@]', str(raised.value)), (
        raised.value
    )


def with_wrong(table, name, wrong):
    passes = [replace(p, run=behind(p.run, wrong)) if p.name == name else p for p in table.passes]
    return replace(table, passes=tuple(passes))


@pytest.mark.parametrize("module, table, name, wrong", TABLES, ids=[f"{t}.{n}" for _, t, n, _ in TABLES])
def test_a_wrong_pass_of_a_table_is_named(monkeypatch, module, table, name, wrong):
    monkeypatch.setattr(module, table, with_wrong(getattr(module, table), name, wrong))
    with pytest.raises(GraphError, match=rf"pass {name} "):
        compiled()


@pytest.mark.parametrize("module, table, name, wrong", TABLES[:2], ids=["DECOMPOSE", "FUSE"])
def test_verify_names_a_wrong_pass_and_the_user_s_line(monkeypatch, module, table, name, wrong):
    monkeypatch.setattr(module, table, with_wrong(getattr(module, table), name, wrong))
    with pytest.raises(VerifyError, match=rf"pass {name} ") as raised:
        compiled(VERIFY)
    assert re.search(r'File ".*test_verify_passes.py", line \d+', str(raised.value)), raised.value


def test_verify_says_nothing_of_the_right_ones():
    compiled(VERIFY).backward()


def test_a_wrong_pass_of_emit_is_named(monkeypatch):
    tables = {**emit.EMITTERS, "cpp": with_wrong(emit.EMITTERS["cpp"], "share_kernels", cosine_kernels)}
    monkeypatch.setattr(emit, "EMITTERS", tables)
    with pytest.raises(GraphError, match="pass share_kernels "):
        compiled()


def test_the_right_ones_pass():
    compiled()


def test_one_event_for_each_pass_and_each_can_be_switched_off_or_is_needed():
    x, w = run()
    wanted = program(x.clone(), w)
    every = {
        f"{t.stage}.{p.name}": p.needed
        for t in (fuse.FUSE, schedule_kernels.SCHEDULE, plan_memory.PLAN_MEMORY, emit.EMITTERS["cpp"])
        for p in t.passes
    }
    mark = events.EVENT_LOG.mark()
    compiled()
    ran = Counter(e.name for e in events.EVENT_LOG.since(mark) if e.kind == "pass")
    assert every.keys() <= ran.keys()
    for name, needed in every.items():
        f = cutaway.compile(program)
        with config.patch(disabled_passes=name, suppress_errors=False):
            if needed:
                with pytest.raises(ValueError, match="cannot be switched off"):
                    f(*run())
            else:
                assert abs(float(f(*run()).item()) - float(wanted.item())) < 1e-4 * abs(float(wanted.item()))
