"""Updates in place, compiled: random programs that write to their inputs, beside eager.

`python -m tests.kernels.test_updates_compiled --programs N --seed S` draws more. Axes: two to four inputs of one shape,
sizes open or not, updates by pointwise steps, reductions, transposes, flips, running sums, one value that goes to two
inputs, of a part only, at places; each run twice.
"""

import argparse
import random

import numpy as np
import pytest

import cutaway

SHAPES = ((7,), (33,), (5, 9), (64, 64), (40, 130), (3, 4, 17))


def turned(b, dim):
    """Another order of the same elements."""
    return b.t() if b.ndim == 2 and b.shape[0] == b.shape[1] else b.flip(dim)


def into_two(a, b, dim):
    shares = a.softmax(dim)
    a.add_(b)
    b.add_(shares)


def moved(a, b, dim):
    a.narrow(dim, 1, 2).copy_(a.narrow(dim, 0, 2).clone())


PLACES = cutaway.tensor([2, 0, 2])  # one of them twice

UPDATES = {
    "add": lambda a, b, dim: a.mul_(0.5).add_(b, alpha=0.25),
    "by a sum": lambda a, b, dim: a.mul_(b.sum(dim, keepdim=True).tanh()),
    "centre": lambda a, b, dim: a.sub_(a.mean(dim, keepdim=True)),
    "scale": lambda a, b, dim: a.div_(a.abs().amax(dim, keepdim=True) + 1),
    "copy": lambda a, b, dim: a.copy_(b * 2 - a),
    "turned": lambda a, b, dim: a.add_(turned(b, dim), alpha=0.1),
    "running": lambda a, b, dim: a.add_(b.cumsum(dim), alpha=0.01),
    "into two": into_two,
    "a part": lambda a, b, dim: a.narrow(dim, 1, 2).copy_(b.narrow(dim, 0, 2)),
    "a part of a turned one": lambda a, b, dim: a.narrow(dim, 0, 3).copy_(
        turned(b, dim).narrow(dim, -3, 3) * 0.5
    ),
    "a part of a rolled one": lambda a, b, dim: a.narrow(dim, 1, 2).copy_(b.roll(1, -1).narrow(dim, 0, 2)),
    "all of a rolled one": lambda a, b, dim: a.unsqueeze(0)[0].add_(b.roll(1, -1), alpha=0.1),
    "every other": lambda a, b, dim: a[..., ::2].mul_(-1),
    "a part moved": moved,
    "added to a part": lambda a, b, dim: a.select(dim, 0).add_(b.select(dim, 1)),
    "at places": lambda a, b, dim: a.index_copy_(dim, PLACES, b.narrow(dim, 0, 3) * 0.5),
    "added at places": lambda a, b, dim: a.index_add_(dim, PLACES, b.narrow(dim, 0, 3), alpha=0.1),
    "filled at places": lambda a, b, dim: a.index_fill_(dim, PLACES, 0.25),
}


def check(seed):
    """One program twice, eager and compiled; how many of its inputs C++ wrote to at once."""
    draw = random.Random(seed)
    shape, count = draw.choice(SHAPES), draw.randint(2, 4)
    steps = [
        (draw.choice([*UPDATES]), draw.randrange(count), draw.randrange(count), draw.randrange(len(shape)))
        for _ in range(draw.randint(2, 6))
    ]

    def program(*inputs):
        for name, i, j, dim in steps:
            UPDATES[name](inputs[i], inputs[j], dim)
        return inputs[0].sum()

    arrays = [np.random.default_rng(seed + k).standard_normal(shape).astype(np.float32) for k in range(count)]
    wanted, got = ([cutaway.from_numpy(a.copy()) for a in arrays] for _ in range(2))
    compiled = cutaway.compile(program, dynamic=draw.choice([None, True]))
    for _ in range(2):
        program(*wanted), compiled(*got)
    for w, g in zip(wanted, got, strict=True):
        np.testing.assert_allclose(g.numpy(), w.numpy(), rtol=2e-4, atol=2e-5, err_msg=f"{seed}: {steps}")
    return sum(len(made.forward.emitted["cpp"].written_inputs) for made in compiled.artifacts)


@pytest.mark.parametrize("first", range(0, 12, 3))
def test_random_updates(first):
    assert sum(map(check, range(first, first + 3))) > 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    written = sum(map(check, range(options.seed, options.seed + options.programs)))
    print(f"{options.programs} programs right, {written} inputs written at once")
