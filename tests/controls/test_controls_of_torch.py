"""The rest of torch.compiler's and torch._dynamo's controls: stances, configuration, regions, backends, mistakes.

Input: small functions under torch's names. An error says what was seen, what was expected, what to do.
"""

from dataclasses import replace

import numpy as np
import pytest

import cutaway
from cutaway import compiler
from cutaway.pipelines import default_pipeline
from cutaway.torch_api import torch
from stage0_eager import TABLE

dynamo = torch._dynamo


@pytest.fixture(autouse=True)
def default_stance():
    yield
    compiler.set_stance("default")


def double(x):
    return x * 2


def speak(x):
    print("spoken")
    return x + 1


def compiled(function=double, **options):
    return cutaway.compile(function, **{"backend": "eager", **options})


# ---- error_on_graph_break ----------------------------------------------------------------------------------------


def test_a_region_in_compiled_code_makes_its_breaks_errors():
    def inside(x):
        with dynamo.error_on_graph_break(True):
            x = x * 2
            x = speak(x)
        return x

    def after(x):
        with dynamo.error_on_graph_break(True):
            x = x * 2
        return speak(x)

    with pytest.raises(cutaway.Unsupported, match="a call of print"):
        compiled(inside)(cutaway.ones(1))
    f = compiled(after)
    assert f(cutaway.ones(1)).tolist() == [3] and len(f.breaks) >= 1


def test_the_innermost_region_counts_and_fullgraph_is_stronger(capsys):
    allowed = dynamo.error_on_graph_break(False)(speak)

    def calls(x):
        return allowed(x * 2)

    with dynamo.error_on_graph_break(True):
        assert compiled(calls)(cutaway.ones(1)).tolist() == [3]
    assert capsys.readouterr().out == "spoken\n"
    with pytest.raises(cutaway.Unsupported, match="a call of print"), dynamo.error_on_graph_break(True):
        compiled(lambda x: speak(x))(cutaway.ones(1))
    with pytest.raises(cutaway.Unsupported, match="a call of print"):
        compiled(calls, fullgraph=True)(cutaway.ones(1))


def test_a_region_around_a_call_does_not_compile_what_is_compiled_again():
    counter = compiler.CompileCounter()
    f = compiled(backend=counter)
    f(cutaway.ones(1))
    with dynamo.error_on_graph_break(True):
        f(cutaway.ones(1))
    assert counter.frame_count == 1


# ---- stances -----------------------------------------------------------------------------------------------------


def test_stances_are_named_as_torchs():
    with pytest.raises(
        RuntimeError, match="invalid torch.compile stance 'force_eagr'.*did you mean 'force_eager'"
    ):
        compiler.set_stance("force_eagr")
    with pytest.raises(RuntimeError, match="force_backend goes with the stance 'default'"):
        compiler.set_stance("force_eager", force_backend="eager")
    with pytest.raises(ValueError, match="eagr"):
        compiler.set_stance("default", force_backend="eagr")
    f = compiled()
    with compiler.set_stance("aot_eager_then_compile", skip_guard_eval_unsafe=True):
        f(cutaway.ones(1))
        assert not f.entries
        f(cutaway.ones(1))
        assert len(f.entries) == 1


def test_a_stance_set_in_compiled_code_is_an_error():
    def f(x):
        compiler.set_stance("force_eager")
        return x

    with pytest.raises(
        RuntimeError, match="set_stance is called in compiled code at .*call it around compiled code"
    ):
        compiled(f)(cutaway.ones(1))


# ---- torch._dynamo.config ----------------------------------------------------------------------------------------


def test_configuration_that_acts():
    f = compiled(dynamic=False)
    f(cutaway.ones(1))
    with (
        dynamo.config.patch(error_on_recompile=True),
        pytest.raises(dynamo.exc.RecompileError, match="x.shape"),
    ):
        f(cutaway.ones(2))
    with (
        dynamo.config.patch("recompile_limit", 1),
        dynamo.config.patch({"fail_on_recompile_limit_hit": True}),
        pytest.raises(dynamo.exc.FailOnRecompileLimitHit, match="reached the recompile limit"),
    ):
        f(cutaway.ones(2))
    for settings, entries in (
        ({}, 2), ({"automatic_dynamic_shapes": False}, 4), ({"assume_static_by_default": False}, 1),
    ):  # fmt: skip
        g = compiled()
        with dynamo.config.patch(settings):
            for size in (5, 6, 7, 8):
                assert g(cutaway.ones(size)).sum().item() == 2 * size
        assert len(g.entries) == entries, settings


def test_a_forced_backend_has_entries_of_its_own():
    """set_stance(force_backend=) raised NotImplementedError before."""
    own, forced = compiler.CompileCounter(), compiler.CompileCounter()

    def broken(x):
        x = x + 1
        dynamo.graph_break()
        return x * 2

    f, layer = compiled(broken, backend=own), cutaway.nn.Linear(2, 2)
    g, x = compiled(layer, backend=own), cutaway.ones(2)
    wanted = f(x).tolist(), g(x).tolist()
    assert (own.frame_count, forced.frame_count) == (3, 0)
    with compiler.set_stance("default", force_backend=forced):
        for _ in range(2):
            assert (f(x).tolist(), g(x).tolist()) == wanted
    assert (own.frame_count, forced.frame_count) == (3, 3)
    assert (f(x).tolist(), g(x).tolist()) == wanted

    @compiler.set_stance("default", force_backend=forced)
    def around():
        return f(cutaway.ones(2, dtype=cutaway.float64)).tolist()

    assert around() == wanted[0]
    assert (own.frame_count, forced.frame_count) == (3, 5)


def test_configuration_that_is_kept_fixed_or_unknown():
    dynamo.config.verbose = True
    assert dynamo.config.verbose and dynamo.config.inline_inbuilt_nn_modules
    dynamo.config.verbose = False
    dynamo.config.guard_nn_modules = True
    with pytest.raises(NotImplementedError, match="guard_nn_modules is always True"):
        dynamo.config.guard_nn_modules = False
    with pytest.raises(AttributeError, match="the nearest it has is torch._dynamo.config.recompile_limit"):
        print(dynamo.config.recompile_limits)
    with pytest.raises(AttributeError, match="no torch._dynamo.config.nonsense"):
        dynamo.config.patch(nonsense=1).__enter__()


def test_verify_correctness_finds_a_wrong_pass():
    def wrong(graph):
        (node,) = [n for n in graph.calls if n.target.name == "sin"]
        with graph.inserting_before(node):
            new = graph.call_function(TABLE["cutaway.cos"], node.args, node.kwargs, **node.meta)
        graph.replace_all_uses_with(node, new)
        graph.erase_node(node)
        return graph

    seams = default_pipeline()
    pipeline = replace(seams, functionalize=lambda *a: _changed(seams.functionalize(*a), wrong))

    def run():
        cutaway.compile(lambda x: x.sin() + 1, pipeline=pipeline)(cutaway.ones(3))

    with dynamo.config.patch(suppress_errors=False):
        run()  # nobody looks
        with dynamo.config.patch(verify_correctness=True), pytest.raises(Exception, match="functionalize"):
            run()


def _changed(functional, change):
    return replace(functional, graph=change(functional.graph.copy()))


# ---- backends ----------------------------------------------------------------------------------------------------


def test_backends_are_listed_by_tag():
    assert compiler.list_backends() == ["cudagraphs", "inductor"]
    assert {"eager", "aot_eager"} < set(compiler.list_backends(exclude_tags=()))


def test_a_counter_in_front_of_a_backend():
    counter = dynamo.testing.CompileCounterWithBackend("aot_eager")
    assert compiled(backend=counter, fullgraph=True)(cutaway.ones(2)).tolist() == [2, 2]
    assert counter.frame_count == counter.op_count == len(counter.graphs) == 1


def raising(graph, inputs):
    raise ValueError("no luck")


BACKENDS = {
    "raises": (raising, "backend 'raising' raised ValueError: no luck"),
    "gives no callable": (lambda graph, inputs: 3, "returned int, expected a function"),
    "takes one argument": (lambda graph: graph, "takes 1 positional argument but 2 were given"),
    "gives a tensor": (lambda graph, inputs: lambda *a: a[0], "returned Tensor, expected a tuple"),
    "gives too many": (
        lambda graph, inputs: lambda *a: (a[0], a[0]),
        "returned tuple of 2, expected a tuple",
    ),
    "gives none": (
        lambda graph, inputs: lambda *a: (),
        r"returned tuple of 0.*\(here 1\); for one output, return \(out,\)",
    ),
}


@pytest.mark.parametrize("name", BACKENDS)
def test_a_backend_that_does_wrong_is_named(name):
    backend, words = BACKENDS[name]
    with pytest.raises(dynamo.exc.BackendCompilerFailed, match=words) as caught:
        compiled(backend=backend)(cutaway.ones(2))
    assert len(str(caught.value).splitlines()) <= 3


def test_a_list_will_do():
    f = compiled(backend=lambda graph, inputs: lambda *a: list(graph(*a)))
    np.testing.assert_array_equal(f(cutaway.ones(2)).numpy(), [2, 2])


# ---- mistakes ----------------------------------------------------------------------------------------------------


def marked(**limits):
    x = cutaway.ones(3, 4)
    compiler.mark_dynamic(x, 0, **limits)
    return x


def three_rows(x):
    return x * 2 if x.shape[0] == 3 else x


MISTAKES = {
    "no callable": (lambda: cutaway.compile(3), TypeError, "compile expects a function or a module, but got int"),
    "a backend's name": (lambda: compiled(backend="inducter"), ValueError, "did you mean 'inductor'"),
    "a mode": (lambda: compiled(mode="fast"), RuntimeError, "Unrecognized mode='fast', should be one of: None, 'default'"),
    "mode and options": (lambda: compiled(mode="default", options={}), RuntimeError, "Either mode or options"),
    "dynamic": (lambda: compiled(dynamic="yes"), TypeError, "dynamic to be None, True or False, but got 'yes'"),
    "a mode nearby": (lambda: compiled(mode="max_autotune"), RuntimeError, "did you mean 'max-autotune'"),
    "a list of modes": (lambda: compiled(mode=["default"]), RuntimeError, "Unrecognized mode=.'default'."),
    "an option": (lambda: compiled(options={"runtime.cach": 1}), RuntimeError, "did you mean .runtime.cache."),
    "an option's type": (lambda: compiled(options={"runtime.cache": 1}), RuntimeError, "expects bool, but got 1"),
    "an option's name": (lambda: compiled(options={3: 1}), RuntimeError, "is a string .* but got 3"),
    "no options": (lambda: compiled(options=3), TypeError, "options to be a dict, .* got 3"),
    "a pipeline": (lambda: compiled(pipeline=3), TypeError, "pipeline expects a Pipeline, .* got int"),
    "reset": (lambda: cutaway.reset(len), TypeError, "reset expects compiled functions or modules, .* got builtin"),
    "wrap_numpy": (lambda: compiler.wrap_numpy(3), TypeError, "wrap_numpy expects a callable, but got int"),
    "cond": (lambda: cutaway.cond(True, 2, 3), RuntimeError, "Expect both branches to be callable"),
    "no operator": (lambda: cutaway.library.opcheck(3, ()), TypeError, "expected a custom operator .* got 3"),
    "explain": (lambda: cutaway.explain("f"), TypeError, "explain expects a function or a module, but got str"),
    "run": (lambda: compiler.run(3), TypeError, "run expects a compiled function or module, but got int"),
    "disable": (lambda: compiler.disable(3), TypeError, "disable expects a callable, but got int"),
    "a mark on a number": (lambda: compiler.mark_dynamic(3, 0), TypeError, "expected a tensor .* but got int"),
    "a static number": (lambda: compiler.mark_static(3), TypeError, "expected a tensor .* but got int"),
    "a dimension's name": (lambda: compiler.mark_dynamic(cutaway.ones(2), "a"), TypeError, "as an int.* got 'a'"),
    "limits": (lambda: marked(min=5, max=2), ValueError, "min=5 and max=2"),
    "outside of the limits": (lambda: marked(min=5), ValueError, "has size 3, but you marked it with min=5"),
    "no such dimension": (lambda: compiler.mark_dynamic(cutaway.ones(2), 4), IndexError, "Dimension out of range"),
    "a marked size that is fixed": (
        lambda: compiled(three_rows)(marked()),
        compiler.ConstraintViolationError,
        r"x.shape\[0\] must be 3 at (.|\n)*maybe_mark_dynamic",
    ),
    "too many arguments": (lambda: compiled()(1, 2), TypeError, "takes 1 positional argument but 2 were given"),
    "a missing argument": (lambda: compiled()(), TypeError, "missing 1 required positional argument: 'x'"),
    "shapes": (lambda: compiled(lambda x: x @ x)(cutaway.ones(2, 3)), RuntimeError, "shapes cannot be multiplied"),
    "a name": (lambda: compiled(lambda x: missing(x))(1), NameError, "name 'missing' is not defined"),  # noqa: F821
    "an attribute": (lambda: compiled(lambda x: x.reluu())(cutaway.ones(1)), AttributeError, "no attribute 'reluu'"),
    "an index": (lambda: compiled(lambda x: x[7])(cutaway.ones(3)), IndexError, "index 7 is out of bounds"),
    "a string": (lambda: compiled(lambda x: x + "a")(cutaway.ones(3)), TypeError, "unsupported operand type"),
    "in place on a leaf": (
        lambda: compiled(lambda x: x.add_(1))(cutaway.ones(3).requires_grad_()), RuntimeError, "a leaf Variable",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_said_in_a_line_or_two(name):
    attempt, kind, words = MISTAKES[name]
    with pytest.raises(kind, match=words) as caught:
        attempt()
    assert type(caught.value) is kind and len(str(caught.value).splitlines()) <= 3


def test_under_fullgraph_an_error_of_the_program_says_what_it_was():
    with pytest.raises(cutaway.Unsupported, match="no attribute 'reluu' leaves the frame"):
        compiled(lambda x: x.reluu(), fullgraph=True)(cutaway.ones(1))
    with pytest.raises(
        cutaway.Unsupported, match="matmul raises RuntimeError: mat1 and mat2(.|\n)*hint: fix the call"
    ):
        compiled(lambda x: x @ x, fullgraph=True)(cutaway.ones(2, 3))
