"""Blocks of rows in the whole machine: attention and products compiled, beside float64, with gradients and open sizes.

Input: functions of cutaway's own API at sizes where the pass acts. Each is run as C++ with one thread and with two, and
step by step (poisoned memory), where the blocks are a loop in Python.
"""

import os
import subprocess
import sys

import cutaway.nn.functional as F
import numpy as np
import pytest

import cutaway
from stage_contracts import config
from stage_contracts.program import Allocate, RowBlocks
from stage_contracts.program_text import parse_program, print_program

SHAPE = (2, 3, 320, 32)  # long enough for the backward to compute the scores again


def arrays(*shapes, dtype=np.float32):
    rng = np.random.default_rng(11)
    return [rng.standard_normal(shape).astype(dtype) for shape in shapes]


def plain(q, k, v):
    return cutaway.softmax(q @ k.mT * 0.2, -1) @ v


def sdpa(q, k, v):
    return F.scaled_dot_product_attention(q, k, v)


def sdpa_causal(q, k, v):
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def sdpa_masked(q, k, v):
    far = cutaway.arange(q.shape[-2])[:, None] - cutaway.arange(k.shape[-2]) > 30
    return F.scaled_dot_product_attention(q, k, v, attn_mask=~far)


RULES = [plain, sdpa, sdpa_causal, sdpa_masked]


def blocks(compiled, half="forward"):
    steps = getattr(compiled.artifacts[-1], half).planned.steps
    return [step for step in steps if isinstance(step, RowBlocks)]


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("poison", [False, True])
def test_attention_is_blocks_of_rows(rule, poison):
    given = arrays(SHAPE, SHAPE, SHAPE)
    want = rule(*[cutaway.from_numpy(a.astype(np.float64)) for a in given]).numpy()
    with config.patch({"runtime.poison": poison, "runtime.cache": False}):
        compiled = cutaway.compile(rule)
        found = compiled(*map(cutaway.from_numpy, given)).numpy()
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5)
    (block,) = blocks(compiled)
    late = rule is not sdpa_masked  # there a row without any column is 0, which is no quotient
    assert (len(block.steps), len(block.local)) == ((4, 2) if late else (3, 1))


@pytest.mark.parametrize("rule, poison", [*((rule, False) for rule in RULES), (plain, True)])
def test_gradients_are_those_of_float64(rule, poison):
    given = arrays(SHAPE, SHAPE, SHAPE)

    def gradients(function, dtype):
        leaves = [cutaway.tensor(a.astype(dtype), requires_grad=True) for a in given]
        (function(*leaves) ** 2).sum().backward()
        return [leaf.grad.numpy() for leaf in leaves]

    with config.patch({"runtime.poison": poison, "runtime.cache": False}):
        compiled = cutaway.compile(rule)
        found = gradients(compiled, np.float32)
    for ours, want in zip(found, gradients(rule, np.float64), strict=True):
        np.testing.assert_allclose(ours, want, rtol=1e-3, atol=1e-4)
    (block,) = blocks(compiled, "backward")
    assert block.in_order and len(block.local) <= 3  # the weights, their gradient, and sdpa's own factor
    held = compiled.artifacts[-1].backward.planned
    allocated = {step.buffer for step in held.steps if isinstance(step, Allocate)}
    assert not [
        n for n in allocated if held.buffers[n].meta.shape[-2:] == (320, 320)
    ]  # nobody writes the scores


def test_one_compile_serves_every_length():
    compiled = cutaway.compile(plain, dynamic=True)
    for length in (200, 33, 1, 131, 256, 2):
        given = arrays((2, length, 48), (2, length + 7, 48), (2, length + 7, 48))
        want = plain(*[cutaway.from_numpy(a.astype(np.float64)) for a in given]).numpy()
        found = compiled(*map(cutaway.from_numpy, given)).numpy()
        np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5, err_msg=str(length))
    assert blocks(compiled)


def test_any_number_of_threads_gives_the_same_bits():
    program = (
        "import numpy as np, cutaway, sys\n"
        "from tests.test_row_blocks import SHAPE, arrays, plain\n"
        "f = cutaway.compile(plain)\n"
        "ys = [f(*map(cutaway.from_numpy, arrays(SHAPE, SHAPE, SHAPE))).numpy().tobytes() for _ in range(5)]\n"
        "assert len(set(ys)) == 1\n"
        "import hashlib; print(hashlib.sha256(ys[0]).hexdigest())\n"
    )
    found = set()
    for threads in ("1", "2"):
        env = {**os.environ, "OMP_NUM_THREADS": threads, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True
        )
        found.add(done.stdout)
    assert len(found) == 1


def test_any_number_of_threads_shares_the_rows_of_a_block():
    """C++ divides what may be one block among the threads it finds; 150 rows are fewer than five threads' 32 each."""
    program = (
        "import numpy as np, cutaway\n"
        "def mlp(x, w, b, u): return cutaway.nn.functional.gelu(x @ w + b) @ u\n"
        "for rows in (333, 150):\n"
        "    given = [np.random.default_rng(1).standard_normal(s) for s in ((rows, 64), (64, 200), (200,), (200, 48))]\n"
        "    f = cutaway.compile(mlp)\n"
        "    found = f(*[cutaway.from_numpy(a.astype('f4')) for a in given]).numpy()\n"
        "    want = mlp(*map(cutaway.from_numpy, given)).numpy()\n"
        "    np.testing.assert_allclose(found, want, rtol=1e-4, atol=1e-4)\n"
        "    print('shared_rows' in f.artifacts[-1].forward.emitted['cpp'].units[-1].text)\n"
    )
    for threads in ("1", "2", "5"):
        env = {**os.environ, "OMP_NUM_THREADS": threads, "PYTHONPATH": os.pathsep.join(sys.path)}
        done = subprocess.run(
            [sys.executable, "-c", program], env=env, capture_output=True, text=True, check=False
        )
        assert done.stdout.split() == ["True", "True"], done.stderr[-2000:]


def test_products_alone_are_blocks_without_a_kernel():
    """The program has no kernel, and yet a unit: the function that runs its steps."""
    (x,) = arrays((300, 300))
    compiled = cutaway.compile(lambda x: x @ x @ x, fullgraph=True)
    found = compiled(cutaway.from_numpy(x)).numpy()
    np.testing.assert_allclose(found, x.astype(np.float64) @ x @ x, rtol=1e-3, atol=1e-2)
    program = compiled.artifacts[-1].forward.emitted["cpp"]
    assert not program.kernels and [type(step) for step in program.steps if isinstance(step, RowBlocks)]


@pytest.mark.parametrize("rule", [plain, sdpa_causal])
def test_rows_of_an_open_width_fill_the_cache_and_no_more(rule):
    """Of narrow rows a block has many, of wide ones 32: what a fixed size would get, found when the sizes are known."""
    compiled = cutaway.compile(rule, dynamic=True, fullgraph=True)
    for length in (65, 320, 1500):
        q, k, v = arrays(*[(1, 4, length, 16)] * 3)
        found = compiled(*map(cutaway.from_numpy, (q, k, v))).numpy()
        wide = [cutaway.from_numpy(a.astype(np.float64)) for a in (q, k, v)]
        np.testing.assert_allclose(found, rule(*wide).numpy(), rtol=1e-4, atol=1e-5)
    assert len(compiled.artifacts) == 1
    program = compiled.artifacts[-1].forward.emitted["cpp"]
    (block,) = [step for step in program.steps if isinstance(step, RowBlocks)]
    assert block.cache and "cached_rows(4*" in program.units[-1].text
    (again,) = [s for s in parse_program(print_program(program)).steps if isinstance(s, RowBlocks)]
    assert again.cache == block.cache
