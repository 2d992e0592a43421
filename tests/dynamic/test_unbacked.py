"""Numbers and sizes that only the data knows: one graph on every backend, eager's results, torch's errors.

Input: the programs of unbacked_programs.py. A part of them runs with compiled kernels by default, for time; all do with
CUTAWAY_TEST_ALL=1. Before capture_scalar_outputs was there, each of them was a graph break.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import cutaway
import tests.dynamic.unbacked_checks  # noqa: F401  # adds programs
from cutaway.torch_api import torch
from stage_contracts import config
from stage_contracts.breaks import Unsupported
from tests.dynamic.unbacked_programs import GRADIENTS, PROGRAMS, inputs

ON = {"capture.capture_scalar_outputs": True, "capture.capture_dynamic_output_shape_ops": True}
MANY = {"capture.accumulated_recompile_limit": 10000}  # of the one function that calls every program
ALL = os.environ.get("CUTAWAY_TEST_ALL") == "1"
KERNELS = [name for i, name in enumerate(PROGRAMS) if ALL or i % 4 == 0]
CASES = [(n, b) for b in ("eager", "aot_eager") for n in PROGRAMS] + [(n, "inductor") for n in KERNELS]


def flat(result: Any) -> list[Any]:
    return [v for r in result for v in flat(r)] if isinstance(result, (tuple, list)) else [result]


def same(got: Any, want: Any) -> None:
    got, want = flat(got), flat(want)
    assert len(got) == len(want)
    for a, b in zip(got, want, strict=True):
        assert hasattr(a, "shape") == hasattr(b, "shape")
        if hasattr(a, "shape"):
            assert (
                tuple(a.shape) == tuple(b.shape)
                and str(a.dtype).split(".")[-1] == str(b.dtype).split(".")[-1]
            )
            a, b = a.detach().numpy(), b.detach().numpy()
        else:
            assert type(a) is type(b)
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def tensors(module: Any, seed: int, grad: bool = False) -> list[Any]:
    made = (
        [module.tensor(a) for a in inputs(seed)]
        if module is torch
        else [module.from_numpy(a) for a in map(np.array, inputs(seed))]
    )
    return [made[0].requires_grad_(), *made[1:]] if grad else made


@pytest.mark.parametrize("name, backend", CASES)
def test_each_program_is_one_graph_and_gives_eagers_results(name, backend):
    function = PROGRAMS[name]
    with config.patch(ON | MANY):
        compiled = cutaway.compile(lambda *a: function(torch, *a), backend=backend, fullgraph=True)
        for seed in range(5):
            same(compiled(*tensors(torch, seed)), function(torch, *tensors(torch, seed)))
            if name in GRADIENTS:
                slopes = []
                for run in (compiled, lambda *a: function(torch, *a)):
                    given = tensors(torch, seed, grad=True)
                    sum(r.sum() for r in flat(run(*given))).backward()
                    slopes.append(given[0].grad)
                same(*slopes)
        assert len(compiled.entries) <= 2  # a second one with gradients on
        assert all(len(a.frame.breaks) == 0 for a in compiled.artifacts)


def test_torch_gives_the_same():
    oracle = pytest.importorskip("torch")
    for name, function in PROGRAMS.items():
        for seed in range(5):
            try:
                want = function(oracle, *tensors(oracle, seed))
            except TypeError:  # a check of a plain number
                continue
            got = function(torch, *tensors(torch, seed))
            try:
                same(got, want)
            except AssertionError as error:
                raise AssertionError(name) from error


# ---- checks that fail, and questions without an answer -----------------------------------------------------------


def checked(x, n):
    u = n.item()
    torch._check(u >= 0)
    torch._check(u <= 4, lambda: "at most four")
    return x[:u] * 2


def masks_of_one_size(x, n):
    return x[x > 0] + x[x < n.item()]


def narrowed(x, n):
    return x.narrow(0, 2, n.item())


def split_in_two(x, n):
    return x.split([n.item(), 3])


VIOLATIONS = [
    (checked, 5, "at most four"),
    (checked, -1, "Expected cond to be True, but got False"),
    (masks_of_one_size, -9, "Runtime assertion failed for expression Eq"),
    (narrowed, 7, "Runtime assertion failed for expression u0 + 2 <= 8"),
    (split_in_two, 4, "Runtime assertion failed for expression Eq"),
]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("function, number, message", VIOLATIONS)
def test_a_violated_check_raises_torchs_error(function, number, message, backend):
    x = torch.arange(8, dtype=torch.float32)
    with config.patch(ON):
        compiled = cutaway.compile(function, backend=backend, fullgraph=True)
        for _ in range(2):
            with pytest.raises(RuntimeError) as raised:
                compiled(x + 1, torch.tensor(number))
            assert message in str(raised.value)


def branch(x, n):
    return x if n.item() > 3 else x * 2


def loop(x, n):
    for _ in range(n.item()):
        x = x + 1
    return x


def float_branch(x, n):
    return x if x.sum().item() > 3 else x * 2


def slice_without_a_check(x, n):
    return x[: n.item() : 2]


QUESTIONS = [
    (branch, ["u0 > 3", "u0 is test_unbacked.py", "n.item()", "torch._check(u0 > 3)"]),
    (loop, ["range", "u0 is test_unbacked.py", "n.item()"]),
    (float_branch, ["a branch on a float that only the data knows", "x.sum().item()"]),
    (slice_without_a_check, ["u0 <= 8", "torch._check(u0 <= 8)", "n.item()"]),
]


@pytest.mark.parametrize("function, words", QUESTIONS)
def test_a_question_that_needs_the_value_names_the_line_the_symbol_and_the_check(function, words):
    x = torch.ones(8)
    with config.patch(ON):
        with pytest.raises(Unsupported) as raised:
            cutaway.compile(function, fullgraph=True)(x, torch.tensor(4))
        text = str(raised.value)
        assert f"line {raised.value.graph_break.origin.line}" in text
        assert [word for word in words if word not in text] == []
        compiled = cutaway.compile(function)  # a break, and eager's result
        for number in (4, 2):
            same(compiled(x, torch.tensor(number)), function(x, torch.tensor(number)))


def test_what_is_known_of_a_symbol_without_a_guard():
    symbolic = torch.fx.experimental.symbolic_shapes

    def f(x, n):
        u = n.item()
        torch._check(u < 10)
        known = symbolic.statically_known_true(u < 20), symbolic.statically_known_true(u == 3)
        return x * 2, known, symbolic.guard_or_false(u == 3), symbolic.guard_or_true(u == 3)

    with config.patch(ON):
        found = cutaway.compile(f, backend="eager", fullgraph=True)(torch.ones(2), torch.tensor(3))
    assert found[1:] == ((True, False), False, True)
    assert f(torch.ones(2), torch.tensor(3))[1:] == ((True, True), True, True)


def test_torchs_fields_switch_it_on():
    fields = torch._dynamo.config
    assert not fields.capture_scalar_outputs and not fields.capture_dynamic_output_shape_ops
    compiled = cutaway.compile(lambda x: x * x.sum().item(), backend="eager")
    compiled(torch.ones(2))
    assert compiled.artifacts[0].frame.breaks
    with fields.patch(capture_scalar_outputs=True, capture_dynamic_output_shape_ops=True):
        compiled = cutaway.compile(lambda x: x[x > 0] * x.sum().item(), backend="eager", fullgraph=True)
        same(compiled(torch.ones(2)), torch.ones(2) * 2)


def test_one_graph_needs_no_settings():
    """As torch's Dynamo: with fullgraph=True a number of the data, and a size that it decides, stay in the graph."""
    programs = (
        lambda x: x * float(x[0]),
        lambda x: x + x.sum().item(),
        lambda x: x[x > 1] + float(x.numpy().sum()),
    )
    x = torch.arange(3.0)
    for function in programs:
        whole = cutaway.compile(function, backend="eager", fullgraph=True)
        assert whole(x).tolist() == function(x).tolist()
        broken = cutaway.explain(function)(x)
        assert broken.graph_break_count > 0
