"""cond, while_loop, scan and map through every backend: eager's results, gradients by finite differences, one graph.

Input: small functions in float64. A subgraph goes through all stages, so no backend may fall back to eager.
"""

import numpy as np
import pytest
from cutaway.utils.checkpoint import checkpoint

import cutaway
from cutaway import compiler, func, nn
from stage0_eager.utils.pytree import leaves_of
from stage_contracts import events
from stage_contracts.program_text import parse_program

BACKENDS = ["eager", "aot_eager", "inductor"]
# each subgraph is built by the C++ compiler
BUILT = ["cond, true", "cond, false", "scan", "cond in scan", "map", "while_loop"]


def numbers(*shape, scale=1.0):
    return cutaway.from_numpy(scale * np.random.default_rng(sum(shape) + 1).normal(size=shape))


# ---- the programs: function, and its arguments ------------------------------------------------------------------------


def branches(x, s):
    shift = x.sum() * 0.5  # taken from around the branches
    return cutaway.cond(x.sum() > 0, lambda y, s: y * s + shift, lambda y, s: (y - s).sin(), (x, s))


def branches_on_trees(x, s):
    def yes(pair, rest):
        return {"a": pair[0] * rest["k"], "b": [pair[1].cos()]}

    def no(pair, rest):
        return {"a": pair[0].sin(), "b": [pair[1] - rest["k"]]}

    out = cutaway.cond(s.sum() > 0, yes, no, ((x, x + 1), {"k": s}))
    return out["a"] * out["b"][0]


def recurrent(w, u, h0, xs):
    def step(h, x):
        h = (h @ w + x @ u).tanh()
        return h, {"y": h * 2, "total": h.sum()}

    h, out = cutaway.scan(step, h0, xs)
    return h, out["y"], out["total"]


def branching_backwards(w, u, h0, xs):
    def step(h, x):
        h = cutaway.cond(h.sum() > 0, lambda h: (h @ w + x @ u).tanh(), lambda h: (h @ w - x @ u).sin(), (h,))
        return h, h * 3

    return cutaway.scan(step, h0, xs, dim=1, reverse=True)


def rows(xs, w):
    return cutaway.map(lambda x, w: (x * w).sin().sum(0), xs, w)


def growing(x, w):
    n = cutaway.zeros((), dtype=cutaway.int64)
    return cutaway.while_loop(lambda n, x: x.sum() < 100, lambda n, x: (n + 1, x * w), (n, x))


def loop_in_map(xs, w):
    def grow(x):
        return cutaway.while_loop(lambda x: x.sum() < 10, lambda x: (x * w,), (x,))[0]

    return cutaway.map(grow, xs)


RECURRENT = numbers(3, 3), numbers(2, 3), numbers(5, 3)
PROGRAMS = {
    "cond, true": (branches, (numbers(4).abs(), numbers(1))),
    "cond, false": (branches, (-numbers(4).abs(), numbers(1))),
    "cond on trees": (branches_on_trees, (numbers(4), numbers(4))),
    "scan": (recurrent, (*RECURRENT, numbers(4, 5, 2))),
    "cond in scan": (branching_backwards, (*RECURRENT, numbers(5, 4, 2))),
    "map": (rows, (numbers(4, 3, 2), numbers(2))),
    "while_loop": (growing, (numbers(3).abs(), numbers(3).abs() + 1.5)),
    "while_loop in map": (loop_in_map, (numbers(2, 3).abs(), numbers(3).abs() + 1.5)),
}


def loss(results):
    return sum((t * t).sum() + 0.3 * t.sum() for t in leaves_of(results) if t.is_floating_point())


def run(function, args):
    """Results and gradients as arrays."""
    args = [a.clone().requires_grad_() for a in args]
    results = function(*args)
    loss(results).backward()
    return [t.detach().numpy() for t in leaves_of(results)], [a.grad.numpy() for a in args]


def by_differences(function, args, step=1e-6):
    found = []
    for i, arg in enumerate(args):
        gradient = np.zeros(arg.shape)
        for at in np.ndindex(*arg.shape):
            moved = [arg.numpy().copy() for _ in range(2)]
            moved[0][at] += step
            moved[1][at] -= step
            ends = [loss(function(*args[:i], cutaway.from_numpy(m), *args[i + 1 :])).item() for m in moved]
            gradient[at] = (ends[0] - ends[1]) / (2 * step)
        found.append(gradient)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_results_and_gradients(name):
    function, args = PROGRAMS[name]
    wanted, gradients = run(function, args)
    for got, want in zip(gradients, by_differences(function, args), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-7)
    for backend in BACKENDS if name in BUILT else BACKENDS[:2]:
        mark = events.EVENT_LOG.mark()
        compiled = cutaway.compile(function, backend=backend, fullgraph=True)
        got = run(compiled, args)
        for a, b in zip(got[0] + got[1], wanted + gradients, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12, err_msg=backend)
        kinds = {e.kind for e in events.EVENT_LOG.since(mark)}
        assert len(compiled.entries) == 1 and not kinds & {"fallback", "graph_break"}, backend
        assert (compiled.artifacts[0].partition is not None) == (backend != "eager")


@pytest.mark.parametrize("backend", BACKENDS)
def test_both_branches_and_any_number_of_turns_without_recompiling(backend):
    chooses = cutaway.compile(branches, backend=backend, fullgraph=True)
    for x in (cutaway.ones(4), -cutaway.ones(4), cutaway.ones(4)):
        np.testing.assert_allclose(chooses(x, numbers(1)).numpy(), branches(x, numbers(1)).numpy(), rtol=1e-6)
    grows = cutaway.compile(growing, backend=backend, fullgraph=True)
    turns = [grows(cutaway.full((3,), size), cutaway.full((3,), 2.0))[0].item() for size in (1.0, 9.0, 50.0)]
    assert turns == [6, 2, 0]
    assert len(chooses.entries) == len(grows.entries) == 1


def test_a_module_with_state_inside():
    class Cell(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(3, 3)

        def forward(self, xs):
            return cutaway.scan(lambda h, x: 2 * (self.inner(h + x).tanh(),), xs[0] * 0, xs)[1]

    model, xs = Cell(), numbers(4, 2, 3).to(cutaway.float32)
    gradients = []
    for f in (model, *(cutaway.compile(model, backend=b, fullgraph=True) for b in BACKENDS[:2])):
        model.zero_grad()
        f(xs).sum().backward()
        gradients.append([p.grad.clone().numpy() for p in model.parameters()])
    for got in gradients[1:]:
        for a, b in zip(got, gradients[0], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5)


def test_a_subgraph_may_write_to_what_it_made():
    def f(x):
        def made(y):
            z = y + 1
            z[0].mul_(3)
            return z

        return cutaway.cond(x.sum() > 0, made, lambda y: y.clone(), (x,))

    for backend in BACKENDS[:2]:
        compiled = cutaway.compile(f, backend=backend, fullgraph=True)
        assert compiled(cutaway.ones(2)).tolist() == [6, 2] and compiled(-cutaway.ones(2)).tolist() == [
            -1,
            -1,
        ]


@pytest.mark.parametrize("backend", BACKENDS[:2])
def test_open_sizes_stay_open(backend):
    def f(x, w):
        y = cutaway.cond(x.sum() > 0, lambda a: a.sin() * w, lambda a: a - w, (x,))
        return cutaway.map(lambda r: r * 2 + w.sum(), y)

    compiled = cutaway.compile(f, backend=backend, fullgraph=True, dynamic=True)
    for n in (3, 5, 8):
        for got, want in zip(
            run(compiled, [numbers(n), numbers(n)]), run(f, [numbers(n), numbers(n)]), strict=True
        ):
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9)
    assert len(compiled.entries) == 1


@pytest.mark.parametrize(
    "options",
    [
        {"autograd.verify_passes": True},
        {"autograd.verify_passes": True, "autograd.activation_memory_budget": 0.0},
        {"autograd.partitioner": "recompute_pointwise"},
        {"autograd.partitioner": "save_everything"},
    ],
    ids=str,
)
def test_every_partition_keeps_the_gradients(options):
    for name in ("cond, true", "cond in scan", "while_loop in map"):
        function, args = PROGRAMS[name]
        compiled = cutaway.compile(function, backend="aot_eager", fullgraph=True, options=options)
        for got, want in zip(run(compiled, args), run(function, args), strict=True):
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)


def under_no_grad(x):
    with cutaway.no_grad():
        s = cutaway.cond(x.sum() > 0, lambda a: a * 2, lambda a: -a, (x,))
    return (x * s).sum()


def in_a_checkpoint(x):
    def inside(y):
        return cutaway.cond(y.sum() > 0, lambda a: (a * a).sin(), lambda a: -a, (y,))

    return checkpoint(inside, x * 2, use_reentrant=False).sum()


def a_gradients_gradient(x):
    y = cutaway.cond(x.sum() > 0, lambda a: a * a * a, lambda a: -a, (x,))
    (g,) = cutaway.autograd.grad(y.sum(), x, create_graph=True)
    return (g * x).sum()


def a_gradient_of_a_scan(x):
    def total(z):
        return cutaway.scan(lambda c, r: (c * r, c + r), z.sum(), z)[1].sum()

    return func.grad(total)(x).sum() * x.sum()


@pytest.mark.parametrize(
    "function", [under_no_grad, in_a_checkpoint, a_gradients_gradient, a_gradient_of_a_scan]
)
def test_inside_what_changes_how_gradients_are_recorded(function):
    wanted = run(function, [numbers(4).abs()])
    for backend in BACKENDS[:2]:
        got = run(cutaway.compile(function, backend=backend, fullgraph=True), [numbers(4).abs()])
        for a, b in zip(got[0] + got[1], wanted[0] + wanted[1], strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-9)


def test_results_share_no_memory_with_operands():
    def f(x):
        y = x.clone()
        z = cutaway.cond(x.sum() > 0, lambda a: (a, a), lambda a: (a + 1, a), (y,))
        (w,) = cutaway.while_loop(lambda a: a.sum() < 0, lambda a: (a,), (y,))
        y.mul_(2)
        z[0].add_(1)
        return z[0], z[1], w, y

    wanted = [t.tolist() for t in f(cutaway.ones(1))]
    assert wanted == [[2], [1], [1], [2]]
    for backend in BACKENDS[:2]:
        compiled = cutaway.compile(f, backend=backend, fullgraph=True)
        assert [t.tolist() for t in compiled(cutaway.ones(1))] == wanted


def test_vmap_of_a_branch_takes_each_example_its_own_way():
    rows = numbers(4, 3)

    def f(r):
        return cutaway.cond(r.sum() > 0, lambda a: {"y": a * 2}, lambda a: {"y": -a}, (r,))["y"]

    wanted = cutaway.stack([f(r) for r in rows])
    assert cutaway.equal(func.vmap(f)(rows), wanted)
    compiled = cutaway.compile(lambda rows: func.vmap(f)(rows), backend="aot_eager", fullgraph=True)
    assert cutaway.equal(compiled(rows), wanted)


# ---- what is not allowed ---------------------------------------------------------------------------------------------


def test_what_compiled_code_refuses():
    x = cutaway.ones(3)

    def refuses(function, words):
        with pytest.raises(cutaway.Unsupported, match=words):
            cutaway.compile(function, backend="eager", fullgraph=True)(x)

    refuses(
        lambda x: cutaway.cond(x.sum() > 0, lambda y: y.add_(1), lambda y: y, (x,)), "a write to an input"
    )
    refuses(
        lambda x: cutaway.cond(x.sum() > 0, lambda y: y[:1].add_(1), lambda y: y, (x,)), "a write to an input"
    )
    refuses(lambda x: cutaway.cond(x.sum() > 0, lambda y: [y], lambda y: (y,), (x,)), "branches return")
    refuses(lambda x: cutaway.cond(x.sum() > 0, lambda y: 1, lambda y: 2, (x,)), "returns a int")
    refuses(lambda x: cutaway.cond(x > 0, lambda y: y, lambda y: y, (x,)), "several elements")
    refuses(
        lambda x: cutaway.while_loop(lambda y: y.sum() < 9, lambda y: (y.sum(),), (x,)),
        r"while_loop whose function carries float32\[\] where it was given float32\[3\]",
    )
    refuses(lambda x: cutaway.scan(lambda c, y: (c[None], y), x.sum(), x), "scan whose function carries")
    refuses(lambda x: cutaway.scan(lambda c, y: c + y, x.sum(), x), r"scan whose combine_fn returns")
    refuses(lambda x: cutaway.map(lambda y: cutaway.rand_like(y), x), "random numbers inside map")


def test_what_eager_refuses():
    x = cutaway.ones(3)
    for words, call in {
        "Expected pred to be bool or tensor": lambda: cutaway.cond("no", abs, abs, (x,)),
        "single-element tensor": lambda: cutaway.cond(x > 0, abs, abs, (x,)),
        "Expect both branches to be callable": lambda: cutaway.cond(x.sum() > 0, 1, abs, (x,)),
        "only consists of tensor leaves": lambda: cutaway.cond(x.sum() > 0, abs, abs, (1,)),
        "might be modifying the input": lambda: cutaway.cond(x.sum() > 0, lambda y: y.add_(1), abs, (x,)),
        "Expect cond_fn and body_fn to be callable": lambda: cutaway.while_loop(1, abs, (x,)),
        "tensor or int leaves": lambda: cutaway.while_loop(abs, abs, ("x",)),
        "same metadata": lambda: cutaway.while_loop(lambda y: y.sum() < 9, lambda y: (y.sum(),), (x,)),
        "to have the form of": lambda: cutaway.while_loop(lambda y: y.sum() < 9, lambda y: (y, y), (x,)),
        "requires init leaves": lambda: cutaway.scan(lambda c, y: (c, y), (), x),
        "All init leaves must be a Tensor": lambda: cutaway.scan(lambda c, y: (c, y), 1.0, x),
        "All xs leaves must be a Tensor": lambda: cutaway.scan(lambda c, y: (c, y), x, [1]),
        "scan dimension > 0": lambda: cutaway.scan(lambda c, y: (c, y), x, x[:0]),
        "Combine_fn must be a callable": lambda: cutaway.scan(1, x, x),
        "Leading dimensions of mapped xs cannot be 0": lambda: cutaway.map(abs, x[:0]),
        "must be consistent": lambda: cutaway.map(lambda p: p[0], (x, x[:2])),
    }.items():
        with pytest.raises(RuntimeError, match=words):
            call()


def test_the_gradient_of_a_loop_has_no_gradient_of_its_own():
    compiled = cutaway.compile(growing, backend="aot_eager", fullgraph=True)
    x = numbers(3).abs().requires_grad_()
    (g,) = cutaway.autograd.grad(compiled(x, numbers(3).abs() + 1.5)[1].sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="double backward"):
        g.sum().backward()


# ---- the artifacts ---------------------------------------------------------------------------------------------------


def test_subgraphs_print_and_their_programs_read_back():
    function, args = PROGRAMS["cond in scan"]
    compiled = cutaway.compile(function, fullgraph=True)
    with cutaway.no_grad():
        compiled(*args)
    artifacts = compiled.artifacts[0]
    assert "higher_order.scan(combine_graph, " in str(artifacts.captured)
    forward = artifacts.forward
    assert list(forward.subgraphs) == ["combine_graph"]
    inner = forward.subgraphs["combine_graph"]
    assert sorted(inner.subgraphs) == ["false_graph", "true_graph"]
    for half in (forward, inner):
        assert str(parse_program(str(half.planned))) == str(half.planned)
        half.core.verify()
    assert "subgraph('true_graph')" in str(inner.planned)
    assert "forward.combine_graph.true_graph.core" in [name for name, _ in artifacts.named()]
    shown = compiler.EagerAndRecordGraphs()
    cutaway.compile(function, backend=shown)(*args)
    text = shown.graphs[0].print_readable(print_output=False)
    assert "# self.combine_graph" in text and "# self.true_graph" in text


def test_without_a_compiler_subgraphs_run_on_numpy(monkeypatch):
    from stage4_runtime.runtime import launch_on_numpy

    function, args = PROGRAMS["cond in scan"]
    compiled = cutaway.compile(function, fullgraph=True)
    wanted = [t.numpy() for t in compiled(*args)]
    run_core = launch_on_numpy(compiled.artifacts[0].forward.core)
    order = [n.name for n in compiled.artifacts[0].captured.placeholders]
    given = dict(zip(("w", "u", "h0", "xs"), args, strict=True))
    for got, want in zip(run_core(*(given[name].numpy() for name in order)), wanted, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_the_tiny_pipeline_has_control_flow_too():
    for name in ("cond, true", "scan", "map"):
        function, args = PROGRAMS[name]
        compiled = cutaway.compile(function, pipeline=cutaway.TINY_PIPELINE)
        for got, want in zip(run(compiled, args), run(function, args), strict=True):
            for a, b in zip(got, want, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-9)


def test_under_torch_names():
    from cutaway.torch_api import as_torch

    with as_torch() as torch:
        from torch._higher_order_ops import scan

        assert (
            scan is cutaway.scan and torch.cond is cutaway.cond and torch._higher_order_ops.map is cutaway.map
        )


def test_torch_gives_the_same():
    torch = pytest.importorskip("torch")
    from torch._higher_order_ops import map as torch_map
    from torch._higher_order_ops import scan as torch_scan

    w, u, h0, xs = (a.numpy() for a in PROGRAMS["cond in scan"][1])

    def programs(lib, scan, map, convert):
        w_, u_, h, rows = (convert(a) for a in (w, u, h0, xs))
        w_.requires_grad_()

        def step(h, x):
            h = lib.tanh(h @ w_ + x @ u_)
            return h, h.clone()

        last, every = scan(step, h, rows, dim=1, reverse=True)
        mapped = map(lambda x, u: x @ u, rows, u_)
        (grown,) = lib.while_loop(lambda a: a.sum() < 100, lambda a: (a * 2,), (lib.abs(h),))
        chosen = lib.cond(h.sum() > 0, lambda a: a.sin(), lambda a: a.cos(), (h,))
        (every.sum() + last.sum()).backward()
        return [t.detach().numpy() for t in (last, every, mapped, grown, chosen, w_.grad)]

    ours = programs(cutaway, cutaway.scan, cutaway.map, lambda a: cutaway.from_numpy(a.copy()))
    theirs = programs(torch, torch_scan, torch_map, lambda a: torch.from_numpy(a.copy()))
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
