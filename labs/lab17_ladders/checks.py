"""What lab 17 asks of kernels: NumPy's numbers from every version, and in each the structure that it is about.

Input: the learner's C++ bodies. Loads, stores, cache misses and chains of operations are counted: nothing depends on a
clock. A kernel runs for real only if the counted one stayed inside its arrays.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from stage_contracts.errors import BuildError, CompilerMissing

from ..answer import Answer
from ..checks import Wrong
from ..hidden import hidden_check
from ..programs import numbers, short
from .kernels import PARAMETERS, Counts, oracle, run, traced

SOFTMAX, MATMUL, ATTENTION = "page.md#softmax", "page.md#the-matrix-product", "page.md#attention"
PAGES = {"softmax": SOFTMAX, "matmul": MATMUL, "attention": ATTENTION}
Arrays = tuple[np.ndarray, ...]
SPECIAL = np.array(
    [[1e4, 1e4 + 1, -1e4, 0.5, 3.0], [np.nan, 1, 2, 3, 4], [-np.inf, 1, 2, 3, 0], [5] * 5], np.float32
)


def cases(ladder: str) -> list[Arrays]:
    """Odd sizes, one element, large numbers, NaN."""
    if ladder == "softmax":
        return [numbers_of((1, 1)), numbers_of((3, 7)), numbers_of((5, 130)), numbers_of((2, 16)), (SPECIAL,)]
    if ladder == "matmul":
        sizes = ((1, 1, 1), (5, 7, 3), (17, 33, 18), (4, 16, 16), (2, 1, 9))
        return [numbers_of((n, k), (k, m)) for n, k, m in sizes]
    plain = [numbers_of(*[shape] * 3) for shape in ((1, 1), (5, 3), (17, 4), (9, 16), (8, 8))]
    return [*plain, tuple(100 * a for a in plain[1])]


def numbers_of(*shapes: tuple[int, int]) -> Arrays:
    return tuple(numbers(*shape, seed=k) for k, shape in enumerate(shapes))


ROWS, LENGTH = 5, 515
N, M, K = 21, 45, 99
QUERIES, WIDTH = 43, 9
COUNTED = {
    "softmax": numbers_of((ROWS, LENGTH)),
    "matmul": numbers_of((N, K), (K, M)),
    "attention": numbers_of(*[(QUERIES, WIDTH)] * 3),
}


@cache
def counted(ladder: str, body: str, at: int) -> tuple[np.ndarray, Counts]:
    """What a body computes and does on a case, or on the larger problem that is counted (-1)."""
    return traced(ladder, body, COUNTED[ladder] if at < 0 else cases(ladder)[at])


def tried(answer: Answer, ladder: str, version: int, at: int = -1) -> tuple[str, np.ndarray, Counts]:
    """The body, its result, its counts. What does not compile, or leaves its arrays, is Wrong."""
    name, read = f"{ladder}_{version}", PAGES[ladder]
    body = getattr(answer, name)()
    if not isinstance(body, str):
        raise Wrong(f"{name} gives {type(body).__name__}", "the text of a body in C++", read=read)
    try:
        got, found = counted(ladder, body, at)
    except BuildError as error:
        lines = str(error).splitlines()
        said = next((line for line in lines if "error:" in line), lines[0]).rpartition("error:")[2].strip()
        raise Wrong(f"{name}: g++ refuses it: {said}", "C++ that compiles", read=read) from error
    except CompilerMissing as error:
        raise Wrong(str(error), "a C++ compiler: this lab is about what it gets", read=read) from error
    if found.outside:
        array = (PARAMETERS[ladder][0] + PARAMETERS[ladder][1])[found.outside - 1]
        why = "odd sizes: the last block is smaller"
        raise Wrong(f"{name} uses {array}[{found.place}], which is beyond the array", why, read=read)
    return body, got, found


def computes(ladder: str, version: int) -> Callable[[Answer], None]:
    def check(answer: Answer) -> None:
        for at, arrays in enumerate(cases(ladder)):
            body, got, _ = tried(answer, ladder, version, at)
            if (ladder, version) in PARALLEL:  # as fast as it is, with threads
                got = run(ladder, body, arrays)
            with np.errstate(all="ignore"):
                want = oracle(ladder, arrays)
                fits = np.allclose(got, want, 2e-5, 2e-6, equal_nan=True)
            if not fits:
                shapes = ", ".join(str(a.shape) for a in arrays)
                raise Wrong(f"{ladder}_{version}, arrays of {shapes}: {short(got)}", short(want.astype(np.float32)),
                            read=PAGES[ladder])  # fmt: skip
        structure(answer, ladder, version)

    rule = STRUCTURES[ladder, version][0]
    check.__doc__ = f"`{ladder}_{version}` computes what NumPy does: odd sizes, large numbers. {rule}"
    check.__name__ = f"{ladder}_{version}"
    return check


# ---- the structure of each version: what is told, what is counted, at most how much, and why ----------------------

Limit = tuple[str, Callable[[Counts], float], float, str]
CELLS, FLOPS = ROWS * LENGTH, N * M * K


def loads(*arrays: int) -> Callable[[Counts], int]:
    return lambda c: sum(c.loads[k] for k in arrays)


CHAIN: Limit = (
    "operations in the longest chain",
    lambda c: c.depth,
    LENGTH / 2,
    "sums side by side do not wait",
)
STORED_ONCE: Limit = ("stores to c", lambda c: c.stores[2], N * M, "the sum stays in a local number")
NO_SCORES: Limit = ("elements of s that are used", lambda c: c.distinct[4], 0, "no score is kept")
STRUCTURES: dict[tuple[str, int], tuple[str, tuple[Limit, ...]]] = {
    ("softmax", 2): ("Three passes.", (("loads of y", loads(1), CELLS, "only the last pass reads y"),)),
    ("softmax", 3): ("One division a row.", (("divisions", lambda c: c.divisions, ROWS, "one a row"),
                                            ("loads of y", loads(1), CELLS, "only the last pass reads y"))),
    ("softmax", 4): ("y is written once and never read.", (
        ("loads of y", loads(1), 0, "the last pass computes from x"), ("loads of x", loads(0), 2 * CELLS, "two passes"),
        ("stores to y", lambda c: c.stores[1], CELLS, "each element once"),
        ("exponentials", lambda c: c.exponentials, 2 * CELLS, "one for each element in each of two passes"))),
    ("softmax", 5): ("No chain of operations is longer than half a row.", (CHAIN,)),
    ("softmax", 6): ("The rows run in parallel.", (CHAIN,)),
    ("matmul", 2): ("Few misses: b is read by rows.", (
        ("cache misses", lambda c: c.misses, FLOPS / 8, "16 elements of a row of b are in one cache line"),)),
    ("matmul", 3): ("Fewer misses: tiles stay in the cache.", (
        ("cache misses", lambda c: c.misses, FLOPS / 32, "a tile of b serves many rows before it goes"),)),
    ("matmul", 4): ("Each element of c is stored once, and each load serves several products.", (
        STORED_ONCE, ("loads of a, b and c", loads(0, 1, 2), 0.75 * FLOPS, "16 products need 8 loads"))),
    ("matmul", 5): ("Each element of b is loaded once.", (
        STORED_ONCE, ("loads of b", loads(1), K * M, "a panel is copied once"),
        ("loads of a, b and c", loads(0, 1, 2), FLOPS / 2, "the panel is local"))),
    ("matmul", 6): ("The panels run in parallel.", (
        STORED_ONCE, ("loads of b", loads(1), K * M, "a panel is copied once"))),
    ("attention", 2): ("One row of scores is kept.", (
        ("elements of s that are used", lambda c: c.distinct[4], QUERIES, "one row"),)),
    ("attention", 3): ("No score is kept.", (NO_SCORES,)),
    ("attention", 4): ("Blocks of queries, in parallel, share what is loaded of k and v.", (
        NO_SCORES, ("loads of k and v", loads(1, 2), 2 * -(-QUERIES // 4) * QUERIES * WIDTH, "a block shares them"))),
}  # fmt: skip
PARALLEL = (("softmax", 6), ("matmul", 6), ("attention", 4))


def structure(answer: Answer, ladder: str, version: int) -> None:
    """Raise Wrong where a count is above its limit."""
    body, _, found = tried(answer, ladder, version)
    name, read = f"{ladder}_{version}", PAGES[ladder]
    for what, counts, most, why in STRUCTURES[ladder, version][1]:
        if (got := counts(found)) > most:
            raise Wrong(f"{name}: {got:,} {what}", f"at most {most:,.0f}: {why}", read=read)
    if (ladder, version) in PARALLEL and "#pragma omp parallel for" not in body:
        raise Wrong(f"{name} has no `#pragma omp parallel for`", "one above its outer loop", read=read)


def whole_products(answer: Answer) -> Any:
    """What each version of the product computes of whole numbers: exact."""
    random = np.random.default_rng(17)
    arrays = tuple(random.integers(-5, 6, shape).astype(np.float32) for shape in ((6, 19), (19, 21)))
    found = []
    for version in range(2, 7):
        body, _, _ = tried(answer, "matmul", version, 2)
        found.append(traced("matmul", body, arrays)[0].astype(int).reshape(-1).tolist())
    return found


HIDDEN = {"products of whole numbers, by each version": whole_products}
CHECKS = (*(computes(*key) for key in STRUCTURES), hidden_check(__file__, HIDDEN, MATMUL))
