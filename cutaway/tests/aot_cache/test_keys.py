"""Stage 2's results on disk: a second process uses them, and whatever decides what stage 2 makes changes the key.

Input: pairs of functions that differ in one thing. The second of a pair is compiled with the cache that the first
filled: it must run stage 2, or at least give what eager gives. Each function is compiled by a new compile(), which
shares nothing but the disk with the one before.
"""

import contextlib
import inspect
from dataclasses import replace

import numpy as np
import pytest

import cutaway
from cutaway.graph_identity import NotSaid, identity, said
from cutaway.nn import functional as F
from cutaway.tests.aot_cache.observing import one, one_grad, stage_two_ran, tensor, twice
from cutaway.utils.checkpoint import checkpoint
from stage_contracts import config
from stage_contracts.graph import Graph
from stage_contracts.origin import Origin
from stage_contracts.tensor_meta import TensorMeta

# ---- the second compile of the same uses it ----------------------------------------------------------------------


def written(x):
    x.add_(1)
    return x * 2


def views(x):
    y = x * 2
    return y[0], y[1:], x[:, 1], x


def drawn(x):
    return x * cutaway.rand(3, 4) + F.dropout(x, 0.5)


CONSTANT = tensor(3, 4, k=3)


def with_constant(x):
    return x * CONSTANT, CONSTANT


@cutaway.no_grad()
def views_without_grad(x):
    return x[1:], x * 2


def with_checkpoint(x):
    return checkpoint(lambda y: y.sin().exp(), x, use_reentrant=False) * x


SAME = {
    "inference": (lambda x: (x.sin() + 1).softmax(-1), one),
    "gradients": (twice, one_grad),
    "an input written": (written, one),
    "an input written on the tape": (lambda x: written(x * 1), one_grad),
    "views as results": (views, one),
    "views with gradients": (views, one_grad),
    "views under no_grad": (views_without_grad, one_grad),
    "random numbers": (drawn, one),
    "random numbers and gradients": (drawn, one_grad),
    "a constant": (with_constant, one),
    "checkpoint": (with_checkpoint, one_grad),
    "a gradient inside": (lambda x: cutaway.autograd.grad((x * x).sum(), x)[0] * 2, one_grad),
    "several inputs": (lambda x, y: (x @ y, y), lambda: (tensor(3, 4, grad=True), tensor(4, 2))),
    "nothing requires grad": (lambda x: x.detach() * 2, one_grad),
}


@pytest.mark.parametrize("name", SAME)
def test_the_second_compile_runs_no_stage_two(name):
    function, make = SAME[name]
    assert stage_two_ran(function, make)
    assert not stage_two_ran(function, make)


def test_what_is_not_kept_is_made_when_it_is_read():
    """The graphs of a compile from the cache are those of the first; programs and backwards need none of them."""
    texts = []
    for _ in range(2):
        compiled = cutaway.compile(twice)
        compiled(*one_grad())
        made = compiled.artifacts[-1]
        half = made.forward
        texts.append(
            [str(made), str(made.functional.graph), str(half.core), str(made.backward.core), made.partition.report(),
             str(half.core.copy()), [n.graph is half.core for n in half.core.nodes], repr(half.lowered)]
        )  # fmt: skip
        half.core.verify()
    assert texts[0] == texts[1]


def test_a_graph_of_a_few_calls_is_not_worth_it(monkeypatch):
    monkeypatch.undo()
    many = lambda x: x.sin().cos().sin().cos().sin().cos().sin().cos()  # noqa: E731
    with config.patch(cache_dir=config.current().runtime.cache_dir):
        for function, make, kept in [(same, one, False), (same, one_grad, True), (many, one, True)]:
            assert stage_two_ran(function, make)
            assert stage_two_ran(function, make) is not kept


def test_gradients_of_many_calls_and_of_none():
    for _ in range(2):
        compiled = cutaway.compile(twice)
        x, y = tensor(3, 4, grad=True), tensor(3, 4, grad=True)
        for _ in range(3):
            sum(t.sum() for t in compiled(x)).backward()
            sum(t.sum() for t in twice(y)).backward()
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=1e-5)
        with cutaway.no_grad():
            assert not compiled(x)[0].requires_grad


def test_a_write_to_a_saved_value_is_told_as_before():
    for _ in range(2):
        compiled = cutaway.compile(lambda x: x.exp())
        x = tensor(3, grad=True)
        out = compiled(x)
        with cutaway.no_grad():
            out.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.sum().backward()


def test_inputs_that_share_memory():
    def shared(x, y):
        x.add_(1)
        return x + y

    def call(function):
        memory = tensor(6)
        return function(memory[:4], memory[2:]).tolist(), memory.tolist()

    for _ in range(2):
        assert call(cutaway.compile(shared)) == call(shared)


# ---- what changes the key ----------------------------------------------------------------------------------------


def scaled(by):
    return lambda x: x * by


def grad_off(x):
    with cutaway.no_grad():
        y = x * 2
    return y + x


def in_autocast(dtype):
    def function(x):
        with cutaway.autocast("cpu", dtype=dtype):
            return (x @ x.T).float()

    return function


@contextlib.contextmanager
def default_dtype(dtype):
    cutaway.set_default_dtype(dtype)
    try:
        yield
    finally:
        cutaway.set_default_dtype(cutaway.float32)


def double():
    return default_dtype(cutaway.float64)


def with_matrix(value):
    return lambda x: x + cutaway.tensor(value)


def same(x):
    return x.exp().sum(0) * 2


def options(**changed):
    return {"options": {name.replace("__", "."): value for name, value in changed.items()}}


# name: (function, inputs, function, inputs, mode, mode, options of the second)
PLAIN = contextlib.nullcontext
DIFFERENT = {
    "shape": (same, one, same, lambda: (tensor(4, 3),)),
    "a size of one": (same, one, same, lambda: (tensor(3, 1),)),
    "rank": (same, one, same, lambda: (tensor(3, 4, 1),)),
    "dtype": (same, one, same, lambda: (tensor(3, 4, dtype=cutaway.float64),)),
    "strides": (same, one, same, lambda: (tensor(4, 3).T,)),
    "gaps": (same, one, same, lambda: (tensor(3, 8)[:, ::2],)),
    "a broadcast input": (same, one, same, lambda: (tensor(1, 4).expand(3, 4),)),
    "requires_grad": (same, one, same, one_grad),
    "which input requires grad": (
        lambda x, y: x * y, lambda: (tensor(3, grad=True), tensor(3)),
        lambda x, y: x * y, lambda: (tensor(3), tensor(3, grad=True)),
    ),
    "an operator": (lambda x: x.sin(), one, lambda x: x.cos(), one),
    "the order of operands": (lambda x: x - 2, one, lambda x: 2 - x, one),
    "a dimension": (lambda x: x.sum(0), one, lambda x: x.sum(1), one),
    "a flag": (lambda x: x.sum(0, keepdim=True), one, lambda x: x.sum(0, keepdim=False), one),
    "the order of results": (lambda x: (x + 1, x * 2), one, lambda x: (x * 2, x + 1), one),
    "a result is an input": (lambda x: (x * 1, x * 2), one, lambda x: (x, x * 2), one),
    "a result is a view": (lambda x: (x[0] * 1, x * 2), one, lambda x: (x[0], x * 2), one),
    "a write": (lambda x: x + 1, one, lambda x: x.add_(1), one),
    "a write under no_grad": (lambda x: written(x * 1), one_grad, lambda x: grad_off(x * 1), one_grad),
    "no_grad inside": (lambda x: x * 2 + x, one_grad, grad_off, one_grad),
    "detach": (lambda x: x * x, one_grad, lambda x: x * x.detach(), one_grad),
    "checkpoint": (lambda x: x.sin().exp() * x, one_grad, with_checkpoint, one_grad),
    "an int or a float": (lambda x: x.long() * 2, one, lambda x: x.long() * 2.0, one),
    "an int or a bool": (lambda x: x.long() + 1, one, lambda x: x.long() + True, one),
    "signed zero": (lambda x: x.clamp(min=0.0), one, lambda x: x.clamp(min=-0.0), one),
    "a constant's dtype": (with_matrix([1.0, 2, 3, 4]), one, with_matrix([1, 2, 3, 4]), one),
    "autocast": (lambda x: (x @ x.T).float(), one, in_autocast(cutaway.bfloat16), one),
    "autocast's dtype": (in_autocast(cutaway.bfloat16), one, in_autocast(cutaway.float16), one),
    "random or not": (lambda x: F.dropout(x, 0.5, training=False) * 1, one, lambda x: F.dropout(x, 0.5), one),
    "a second draw": (lambda x: x * cutaway.rand(4), one, lambda x: x * cutaway.rand(4) * cutaway.rand(4), one),
    "grad mode": (same, one_grad, same, one_grad, PLAIN, cutaway.no_grad),
    "inference mode": (same, one_grad, same, one_grad, PLAIN, cutaway.inference_mode),
    "the default dtype": (
        lambda x: x.long() / 3, one, lambda x: x.long() / 3, one, PLAIN, double),
    "partitioner": (twice, one_grad, twice, one_grad, PLAIN, PLAIN,
                    options(autograd__partitioner="save_everything")),
    "budget": (twice, one_grad, twice, one_grad, PLAIN, PLAIN, options(autograd__activation_memory_budget=0.0)),
    "a pass off": (twice, one_grad, twice, one_grad, PLAIN, PLAIN, options(autograd__disabled_passes="casts")),
    "verify_passes": (twice, one_grad, twice, one_grad, PLAIN, PLAIN, options(autograd__verify_passes=True)),
    "fusion": (twice, one_grad, twice, one_grad, PLAIN, PLAIN, options(lowering__fusion=False)),
    "comments": (twice, one_grad, twice, one_grad, PLAIN, PLAIN, options(lowering__comments=False)),
    "deterministic": (twice, one_grad, twice, one_grad, PLAIN, PLAIN, options(runtime__deterministic=True)),
    "reuse_memory": (twice, one_grad, twice, one_grad, PLAIN, PLAIN, options(runtime__reuse_memory=False)),
    "flags": (twice, one_grad, twice, one_grad, PLAIN, PLAIN, options(runtime__cxx_flags="-O1 -fopenmp")),
    "force_disable_caches": (twice, one_grad, twice, one_grad, PLAIN, PLAIN,
                             options(runtime__force_disable_caches=True)),
    "cache": (twice, one_grad, twice, one_grad, PLAIN, PLAIN, options(runtime__cache=False)),
    "debug.verify": (twice, one_grad, twice, one_grad, PLAIN, PLAIN, options(debug__verify=True)),
    "repro_after": (twice, one_grad, twice, one_grad, PLAIN, PLAIN, options(capture__repro_after="aot")),
}  # fmt: skip


@pytest.mark.parametrize("name", DIFFERENT)
def test_what_differs_runs_stage_two(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # repro_after may write there
    first, make, second, other, *rest = DIFFERENT[name]
    mode, other_mode, changed = [*rest, *(PLAIN, PLAIN, {})[len(rest) :]]
    assert stage_two_ran(first, make, mode)
    assert stage_two_ran(second, other, other_mode, **changed)
    assert not stage_two_ran(first, make, mode)


def test_the_version_of_the_sources(monkeypatch):
    from stage4_runtime.runtime import program_cache

    assert stage_two_ran(same, one)
    monkeypatch.setattr(program_cache, "software", lambda *places: "another version")
    assert stage_two_ran(same, one)


def test_every_file_that_decides_a_program_decides_this():
    """An entry names programs: what their keys have is in its own key, too."""
    from cutaway.aot_cache import ASIDE, DECIDING, MADE_BY
    from cutaway.building import MADE_BY as OF_PROGRAMS
    from stage4_runtime.runtime import program_cache

    wider = [
        place
        for place in program_cache.DECIDING
        if not any(f"{place}/".startswith(f"{d}/") for d in DECIDING)
    ]
    assert not wider and {*OF_PROGRAMS} < {*MADE_BY}
    assert not {"cxx_flags", "cuda_graphs", "deterministic", "reuse_memory", "poison"} & {*ASIDE}


def test_no_operator_is_in_a_folder_that_capture_follows():
    from cutaway.aot_cache import CAPTURED
    from stage0_eager.numpy_api import OPERATORS
    from stage0_eager.table.registry import TABLE

    bodies = [op.body for op in (*TABLE.values(), *OPERATORS.values()) if op.body is not None]
    files = {inspect.unwrap(body).__code__.co_filename for body in bodies}
    rules = {rule.rule.__code__.co_filename for op in TABLE.values() for rule in op.rules}
    assert len(files | rules) > 50
    assert not [file for file in files | rules for folder in CAPTURED if f"/{folder}/" in file]


# ---- what no text can say is compiled anew, and right ------------------------------------------------------------


def custom(body):
    """The same name each time: another function behind it."""

    class Own(cutaway.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return body(gradient)

    return lambda x: Own.apply(x) * 1


def own_operator(number, body):
    @cutaway.library.custom_op(f"aot_cache_test::op{number}", mutates_args=())
    def op(x: cutaway.Tensor) -> cutaway.Tensor:
        return body(x)

    op.register_fake(cutaway.empty_like)
    return lambda x: op(x) + 1


def branch(x):
    return cutaway.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


NOT_SAID = {
    "the backward of an autograd.Function": (custom(lambda g: g * 3), custom(lambda g: g * 5), one_grad),
    "a custom operator": (own_operator(1, lambda x: x * 3), own_operator(2, lambda x: x * 5), one),
    "control flow": (branch, branch, one),
}


@pytest.mark.parametrize("name", NOT_SAID)
def test_what_no_text_says_is_compiled_anew(name):
    first, second, make = NOT_SAID[name]
    assert stage_two_ran(first, make)
    assert stage_two_ran(second, make)
    assert stage_two_ran(first, make)


def test_a_constants_values_are_an_input():
    assert stage_two_ran(with_matrix([1.0, 2, 3, 4]), one)
    assert not stage_two_ran(with_matrix([1.0, 2, 3, 5]), one)


def graph_of(constant, **meta):
    graph = Graph()
    x = graph.placeholder("x", TensorMeta((4,), cutaway.float32))
    c = graph.get_attr("c", constant, constant.meta)
    graph.output([graph.call_function(cutaway.add, (x, c), val=x.val, **meta)])
    return graph


def test_the_text_of_a_graph_has_its_constants_and_marks():
    """Capture lifts a tensor into an input; a graph that somebody else made may hold one."""
    ones = cutaway.ones(4)
    texts = [identity(graph_of(c, **meta)) for c, meta in [
        (ones, {}), (ones * 2, {}), (ones.double(), {}), (ones, {"no_grad": True}), (ones, {"checkpoint": 1}),
        (ones, {"checkpoint": 2}), (ones, {"writes_silently": True}), (ones, {"mine.mark": 1.0}),
        (ones, {"mine.mark": 1}), (ones, {"origins": (Origin("a.py", 3),)}), (ones, {"origins": (Origin("a.py", 4),)}),
    ]]  # fmt: skip
    assert len({*texts}) == len(texts)
    assert identity(graph_of(cutaway.ones(4))) == texts[0]


@pytest.mark.parametrize("value", [object(), len, np.float32(1), {1}, lambda: 0, type("Int", (int,), {})(3)])
def test_a_value_of_another_class_is_not_said(value):
    with pytest.raises(NotSaid):
        said((1, [value]))


def test_open_sizes_are_compiled_anew():
    for _ in range(2):
        assert stage_two_ran(same, lambda: (tensor(5, 4),), dynamic=True)


@pytest.mark.parametrize(
    "seam", ["functionalize", "differentiate", "decompose", "partition", "lower", "emit"]
)
def test_a_seam_of_the_users_own_is_called(seam):
    stage_two_ran(twice, one_grad)
    calls, default = [], getattr(cutaway.DEFAULT_PIPELINE, seam)

    def mine(*args):
        calls.append(seam)
        return default(*args)

    assert stage_two_ran(twice, one_grad, pipeline=replace(cutaway.DEFAULT_PIPELINE, **{seam: mine}))
    assert calls
