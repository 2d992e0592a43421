"""What torch.compile's public guides teach, in programs of our own: the counts, reasons and errors that they show.

Input: programs written for torch's names, run under torch_api. One section for each guide.
"""

import sys
import threading
import warnings

import numpy as np
import pytest

from cutaway.torch_api import torch
from stage_contracts import events
from stage_contracts.breaks import Unsupported

# From 3.13 on `if a < b` is one instruction, comparison and truth: the break is before it, and Python compares.
BRANCH_IS_TWO = sys.version_info < (3, 13)


@pytest.fixture
def counter():
    return torch._dynamo.testing.CompileCounter()


def same(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-6, atol=1e-6)


# ---- get started ------------------------------------------------------------------------------------------------


def test_two_pointwise_operators_become_one_kernel():
    def wave(x):
        return torch.sin(torch.cos(x))

    compiled = torch.compile(wave)
    x = torch.randn(1000)
    same(compiled(x), wave(x))
    assert len(compiled.artifacts[0].forward.planned.kernels) == 1


def test_compile_is_a_decorator_with_or_without_options(counter):
    @torch.compile
    def plain(x):
        return x.relu() + 1

    @torch.compile(backend=counter, fullgraph=True)
    def strict(x):
        return x.relu() + 1

    x = torch.randn(4)
    same(plain(x), strict(x))
    assert counter.frame_count == 1 and counter.op_count == 2


def test_a_module_and_the_second_call_does_not_compile(counter):
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    compiled = torch.compile(model, backend=counter)
    for _ in range(3):
        x = torch.randn(5, 4)
        same(compiled(x), model(x))
    assert counter.frame_count == 1
    model.compile(backend=counter)
    model(x)
    assert counter.frame_count == 2 and list(model.state_dict()) == [
        "0.weight",
        "0.bias",
        "2.weight",
        "2.bias",
    ]


def test_nested_calls_are_compiled_with_the_outermost(counter):
    def inner(x):
        return x * 2

    compiled = torch.compile(lambda x: inner(inner(x)) + 1, backend=counter)
    assert compiled(torch.ones(2)).tolist() == [5, 5]
    assert (counter.frame_count, counter.op_count) == (1, 3)


def test_backends_have_names():
    assert {"inductor", "eager", "aot_eager", "aot_eager_decomp_partition", "cudagraphs"} <= {
        *torch.compiler.list_backends(None)
    }
    assert not {"eager", "aot_eager"} & {*torch.compiler.list_backends()}  # those are for finding faults
    with pytest.raises(ValueError, match="did you mean 'inductor'"):
        torch.compile(lambda x: x, backend="inducter")


# ---- custom backends --------------------------------------------------------------------------------------------


def test_a_backend_is_a_function_of_a_graph_module_and_inputs():
    seen = []

    def print_and_run(graph_module, example_inputs):
        seen.append(([n.op for n in graph_module.graph.nodes], [tuple(t.shape) for t in example_inputs]))
        return graph_module.forward

    def scale(a, b):
        x = a / (torch.abs(a) + 1)
        if b.sum() < 0:
            b = b * -1
        return x * b

    compiled = torch.compile(scale, backend=print_and_run)
    a = torch.randn(10)
    for b in (torch.ones(10), -torch.ones(10)):
        same(compiled(a, b), scale(a, b))
    first, positive, negative = seen
    assert first[0].count("call_function") == 4 + BRANCH_IS_TWO  # abs, add, div, sum, lt
    assert positive[0].count("call_function") == 1 and negative[0].count("call_function") == 2
    assert first[1] == [(10,), (10,)]


def test_a_backend_that_raises_is_named():
    def broken(graph_module, example_inputs):
        raise KeyError("nothing here")

    with pytest.raises(RuntimeError, match="backend 'broken' raised KeyError: 'nothing here'"):
        torch.compile(lambda x: x + 1, backend=broken)(torch.ones(1))
    with torch._dynamo.config.patch(suppress_errors=True):
        assert torch.compile(lambda x: x + 1, backend=broken)(torch.ones(1)).tolist() == [2]


# ---- graph breaks -----------------------------------------------------------------------------------------------


def normalise(a, b):
    x = a / (torch.abs(a) + 1)
    print("between")
    if b.sum() < 0:
        b = b * -1
    return x * b


def test_explain_names_each_break_and_counts(capsys):
    report = torch._dynamo.explain(normalise)(torch.randn(10), torch.ones(10))
    assert (report.graph_count, report.graph_break_count, report.op_count) == (3, 2, 5 + BRANCH_IS_TWO)
    assert [r.code for r in report.break_reasons] == ["GB0060", "GB0003"]
    text = str(report)
    assert (
        'print("between")' in text and "if b.sum() < 0" in text and f"Op Count: {5 + BRANCH_IS_TWO}" in text
    )
    assert capsys.readouterr().out == "between\n"


def test_fullgraph_makes_the_first_break_an_error():
    with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        torch.compile(normalise, backend="eager", fullgraph=True)(torch.randn(10), torch.ones(10))
    message = str(caught.value)
    assert "a call of print" in message and "test_guides.py" in message and "hint:" in message


def test_code_behind_a_break_is_compiled_too(counter, capsys):
    def f(x):
        x = x + 1
        print("here")
        return x * 2

    assert torch.compile(f, backend=counter)(torch.ones(2)).tolist() == [4, 4]
    assert counter.frame_count == 2 and capsys.readouterr().out == "here\n"


def test_a_break_in_a_nested_function_breaks_its_callers(counter):
    def inner(x):
        x = x + 1
        torch._dynamo.graph_break()
        return x + 2

    def outer(x):
        return inner(x) * 3

    compiled = torch.compile(outer, backend=counter)
    same(compiled(torch.ones(2)), outer(torch.ones(2)))
    assert counter.frame_count == 3  # of inner before and after the break, and the rest of outer
    with pytest.raises(Unsupported):
        torch.compile(outer, backend=counter, fullgraph=True)(torch.ones(2))


def test_data_dependent_operations_break_and_where_does_not(counter):
    def relu_like(x):
        if x.sum().item() > 0:
            return x
        return -x

    compiled = torch.compile(relu_like, backend=counter)
    for x in (torch.ones(3), -torch.ones(3)):
        same(compiled(x), relu_like(x))
    assert counter.frame_count >= 1 and compiled.breaks[0].code == "GB0004"
    whole = torch.compile(lambda x: torch.where(x.sum() > 0, x, -x), backend=counter, fullgraph=True)
    same(whole(-torch.ones(3)), torch.ones(3))
    branch = torch.compile(
        lambda x: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)),
        backend=counter,
        fullgraph=True,
    )
    same(branch(torch.ones(3)), torch.ones(3).sin())
    same(branch(-torch.ones(3)), (-torch.ones(3)).cos())


def test_error_on_graph_break_marks_a_call():
    def f(x):
        torch._dynamo.graph_break()
        return x + 1

    compiled = torch.compile(f, backend="eager")
    with torch._dynamo.error_on_graph_break(True), pytest.raises(Unsupported):
        compiled(torch.ones(1))
    assert compiled(torch.ones(1)).tolist() == [2]


# ---- fine-grained control ---------------------------------------------------------------------------------------


def four_steps(a):
    x = torch.add(a, 1)
    x = torch.add(x, 1)
    x = torch.sub(x, 1)
    x = torch.add(x, 1)
    return torch.add(x, 1)


def test_disallow_in_graph_cuts_at_the_operator(counter):
    assert torch.compile(four_steps, backend=counter)(torch.ones(2)).tolist() == [4, 4]
    assert (counter.frame_count, counter.op_count) == (1, 5)
    counter.clear()
    try:
        torch._dynamo.disallow_in_graph(torch.sub)
        assert torch.compile(four_steps, backend=counter)(torch.ones(2)).tolist() == [4, 4]
        assert (counter.frame_count, counter.op_count) == (2, 4)
    finally:
        torch._dynamo.allow_in_graph(torch.sub)


def test_disable_leaves_a_function_and_what_it_calls_to_python(counter):
    def helper(x):
        return x * 3

    @torch.compiler.disable(reason="it is being debugged")
    def untouched(x):
        assert not torch.compiler.is_compiling()
        return helper(x) + 1

    def f(x):
        return untouched(x + 1) * 2

    compiled = torch.compile(f, backend=counter)
    assert compiled(torch.ones(1)).tolist() == [14]
    assert (counter.frame_count, counter.op_count) == (2, 2)
    assert "it is being debugged" in compiled.breaks[0].reason


def test_stances_change_what_a_new_case_does(counter):
    compiled = torch.compile(lambda x: x * 2, backend=counter, dynamic=False)
    with torch.compiler.set_stance("force_eager"):
        compiled(torch.ones(1))
    assert counter.frame_count == 0
    compiled(torch.ones(1))
    with torch.compiler.set_stance("fail_on_recompile"):
        compiled(torch.ones(1))
        with pytest.raises(RuntimeError, match="fail_on_recompile"):
            compiled(torch.ones(2))
    with torch.compiler.set_stance("eager_on_recompile"):
        compiled(torch.ones(2))
    assert counter.frame_count == 1


def test_reset_and_run(counter):
    compiled = torch.compile(lambda x: x * 2, backend=counter, dynamic=False)
    compiled(torch.ones(1))
    frozen = torch._dynamo.run(compiled)
    frozen(torch.ones(3))
    assert counter.frame_count == 1
    torch._dynamo.reset()
    compiled(torch.ones(1))
    assert counter.frame_count == 2


# ---- recompilation and dynamic shapes ---------------------------------------------------------------------------


def test_the_second_size_makes_it_dynamic(counter):
    compiled = torch.compile(lambda x: x * x.shape[0], backend=counter)
    for n in (2, 3, 4, 17):
        assert compiled(torch.ones(n)).tolist() == [n] * n
    assert counter.frame_count == 2


def test_mark_dynamic_makes_the_first_compile_general(counter):
    compiled = torch.compile(lambda x: x.relu().sum(), backend=counter)
    x = torch.ones(8, 3)
    torch._dynamo.mark_dynamic(x, 0)
    compiled(x)
    for n in (4, 9):
        compiled(torch.ones(n, 3))
    assert counter.frame_count == 1


def test_a_guard_on_a_closed_over_number_and_its_one_line(counter):
    step = 1

    def f(x):
        return x + [0] * step + [1] if isinstance(x, list) else x.repeat(step)

    compiled = torch.compile(f, backend=counter)
    compiled(torch.ones(2))
    step = 2
    mark = events.EVENT_LOG.mark()
    assert compiled(torch.ones(2)).tolist() == [1] * 4
    (event,) = events.EVENT_LOG.since(mark, "recompile")
    assert event.details["reason"].startswith("step: 1 -> 2 at ") and counter.frame_count == 2


def test_the_recompile_limit_warns_once_and_runs_eagerly(counter):
    compiled = torch.compile(lambda x, text: x + len(text.split()), backend=counter)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for n in range(12):
            assert compiled(torch.zeros(1), "a " * n).tolist() == [n]
    assert counter.frame_count == 8 and len(caught) == 1 and "recompile limit (8)" in str(caught[0].message)


# ---- questions people ask ---------------------------------------------------------------------------------------


def test_side_effects_on_python_objects_happen(counter):
    log, table = [], {"calls": 0}

    def f(x):
        log.append(x.shape)
        table["calls"] += 1
        return x + 1

    compiled = torch.compile(f, backend=counter, fullgraph=True)
    for _ in range(2):
        compiled(torch.ones(3))
    assert log == [(3,), (3,)] and table == {"calls": 2}


def test_gradients_and_inference_are_separate_compiles(counter):
    model = torch.nn.Linear(3, 2)
    compiled = torch.compile(model, backend=counter)
    compiled(torch.ones(1, 3)).sum().backward()
    with torch.no_grad():
        compiled(torch.ones(1, 3))
    assert counter.frame_count == 2 and model.weight.grad.shape == (2, 3)


def test_random_numbers_are_eagers():
    def f(x):
        return x + torch.rand(3)

    torch.manual_seed(0)
    want = f(torch.zeros(3))
    torch.manual_seed(0)
    same(torch.compile(f)(torch.zeros(3)), want)


def test_threads_share_a_compiled_function(counter):
    compiled, wrong = torch.compile(lambda x: x * 2, backend=counter), []

    def work():
        wrong.extend([1] * (compiled(torch.ones(2)).tolist() != [2, 2]))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong and counter.frame_count == 1


# ---- function transforms ----------------------------------------------------------------------------------------


def test_per_sample_gradients(counter):
    weight, x, y = torch.randn(3), torch.randn(5, 3), torch.randn(5)

    def loss(w, sample, target):
        return (sample @ w - target) ** 2

    def gradient(w):
        return torch.func.grad(lambda v: sum(loss(v, x[i], y[i]) for i in range(5)))(w)

    same(torch.compile(gradient, backend=counter, fullgraph=True)(weight), gradient(weight))
    assert counter.frame_count == 1
    compiled = torch.compile(lambda v: (v * v.sin()).sum(), backend="eager")
    same(torch.func.grad(compiled)(weight), torch.func.grad(lambda v: (v * v.sin()).sum())(weight))
