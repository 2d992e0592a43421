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
    picks = _Picks(
        node, state.meta(node), tuple(stride), {phase.first: (phase, value) for phase, value in made}
    )

    def once(body: Body, index: Index) -> Value:
        key = node, index, body.mask
        if key not in body.known:
            body.origins = node.origins
            body.known[key] = picks.pick(body, index, ()) or picks.zero(body)
        return body.known[key]

    parts = [value for _, value in made if value is not None]
    whole = Lazy(
        picks.meta,
        once,
        size=sum(part.size + 3 for part in parts) + 1,
        cost=sum(part.cost + 3 for part in parts) + 1,
        reads=frozenset().union(*(part.reads for part in parts)),
    )
    rule = why_realize(node, whole)
    return whole if rule is None else state.realize(node, whole, rule.code)


@dataclass(frozen=True)
class _Picks:
    """The phases by their first places; a place of the result picks its own along one dimension after the other."""

    node: Node
    meta: TensorMeta
    stride: tuple[int, ...]
    phases: dict[tuple[int, ...], tuple[Phase, Lazy | None]]

    def pick(self, body: Body, index: Index, first: tuple[int, ...]) -> Value | None:
        """The element, if its phase begins so; None where all phases that do are zeros."""
        dim = len(first)
        if dim == len(self.stride):
            return self._element(body, index, first)
        count = min(self.stride[dim], self.meta.shape[2 + dim])
        picked = [self.pick(body, index, (*first, k)) for k in range(count)]
        if not any(picked):
            return None
        element = picked[-1] or self.zero(body)
        for k in reversed(range(count - 1)):
            body.origins = self.node.origins
            words = self._is_of(body, index, dim, k), picked[k] or self.zero(body), element
            element = body.emit("where", words, self.meta.dtype, self.node.name)
        return element

    def _element(self, body: Body, index: Index, first: tuple[int, ...]) -> Value | None:
        """Of one phase. Only a phase that is shorter than another must not be read at a place of that one."""
        phase, value = self.phases[first]
        if value is None:
            return None
        longest = self.phases[(0,) * len(first)][0].sizes
        short = [d for d, size in enumerate(phase.sizes) if size != longest[d]]
        steps = map(sympy.Integer, self.stride)
        at = (*index[:2], *(FloorDiv(i, step) for i, step in zip(index[2:], steps, strict=True)))
        with under(body, [self._is_of(body, index, d, first[d]) for d in short]):
            return value.fetch(body, at)

    def _is_of(self, body: Body, index: Index, dim: int, first: int) -> Value:
        rest = Mod(index[2 + dim], sympy.Integer(self.stride[dim]))
        return compare(body, "eq", rest, sympy.Integer(first), self.stride[dim])

    def zero(self, body: Body) -> Value:
        return body.emit("constant", (0.0,), self.meta.dtype)
