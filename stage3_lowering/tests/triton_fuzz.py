"""Random core graphs as Triton kernels whose blocks are small: every way to cut rows, columns and tiles, against eager.

Input: a number of programs and a seed. Values are small whole numbers, so every answer is exact. Kernels run in
Triton's interpreter with bounds checks; of one in `--compile` every kernel is compiled to PTX as well. Every other
program is lowered as on a GPU, whose rules differ: there kernels add at places.
    python -m stage3_lowering.tests.triton_fuzz --programs 2000 --seed 0 --jobs 4 --report FILE
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from stage0_eager.core_interpreter import interpreter
from stage3_lowering.lowering import emit, fuse, lower, schedule
from stage3_lowering.tests.graphs import TRITON, meta_of_array, trace
from stage3_lowering.triton_interpreter import compile_to_ptx, run_in_interpreter
from stage_contracts import dtype as dt
from stage_contracts.device import Device
from stage_contracts.tests.report_heading import heading

# what triton_blocks.py and split_reductions.py decide by, small: arrays of a few hundred elements meet every case
SMALL = {
    "triton_blocks": {"POINTWISE": 32, "TILE": 16, "HELD": 64, "LONG_BLOCK": 16,
                      "COLUMNS": 16, "COLUMN_BLOCK": 8},
    "split_reductions": {"INSTANCES": 12, "SMALLEST_PART": 16, "COLUMNS": 16, "COLUMN_BLOCK": 8},
    "row_values": {"FEWEST_COLUMNS": 4, "WORTH": 2},
    "schedule_kernels": {"TILE": 16},
    "merge": {"ROW_LIMIT": 32},
    "emit_triton": {"ROW_LIMIT": 32, "LOOP_BLOCK": 16, "POINTWISE_BLOCK": 32},  # the tree before triton_blocks.py
}  # fmt: skip
CUDA = Device("cuda", 0)
SIZES = (1, 2, 3, 7, 8, 9, 15, 16, 17, 24, 31, 32, 33, 40, 64, 65, 130)
DTYPES = ("float32", "float32", "float32", "float16", "int64")
LARGEST = 3000  # elements of an input
DEEPEST = 900.0  # the largest value there may be: halves hold every whole number to 2,048


@contextmanager
def small_blocks() -> Iterator[None]:
    """Within it, kernels are cut as if registers and the GPU were small."""
    import importlib

    before = []
    for name, values in SMALL.items():
        try:
            module: Any = importlib.import_module(f"stage3_lowering.lowering.{name}")
        except ImportError:  # a tree before there was such a file
            continue
        for key, value in values.items():
            if hasattr(module, key):
                before.append((module, key, getattr(module, key)))
                setattr(module, key, value)
    try:
        yield
    finally:
        for module, key, value in before:
            setattr(module, key, value)


class Maker:
    """Makes one program: nodes in step with the arrays that eager gives, so that values stay exact."""

    def __init__(self, seed: int) -> None:
        self.rng, self.said = random.Random(seed), list[str]()

    def shape(self) -> tuple[int, ...]:
        while True:
            shape = tuple(self.rng.choice(SIZES) for _ in range(self.rng.choice((1, 2, 2, 2, 3))))
            if np.prod(shape) <= LARGEST:
                return shape

    def inputs(self) -> list[np.ndarray]:
        shape, dtype = self.shape(), self.rng.choice(DTYPES)
        arrays = []
        for k in range(2):
            own = tuple(self.rng.choice((n, n, n, 1)) for n in shape) if k else shape
            values = (np.arange(np.prod(own, dtype=int)) * (7 + 4 * k) % 5 - 2).astype(dtype).reshape(own)
            if self.rng.random() < 0.3:
                values = np.ascontiguousarray(values.T).T
            arrays.append(values)
        turned = shape[::-1]  # what a transposed tensor is added to
        arrays.append((np.arange(np.prod(turned, dtype=int)) % 7 - 3).astype(dtype).reshape(turned))
        return arrays

    def program(self, c: Any, x: Any, y: Any, z: Any) -> list[Any]:
        nodes, steps = [z, x, y], self.rng.randint(1, 6)
        for _ in range(steps):
            nodes.append(self.step(c, self.rng.choice(nodes[-3:]), nodes))
        kept = [nodes[-1], *self.rng.sample(nodes[3:], min(len(nodes) - 3, self.rng.randint(0, 2)))]
        return list(dict.fromkeys(kept))

    def step(self, c: Any, node: Any, nodes: list[Any]) -> Any:
        meta, choose = node.val, self.rng.choice
        dims = range(meta.ndim)
        kinds = ["pair", "neg", "limit"]
        if meta.ndim:
            kinds += ["sum", "sum", "amax", "any", "argmax", "cumsum", "cumsum", "permute", "permute", "slice",
                      "gather", "scatter", "centre", "normal", "turned", "turned", "weighted"]  # fmt: skip
        if meta.dtype.name == "bool":
            return c.cast(node, dt.int64)
        kind = choose(kinds)
        self.said.append(f"{kind}{tuple(meta.shape)}")
        if kind == "pair":
            others = [n for n in nodes if n.val.dtype is meta.dtype and _together(n, node)]
            return getattr(c, choose(("add", "sub", "maximum")))(node, choose(others))
        if kind == "limit":
            return c.maximum(c.minimum(node, 3), -3)
        if kind == "neg":
            return c.neg(node)
        if kind == "permute":
            return c.permute(node, tuple(self.rng.sample(list(dims), meta.ndim)))
        dim = choose(dims)
        some = tuple(sorted(self.rng.sample(list(dims), self.rng.randint(1, meta.ndim))))
        small = c.maximum(c.minimum(node, 1), -1)  # so that sums stay exact
        if kind == "slice":
            return c.slice(node, dim, self.rng.randint(0, 1), None, self.rng.randint(1, 2))
        if 0 in meta.shape:
            return node
        if kind == "turned":
            node = choose((node, nodes[1]))
            over = c.permute(node, tuple(reversed(range(node.val.ndim))))
            return c.add(over, nodes[0]) if _together(over, nodes[0]) else over
        if kind == "weighted":  # each row by a number of its own, then the rows together
            first = c.slice(node, meta.ndim - 1, 0, 1)
            return c.sum(c.mul(small, c.maximum(c.minimum(first, 1), -1)), (0,))
        if kind in ("sum", "amax", "any"):
            return getattr(c, kind)(small, some, self.rng.random() < 0.5)
        if kind == "argmax":
            return c.argmax(node, dim, self.rng.random() < 0.5)
        if kind == "cumsum":
            return c.cumsum(small, dim)
        if kind == "gather":  # each element's mirror along a dimension, or one place for all
            at = c.iota(meta.shape[dim], 0, 1, dt.int64, meta.device)
            view = tuple(-1 if d == dim else 1 for d in dims)
            at = c.expand(c.reshape(c.sub(-1, at), _sized(view, meta.shape[dim])), tuple(meta.shape))
            return c.gather(node, dim, at)
        if kind == "scatter":  # each element to its place, counted in halves: two to one
            size = meta.shape[dim]
            at = c.bitwise_right_shift(c.iota(size, -size, 1, dt.int64, meta.device), 1)
            at = c.expand(
                c.reshape(at, _sized(tuple(-1 if d == dim else 1 for d in dims), size)), tuple(meta.shape)
            )
            return c.scatter_add(c.full(tuple(meta.shape), 0, meta.dtype, meta.device), dim, at, small)
        total = (c.amax if kind == "centre" else c.sum)(small, some, True)
        return c.sub(small, total)


def _sized(view: tuple[int, ...], size: int) -> tuple[int, ...]:
    return tuple(size if n == -1 else n for n in view)


def _together(a: Any, b: Any) -> bool:
    try:
        return int(np.prod(np.broadcast_shapes(a.val.shape, b.val.shape))) <= 2 * LARGEST
    except ValueError:
        return False


def run_one(seed: int, compiles: bool = False) -> str:
    """ "" where the program is right, else what is wrong with it."""
    maker, again = Maker(seed), Maker(seed)
    arrays = maker.inputs()
    graph = trace(maker.program, *arrays)
    want = interpreter(graph)(*arrays)
    if seed % 2:
        metas = [meta_of_array(a).with_(device=CUDA) for a in again.inputs()]
        graph = trace(again.program, *metas)
    if any(np.abs(w.astype(float)).max(initial=0) > DEEPEST for w in want):
        return ""
    where = f"seed {seed}: {', '.join(f'{a.dtype}{a.shape}' for a in arrays)}: {' '.join(maker.said)}"
    try:
        with small_blocks():
            program = emit(schedule(fuse(lower(graph)), TRITON), TRITON)
        got = run_in_interpreter(program, arrays)
        if compiles:
            compile_to_ptx(program)
    except Exception as error:
        return f"{where}\n    {type(error).__name__}: {str(error).splitlines()[0][:300]}"
    for k, (a, b) in enumerate(zip(got, want, strict=True)):
        a, b = np.asarray(a), np.asarray(b)
        if a.shape != b.shape or a.dtype != b.dtype or not np.array_equal(a, b):
            bad = np.argwhere(a != b)[:1].tolist() if a.shape == b.shape else ""
            return f"{where}\n    output {k}: {a.dtype}{a.shape}, expected {b.dtype}{b.shape}; first at {bad}"
    return ""


def _run(task: tuple[int, bool]) -> tuple[int, str]:
    return task[0], run_one(*task)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument(
        "--compile", type=int, default=50, help="of one program in so many kernels are compiled"
    )
    parser.add_argument("--report", default="")
    options = parser.parse_args()
    begun = time.perf_counter()
    tasks = [(options.seed + k, k % options.compile == 0) for k in range(options.programs)]
    with ProcessPoolExecutor(options.jobs) as pool:
        found = [said for _, said in pool.map(_run, tasks, chunksize=16) if said]
    lines = [
        heading(
            "Random programs as Triton kernels with small blocks, against eager",
            f"python -m stage3_lowering.tests.triton_fuzz --programs {options.programs}",
            options.seed,
            "triton",
        ),
        f"{options.programs} programs, {len(found)} differ, {time.perf_counter() - begun:.0f} s",
        *(
            f"    {n} {what}"
            for what, n in Counter(f.splitlines()[1].strip()[:60] for f in found).most_common()
        ),
        *found[:20],
    ]
    text = "\n".join(lines) + "\n"
    sys.stdout.write(text)
    if options.report:
        Path(options.report).write_text(text)


if __name__ == "__main__":
    main()
