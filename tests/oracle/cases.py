"""A case is a row's sample in one dtype, layout and kind of values; here it becomes arrays, and calls.

Input: spec.py's rows. Drawing is seeded by the case's own name, so a case is the same whatever else runs.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from cutaway.nn import functional as F

import cutaway as ct
from stage0_eager.table.registry import TABLE
from stage0_eager.tensor import Tensor
from stage_contracts import dtype as dt
from stage_contracts.dtype import DTYPES, FLOATING, DType
from tests.oracle import edges, layouts
from tests.oracle.spec import Operand, Row, Sample

SEED = 20240607


def map_leaves(tree: Any, function: Callable, kind: type) -> Any:
    """`tree` with `function` applied to every leaf of type `kind`; named tuples become tuples."""
    if isinstance(tree, kind):
        return function(tree)
    if isinstance(tree, (list, tuple)):
        return (list if isinstance(tree, list) else tuple)(map_leaves(t, function, kind) for t in tree)
    if isinstance(tree, dict):
        return {key: map_leaves(t, function, kind) for key, t in tree.items()}
    return tree


def leaves(tree: Any, kind: type = object) -> list:
    """The leaves of nested lists, tuples and dicts, those of one type."""
    if isinstance(tree, dict):
        return leaves(list(tree.values()), kind)
    if isinstance(tree, (list, tuple)):
        return [leaf for t in tree for leaf in leaves(t, kind)]
    return [tree] if isinstance(tree, kind) else []


@dataclass(frozen=True)
class Case:
    row: Row
    index: int  # of the sample
    dtype: str
    layout: str = "contiguous"
    edge: str | None = None  # "walk", or a kind of edges.PLANTED
    draw: int = 0  # another draw of the same: vmap needs several

    def __str__(self) -> str:
        return f"sample {self.index}, {self.dtype}, {self.layout}" + (f", {self.edge}" if self.edge else "")

    @property
    def sample(self) -> Sample:
        return self.row.samples[self.index]

    def arrays(self) -> tuple[tuple, dict]:
        """(args, kwargs) with a fresh array for each operand."""
        name = self.row.in_place_of or self.row.name
        rng = np.random.default_rng([SEED, self.draw, zlib.crc32(f"{name} {self}".encode())])
        place = iter(range(100))
        draw = lambda operand: self._array(operand, rng, next(place))  # noqa: E731
        return map_leaves(self.sample.args, draw, Operand), map_leaves(self.sample.kwargs, draw, Operand)

    def _array(self, operand: Operand, rng: np.random.Generator, place: int) -> np.ndarray:
        dtype = DTYPES[operand.dtype or self.dtype]
        if self.edge in ("walk", "moderate") and operand.values is None:
            count = len(leaves((self.sample.args, self.sample.kwargs), Operand))
            return _walked(operand, edges.walk(dtype.name, self.edge == "walk"), rng, place, count)
        shape = layouts.SHAPES[self.layout](operand.shape) if self.layout in layouts.SHAPES else operand.shape
        array = _drawn(operand, shape, dtype, rng)
        if self.edge in edges.PLANTED and dtype.is_differentiable:
            array = edges.plant(self.edge, array, rng)
        return layouts.lay_out(self.layout, array)


def _drawn(operand: Operand, shape: tuple, dtype: DType, rng: np.random.Generator) -> np.ndarray:
    if operand.values is not None:
        return np.array(operand.values).astype(dtype.numpy)
    if dtype.is_complex:
        parts = [_drawn(replace(operand, law=None), shape, dt.real_of(dtype), rng) for _ in range(2)]
        array = parts[0] + 1j * parts[1]
        return np.asarray(operand.law(array) if operand.law else array).astype(dtype.numpy)
    size = int(np.prod(shape))
    if dtype.category == FLOATING:
        flat = np.linspace(operand.low, operand.high, size) if operand.distinct else None
        array = rng.permutation(flat) if flat is not None else rng.uniform(operand.low, operand.high, size)
    elif dtype.name == "bool":
        array = rng.random(size) < 0.5
    else:
        low, high = operand.ints or (int(np.ceil(operand.low)), int(np.floor(operand.high)))
        low, high = max(low, int(dtype.limits[0])), min(high, int(dtype.limits[1]))  # type: ignore[index]
        array = rng.permutation(size) if operand.distinct else rng.integers(low, max(high, low) + 1, size)
        array = np.where(array == 0, max(1, low), array) if operand.nonzero else array
    array = np.asarray(array).reshape(shape)
    return np.asarray(operand.law(array) if operand.law else array).astype(dtype.numpy)


def _walked(operand: Operand, values: np.ndarray, rng: Any, place: int, operands: int) -> np.ndarray:
    """Operand 0 runs through the edge values, operand 1 through them for each of those, others at random."""
    length = 32 if operands == 1 else 32 * 32
    if values.dtype.kind in "iu":
        low, high = operand.ints or (-np.inf, np.inf)
        values = np.array(
            [v for v in values if low <= v <= high and (v or not operand.nonzero)], values.dtype
        )
    steps = np.arange(length) // 32**place if place < 2 else rng.integers(0, 1000, length)
    return values[steps % len(values)]


# ---- calls ----------------------------------------------------------------------------------------------------


def function_of(name: str) -> Any:
    """The operator a row names: of the table, of the package, of nn.functional, or a method."""
    for home in (F, ct, Tensor):
        if f"cutaway.{name}" in TABLE:
            return TABLE[f"cutaway.{name}"]
        if name in vars(home):
            return vars(home)[name]
    raise LookupError(f"no operator, function or method is called {name}")


def call(name: str, args: tuple, kwargs: dict) -> Any:
    """The function on arrays or tensors; one that gives None (setitem) has written its first operand."""
    args, kwargs = tensors(args), tensors(kwargs)
    out = function_of(name)(*args, **kwargs)
    return args[0] if out is None else out


def tensors(tree: Any) -> Any:
    return map_leaves(tree, Tensor, np.ndarray)


_WIDEST = {"i": np.int64, "u": np.int64, "c": np.complex128}


def as_reference(tree: Any) -> Any:
    """Arrays as the reference takes them: float64, int64 or bool."""
    return map_leaves(
        tree,
        lambda a: a if a.dtype == bool else a.astype(_WIDEST.get(a.dtype.kind, np.float64)),
        np.ndarray,
    )


# ---- which cases there are -------------------------------------------------------------------------------------


def forward_cases(row: Row, full: bool) -> Iterator[Case]:
    """Every sample in every dtype; every layout and edge in one float and one integer dtype at least."""
    samples = range(len(row.samples))
    seen: set[str] = set()

    def once(case: Case) -> Iterator[Case]:
        if str(case) not in seen:
            seen.add(str(case))
            yield case

    names = row.dtypes if full else row.dtypes[:1]
    for i in samples:
        for dtype in names:
            yield from once(Case(row, i, dtype))
    chosen = [d for d in ("float32", "int64", "bool") if d in row.dtypes][:2] or [row.dtypes[0]]
    kinds = layouts.LAYOUTS if full else ("transposed", "backwards")
    for layout in kinds:
        if (layout == "broadcast" and row.in_place_of) or layout not in (row.layouts or layouts.LAYOUTS):
            continue  # (written elements share storage: refused)
        for i in samples if full else (0,):
            for dtype in chosen if full else chosen[:1]:
                yield from once(Case(row, i, dtype, layout))
    if row.elementwise:
        for layout in layouts.SHAPES:
            yield from once(Case(row, 0, row.dtypes[0], layout))
    if row.edges and row.elementwise:
        for dtype in row.dtypes if full else chosen:
            yield from once(Case(row, 0, dtype, edge="walk"))
    elif row.edges:
        for edge in edges.PLANTED if full else ("NaN", "both infinities"):
            for i in samples if full else (0,):
                for dtype in [d for d in row.dtypes if d.startswith("float")][: 3 if full else 1]:
                    yield from once(Case(row, i, dtype, edge=edge))


def moderate_cases(row: Row, full: bool) -> Iterator[Case]:
    """As forward_cases, without denormals and the largest floats: torch's vectorised kernels flush and overflow."""
    for case in forward_cases(row, full):
        yield replace(case, edge="moderate") if case.edge == "walk" else case


def double_cases(row: Row, full: bool) -> Iterator[Case]:
    """Every sample in float64: what finite differences need."""
    if "float64" in row.dtypes:
        for i in range(len(row.samples)) if full else (0, len(row.samples) // 2):
            yield Case(row, i, "float64")


def plain_cases(row: Row, full: bool) -> Iterator[Case]:
    """Each sample once, in the row's first dtype."""
    for i in range(len(row.samples)) if full else (0,):
        yield Case(row, i, row.dtypes[0])
