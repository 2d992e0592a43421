"""The inner seams of capture, each tested alone: interpret, resume, residualize; and a kind of value, the guards, first.py.

Input: `seam`, so that `pytest stage1_capture --swap interpret=my_module:my_interpret` tests yours with the other parts
as they are. The tiny parts (tiny_parts.py) pass what is marked core.
"""

import functools
import uuid
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from stage0_eager.functions.pointwise import sin
from stage1_capture import first
from stage1_capture.capture import capture
from stage1_capture.seams import SEAMS
from stage1_capture.state.graph_builder import Options, OutputGraph, Stopped
from stage1_capture.tests import corpus
from stage1_capture.tests.driver import Compiled, Counts
from stage1_capture.tests.harness import guards_hold, residual_function, tensor
from stage1_capture.tests.tiny_parts import TINY
from stage1_capture.variables.builder import BUILDERS
from stage1_capture.variables.constant import wrap_constant
from stage_contracts.origin import Origin

naive = {name: pytest.mark.conformance(name, tier="first") for name in TINY}
core = {name: pytest.mark.conformance(name, tier="core") for name in TINY}
full = {name: pytest.mark.conformance(name, tier="full") for name in TINY}
# The rest of a frame that runs in Python calls a free variable without a value a local one.
SAMPLE = [case for case in corpus.cases() if "_free_variable" not in case[0]][::40]


def capture_with(seam, name):
    """capture, with the part that is tested and the others as they are."""
    return functools.partial(capture, seams=replace(SEAMS, **{name: seam(name)}))


def compiled(seam, name, function):
    return Compiled(function, Counts(), capture=capture_with(seam, name))


def assert_sample_as_in_eager(seam, name):
    for program, variant in SAMPLE:
        corpus.run(program, variant, capture_with(seam, name))


def line(x, y):
    z = x * y + 2
    return z - x / y


def hands_back(x, y):
    _ = x + y
    return y


# ---- interpret: code and arguments to a state ------------------------------------------------------------------------


@naive["interpret"]
def test_operators_become_nodes_and_the_result_is_one(seam):
    """Each operator on tensors becomes a node, and the result is one of them."""
    args = tensor(3, seed=1), tensor(3, seed=2)
    output = OutputGraph(Origin("here", 1))
    result = seam("interpret")(output, line, args, {})
    assert [node.target.name for node in output.graph.calls] == ["mul", "add", "div", "sub"]
    output.graph.output([output.node_of(result)])
    assert np.array_equal(output.graph.interpret(args)[0].numpy(), line(*args).numpy())


@core["interpret"]
def test_what_is_relied_on_is_guarded(seam):
    frame = capture_with(seam, "interpret")(line, (tensor(3), tensor(3)), {})
    assert guards_hold(frame, line, (tensor(3, seed=5), tensor(3)))
    for other in (tensor(4), tensor(3, dtype=np.float64), tensor(3, requires_grad=True), 2.5, None):
        assert not guards_hold(frame, line, (tensor(3), other)), f"not told from {other!r}"


@core["interpret"]
def test_an_interpreted_program_is_not_run(seam, capsys):
    def prints(x):
        print("run")
        return x + 1

    capture_with(seam, "interpret")(prints, (tensor(3),), {})
    assert capsys.readouterr().out == ""


@core["interpret"]
def test_programs_do_what_they_do_in_eager_by_this_interpreter(seam):
    assert_sample_as_in_eager(seam, "interpret")


@full["interpret"]
def test_it_stops_where_it_is_told_to_with_the_frame_as_it_stands(seam):
    def counted(x):
        total = []
        total.append(x + 1)
        return total

    whole = OutputGraph(Origin("here", 1))
    seam("interpret")(whole, counted, (tensor(3),), {})
    for stop in range(whole.root_steps):
        output = OutputGraph(Origin("here", 1), options=Options(stop_at=stop))
        with pytest.raises(Stopped):
            seam("interpret")(output, counted, (tensor(3),), {})
        assert output.root_steps == stop
    frame = output.frames[0]  # before the return
    assert len(frame.stack) == 1 and {*frame.locals} == {"x", "total"}


@full["interpret"]
def test_programs_have_the_graphs_and_breaks_that_are_expected(seam):
    for program, variant in SAMPLE:
        counts = corpus.run(program, variant, capture_with(seam, "interpret"))
        assert counts == corpus.expected_counts(program, variant), program


# ---- resume: a place in a frame to functions -------------------------------------------------------------------------


def breaks_in_the_middle(x):
    y = x + 1
    print("here")
    return y * 2


def breaks_in_a_block(x, log):
    try:
        with_one = x + 1
        print("block")
        if with_one.sum() > 1e6:
            log.append("large")
        raise ValueError("the user's")
    except ValueError as error:
        log.append(str(error))
    finally:
        log.append("end")
    return with_one


def breaks_in_a_loop(x):
    held = [x]
    for i in range(3):
        print(i)
        held.append(held[-1] * 2)
    return held, (lambda: held)()


@naive["resume"]
def test_the_frame_goes_on_behind_a_break(seam, capsys):
    """The resume function runs what follows a break, with the stack and the variables of that point."""
    found = compiled(seam, "resume", breaks_in_the_middle)(tensor(3)).numpy()
    assert capsys.readouterr().out == "here\n"
    assert np.array_equal(found, ((tensor(3) + 1) * 2).numpy())


@core["resume"]
def test_a_break_in_a_block_is_still_in_it(seam, capsys):
    log = []
    found = compiled(seam, "resume", breaks_in_a_block)(tensor(3), log)
    assert log == ["the user's", "end"] and capsys.readouterr().out == "block\n"
    assert np.array_equal(found.numpy(), (tensor(3) + 1).numpy())


@core["resume"]
def test_variables_and_cells_are_what_they_were(seam, capsys):
    held, same = compiled(seam, "resume", breaks_in_a_loop)(tensor(3))
    assert held is same and capsys.readouterr().out == "0\n1\n2\n"
    assert np.array_equal(held[3].numpy(), (tensor(3) * 8).numpy())


@core["resume"]
def test_programs_do_what_they_do_in_eager_by_these_functions(seam):
    assert_sample_as_in_eager(seam, "resume")


@full["resume"]
def test_what_follows_a_break_is_compiled_too(seam, capsys):
    run = compiled(seam, "resume", breaks_in_the_middle)
    run(tensor(3))
    assert [run.counts.graphs, run.counts.breaks] == [2, 1]


# ---- residualize: a state to code ------------------------------------------------------------------------------------


@naive["residualize"]
def test_residual_code_takes_and_gives_what_the_function_does(seam):
    """Residual code takes the arguments of the function and returns what it returns."""
    args = tensor(3, seed=1), tensor(3, seed=2)
    frame = capture_with(seam, "residualize")(line, args, {})
    assert frame.graph is not None and frame.residual.co_varnames[:2] == ("x", "y")
    assert np.array_equal(residual_function(frame, line)(*args).numpy(), line(*args).numpy())
    assert len(frame.graph.interpret(args)) == 1


@core["residualize"]
def test_an_argument_is_handed_back_itself(seam):
    args = tensor(3, seed=1), tensor(3, seed=2)
    frame = capture_with(seam, "residualize")(hands_back, args, {})
    run = residual_function(frame, hands_back) if frame.residual else hands_back
    assert run(*args) is args[1]


@core["residualize"]
def test_a_frame_that_breaks_ends_in_the_break_function(seam, capsys):
    run = compiled(seam, "residualize", breaks_in_the_middle)
    found = run(tensor(3)).numpy()
    assert capsys.readouterr().out == "here\n" and run.counts.breaks == 1
    assert np.array_equal(found, ((tensor(3) + 1) * 2).numpy())


@core["residualize"]
def test_programs_do_what_they_do_in_eager_by_this_code(seam):
    assert_sample_as_in_eager(seam, "residualize")


@full["residualize"]
def test_side_effects_are_replayed_and_objects_made_again(seam):
    log = []

    def keeps(x):
        log.append(sin(x))
        return {"log": log, "pair": (x, [log])}

    found = compiled(seam, "residualize", keeps)(tensor(3))
    assert found["log"] is log and found["pair"][1][0] is log
    assert np.array_equal(log[0].numpy(), sin(tensor(3)).numpy())


# ---- the tiny parts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TINY)
def test_each_tiny_part_is_asked(name):
    """A part that nobody calls would pass too."""
    asked = []

    def recording(_):
        def part(*call):
            asked.append(call)
            return TINY[name](*call)

        return part

    assert_sample_as_in_eager(recording, name)
    assert len(asked) >= len(SAMPLE) // 2


# ---- a kind of value, and guards -------------------------------------------------------------------------------------


def scaled(x, by):
    return x * float(by + 1) + 1


def of_an_id(x, name):
    return x * name.int + name.version if name.version else x * name.int


def test_a_kind_of_value_is_a_row_of_a_table(monkeypatch):
    half, third = uuid.UUID(int=2), uuid.UUID(int=3)
    before = capture(of_an_id, (tensor(3), half), {})
    assert before.breaks or len(before.guards) > 8  # followed as an object, its code too
    monkeypatch.setitem(BUILDERS, uuid.UUID, wrap_constant("EQUALS"))
    frame = capture(of_an_id, (tensor(3), half), {})
    assert not frame.breaks and "cutaway.mul(x, 2)" in str(frame.graph)
    assert guards_hold(frame, of_an_id, (tensor(3), half))
    assert not guards_hold(frame, of_an_id, (tensor(3), third))


def test_guards_are_made_in_one_place(monkeypatch):
    asked = []
    plain = OutputGraph.guard

    def guard(self, kind, source, expected, *rest, **options):
        asked.append(kind)
        return plain(self, kind, source, expected, *rest, **options)

    monkeypatch.setattr(OutputGraph, "guard", guard)
    frame = capture(scaled, (tensor(3), 2), {})
    assert {g.kind for g in frame.guards} <= set(asked) | {"SHAPE"}


def test_first_captures_a_straight_line():
    inputs = [tensor(3, seed=1), tensor(3, seed=2)]
    graph = first.capture(line, *inputs)
    assert [node.target.name for node in graph.calls] == ["mul", "add", "div", "sub"]
    assert np.array_equal(graph.interpret(inputs)[0].numpy(), line(*inputs).numpy())
    with pytest.raises(NotImplementedError, match="straight lines"):
        first.capture(scaled, *inputs)


def test_first_stays_short():
    assert len(Path(first.__file__).read_text(encoding="utf-8").splitlines()) <= 60
