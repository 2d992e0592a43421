"""Training attention on a GPU: one kernel forward, two backward, and gradients no farther from float64 than eager's.

Input: softmax(f(q @ k.T)) @ v with several f, in half precision, compiled for Triton and run in its interpreter with every
access checked for bounds; the same function op by op in half precision and in float64.
"""

import importlib.util
from dataclasses import replace

import cutaway.nn.functional as F
import numpy as np
import pytest

import cutaway
from stage_contracts.program import Launch
from tests.kernels.gpu_programs import TARGET, emitted, launched, program_of, training_graphs

needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None,
    reason="triton is not installed: pip install 'cutaway[triton]'",
)
T, S, D = 144, 136, 16  # blocks of 64, the last ones cut; so many columns that the scores are computed again


def places(x):
    return cutaway.arange(x.shape[-2])[:, None], cutaway.arange(x.shape[-1])[None, :]


def plain(x, bias):
    return x


def causal(x, bias):
    row, column = places(x)
    return cutaway.where(row >= column, x, float("-inf"))


def window(x, bias):
    row, column = places(x)
    return x.masked_fill((row < column) | (row - column >= 20), float("-inf"))


def after(x, bias):  # the bounds of the columns run down
    row, column = places(x)
    return cutaway.where(row + column <= 150, x, float("-inf"))


def soft_cap(x, bias):
    return (x / 2.0).tanh() * 2.0


def biased(x, bias):
    return causal(x + bias, bias)


def alibi(x, bias):
    row, column = places(x)
    slopes = (cutaway.arange(x.shape[0]) + 1).to(x.dtype).reshape(-1, 1, 1) * 0.25
    return causal(x + slopes * (column - row), bias)


RULES = {f.__name__: f for f in (plain, causal, window, after, soft_cap, biased, alibi)}


def attention(rule, wide):
    def run(q, k, v, bias):
        scores = rule((q @ k.transpose(-1, -2)) * 0.25, bias)
        if wide:  # as published models have it
            return F.softmax(scores.float(), -1).to(v.dtype) @ v
        return F.softmax(scores, -1) @ v

    return run


def operands(dtype, heads=1, rows=T, columns=S):
    random = np.random.default_rng(0)
    shapes = (
        (heads, rows, D),
        (heads, columns, D),
        (heads, columns, D),
        (heads, rows, columns),
        (heads, rows, D),
    )
    made = [cutaway.tensor(random.standard_normal(s).astype(np.float32)).to(dtype) for s in shapes]
    return [t.requires_grad_() for t in made[:3]] + made[3:]


def gradients(function, given):
    *inputs, tangent = given
    out = function(*inputs)
    return [out.detach(), *cutaway.autograd.grad(out, inputs[:3], tangent)]


def on_triton(function, given):
    """(the programs, results) of the compiled function with its kernels in Triton's interpreter."""
    from stage3_lowering.triton_interpreter import run_in_interpreter

    *inputs, tangent = given
    compiled = cutaway.compile(function, fullgraph=True)
    compiled(*inputs)
    kept = compiled.artifacts[-1]
    forward, backward = kept.emit("forward", "triton"), kept.emit("backward", "triton")
    names = [n.name for n in kept.functional.graph.placeholders]
    by_name = dict(zip(("q", "k", "v", "bias"), inputs, strict=True))
    arrays = [by_name[n].detach().numpy() for n in forward.inputs]
    results = dict(zip(kept.forward.core.outputs, run_in_interpreter(forward, arrays), strict=True))
    saved = {node.name: array for node, array in results.items()}
    made = run_in_interpreter(backward, [*(saved[s.name] for s in kept.partition.saved), tangent.numpy()])
    grads = dict(zip(names, made, strict=True))
    return (forward, backward), [next(iter(results.values())), *(grads[n] for n in ("q", "k", "v"))]


def distance(got, want):
    got, want = (np.asarray(a).astype(np.float64) for a in (got, want))
    return np.linalg.norm(got - want) / np.linalg.norm(want)


def launches(program):
    return [program.kernels[s.kernel].template for s in program.steps if isinstance(s, Launch)]


@needs_triton
@pytest.mark.parametrize(("name", "wide"), [*((name, False) for name in RULES), ("causal", True)])
def test_gradients_no_farther_from_float64_than_eager(name, wide):
    function = attention(RULES[name], wide)
    given = operands(cutaway.bfloat16, 2 if name == "alibi" else 1)
    exact = gradients(function, [t.detach().double().requires_grad_(t.requires_grad) for t in given])
    eager = gradients(function, given)
    programs, got = on_triton(function, given)
    assert [t for t in launches(programs[0]) if t] == ["attention"]
    assert [t for t in launches(programs[1]) if t] == ["attention_by_rows", "attention_by_columns"]
    assert not any("matmul" in str(step) and "External" in str(step) for p in programs for step in p.steps)
    for ours, theirs, want in zip(got, eager, exact, strict=True):
        assert distance(ours, want.numpy()) <= 1.02 * distance(theirs.numpy(), want.numpy())


@needs_triton
@pytest.mark.parametrize("tf32", [False, True])
def test_gradients_of_float32_multiply_as_the_switch_says(tf32):
    *given, _ = operands(cutaway.float32)
    cut, _ = training_graphs(attention(plain, False), given)
    target = replace(TARGET, options={"tf32": tf32})
    texts = [
        unit.text for part in (cut.forward, cut.backward)
        for unit in emitted(program_of(part, target), tf32=tf32).units if "tl.dot(" in unit.text
    ]  # fmt: skip
    assert len(texts) == 3
    for text in texts:
        # what corrects a row's delta is a millionth of the result: tf32 is enough
        products = [line for line in text.splitlines() if "tl.dot(" in line and "slope_0 = " not in line]
        precision = f'input_precision="{"tf32" if tf32 else "tf32x3"}"'
        assert len(products) > 1 and all(precision in line for line in products)


@needs_triton
@pytest.mark.parametrize(("arch", "product"), [(80, "mma.sync"), (90, "wgmma")])
def test_both_kernels_compile_to_tensor_core_instructions(arch, product):
    from stage3_lowering.triton_interpreter import compile_to_ptx
    from stage_contracts.program import Target

    given = operands(cutaway.bfloat16)
    compiled = cutaway.compile(attention(causal, False), fullgraph=True)
    compiled(*given[:4])
    target = Target("triton", arch=f"sm_{arch}")
    emitted = cutaway.DEFAULT_PIPELINE.emit(compiled.artifacts[-1].backward.planned_for(target), target)
    for name, made in compile_to_ptx(emitted, arch).items():
        if "attention" in name:
            assert product in made["ptx"] and "ld.local" not in made["ptx"]


@needs_triton
def test_heads_of_one_projection_as_models_have_them():
    """q, k and v are views of one tensor; the gradient's layout is not that of the result."""

    def function(qkv):
        q, k, v = qkv.reshape(1, T, 3, 2, D).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return seen.transpose(1, 2).reshape(1, T, 2 * D)

    x = cutaway.randn(1, T, 6 * D).bfloat16().requires_grad_()
    cut, _ = training_graphs(function, [x])
    programs = [emitted(program_of(graph)) for graph in (cut.forward, cut.backward)]
    assert [t for t in launches(programs[0]) if t] == ["attention"]
    assert [t for t in launches(programs[1]) if t] == ["attention_by_rows", "attention_by_columns"]


@needs_triton
@pytest.mark.parametrize("name", ["causal", "alibi"])
def test_what_a_row_has_is_computed_once(name):
    """The kernel over keys loads one number less of each row, and no kernel adds up or scales beside the two."""
    programs, _ = on_triton(
        attention(RULES[name], False), operands(cutaway.bfloat16, 2 if name == "alibi" else 1)
    )
    assert launches(programs[1])[-2:] == ["attention_by_rows", "attention_by_columns"]
    rows, columns = (k for k in programs[1].kernels.values() if k.template)
    made = [name for nest in rows.nests for name in nest.writes if name in columns.params]
    assert len(made) == 2  # of a weight, and the sum of the row's gradients
    assert not {p for p in columns.params if "amax" in p or "sum" in p}
    (text,) = (u.text for u in programs[1].units if "attention_by_columns" in u.text)
    assert "log2" not in text and "fast_divide" not in text


def test_gradients_that_a_table_scales_are_scaled_by_their_kernels():
    """Both have as many elements, so one launch would scale them as rows of a table; and no kernel adds up rows."""

    def function(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    given = [cutaway.randn(2, 2, 128, 64).bfloat16().requires_grad_() for _ in range(3)]
    partition, _ = training_graphs(function, given)
    assert launched(program_of(partition.backward)) == ["attention_by_rows", "attention_by_columns"]
