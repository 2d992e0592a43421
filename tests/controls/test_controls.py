"""What a program says to the compiler: disable, graph_break, stances, frozen runs, explain, under torch's names too.

Input: small functions; a backend that counts graphs tells what was captured.
"""

import pytest

import cutaway
from cutaway import compiler
from cutaway.torch_api import as_torch, torch


@pytest.fixture
def counter():
    return compiler.CompileCounter()


@pytest.fixture(autouse=True)
def default_stance():
    yield
    compiler.set_stance("default")


def double(x):
    return x * 2


def test_a_disabled_function_is_never_captured(counter):
    asked = []

    @compiler.disable
    def inside(x):
        asked.append(compiler.is_compiling())
        return x + 1

    def f(x):
        return inside(x * 2)

    compiled = cutaway.compile(f, backend=counter)
    assert compiled(cutaway.ones(2)).tolist() == [3, 3]
    assert asked == [False]
    assert [b.code for b in compiled.breaks] == ["GB0020"]
    assert cutaway.compile(inside, backend=counter) is inside
    with pytest.raises(cutaway.Unsupported, match="inside is disabled: it logs"):
        quiet = compiler.disable(double, reason="it logs")
        quiet.__name__ = "inside"
        cutaway.compile(lambda x: quiet(x), backend=counter, fullgraph=True)(cutaway.ones(2))


def test_disable_undoes_compile():
    compiled = cutaway.compile(double, backend="eager")
    assert compiler.disable(compiled)(cutaway.ones(2)).tolist() == [2, 2]
    assert not compiled.entries


def test_disallowed_operators_break(counter):
    def surprising(x):
        return cutaway.sin(x) + 1

    try:
        assert compiler.disallow_in_graph([cutaway.sin]) == [cutaway.sin]
        compiled = cutaway.compile(surprising, backend=counter)
        x = cutaway.ones(2)
        assert compiled(x).tolist() == surprising(x).tolist()
        assert "disallowed" in compiled.breaks[0].reason
    finally:
        compiler.allow_in_graph(cutaway.sin)
    assert cutaway.compile(surprising, backend=counter, fullgraph=True)(x).tolist() == surprising(x).tolist()


def test_an_allowed_function_is_one_node(counter):
    def opaque(x, by):
        steps = [n for n in {1: "a"}.items() if n]  # nothing of this is looked at
        return x * by * len(steps)

    compiler.allow_in_graph(opaque)
    f = cutaway.compile(lambda x: opaque(x, 3) + 1, backend=counter, fullgraph=True)
    assert f(cutaway.ones(2)).tolist() == [4, 4]
    assert counter.op_count == 2


def test_graph_break_with_a_message():
    def f(x):
        y = x + 1
        compiler.graph_break("here")
        return y * 2

    assert f(cutaway.ones(1)).tolist() == [4]
    compiled = cutaway.compile(f, backend="eager")
    assert compiled(cutaway.ones(1)).tolist() == [4]
    assert compiled.breaks[0].code == "GB0021" and compiled.breaks[0].reason.endswith(": here")
    with pytest.raises(cutaway.Unsupported, match="here"), compiler.error_on_graph_break(True):
        cutaway.compile(f, backend="eager")(cutaway.ones(1))


def test_is_compiling():
    def f(x):
        return x + 1 if compiler.is_compiling() else x - 1

    x = cutaway.zeros(1)
    assert f(x).tolist() == [-1] and cutaway.compile(f, backend="eager")(x).tolist() == [1]


def test_assume_constant_result():
    calls = []

    @compiler.assume_constant_result
    def read_setting(name):
        calls.append(name)
        return {"a": 3}[name]

    f = cutaway.compile(lambda x: x * read_setting("a"), backend="eager", fullgraph=True)
    for _ in range(3):
        assert f(cutaway.ones(1)).tolist() == [3]
    assert calls == ["a"]


def test_substitute_in_graph():
    import math

    def f(x):
        return x * math.gcd(12, 18)

    @compiler.substitute_in_graph(math.gcd)
    def gcd(a, b):
        while b:
            a, b = b, a % b
        return a

    assert cutaway.compile(f, backend="eager", fullgraph=True)(cutaway.ones(1)).tolist() == [6]


def test_stances(counter):
    f = cutaway.compile(double, backend=counter, dynamic=False)
    one, two = cutaway.ones(1), cutaway.ones(2)
    with compiler.set_stance("force_eager"):
        f(one)
    assert counter.frame_count == 0
    f(one)
    with compiler.set_stance("eager_on_recompile"):
        assert f(one).tolist() == [2] and f(two).tolist() == [2, 2]
    assert counter.frame_count == 1

    @compiler.set_stance("fail_on_recompile")
    def strict(x):
        return f(x)

    assert strict(one).tolist() == [2]
    with pytest.raises(RuntimeError, match=r"fail_on_recompile.*x\.shape\[0\]: 1 -> 2"):
        strict(two)
    f(two)
    assert counter.frame_count == 2
    later = cutaway.compile(lambda x: x + 1, backend=counter)
    with compiler.set_stance("eager_then_compile"):
        later(one)
        assert counter.frame_count == 2
        later(one)
        assert counter.frame_count == 3
    with pytest.raises(RuntimeError, match="invalid torch.compile stance 'fast'"):
        compiler.set_stance("fast")


def test_run_is_frozen(counter):
    f = cutaway.compile(double, backend=counter, dynamic=False)
    frozen = compiler.run(f)
    frozen(cutaway.ones(1))
    assert counter.frame_count == 0
    f(cutaway.ones(1))
    assert frozen(cutaway.ones(1)).tolist() == [2] and frozen(cutaway.ones(2)).tolist() == [2, 2]
    assert counter.frame_count == 1


@pytest.mark.parametrize("kind", ["a function", "a module"])
def test_run_of_what_was_compiled_elsewhere(kind):
    """The plain object, run: a call that an entry fits runs compiled code, any other is eager, and none compiles."""
    calls = []

    def backend(graph_module, inputs):
        def call(*values):
            calls.append(len(values))
            return graph_module(*values)

        return call

    plain = cutaway.nn.Linear(2, 2) if kind == "a module" else lambda x: x * 2
    if (
        kind == "a function"
    ):  # the frame of a module's call is every module's, so other tests may have compiled it
        assert compiler.run(plain) is plain, "nothing was compiled from it"
    other = cutaway.nn.Linear(2, 2) if kind == "a module" else lambda x: x * 2
    compiled = cutaway.compile(plain, backend=backend, dynamic=False)
    frozen = compiler.run(plain)
    x, wide = cutaway.ones(1, 2), cutaway.ones(3, 2)
    assert frozen(x).tolist() == plain(x).tolist() and not calls
    compiled(x)
    calls.clear()
    assert frozen(x).tolist() == plain(x).tolist() and len(calls) == 1
    assert frozen(wide).tolist() == plain(wide).tolist() and len(calls) == 1
    assert compiler.run(other)(x).tolist() == other(x).tolist() and len(calls) == 1
    del compiled


def test_reset_forgets_everything(counter):
    f = cutaway.compile(double, backend=counter)
    f(cutaway.ones(1))
    cutaway.reset()
    f(cutaway.ones(1))
    assert counter.frame_count == 2


def test_compiled_functions_call_each_other(counter):
    inner = cutaway.compile(double, backend=counter)
    outer = cutaway.compile(lambda x: inner(x) + 1, backend=counter, fullgraph=True)
    assert outer(cutaway.ones(1)).tolist() == [3]
    assert counter.frame_count == 1 and counter.op_count == 2
    again = cutaway.compile(cutaway.compile(double, backend="eager"), backend=counter)
    assert again(cutaway.ones(1)).tolist() == [2] and counter.frame_count == 2


def test_explain_counts_and_prints():
    def f(x):
        y = x + 1
        if y.sum() > 0:
            y = y * 2
        return y

    report = cutaway.explain(f)(cutaway.ones(2))
    assert report.graph_break_count == len(report.break_reasons) == 1
    assert report.break_reasons[0].code == "GB0003" and "if y.sum() > 0" in str(report)
    assert report.graph_count == len(report.graphs) == len(report.ops_per_graph)
    whole = cutaway.explain(lambda x: cutaway.relu(x) + 1)(cutaway.ones(2))
    assert (whole.graph_count, whole.graph_break_count, whole.op_count) == (1, 0, 2)
    assert [op.name for op in whole.ops_per_graph[0]] == ["relu", "add"]
    assert any(g.kind == "TENSOR" for g in whole.out_guards) and "Graph Break Count: 0" in str(whole)
    model = cutaway.nn.Linear(2, 2)
    for module in (model, cutaway.compile(model, backend="eager")):
        assert cutaway.explain(module)(cutaway.ones(2, 2)).graph_count == 1


def test_under_torchs_names(counter):
    with as_torch():
        from torch._dynamo import config as dynamo_config
        from torch._dynamo.testing import CompileCounter
        from torch.compiler import set_stance
    assert CompileCounter is compiler.CompileCounter and set_stance is compiler.set_stance
    for (
        name
    ) in "explain graph_break disable disallow_in_graph allow_in_graph run reset list_backends".split():
        assert callable(getattr(torch._dynamo, name))
    for (
        name
    ) in "compile reset disable allow_in_graph assume_constant_result is_compiling list_backends".split():
        assert callable(getattr(torch.compiler, name))
    before = dynamo_config.recompile_limit
    with dynamo_config.patch(recompile_limit=1):
        assert dynamo_config.cache_size_limit == 1
    assert dynamo_config.recompile_limit == before
    with pytest.raises(AttributeError, match="no torch._dynamo.config.recompile_limits"):
        dynamo_config.recompile_limits = 3
    old = torch._dynamo.optimize(counter, nopython=True)(double)
    assert old(torch.ones(1)).tolist() == [2] and counter.frame_count == 1


# ---- disable(recursive=False): the frame is plain, what it calls is compiled --------------------------------


def tripled(x):
    return x * 3


def summed(x, n):
    for i in range(n):
        x = x + i
    return x


@compiler.disable(recursive=False)
def plain_frame(x, n=2):
    y = x + 1
    try:
        z = tripled(y)
    finally:
        PLAIN.append(compiler.is_compiling())
    return summed(z, n) - x


PLAIN = []


@compiler.disable
def plain_all(x):
    return tripled(x)


def test_what_a_plain_frame_calls_is_compiled():
    counter = compiler.CompileCounter()

    def function(x):
        return plain_frame(x * 2) - plain_all(x)

    x = cutaway.randn(3)
    compiled = cutaway.compile(function, backend=counter)
    expected = function(x)
    for _ in range(2):
        assert cutaway.equal(compiled(x), expected)
    graphs = {
        made.function_name.rpartition(".")[2] for made in compiled.artifacts if made.frame.graph is not None
    }
    assert {"tripled", "summed", "function"} == graphs, "the plain frame itself has none"
    assert counter.frame_count == 4  # two parts of the function, and two callees of the plain frame
    assert [b.code for b in compiled.breaks] == ["GB0020", "GB0020"]
