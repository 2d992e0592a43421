"""A convolution of halves as one of float32 whose result is rounded once, as the eager kernel computes it.

Input: a rule of convolution.py, its node and arguments. The halves become float32 where the columns are laid out, and
the float32 result becomes halves where it is next read, so neither takes a pass of its own over memory.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from stage3_lowering.lowering.state import State
from stage3_lowering.lowering.values import Body, Index, Lazy
from stage_contracts import dtype as dt
from stage_contracts.graph import Node
from stage_contracts.loop_ir import Value

Rule = Callable[[State, Node, dict[str, Any]], Lazy | None]


def rounded_once(rule: Rule, state: State, node: Node, args: dict[str, Any]) -> Lazy | None:
    """The rule's result for float32 operands, as halves."""
    meta = state.meta(node)
    wide = copy.copy(node)  # the same step, of another dtype
    wide.meta = {**node.meta, "val": meta.with_(dtype=dt.float32)}
    made = rule(
        state, wide, {name: _wide(arg) if isinstance(arg, Lazy) else arg for name, arg in args.items()}
    )
    if made is None:
        return None

    def fetch(body: Body, index: Index) -> Value:
        element = made.fetch(body, index)
        body.origins = node.origins
        return body.rounded(element, meta.dtype)

    return Lazy(meta, fetch, size=made.size + 1, cost=made.cost + 1, reads=made.reads)


def _wide(half: Lazy) -> Lazy:
    """A Lazy of halves gives float32 values already: here it says so."""
    meta = half.meta.with_(dtype=dt.float32)
    return Lazy(meta, half.fetch, size=half.size, cost=half.cost, reads=half.reads)
