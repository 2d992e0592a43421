"""Lowering of cat and constant_pad: each element from one of several places, loaded under a mask that says which.

Input: a node, and its arguments with a Lazy for each tensor. The result stays an expression, as pointwise results do:
what made the parts, and what reads the whole, share its loops. A mask keeps loads inside the part they are of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import sympy

from stage3_lowering.lowering.convolution_calls import following_moved
from stage3_lowering.lowering.pointwise import as_python, operand_element
from stage3_lowering.lowering.realize import is_short_cat, why_realize
from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Body, Index, Lazy, computed, loop_sizes
from stage_contracts import core_metas
from stage_contracts import dtype as dt
from stage_contracts.graph import Node
from stage_contracts.index_expr import FloorDiv, Mod, symbol
from stage_contracts.loop_ir import Value

INT32 = 1 << 31  # places below it are compared as 32-bit lanes, as many as there are floats


def cat(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    meta = state.meta(node)
    if not state.one_device(node) or not is_short_cat(node):
        return None
    dim = core_metas.wrap_dim(args["dim"], meta.ndim)
    parts = [part for part in args["tensors"] if part.meta.shape[dim] != 0]
    if not parts:
        return None
    parts = [_affine(state, node, part) for part in parts]
    ends = [sympy.Integer(0)]
    for part in parts:
        ends.append(ends[-1] + part.meta.shape[dim])

    def fetch(body: Body, index: Index) -> Value:
        """The last part's element, or one before it where the place is below that part's end."""
        value = None
        for k in reversed(range(len(parts))):
            first, last = k == 0, k == len(parts) - 1
            inside = [None if last else compare(body, "lt", index[dim], ends[k + 1], meta.shape[dim]),
                      None if first else compare(body, "ge", index[dim], ends[k], meta.shape[dim])]  # fmt: skip
            at = tuple(i - ends[k] if d == dim else i for d, i in enumerate(index))
            with under(body, inside):
                body.origins = node.origins
                element = operand_element(body, parts[k], meta.dtype, parts[k].meta.shape, at)
            body.origins = node.origins
            value = (
                element
                if value is None
                else body.emit("where", (inside[0], element, value), computed(meta.dtype), node.name)
            )
        assert value is not None
        return value

    return _masked(state, node, parts, fetch)


def may_pad(pad: Any) -> bool:
    """Whether the rule applies: not where the padding is known to crop, or to do nothing. For an open padding a mask is
    right in all cases."""
    return not sympy.sympify(pad).is_nonpositive


def constant_pad(state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    meta, source = state.meta(node), args["input"]
    if not meta.ndim or 0 in source.meta.shape:
        return None
    source = _affine(state, node, source)
    fill = as_python(args["value"], meta.dtype)

    def fetch(body: Body, index: Index) -> Value:
        inside = []
        for i, size, (before, after) in zip(index, meta.shape, args["pads"], strict=True):
            if may_pad(before):
                inside.append(compare(body, "ge", i, sympy.sympify(before), size))
            if may_pad(after):
                inside.append(compare(body, "lt", i, sympy.sympify(size - after), size))
        at = tuple(i - before for i, (before, _) in zip(index, args["pads"], strict=True))
        with under(body, inside) as mask:
            element = source.fetch(body, at)
        body.origins = node.origins
        if not inside:
            return element
        outside = body.emit("constant", (fill,), computed(meta.dtype))
        return body.emit("where", (mask, element, outside), computed(meta.dtype), node.name)

    return _masked(state, node, [source], fetch)


def _masked(state: State, node: Node, parts: Sequence[Lazy], fetch: Callable[[Body, Index], Value]) -> Lazy:
    def once(body: Body, index: Index) -> Value:
        key = node, index, body.mask
        if key not in body.known:
            body.known[key] = fetch(body, index)
        return body.known[key]

    meta = state.meta(node)
    value = Lazy(
        following_moved(meta, parts[0]) if len(parts) == 1 else meta,
        once,
        size=sum(part.size + 3 for part in parts),
        cost=sum(part.cost + 3 for part in parts),
        reads=frozenset().union(*(part.reads for part in parts)),
    )
    rule = why_realize(node, value)
    return value if rule is None else state.realize(node, value, rule.code)


def compare(body: Body, op: str, place: Any, limit: Any, size: Any) -> Value:
    """Whether `place`, below `size`, is on this side of `limit`: as instructions, written once."""
    shift = sympy.sympify(place).as_coeff_Add()[0]  # a mask inside a mask: i1 - 37 < 20 is i1 < 57
    place, limit = place - shift, limit + -shift
    key = op, place, limit
    if key not in body.known:
        dtype = dt.int32 if isinstance(size, int) and size < INT32 else dt.int64
        at = body.emit("index_expr", (sympy.sympify(place),), dtype, "place")
        if limit.is_Integer:
            bound = body.emit("constant", (int(limit),), dtype)
        else:
            bound = body.emit("index_expr", (limit,), dtype)
        body.known[key] = body.emit(op, (at, bound), dt.bool_, "inside")
    return body.known[key]


@contextmanager
def under(body: Body, inside: Sequence[Value | None]) -> Iterator[Value | None]:
    """The conjunction of `inside`, as one value. What is written meanwhile is used only where all of them hold."""
    outer, own = body.mask, None
    for value in filter(None, inside):
        own = value if own is None else body.emit("logical_and", (own, value), dt.bool_, "inside")
    both = (
        own if outer is None else outer if own is None else body.emit("logical_and", (outer, own), dt.bool_)
    )
    body.mask = both
    try:
        yield own
    finally:
        body.mask = outer


def _affine(state: State, node: Node, part: Lazy) -> Lazy:
    """The part, or a copy of it where its places are found with divisions: those hold for places inside it alone."""
    names = count()
    body = Body(lambda base: f"{base}_{next(names)}", loop_sizes(part.meta.shape))
    part.fetch(body, tuple(symbol(f"i{d}") for d in range(part.meta.ndim)))
    divided = any(
        isinstance(a, sympy.Basic) and a.has(FloorDiv, Mod) for i in body.instructions for a in i.args
    )
    return state.realize(node, part, "divided_places") if divided else part
