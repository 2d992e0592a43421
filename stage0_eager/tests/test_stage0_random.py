"""Philox against Random123's published answers, and what draws promise: same seed same bits, statistics, independence.

Input: known-answer vectors for philox4x32 with 10 rounds (kat_vectors of the Random123 distribution, Salmon et al.).
"""

import threading

import numpy as np
import pytest
from scipy import stats

from stage0_eager.functions.creation import rand, rand_like, randint, randn, tensor, zeros
from stage0_eager.functions.nn.dropout import dropout
from stage0_eager.random.generator import Generator, bernoulli, default_generator, manual_seed, randperm
from stage0_eager.random.philox import philox_block, philox_words
from stage0_eager.state import interpreting
from stage0_eager.table.core import core
from stage0_eager.transforms.trace import Tracer
from stage_contracts.graph import Graph

KNOWN_ANSWERS = """
    00000000 00000000 00000000 00000000 00000000 00000000  6627e8d5 e169c58d bc57ac4c 9b00dbd8
    ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff  408f276d 41c83b0e a20bc7c6 6d5451fd
    243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0  d16cfe09 94fdcceb 5001e420 24126ea1
"""  # counter (4 words), key (2 words), result (4 words)


@pytest.mark.parametrize("line", KNOWN_ANSWERS.strip().splitlines(), ids=["zeros", "ones", "pi"])
def test_known_answers(line):
    words = [int(w, 16) for w in line.split()]
    counter = tuple(np.array([w], np.uint64) for w in words[:4])
    out = philox_block(np, (words[4], words[5]), counter)
    assert [int(w[0]) for w in out] == words[6:]


def test_words_follow_the_documented_layout():
    """Key: the seed's words. Counter: (block, block >> 32, call, call >> 32). Element i: word i % 4 of block i // 4."""
    seed, call = 0x0123456789ABCDEF, 2**33 + 5
    got = philox_words(np, np.array([seed, call]), 2, (3, 3)).ravel()
    for i, word in enumerate(got):
        at = [i // 4, 0, (call + 2) & 0xFFFFFFFF, (call + 2) >> 32]
        block = philox_block(np, (seed & 0xFFFFFFFF, seed >> 32), tuple(np.array([w], np.uint64) for w in at))
        assert word == int(block[i % 4][0])
    assert got.dtype == np.int64 and got.min() >= 0


def test_a_draw_depends_on_seed_counter_and_place_only():
    rng = tensor(np.array([7, 3]))
    large, small = core.random_bits(rng, 0, (10, 10)), core.random_bits(rng, 0, (5, 10))
    assert large[:5].tolist() == small.tolist()  # a longer draw begins with the shorter one
    assert (
        core.random_bits(rng, 2, (4,)).tolist()
        == core.random_bits(tensor(np.array([7, 5])), 0, (4,)).tolist()
    )
    assert core.random_bits(rng, 0, (4,)).tolist() != core.random_bits(rng, 1, (4,)).tolist()
    assert core.random_bits(rng, 0, (0, 3)).shape == (0, 3) and core.random_bits(rng, 0, ()).shape == ()


def test_the_same_seed_gives_the_same_draws():
    def draws():
        manual_seed(5)
        return [rand(3).tolist(), randn(2, 2).tolist(), randint(10, (4,)).tolist(), randperm(6).tolist()]

    first = draws()
    assert first == draws()
    assert rand(3).tolist() != first[0]
    manual_seed(6)
    assert rand(3).tolist() != first[0]


def test_generators_are_independent_and_have_state():
    a, b = Generator(1), Generator(1)
    assert rand(4, generator=a).tolist() == rand(4, generator=b).tolist()
    state = a.get_state()
    following = rand(4, generator=a).tolist()
    a.set_state(state)
    assert rand(4, generator=a).tolist() == following
    before = default_generator().counter
    rand(4, generator=a)
    assert default_generator().counter == before and a.initial_seed() == 1
    assert rand(4, generator=b).tolist() == following != rand(4, generator=Generator(2)).tolist()


def test_threads_never_share_a_draw():
    generator = Generator(3)
    drawn = []

    def draw():
        for _ in range(50):
            drawn.append(generator.advance(1))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sorted(drawn) == [(3, i) for i in range(200)]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform(dtype):
    x = rand(40_000, dtype=dtype, generator=Generator(1)).to("float64").numpy()
    assert x.min() >= 0 and (x.max() < 1 or dtype in ("float16", "bfloat16"))
    assert stats.kstest(x, "uniform").pvalue > 0.01 or dtype == "bfloat16"
    assert abs(x.mean() - 0.5) < 0.01 and abs(x.var() - 1 / 12) < 0.005
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.02


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_normal(dtype):
    x = randn(40_000, dtype=dtype, generator=Generator(2)).numpy()
    assert x.dtype == dtype and np.isfinite(x).all() and stats.kstest(x, "norm").pvalue > 0.01
    assert abs(np.corrcoef(x[:-1], x[1:])[0, 1]) < 0.02


def test_calls_are_uncorrelated():
    generator = Generator(4)
    rows = np.stack([rand(2_000, generator=generator).numpy() for _ in range(20)])
    off = np.corrcoef(rows)[~np.eye(20, dtype=bool)]
    assert abs(off).max() < 0.12
    assert stats.kstest(rows.T.ravel(), "uniform").pvalue > 0.01


def test_integers_and_coins():
    x = randint(3, 9, (30_000,), generator=Generator(5)).numpy()
    assert x.dtype == np.int64 and set(x) == set(range(3, 9))
    assert stats.chisquare(np.bincount(x)[3:]).pvalue > 0.01
    with pytest.raises(RuntimeError, match="from=9 >= to=9"):
        randint(9, 9, (1,))
    coins = bernoulli(zeros(20_000) + 0.25, generator=Generator(6))
    assert coins.dtype.name == "float32" and abs(coins.mean().item() - 0.25) < 0.01
    assert sorted(randperm(50, generator=Generator(7)).tolist()) == list(range(50))


def test_dropout():
    x = zeros(200, 100) + 3.0
    manual_seed(0)
    out = dropout(x, 0.25)
    kept = out.numpy() != 0
    assert abs(kept.mean() - 0.75) < 0.01 and np.allclose(out.numpy()[kept], 4)
    assert dropout(x, 0.25, training=False) is x and dropout(x, 0.0) is x
    assert not dropout(x, 1.0).numpy().any()
    with pytest.raises(ValueError, match="between 0 and 1, but got 1.5"):
        dropout(x, 1.5)


def test_every_kind_of_draw_takes_one_counter_per_word_stream():
    generator = default_generator()
    for draw, calls in ((lambda: rand(3), 1), (lambda: randn(3), 2), (lambda: randint(5, (3,)), 1),
                        (lambda: dropout(zeros(3), 0.5), 1), (lambda: rand_like(zeros(2)), 1), (lambda: dropout(zeros(3), 0.0), 0)):  # fmt: skip
        before = generator.counter
        draw()
        assert generator.counter - before == calls


def test_traced_draws_read_the_state_from_an_input_and_give_eagers_bits():
    tracer = Tracer(Graph())
    before = default_generator().counter
    with interpreting(tracer):
        values = [rand(5), randn(2)]
    tracer.graph.output([tracer.node_of(v) for v in values])
    assert default_generator().counter == before and tracer.rng_calls == 3
    manual_seed(11)
    got = tracer.graph.verify().interpret([default_generator().get_state()])
    assert [g.tolist() for g in got] == [rand(5).tolist(), randn(2).tolist()]
