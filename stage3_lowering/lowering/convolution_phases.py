"""A transposed convolution as plain ones of stride 1: one for each remainder that a place of its result leaves.

Input: sizes from convolution.py, and what it makes of each phase. With a stride of 2 the even places of the result see
other places of the kernel than the odd ones do, so each place is computed once and nothing is added up. Known as
sub-pixel convolution (Shi et al., CVPR 2016).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import sympy

from stage3_lowering.lowering.masked import compare, under
from stage3_lowering.lowering.realize import why_realize
from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Body, Index, Lazy, view
from stage_contracts.graph import Node
from stage_contracts.index_expr import FloorDiv, Mod
from stage_contracts.loop_ir import Value
from stage_contracts.tensor_meta import TensorMeta

MOST = 9  # phases: each is a product, and an element of the result is picked from all of them


@dataclass(frozen=True)
class Phase:
    """The places `stride * i + first` of the result, one of each per dimension: how many there are, which places of
    the kernel they see (first, step, count), and the padding and dilation of that plain convolution."""

    first: tuple[int, ...]
    sizes: tuple[int, ...]
    seen: tuple[tuple[int, int, int], ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]

    @property
    def is_zero(self) -> bool:
        """Whether its places see none of the kernel, so that they are 0."""
        return any(count == 0 for _, _, count in self.seen)


def phases(
    sizes: Sequence[int], kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int],
) -> list[Phase]:  # fmt: skip
    """Those with a place in a result of these sizes, the first place's first."""
    along = [
        [_phase(first, *of) for first in range(min(of[0], of[2]))]
        for of in zip(sizes, kernel, stride, padding, dilation, strict=True)
    ]
    return [Phase(*zip(*of, strict=True)) for of in product(*along)]


def _phase(first: int, size: int, kernel: int, stride: int, padding: int, dilation: int) -> tuple:
    """One dimension. Place k of the kernel adds x[i] to the result's place i * stride + k * dilation - padding."""
    rest = (first + padding) % stride
    seen = [k for k in range(kernel) if k * dilation % stride == rest]
    step = stride // math.gcd(stride, dilation)
    apart = step * dilation // stride  # of two places of x that a place of the result sees
    before = (first + padding - rest) // stride
    last = (seen[-1] * dilation - rest) // stride if seen else 0
    count = (size - first + stride - 1) // stride
    return first, count, (seen[0] if seen else 0, step, len(seen)), last - before, apart


def seen_of(w: Lazy, phase: Phase) -> Lazy:
    """The kernel's places that a phase sees."""
    for dim, (first, step, count) in enumerate(phase.seen, start=2):
        if (first, step, count) != (0, 1, w.meta.shape[dim]):
            shape = (*w.meta.shape[:dim], count, *w.meta.shape[dim + 1 :])
            meta = TensorMeta(shape, w.meta.dtype, device=w.meta.device)
            w = view("slice", w, meta, {"dim": dim, "start": first, "step": step})
    return w


def interleaved(
    state: State, node: Node, made: Sequence[tuple[Phase, Lazy | None]], stride: Sequence[int]
) -> Lazy:
    """The result: each place from the phase that it is of; None is a phase of zeros."""
    if len(made) == 1 and made[0][1] is not None:
        return made[0][1]
    meta = state.meta(node)
    values = {phase.first: value for phase, value in made}
    sizes = {phase.first: phase.sizes for phase, _ in made}
    most = sizes[(0,) * len(stride)]

    def fetch(body: Body, index: Index) -> Value:
        at = (*index[:2], *(FloorDiv(i, sympy.Integer(s)) for i, s in zip(index[2:], stride, strict=True)))

        def of_phase(dim: int, first: int) -> Value:
            rest = Mod(index[2 + dim], sympy.Integer(stride[dim]))
            return compare(body, "eq", rest, sympy.Integer(first), stride[dim])

        def pick(first: tuple[int, ...]) -> Value | None:
            """From the phases that begin so; None where all are zeros."""
            dim = len(first)
            if dim == len(stride):
                value = values[first]
                short = [
                    d for d, pair in enumerate(zip(sizes[first], most, strict=True)) if pair[0] != pair[1]
                ]
                if value is None:
                    return None
                with under(body, [of_phase(d, first[d]) for d in short]):
                    return value.fetch(body, at)
            picked = [pick((*first, k)) for k in range(min(stride[dim], meta.shape[2 + dim]))]
            *others, element = picked if any(v is not None for v in picked) else [None]
            for k, other in reversed([*enumerate(others)]):
                if other is not element:
                    body.origins = node.origins
                    pair = (
                        other if other is not None else zero(),
                        element if element is not None else zero(),
                    )
                    element = body.emit("where", (of_phase(dim, k), *pair), meta.dtype, node.name)
            return element

        def zero() -> Value:
            return body.emit("constant", (0.0,), meta.dtype)

        body.origins = node.origins
        element = pick(())
        return zero() if element is None else element

    def once(body: Body, index: Index) -> Value:
        key = node, index, body.mask
        if key not in body.known:
            body.known[key] = fetch(body, index)
        return body.known[key]

    parts = [value for value in values.values() if value is not None]
    whole = Lazy(
        meta,
        once,
        size=sum(part.size + 3 for part in parts) + 1,
        cost=sum(part.cost + 3 for part in parts) + 1,
        reads=frozenset().union(*(part.reads for part in parts)),
    )
    rule = why_realize(node, whole)
    return whole if rule is None else state.realize(node, whole, rule.code)
