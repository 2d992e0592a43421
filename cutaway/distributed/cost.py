"""A model of a data-parallel step's cost: a link's latency and bandwidth, buckets in time, the step for N ranks.

Input: seconds that were measured: of collectives of several sizes, and of one process's step. A ring sends each byte
about twice in 2(N - 1) messages; a tree in 2 log2 N; hierarchically, a ring inside each machine and one across.
(Thakur, Rabenseifner and Gropp, "Optimization of Collective Communication Operations in MPICH", 2005.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np


@dataclass(frozen=True)
class Link:
    """From one rank to another: a message of n bytes takes `latency + n / bandwidth` seconds.

    `busy`: the share of a transfer in which the processor cannot compute. It is about 1 where a CPU copies the bytes
    itself, and about 0 for a GPU. `local` ranks share a machine, inside which `inside` (else the link itself) connects.
    """

    latency: float
    bandwidth: float
    busy: float = 0.0
    local: int = 1
    inside: Link | None = None


def ring(link: Link, nbytes: float, ranks: int) -> float:
    """Seconds of an all_reduce in a ring: each rank sends 2(N - 1) parts of an N-th."""
    return 2 * (ranks - 1) * (link.latency + nbytes / ranks / link.bandwidth)


def tree(link: Link, nbytes: float, ranks: int) -> float:
    """Seconds up and down a tree, the bytes in pieces that follow one another: all of them twice, whatever N is."""
    return 2 * math.ceil(math.log2(ranks)) * link.latency + 2 * nbytes / link.bandwidth if ranks > 1 else 0.0


def hierarchical(link: Link, nbytes: float, ranks: int) -> float:
    """Seconds of a ring in each machine, and one across the machines of what each rank holds then."""
    inside = link.inside or link
    local = min(link.local, ranks)
    machines = max(1, ranks // local)
    within = 2 * (local - 1) * (inside.latency + nbytes / local / inside.bandwidth)
    return within + ring(link, nbytes / local, machines)


CHOICES: dict[str, Callable[[Link, float, int], float]] = {
    "ring": ring,
    "tree": tree,
    "hierarchical": hierarchical,
}


def fitted(samples: Sequence[tuple[float, float]], ranks: int, busy: float = 0.0) -> Link:
    """The link whose ring takes the measured (bytes, seconds), by least squares of relative errors.

    Raises ValueError for fewer than two sizes or one rank.
    """
    if len({n for n, _ in samples}) < 2 or ranks < 2:
        raise ValueError(
            f"a link is fitted to two sizes or more and two ranks or more, not to {samples} on {ranks}"
        )
    sizes, seconds = np.array(samples, np.float64).T
    rows = np.stack([1 / seconds, sizes / seconds], 1)
    (start, per_byte), *_ = np.linalg.lstsq(rows, np.ones(len(seconds)), rcond=None)
    messages = 2 * (ranks - 1)
    least = min(seconds) / 10
    return Link(float(max(start, least)) / messages, float(messages / ranks / max(per_byte, 1e-15)), busy)


@dataclass(frozen=True)
class Bucket:
    """A bucket of gradients: its bytes, and when in the step of one process its last gradient is there."""

    nbytes: int
    ready: float


@dataclass(frozen=True)
class Bar:
    """A transfer in the predicted step."""

    bucket: Bucket
    start: float
    end: float


@dataclass(frozen=True)
class Step:
    """A predicted step: its transfers, when computing ends, its seconds, those of all transfers, and by how much these
    make it longer."""

    bars: tuple[Bar, ...]
    computed: float
    seconds: float
    moved: float
    longer: float

    @property
    def hidden(self) -> float:
        """The share of the transfers' time that does not make the step longer."""
        return max(0.0, 1 - self.longer / self.moved) if self.moved else 1.0


def predict(
    buckets: Sequence[Bucket], computing: float, after: float, link: Link, ranks: int, choice: str = "ring"
) -> Step:
    """A step whose forward and backward take `computing` seconds alone and whose optimizer takes `after`.

    Buckets go one after the other, each when its gradients are there. While one is under way, computing goes on at the
    rate 1 - busy.
    """
    if ranks == 1:
        return Step((), computing, computing + after, 0.0, 0.0)
    cost, bars = CHOICES[choice], []
    clock = worked = moved = computed = (
        0.0  # the time, how much of the computing is done, how long the link was in use
    )
    for bucket in sorted(buckets, key=lambda one: one.ready):
        wait = max(
            0.0, min(bucket.ready, computing) - worked
        )  # until its gradients are there, the link is idle
        clock, worked = clock + wait, worked + wait
        if not computed and worked >= computing * (1 - 1e-12):
            computed = clock
        taken = cost(link, bucket.nbytes, ranks)
        bars.append(Bar(bucket, clock, clock + taken))
        if not computed and computing <= worked + taken * (1 - link.busy):
            computed = clock + (computing - worked) / (1 - link.busy)
        clock, worked, moved = clock + taken, worked + taken * (1 - link.busy), moved + taken
    seconds = clock + max(0.0, computing - worked)
    return Step(tuple(bars), computed or seconds, seconds + after, moved, seconds - computing)


def best(
    buckets: Sequence[Bucket], computing: float, after: float, link: Link, ranks: int
) -> tuple[str, Step]:
    """The quickest of the choices, by name."""
    steps = {name: predict(buckets, computing, after, link, ranks, name) for name in CHOICES}
    name = min(steps, key=lambda one: steps[one].seconds)
    return name, steps[name]


def limit(
    buckets: Sequence[Bucket], link: Link, ranks: int, choice: str, step: Step, computing: float
) -> str:
    """What keeps the step of N ranks from being the step of one: "latency", "bandwidth", or "nothing"."""
    if step.longer < 0.02 * computing:
        return "nothing: the link hides"
    quick = replace(link, latency=0.0, inside=replace(link.inside, latency=0.0) if link.inside else None)
    without = predict(buckets, computing, 0.0, quick, ranks, choice)
    return "latency" if without.longer < step.longer / 2 else "bandwidth"


def buckets_of(
    sizes: Sequence[int], forward: float, backward: float, parts: Sequence[float] = ()
) -> list[Bucket]:
    """Buckets whose gradients come in this order; `parts`: how far the backward is at each (equal shares, if empty)."""
    shares = parts or [(k + 1) / len(sizes) for k in range(len(sizes))]
    return [Bucket(n, forward + backward * share) for n, share in zip(sizes, shares, strict=True)]
