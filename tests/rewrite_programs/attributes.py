"""The attribute space of each operator that a rewrite table knows, as forms: a text with its attributes drawn.

Input: a random generator and a tensor, for its shape. Each form is a statement's right side over T (the tensor whose
rewrite is asked for) and U (another value). Attributes that leave the shape as it was are drawn as often as others:
there a rewrite is tempted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

NUMBERS = ("0", "1", "-1", "2", "0.5", "0.0", "-0.0", "1.0", "True", "float('inf')", "float('nan')")
FLOATS = ("float64", "float32", "float16", "bfloat16")
INTEGERS = ("int64", "int32", "int16", "int8", "uint8")
DTYPES = (*FLOATS, *INTEGERS, "bool")


class Draw:
    """Draws attributes that fit one tensor."""

    def __init__(self, rng: random.Random, shape: Sequence[int], open_batch: bool) -> None:
        self.rng, self.shape, self.open_batch = rng, tuple(shape), open_batch

    def among(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def number(self) -> str:
        return self.among(*NUMBERS)

    def dim(self) -> int:
        return self.rng.randrange(-self.ndim, self.ndim) if self.ndim else self.among(0, -1)

    def size(self, dim: int) -> int:
        return self.shape[dim] if self.ndim else 1

    def dims(self) -> tuple[int, ...]:
        """Some dimensions, each once, in any order, counted from either end."""
        some = self.rng.sample(range(self.ndim), self.rng.randint(0, self.ndim))
        return tuple(d - self.ndim if self.rng.random() < 0.4 else d for d in some)

    def permutation(self) -> tuple[int, ...]:
        order = self.rng.sample(range(self.ndim), self.ndim)
        return tuple(d - self.ndim if self.rng.random() < 0.3 else d for d in order)

    def pad(self) -> tuple[int, int]:
        """Nothing, more, less, or both so that the size stays."""
        n = self.rng.randint(1, 2)
        return self.among((0, 0), (n, -n), (-n, n), (n, 0), (0, n), (-n, 0), (0, -n), (n, 1), (-1, -1))

    def pads(self) -> tuple[int, ...]:
        return tuple(n for _ in range(self.rng.randint(1, max(self.ndim, 1))) for n in self.pad())

    def bound(self, size: int) -> str:
        n = self.rng.randint(-size - 1, size + 1)
        return self.among("", "", str(n), str(n), "0", str(size) if not self.open_batch else "")

    def part(self, size: int) -> str:
        step = self.among("", "", "", ":1", ":2", ":3")
        return f"{self.bound(size)}:{self.bound(size)}{step}"

    def index(self) -> str:
        parts = [
            self.among(
                self.part(s),
                self.part(s),
                ":",
                "None, :",
                "...",
                str(self.rng.randint(-s, s - 1)) if s else ":",
            )
            for s in self.shape[: self.rng.randint(1, max(1, self.ndim))]
        ]
        while parts.count("...") > 1:
            parts.remove("...")
        return ", ".join(parts or ["..."])

    def window(self, dim: int) -> tuple[int, int, int]:
        """start, stop, step along a dimension, within it or not."""
        size = self.size(dim)
        return self.rng.randint(-size, size), self.rng.randint(-1, size + 1), self.among(1, 1, 1, 2)

    def factors(self) -> str:
        """A shape with as many elements; for an open batch the first size is asked of the tensor."""
        if self.open_batch and self.ndim:
            return self.among(
                "T.shape[0], -1", "-1", "T.shape[0], 1, -1", "*T.shape", "1, *T.shape", "*T.shape, 1"
            )
        count, made = 1, []
        for s in self.shape:
            count *= s
        for n in (2, 3, 2, 5):
            if count and count % n == 0 and self.rng.random() < 0.6:
                made.append(n)
                count //= n
        made.append(self.among(count, -1 if count else count))
        self.rng.shuffle(made)
        return self.among(", ".join(map(str, made)), "-1" if count else "*T.shape", "*T.shape")

    def larger(self) -> str:
        """A shape to expand to."""
        sizes = [self.among(-1, s) if s != 1 else self.among(1, -1, 3) for s in self.shape]
        if self.open_batch:
            sizes = [-1 if s != 1 else s for s in sizes]
        front = self.among([], [], [2], [1], [2, 1])
        return str((*front, *sizes)) if front else str(tuple(-1 if self.open_batch else s for s in sizes))

    def dtype(self) -> str:
        return self.among(*DTYPES)

    def cast(self) -> str:
        """A cast of values that every dtype holds: what the others become is for the table of casts to say."""
        return f".to(torch.{self.dtype()})"

    def full(self) -> str:
        shape = self.among("()", "(1,)", "(0,)", "T.shape", "(2, 1)", "T.shape[-1:]")
        value = self.among("0", "1", "2", "-1", "3")
        dtype = self.among("float64", "float32", "float16", "int64", "int32")
        return f"torch.full({shape}, {value}, dtype=torch.{dtype})"


Form = Callable[[Draw], str]
SMALL = "T.double().nan_to_num(1, 2, 3).clamp(0, 100)"


def _scattered(d: Draw) -> str:
    """A write to a part and a read of the same part or another, or a second write."""
    dim = d.dim()
    start, stop, step = d.window(dim)
    here = f"{dim}, {start}, {stop}, {step}"
    there = here if d.among(0, 0, 1) else f"{dim}, {', '.join(map(str, d.window(dim)))}"
    source = f"sliced(T, {here}).sin()" if d.among(0, 1) else f"sliced(T, {here})"
    write = f"T.slice_scatter({source}, {here})"
    return d.among(
        write, f"sliced({write}, {there})", f"{write}.slice_scatter(sliced(T, {there}) * 2, {there})"
    )


def _joined(d: Draw) -> str:
    """Parts of T that are joined again: all, some, out of order, with gaps, or beside U."""
    dim = d.dim()
    cut, size = d.rng.randint(0, d.size(dim)), d.size(dim)
    low, high = f"sliced(T, {dim}, 0, {cut})", f"sliced(T, {dim}, {cut}, None)"
    again = d.rng.randint(0, size)
    parts = d.among(
        (low, high), (high, low), (low, high, low), (low, f"sliced(T, {dim}, {again}, None)"), ("T",), ("T", "T"),
        (f"sliced(T, {dim}, {cut}, {cut})", "T"), (f"torch.cat([{low}, {high}], {dim})", "T.sin()"),
        (f"sliced(T, {dim}, 0, None, 2)", f"sliced(T, {dim}, 1, None, 2)"), (f"torch.cat([T, T.sin()], {dim})", "T"),
        ("T", "T.double()"), ("T.sin()", "T.to(torch.float32)"),
    )  # fmt: skip
    whole = f"torch.cat([{', '.join(parts)}], {d.among(dim, dim - d.ndim if dim >= 0 and d.ndim else dim)})"
    start, stop, step = d.window(dim)
    return d.among(
        whole, whole, f"sliced({whole}, {dim}, {start}, {stop}, {step})", f"sliced({whole}, {dim}, 0, {size})"
    )


def _arithmetic(d: Draw) -> str:
    n, m = d.number(), d.among("0", "1", "-1", "2", "0.5", "-0.0")
    return d.among(
        f"T + {n}", f"{n} + T", f"T - {n}", f"{n} - T", f"T * {n}", f"{n} * T", f"T / {m}", f"T ** {m}", f"T // {m}",
        f"T % {m}", f"torch.add(T, U, alpha={m})", f"torch.sub(T, U, alpha={m})", f"torch.rsub(T, U, alpha={m})",
        f"T.addcmul(T, U, value={m})", f"T.addcdiv(T, U.abs() + 1, value={m})", f"torch.lerp(T, U, {m})", "-(-T)", "T + T",
        f"torch.div(T, {d.among('1', '2', '-1')}, rounding_mode={d.among('None', repr('floor'), repr('trunc'))})",
        "~~(T > 0)", "torch.logical_not(torch.logical_not(T))", "torch.logical_not(torch.logical_not(T > 0))",
        f"torch.where(T > {m}, T, T)", f"torch.where(T > {m}, T, {n})", f"torch.where(U > {m}, {n}, T)", "-(-(-T))",
        f"T.clamp({d.among('None', '-1', '0')}, {d.among('1', '2')})", f"T * torch.tensor({m})", "torch.neg(T).neg()",
        f"T + torch.zeros_like({d.among('T', 'U')})", "T * torch.ones_like(T)", "T - torch.zeros(())", "T.pow(1).pow(1)",
        "T - T", "T * 0", "T / T", "torch.where(T > 0, T, U)", "torch.where(U != U, T, U)", "T.exp().log()", "T.abs().sqrt()",
    )  # fmt: skip


FORMS: dict[str, Form] = {
    "pad": lambda d: f"F.pad(T, {d.pads()}, value={d.among('0', '1.5', '-0.0', '2')})",
    "slice": lambda d: f"T[{d.index()}]",
    "narrow": lambda d: (lambda i: f"T.narrow({i}, {d.rng.randint(0, 1)}, {d.rng.randint(0, d.size(i))})")(d.dim()),
    "flip": lambda d: f"T.flip({d.dims()})",
    "roll": lambda d: (lambda dims: f"T.roll({tuple(d.rng.randint(-4, 4) for _ in dims)}, {dims})" if dims else "T.roll(1)")(d.dims()),
    "permute": lambda d: f"T.permute({d.permutation()})" + d.among("", f".permute({d.permutation()})"),
    "transpose": lambda d: f"T.transpose({d.dim()}, {d.dim()})" + d.among("", ".contiguous()", f".transpose({d.dim()}, {d.dim()})"),
    "reshape": lambda d: f"T.reshape({d.factors()})" + d.among("", ".reshape(T.shape)", ".reshape(-1)", ".unsqueeze(0).reshape(T.shape)"),
    "flatten": lambda d: f"T.flatten({d.dim()}, {d.dim()})",
    "expand": lambda d: f"T.expand({d.larger()})" + d.among("", ".expand(2, *T.shape)", ".sum(0)"),
    "expand_as": lambda d: f"T.{d.among('unsqueeze', 'unsqueeze', 'squeeze')}({d.dim()})" + d.among("", ".expand_as(U)", f".squeeze({d.dim()})"),
    "diagonal": lambda d: f"T.diagonal({d.rng.randint(-2, 2)}, {d.dim()}, {d.dim()})",
    "unfold": lambda d: f"T.unfold({d.dim()}, {d.rng.randint(1, 3)}, {d.rng.randint(1, 3)})",
    "select": lambda d: (lambda i: f"T.select({i}, {d.among(0, -1)})")(d.dim()) + d.among("", f".unsqueeze({d.dim()})"),
    "split": lambda d: f"T.{d.among('split', 'chunk', 'tensor_split')}({d.rng.randint(1, 3)}, {d.dim()})[{d.among(0, -1)}]",
    "written": _scattered,
    "diagonal written": lambda d: f"T.diagonal_scatter(T.diagonal({(n := d.rng.randint(-1, 1))}) * {d.among('2', '0', '1')}, {n})",
    "one written": lambda d: (lambda i: f"T.select_scatter(T.select({i}, 0).cos(), {i}, {d.among(0, -1)})")(d.dim()),
    "joined": _joined,
    "stacked": lambda d: f"torch.stack([T, {d.among('T', 'T.sin()', 'T * 1')}], {d.among(0, -1, 1)})" + d.among("", "[0]", "[..., 1]", ".sum(0)"),
    "arithmetic": _arithmetic,
    "cast": lambda d: f"{SMALL}{d.cast()}{d.cast()}{d.among('', d.cast())}",
    "cast back": lambda d: f"T{d.among('.double()', '.float()', '.half()', '.bfloat16()')}.to(T.dtype)",
    "same": lambda d: d.among("T.detach()", "T.clone()", "T.contiguous()", "T.to(T.dtype)", "T.to(T.device)", "T.clone().mul(1)", "T.view_as(T)"),
    "constants": lambda d: f"T {d.among('+', '*', '-')} {d.full()} {d.among('+', '*', '-')} ({d.full()} {d.among('+', '*', '-', '//', '%')} {d.full()})",
    "constants alone": lambda d: f"({d.full()} {d.among('+', '*', '-', '/', '<', '==')} {d.full()}){d.among('', d.cast(), ' + T', ' * T')}",
    "reduced": lambda d: f"T.{d.among('sum', 'mean', 'amax', 'amin')}({d.dims() or d.dim()}, {d.among(True, False)})",
    "scanned": lambda d: f"T.{d.among('cumsum', 'cumprod', 'logcumsumexp')}({d.dim()})",
    "triangle": lambda d: f"T.{d.among('tril', 'triu')}({d.rng.randint(-2, 2)})",
    "repeated": lambda d: f"T.repeat({', '.join(str(d.rng.randint(1, 2)) for _ in range(max(1, d.ndim)))})" + d.among("", f".narrow({d.dim()}, 0, 1)"),
    "picked": lambda d: f"T.index_select({d.dim()}, torch.tensor({d.among([0], [0, 0], [-1 + 1])}))",
    "product": lambda d: d.among("T @ T.mT", "T.mT @ T", "T @ U", "F.linear(T, T)", "torch.softmax(T @ T.mT, -1) @ T",
                                 f"torch.addmm(T, T, T, beta={d.among(0, 1, 2)}, alpha={d.among(0, 1, -1)})",
                                 f"torch.baddbmm(T, T, T.mT @ T, beta={d.among(0, 1)}, alpha={d.among(1, 2)})"),
    "twice": lambda d: (lambda one: f"{one} {d.among('+', '-', '*')} {one}")(f"F.pad(T, {d.pads()})"),
    "other pads": lambda d: f"F.pad(T, {tuple(d.rng.randint(-1, 1) for _ in range(2 * d.rng.randint(1, 2)))}, mode={d.among('reflect', 'replicate', 'circular')!r})",
}  # fmt: skip
# How the result meets its operand again. With shapes that do not broadcast, a number of T's does.
MEETINGS = (
    "T * V", "V * T", "T + V", "V - T", "torch.where(T > 0, T, V)", "torch.maximum(T, V)", "T * T.sum() + V", "V * T.cos()",
    "V * T.sum()", "T.sum() - V", "torch.cat([T.reshape(-1), V.reshape(-1)])", "V.sin() * T.amax()", "T.exp() * V.sum()",
)  # fmt: skip
