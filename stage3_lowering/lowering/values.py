"""Values and views: how lowering represents the result of a graph node before anything is computed.

Input: metas and buffers, from lower.py. A view is never a copy: it is another index map onto the same buffer. An
element is emitted only when a loop nest reads it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import sympy

from stage_contracts import dtype as dt
from stage_contracts.core_metas import wrap_dim
from stage_contracts.dtype import DType
from stage_contracts.index_expr import FloorDiv, Mod, split_multiple, symbol
from stage_contracts.layouts import view_strides
from stage_contracts.loop_ir import BufferRef, Instr, Value
from stage_contracts.origin import Origin
from stage_contracts.size_vars import never_below, plain
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides

Index = tuple[Any, ...]  # one sympy expression per dimension


def computed(dtype: DType) -> DType:
    """What arithmetic on `dtype` is done in: half precision in float32, then rounded, as in eager."""
    return dt.float32 if is_half(dtype) else dtype


def is_half(dtype: DType) -> bool:
    return dtype in (dt.float16, dt.bfloat16)


class Body:
    """The instructions of one loop nest while it is written. `fresh` gives names unique in the whole
    graph."""

    def __init__(self, fresh: Callable[[str], str], sizes: dict[Any, Any]) -> None:
        self.instructions: list[Instr] = []
        self.known: dict[Any, Value] = {}  # (node, index, mask) -> the element, written once
        self.mask: Value | None = None  # where false, what is written has no use: loads read nothing
        self.halves: dict[tuple[Value, DType], Value] = {}  # a float32 value that a half holds -> the half
        self.fresh, self.sizes = fresh, sizes
        self.origins: tuple[Origin, ...] = ()  # of the instructions that are being written
        self.all_origins: dict[Origin, None] = {}

    def emit(self, op: str, args: Sequence[Any], dtype: DType, name: str = "") -> Value:
        """Append `name = ops.op(*args)` and give the value's name."""
        value = Value(self.fresh(name or op))
        self.instructions.append(Instr(value, op, tuple(args), dtype, self.origins))
        self.all_origins |= dict.fromkeys(self.origins)
        return value

    def load(self, buffer: str, index: Any, dtype: DType) -> Value:
        mask = () if self.mask is None else (self.mask,)
        value = self.emit("load", (buffer, simplify(index, self.sizes), *mask), dtype, f"{buffer}_val")
        return self.widened(value, dtype) if is_half(dtype) else value

    def widened(self, half: Value, dtype: DType) -> Value:
        wide = self.emit("cast", (half, dt.float32), dt.float32, f"{half}_float32")
        self.halves[wide, dtype] = half
        return wide

    def narrowed(self, value: Value, dtype: DType) -> Value:
        """A float32 value as a half: rounded, or the half it was made from."""
        known = self.halves.get((value, dtype))
        return known or self.emit("cast", (value, dtype), dtype, f"{value}_{dtype.name}")

    def rounded(self, value: Value, dtype: DType, asked: bool = False) -> Value:
        """A float32 value, rounded to what a half can hold. `asked`: by a cast of the user's, which its name shows."""
        if (value, dtype) in self.halves or not is_half(dtype):
            return value
        if not asked:
            return self.widened(self.narrowed(value, dtype), dtype)
        half = self.emit("cast", (value, dtype), dtype, f"{value}_to_{dtype.name}")
        return self.widened(half, dtype)

    def store(self, buffer: str, index: Any, value: Value) -> None:
        self.instructions.append(Instr("", "store", (buffer, simplify(index, self.sizes), value), None))

    def at_place(self, op: str, buffer: str, index: Any, value: Value, start: str) -> None:
        """One of loop_ir.AT_PLACES."""
        self.instructions.append(Instr("", op, (buffer, simplify(index, self.sizes), value, start), None))


@dataclass(frozen=True)
class Lazy:
    """A tensor as lowering sees it.

    `fetch(body, index)` writes the instructions that give the element at `index` (one expression per
    dimension), in the dtype that arithmetic is done in. `ref` is set where the tensor is a strided view of a
    buffer, so that a library can be handed it as it is.
    """

    meta: TensorMeta
    fetch: Callable[[Body, Index], Value]
    ref: BufferRef | None = None
    size: int = 1  # instructions that `fetch` writes
    cost: int = 1  # what they cost, in additions
    reads: frozenset[str] = frozenset()  # the buffers they read an element of for each element
    flat_of: Lazy | None = None  # the tensor whose elements, in row-major order, these are: before a reshape


def strided(name: str, meta: TensorMeta, strides: Sequence[Any], offset: Any = 0) -> Lazy:
    """A tensor that is a strided view of the buffer `name`."""

    def fetch(body: Body, index: Index) -> Value:
        if 0 in meta.shape:  # no element is ever read, but a load moved before its loop would be done
            return body.emit("constant", (meta.dtype.numpy.type(0).item(),), computed(meta.dtype))
        return body.load(name, offset + dot(strides, index), meta.dtype)

    many = frozenset([name]) if 0 not in strides and meta.ndim > 1 else frozenset()
    return Lazy(meta, fetch, BufferRef(name, meta.shape, tuple(strides), offset), reads=many)


def dot(strides: Sequence[Any], index: Index) -> Any:
    return sum((s * i for s, i in zip(strides, index, strict=True)), sympy.Integer(0))


# ---- views: each gives (where in the input an element is, the strided form if there is one) ----------


def broadcast(value: Lazy, shape: Sequence[int], index: Index) -> Index:
    """Where in `value` the element `index` of a result of `shape` comes from: right-aligned, size 1
    repeats."""
    own = index[len(shape) - value.meta.ndim :]
    return tuple(i if size != 1 else sympy.Integer(0) for i, size in zip(own, value.meta.shape, strict=True))


def view(kind: str, source: Lazy, meta: TensorMeta, args: dict[str, Any]) -> Lazy:
    """The result of a view operator. `args` are its arguments by name, without the tensor."""
    index_map, ref_map = VIEWS[kind](source.meta, meta, args)

    def fetch(body: Body, index: Index) -> Value:
        return source.fetch(body, tuple(simplify(i, body.sizes) for i in index_map(index)))

    moved = ref_map(source.ref.strides) if source.ref is not None else None
    if source.ref is None or moved is None:  # not expressible with strides: only the index map is left
        return replace(
            source, meta=meta, fetch=fetch, ref=None, flat_of=source if kind == "reshape" else None
        )
    strides, skipped = moved
    return strided(source.ref.name, meta, strides, source.ref.offset + skipped)


def _permute(source: TensorMeta, meta: TensorMeta, args: dict[str, Any]) -> tuple:
    dims = [wrap_dim(d, source.ndim) for d in args["dims"]]
    return (
        lambda index: tuple(index[dims.index(d)] for d in range(source.ndim)),
        lambda strides: ([strides[d] for d in dims], 0),
    )


def _expand(source: TensorMeta, meta: TensorMeta, args: dict[str, Any]) -> tuple:
    new = meta.ndim - source.ndim
    kept = [size == meta.shape[new + d] or size != 1 for d, size in enumerate(source.shape)]
    return (
        lambda index: tuple(
            i if same else sympy.Integer(0) for i, same in zip(index[new:], kept, strict=True)
        ),
        lambda strides: ([0] * new + [s if same else 0 for s, same in zip(strides, kept, strict=True)], 0),
    )


def _slice(source: TensorMeta, meta: TensorMeta, args: dict[str, Any]) -> tuple:
    dim, step = wrap_dim(args["dim"], source.ndim), args["step"]
    start = args["start"]  # clamped by placement.py

    def strides_of(strides: Sequence[int]) -> tuple:
        return [s * step if d == dim else s for d, s in enumerate(strides)], start * strides[dim]

    return (
        lambda index: tuple(start + i * step if d == dim else i for d, i in enumerate(index)),
        strides_of,
    )


def _reshape(source: TensorMeta, meta: TensorMeta, args: dict[str, Any]) -> tuple:
    """Row-major position under the new shape, taken apart again under the old one."""
    rows, old_rows = contiguous_strides(meta.shape), contiguous_strides(source.shape)

    def index_map(index: Index) -> Index:
        flat = dot(rows, index)
        return tuple(
            Mod(FloorDiv(flat, sympy.sympify(stride)), sympy.sympify(size if size != 0 else 1))
            for size, stride in zip(source.shape, old_rows, strict=True)
        )

    def strides_of(strides: Sequence[int]) -> tuple | None:
        found = view_strides(source.with_(strides=tuple(strides), shape=source.shape), meta.shape)
        return None if found is None else (found, 0)

    return index_map, strides_of


VIEWS: dict[str, Callable[[TensorMeta, TensorMeta, dict[str, Any]], tuple]] = {
    "permute": _permute,
    "expand": _expand,
    "slice": _slice,
    "reshape": _reshape,
}

# ---- index algebra -----------------------------------------------------------------------------------


def upper(index: Any, sizes: dict[Any, Any]) -> Any:
    """The largest value `index` takes when each variable v runs over 0..sizes[v]-1, or more than that.

    It is an expression where sizes are open (true whenever there is a point at all) or a value comes from data.
    """
    if index.is_Integer:
        return int(index)
    if index.is_Symbol:
        size = sizes.get(index)
        return index if size is None else max(size - 1, 0) if isinstance(size, int) else size - 1
    parts = [upper(a, sizes) for a in index.args]
    if isinstance(index, FloorDiv):
        return _floored(parts[0], plain(index.args[1]))
    if isinstance(index, Mod):
        least, divisor = parts[0], plain(index.args[1])
        known = isinstance(least, int) and isinstance(divisor, int)
        return min(least, divisor - 1) if known else divisor - 1
    if index.is_Add or index.is_Mul:
        total = sum(parts) if index.is_Add else math.prod(parts)
        return total if isinstance(total, int) else plain(sympy.expand(total))
    return index


def _floored(above: Any, divisor: Any) -> Any:
    """At least `above // divisor`."""
    if isinstance(above, int) and isinstance(divisor, int):
        return above // divisor
    whole, rest = split_multiple(sympy.expand(above), sympy.sympify(divisor))
    if rest.is_Integer and rest <= 0:
        return plain(whole - (1 if rest < 0 else 0))
    return plain(whole) if never_below(divisor, rest + 1) else above  # a divisor is at least 1


def _below(index: Any, limit: Any, sizes: dict[Any, Any]) -> bool:
    """Whether `index < limit` at every point."""
    return never_below(plain(limit), upper(index, sizes) + 1)


def simplify(index: Any, sizes: dict[Any, Any]) -> Any:
    """Drop the divisions and remainders that the variables' ranges make trivial."""
    index = sympy.sympify(index)
    if not index.has(FloorDiv, Mod):
        return sympy.expand(index)
    index = _cancelled(index.func(*(simplify(a, sizes) for a in index.args)), sizes)
    small = {q for q in index.atoms(FloorDiv, Mod) if _below(q.args[0], q.args[1], sizes)}
    return sympy.expand(
        index.xreplace({q: sympy.Integer(0) if isinstance(q, FloorDiv) else q.args[0] for q in small})
    )


def _cancelled(index: Any, sizes: dict[Any, Any]) -> Any:
    """(g*x + rest) divided by g*n, where the rest stays below g: x divided by n."""
    if not isinstance(index, (FloorDiv, Mod)) or not index.args[1].is_Integer:
        return index
    terms = [term.as_coeff_Mul() for term in sympy.Add.make_args(index.args[0])]
    divisor = int(index.args[1])
    common = {math.gcd(int(n), divisor) for n, _ in terms if n.is_Integer} - {1}
    for g in sorted(common, reverse=True) if all(n.is_Integer and n > 0 for n, _ in terms) else ():
        rest = sum((n * x for n, x in terms if n % g), sympy.Integer(0))
        if rest != 0 and _below(rest, g, sizes):
            x = sum((n / g * x for n, x in terms if not n % g), sympy.Integer(0))
            part = simplify(index.func(x, sympy.Integer(divisor // g)), sizes)
            return part if isinstance(index, FloorDiv) else g * part + rest
    return index


def loop_sizes(ranges: Sequence[Any], reduction_ranges: Sequence[Any] = ()) -> dict[Any, Any]:
    """Each loop variable with the number of values it takes."""
    named = {symbol(f"i{k}"): size for k, size in enumerate(ranges)}
    return named | {symbol(f"r{k}"): size for k, size in enumerate(reduction_ranges)}
