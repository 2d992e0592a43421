"""The sink side of a minimum cut: against every cut of small networks, and against scipy's flow on larger ones.

Input: random networks of the kind that a joint graph gives (most edges are never cut), and any others, with cycles.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator

import numpy as np
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import breadth_first_order, maximum_flow

from stage2_autograd.partition.max_flow import NetworkEdge, sink_side

Network = tuple[list[NetworkEdge], int, int, int]


def of_values(rng: random.Random, count: int) -> Network:
    """Values read by later ones: saving one has a price, everything else is never cut."""
    sizes = [rng.choice([1, 17, 1600, 65536]) for _ in range(count)]
    never, source, sink = 1 + sum(sizes), 2 * count, 2 * count + 1
    edges = {(2 * i, 2 * i + 1): size for i, size in enumerate(sizes)}
    for i in range(count):
        if i == 0 or rng.random() < 0.1:
            edges[source, 2 * i] = never
        for _ in range(rng.randint(0, 3) if i else 0):
            edges[2 * rng.randrange(max(0, i - 20), i) + 1, 2 * i] = never
        if rng.random() < 0.4:
            edges[2 * i + 1, sink] = never
    return [(*ends, room) for ends, room in edges.items()], 2 * count + 2, source, sink


def of_any(rng: random.Random, count: int) -> Network:
    """Edges either way, of few capacities, so that many cuts are equally small."""
    pairs = [ends for ends in itertools.permutations(range(count), 2) if rng.random() < 0.4]
    return [(*ends, rng.randint(0, 3)) for ends in pairs], count, 0, count - 1


def smallest_of_all(edges: list[NetworkEdge], size: int, source: int, sink: int) -> list[bool]:
    """Of all minimum cuts, tried one by one, the one with the fewest vertices on the sink's side."""

    def sides() -> Iterator[list[bool]]:
        for chosen in itertools.product((False, True), repeat=size):
            if chosen[sink] and not chosen[source]:
                yield list(chosen)

    def order(after: list[bool]) -> tuple[int, int]:
        return sum(room for tail, head, room in edges if after[head] and not after[tail]), sum(after)

    return min(sides(), key=order)


def of_scipy(edges: list[NetworkEdge], size: int, source: int, sink: int) -> list[bool]:
    tails, heads, rooms = np.array(edges, np.int32).reshape(-1, 3).T
    network = csr_matrix((rooms, (tails, heads)), (size, size))
    flow = maximum_flow(network, source, sink).flow
    residual = (network.astype(np.int64) - flow.astype(np.int64)).T.tocsr()
    residual.eliminate_zeros()
    after = np.zeros(size, bool)
    after[breadth_first_order(residual, sink, return_predecessors=False)] = True
    return after.tolist()


def test_it_is_the_smallest_side_of_all_cuts():
    rng = random.Random(0)
    for case in range(150):
        network = of_any(rng, rng.randint(2, 7)) if case % 2 else of_values(rng, rng.randint(1, 3))
        assert sink_side(*network) == smallest_of_all(*network), network


def test_it_is_that_of_scipys_flow():
    rng = random.Random(1)
    for case in range(200):
        network = of_any(rng, rng.randint(2, 25)) if case % 2 else of_values(rng, rng.randint(1, 200))
        assert sink_side(*network) == of_scipy(*network), network


def test_a_path_longer_than_the_stack_of_python():
    count = 20_000
    edges = [(i, i + 1, 5 if i != count // 2 else 4) for i in range(count)]
    assert sink_side(edges, count + 1, 0, count) == [i > count // 2 for i in range(count + 1)]


def test_capacities_beyond_64_bits():
    edges = [(0, 1, 2**80), (1, 2, 2**80 - 1), (2, 3, 2**80)]
    assert sink_side(edges, 4, 0, 3) == [False, False, True, True]
