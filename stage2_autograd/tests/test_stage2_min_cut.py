"""The default partitioner: as few bytes as possible, the same bits, and a budget that trades bytes for work.

Input: a transformer block with dropout, and small random programs whose best choice brute force finds.
"""

from __future__ import annotations

import importlib
import itertools

import numpy as np
import pytest

from stage0_eager.nn import functional as F
from stage2_autograd.partition import PARTITIONERS, partition
from stage2_autograd.partition.min_cut import bytes_of, is_view, problem
from stage2_autograd.partition.rematerialization import may_run_again, min_cut
from stage2_autograd.tests.helpers import (
    compile_with,
    copies,
    default,
    dropout,
    pointwise,
    products,
    reductions,
    run_and_differentiate,
    tensor,
)
from stage_contracts import config
from stage_contracts.graph import GraphError

C, HEADS = 16, 2


def block(x, wq, wo, w1, w2, g1, b1, g2, b2):
    """A transformer block as a language model has it, dropout included."""
    batch, time, _ = x.shape
    h = F.layer_norm(x, (C,), g1, b1)
    qkv = F.linear(h, wq).reshape(batch, time, 3, HEADS, C // HEADS)
    q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
    scores = products.matmul(q, k.transpose(2, 3)) * 0.5
    attended = F.dropout(reductions.softmax(scores, -1), 0.1)
    x = x + F.linear(products.matmul(attended, v).transpose(1, 2).reshape(batch, time, C), wo)
    h = F.layer_norm(x, (C,), g2, b2)
    return x + F.dropout(F.linear(F.gelu(F.linear(h, w1)), w2), 0.1)


BLOCK = (
    tensor(2, 32, C),
    tensor(3 * C, C, seed=1),
    tensor(C, C, seed=2),
    tensor(4 * C, C, seed=3),
    tensor(C, 4 * C, seed=4),
    *(tensor(C, seed=5 + i) for i in range(4)),
)


def compiled_block(**options):
    with config.patch(options):
        return compile_with(default, block, *BLOCK)


@pytest.fixture(scope="module")
def joint():
    return compiled_block().decomposed


def test_at_most_half_of_saving_everything(joint):
    saved = {name: partitioner(joint).saved_bytes for name, partitioner in PARTITIONERS.items()}
    assert saved["min_cut"] <= 0.5 * saved["save_everything"]
    assert saved["min_cut"] <= saved["recompute_pointwise"]


def test_only_what_is_cheap_runs_again(joint):
    kinds = {n.target.core.kind for n in min_cut(joint).recomputed}
    assert "random" in kinds and not kinds & {"contraction", "reduction", "indexing"}


def test_every_partition_and_budget_gives_eagers_bits():
    inputs = copies(BLOCK)
    expected, wanted = run_and_differentiate(block, inputs)
    reference = run_and_differentiate(compiled_block(partitioner="save_everything").run, copies(BLOCK))[1]
    cases = [{"partitioner": name} for name in PARTITIONERS]
    cases += [{"activation_memory_budget": b} for b in (0.0, 0.5)]
    for options in cases:
        results, gradients = run_and_differentiate(compiled_block(**options).run, copies(BLOCK))
        np.testing.assert_array_equal(results[0]._data, expected[0]._data, err_msg=str(options))
        for i, (g, first, w) in enumerate(zip(gradients, reference, wanted, strict=True)):
            np.testing.assert_array_equal(g, first, err_msg=f"{options}, gradient {i}")
            np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12)


def test_a_smaller_budget_saves_less_and_is_kept(joint):
    def saved(budget):
        with config.patch(activation_memory_budget=budget):
            return min_cut(joint)

    most, least = saved(1.0).saved_bytes, saved(0.0).saved_bytes
    assert least < 0.5 * most
    for budget in (0.25, 0.5, 0.75):
        assert least <= saved(budget).saved_bytes <= least + budget * (most - least)
    assert {s.reason for s in saved(0.0).saved} == {"an input"}
    assert any(n.target.name == "matmul" for n in saved(0.0).recomputed)


def test_attentions_scores_run_again_where_they_are_much_larger_than_queries_and_keys():
    """As in flash attention: what is saved grows with the length, not with its square."""

    def program(q, k, v):
        return products.matmul(
            F.dropout(reductions.softmax(products.matmul(q, k.transpose(1, 2)) * 0.5, -1), 0.1), v
        )

    def saved(time):
        inputs = [tensor(2, time, 4, seed=i) for i in range(3)]
        compiled = compile_with(default, program, *inputs)
        expected, wanted = run_and_differentiate(program, copies(inputs))
        results, gradients = run_and_differentiate(compiled.run, copies(inputs))
        np.testing.assert_array_equal(results[0]._data, expected[0]._data)
        for g, w in zip(gradients, wanted, strict=True):
            np.testing.assert_allclose(g, w, rtol=1e-12, atol=1e-12)
        return compiled.partition.saved_bytes

    assert saved(128) < 2.1 * saved(64)
    assert saved(16) > 2.1 * saved(8)  # here a product costs more than it saves


def test_verification_names_a_wrong_partitioner(monkeypatch, joint):
    from stage2_autograd.tests.wrong_partitioners import saves_the_wrong_value

    monkeypatch.setitem(PARTITIONERS, "min_cut", saves_the_wrong_value)
    partition(joint)
    with (
        config.patch(verify_passes=True),
        pytest.raises(GraphError, match="partitioner min_cut changed output"),
    ):
        partition(joint)


@pytest.mark.parametrize(
    "options", [{"partitioner": "smallest"}, {"activation_memory_budget": 1.5}], ids=["name", "budget"]
)
def test_a_wrong_option_says_what_was_expected(joint, options):
    with config.patch(options), pytest.raises(ValueError, match="expected"):
        partition(joint)


def test_the_report_names_every_saved_value_with_its_bytes_and_line(joint):
    part = min_cut(joint)
    text = part.report()
    for s in part.saved:
        row = next(line for line in text.splitlines() if f" {s.name} " in line)
        assert f"{s.meta.nbytes:,}" in row and s.reason in row
        assert not s.origins or str(s.origins[0]) in row
    assert f"{part.saved_bytes:,} bytes" in text


# ---- against brute force -----------------------------------------------------------------------------------


STEPS = (
    lambda a, b: a * b,
    lambda a, b: pointwise.sin(a) + b,
    lambda a, b: pointwise.exp(a),
    lambda a, b: a.sum(-1, keepdim=True) * b,
    lambda a, b: dropout.dropout(a, 0.5),
    lambda a, b: pointwise.tanh(a) * b,
    lambda a, b: products.matmul(a.reshape(-1, 3), b.reshape(-1, 3).transpose(0, 1)).sum() * a,
)


def random_program(seed):
    """Sums, products, reductions and casts of a matrix, a row and what came before."""
    rng = np.random.default_rng(seed)
    steps = rng.integers(0, 7, 5), rng.integers(0, 99, (5, 2))

    def program(x, row):
        values = [x, row]
        for kind, (a, b) in zip(*steps, strict=True):
            values.append(STEPS[kind](values[a % len(values)], values[b % len(values)]))
        return values[-1] * x

    return program


def enough(task, saved, again):
    """Whether the backward can have all it reads from `saved`, running nothing that may not run again."""

    def available(node):
        if node in saved or node.op == "get_attr":
            return True
        if node.op == "placeholder" or (node in task.forward and not again(node)):
            return False
        return all(map(available, node.all_input_nodes))

    return all(map(available, task.read))


@pytest.mark.parametrize("seed", range(16))
def test_no_choice_of_values_is_smaller(seed, monkeypatch):
    monkeypatch.setattr(importlib.import_module(min_cut.__module__), "SPARE", 0)
    joint = compile_with(default, random_program(seed), tensor(4, 3), tensor(3, seed=1)).decomposed
    task, again = problem(joint), may_run_again()
    ours = min_cut(joint).saved_bytes
    choices = [n for n in task.values if not is_view(n)]
    smallest = min(map(bytes_of, choices))
    for size in range(min(5, ours // smallest + 1)):
        for chosen in itertools.islice(itertools.combinations(choices, size), 5_000):
            if sum(map(bytes_of, chosen)) < ours:
                assert not enough(task, set(chosen), again), [n.name for n in chosen]


def test_spare_bytes_keep_transcendental_functions_from_running_again(monkeypatch):
    """Each layer's tanh may be saved beside its argument, as long as all of it is a sixth more at most."""

    def program(x, *weights):
        for w in weights:
            h = products.matmul(x, w)
            x = x + products.matmul(h * pointwise.tanh(h), w.transpose(0, 1))
        return x

    inputs = (tensor(16, 8), *(tensor(8, 32, seed=i) for i in range(6)))
    joint = compile_with(default, program, *inputs).decomposed

    def cut(spare):
        monkeypatch.setattr(importlib.import_module(min_cut.__module__), "SPARE", spare)
        made = min_cut(joint)
        return made.saved_bytes, [n.target.name for n in made.recomputed].count("tanh")

    (fewest, all_again), (some, fewer), (most, none) = cut(0), cut(1 / 6), cut(10)
    assert (all_again, none) == (6, 0) and 0 < fewer < 6
    assert fewest < some <= fewest * 7 / 6 < most
