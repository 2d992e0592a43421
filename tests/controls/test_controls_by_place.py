"""Every control under its torch place, by torch's argument names: what published code writes around torch.compile.

Input: small functions, under torch's paths only.
"""

import inspect

import pytest

from cutaway import backends
from cutaway.torch_api import as_torch, torch

dynamo = torch._dynamo

# The path, and the names torch has for the arguments that may be given by name.
PLACES = {
    "compile": "model fullgraph dynamic backend mode options disable",
    "compiler.compile": "model",
    "compiler.allow_in_graph": "fn",
    "compiler.assume_constant_result": "fn",
    "compiler.disable": "fn recursive reason",
    "compiler.list_backends": "exclude_tags",
    "compiler.nested_compile_region": "fn",
    "compiler.set_stance": "stance",
    "compiler.substitute_in_graph": "original_fn can_constant_fold_through skip_signature_check",
    "compiler.wrap_numpy": "fn",
    "_dynamo.allow_in_graph": "fn",
    "_dynamo.disable": "fn recursive reason",
    "_dynamo.disallow_in_graph": "fn",
    "_dynamo.error_on_graph_break": "error_on_graph_break",
    "_dynamo.forbid_in_graph": "fn",
    "_dynamo.graph_break": "msg",
    "_dynamo.lookup_backend": "compiler_fn",
    "_dynamo.mark_dynamic": "t index min max",
    "_dynamo.mark_static": "t index",
    "_dynamo.mark_static_address": "t guard",
    "_dynamo.maybe_mark_dynamic": "t index",
    "_dynamo.nonstrict_trace": "traceable_fn",
    "_dynamo.optimize": "backend nopython dynamic",
    "_dynamo.register_backend": "compiler_fn name tags",
    "_dynamo.run": "fn",
    "_dynamo.set_stance": "stance",
    "_check": "cond message",
}
BARE = (
    "compiler.is_compiling compiler.is_dynamo_compiling compiler.is_exporting compiler.reset cond while_loop "
    "compiler.cudagraph_mark_step_begin _dynamo.explain _dynamo.reset _dynamo.is_compiling _dynamo.list_backends "
    "_dynamo.OptimizedModule _dynamo.config.patch _dynamo.testing.CompileCounter _dynamo.exc.Unsupported "
    "_dynamo.testing.CompileCounterWithBackend _dynamo.utils.counters _dynamo.decorators.mark_dynamic "
    "_dynamo.backends.registry.register_backend _higher_order_ops.scan _higher_order_ops.map _logging.set_logs "
    "fx.GraphModule fx.Graph fx.Node fx.graph_module.GraphModule SymInt SymFloat SymBool"
).split()


def at(path):
    found = torch
    for name in path.split("."):
        found = getattr(found, name)
    return found


@pytest.mark.parametrize("path", [*PLACES, *BARE])
def test_a_control_stands_where_torch_has_it(path):
    names = PLACES.get(path, "").split()
    if names:
        assert [n for n in inspect.signature(at(path)).parameters if n in names] == names
    else:
        assert at(path) is not None


def test_they_are_imported_as_published_code_imports_them():
    with as_torch():
        from torch._dynamo import lookup_backend, register_backend  # noqa: F401
        from torch._dynamo.eval_frame import OptimizedModule
        from torch.fx import GraphModule
    twin = torch.compile(model=torch.nn.Linear(2, 2), backend="eager")
    assert not isinstance(twin, OptimizedModule) and not hasattr(twin, "_orig_mod")
    seen = []

    def backend(gm: GraphModule, example_inputs):
        seen.append(isinstance(gm, GraphModule) and isinstance(gm.graph, torch.fx.Graph))
        seen.extend(isinstance(node, torch.fx.Node) for node in gm.graph.nodes)
        return gm.forward

    assert torch.compile(lambda x: x + 1, backend=backend)(torch.ones(1)).tolist() == [2]
    assert seen and all(seen)


# ---- what they do ------------------------------------------------------------------------------------------------


def test_a_backend_has_a_name(monkeypatch):
    monkeypatch.setattr(backends, "REGISTERED", {})  # other tests list what there is
    calls = []

    @dynamo.register_backend(tags=("debug",))
    def counted(gm, example_inputs):
        calls.append(len(example_inputs))
        return dynamo.lookup_backend("eager")(gm, example_inputs)

    dynamo.register_backend(counted, name="counted_too")
    for name in ("counted", "counted_too"):
        assert torch.compile(lambda x: x * 2, backend=name)(torch.ones(2)).tolist() == [2, 2]
        assert dynamo.lookup_backend(name) is counted
    assert calls == [1, 1]
    assert "counted_too" in dynamo.list_backends() and "counted" not in dynamo.list_backends()
    assert "counted" in dynamo.list_backends(exclude_tags=())
    for taken in ("counted", "inductor"):
        with pytest.raises(ValueError, match=f"a backend named '{taken}' already exists"):
            dynamo.register_backend(counted, name=taken)
    with pytest.raises(TypeError, match="expects a callable, got int"):
        dynamo.register_backend(3)
    with pytest.raises(ValueError, match="did you mean 'counted'"):
        torch.compile(lambda x: x, backend="countd")


def test_what_is_forbidden_raises_where_it_is_called():
    @dynamo.forbid_in_graph
    def outside(x):
        return x + 1

    def calls(x):
        return outside(x)

    assert calls(torch.ones(1)).tolist() == [2]
    with pytest.raises(RuntimeError, match="outside.* is called in compiled code at .*forbid_in_graph"):
        torch.compile(calls, backend="eager")(torch.ones(1))


def test_a_region_and_an_address_change_no_result():
    @torch.compiler.nested_compile_region
    def twice(x):
        return x * 2

    @torch.compiler.nested_compile_region()
    def more(x):
        return twice(x) + 1

    x = torch.ones(2)
    assert dynamo.mark_static_address(x, guard=True) is None
    assert torch.compile(more, backend="eager", fullgraph=True)(x).tolist() == [3, 3]


CHECKS = {
    "_check": RuntimeError,
    "_check_value": ValueError,
    "_check_index": IndexError,
    "_check_type": TypeError,
}


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_that_fails_raises_and_one_that_holds_is_a_guard(name):
    check = getattr(torch, name)

    def rows(x):
        check(x.shape[0] > 2, lambda: f"too few: {x.shape[0]}")
        return x * 2

    counter = dynamo.testing.CompileCounter()
    f = torch.compile(rows, backend=counter, dynamic=True)
    for n in (5, 6, 7):
        assert f(torch.ones(n)).sum().item() == 2 * n
    assert counter.frame_count == 1
    for call in (rows, f):
        with pytest.raises(CHECKS[name], match="too few: 2"):
            call(torch.ones(2))
    with pytest.raises(CHECKS[name], match="Expected cond to be True"):
        check(False)
    with pytest.raises(TypeError, match="cond must be a bool, but got a Tensor"):
        check(torch.ones(1))
    with pytest.raises(TypeError, match="message must be a callable"):
        check(True, "words")


def test_a_size_is_checked():
    torch._check_is_size(3)
    torch._check_is_size(3, max=3)
    for bad in (lambda: torch._check_is_size(-1), lambda: torch._check_is_size(4, max=3)):
        with pytest.raises(RuntimeError, match="Expected cond to be True"):
            bad()


def test_a_reason_has_the_users_line():
    def speaks(x):
        x = x + 1
        print("spoken")
        return x * 2

    report = dynamo.explain(speaks)(torch.ones(1))
    assert (report.graph_count, report.graph_break_count, report.op_count) == (2, 1, 2)
    (frame,) = report.break_reasons[0].user_stack
    assert frame.filename == __file__ and frame.line == 'print("spoken")'
    assert report.break_reasons[0].reason == "a call of print"
