"""One loop nest while tiny lowering writes it: its loops, then instructions, then the store that ends it.

Input: the Lowering in progress (its buffers, and a count that makes names unique), and the shape to loop over.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import sympy

from stage3_lowering.tiny.views import View
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType
from stage_contracts.graph import Node
from stage_contracts.index_expr import symbol
from stage_contracts.loop_ir import Instr, LoopNest, Value

if TYPE_CHECKING:
    from stage3_lowering.tiny.lower import Lowering


class Body:
    """A nest while it is written: a loop for each dimension of `shape` above size 1; `reduction`: over the last."""

    def __init__(self, state: Lowering, shape: Sequence[int], reduction: bool = False) -> None:
        self.state, self.instructions = state, list[Instr]()
        kept, self.reduced = (shape[:-1], tuple(shape[-1:])) if reduction else (shape, ())
        self.ranges = tuple(n for n in kept if n != 1)
        variables = (symbol(f"i{k}") for k in range(len(self.ranges)))
        index = [next(variables) if n != 1 else sympy.Integer(0) for n in kept]
        self.index = (*index, symbol("r0")) if reduction else tuple(index)

    def add(self, op: str, *args: Any, dtype: DType) -> Value:
        self.state.count += 1
        value = Value(f"{op}_{self.state.count}")
        self.instructions.append(Instr(value, op, args, dtype))
        return value

    def element(self, operand: Any, dtype: DType) -> Value:
        """The element of a tensor (broadcast to the loops), or a Python number, as `dtype`."""
        if not isinstance(operand, View):
            number = {dt.BOOL: bool, dt.INTEGER: int, dt.FLOATING: float}[dtype.category](operand)
            return self.add("constant", number, dtype=dtype)
        value = self.add("load", operand.name, operand.place(self.index), dtype=operand.meta.dtype)
        return value if operand.meta.dtype is dtype else self.add("cast", value, dtype, dtype=dtype)

    def store(self, node: Node, value: Value) -> View:
        """End the body: `value` is the element of a new buffer."""
        result = self.state.new(node.val)
        index = self.index if result.meta.ndim == len(self.index) else self.index[:-1]  # reduced, no keepdim
        body = (*self.instructions, Instr("", "store", (result.name, result.place(index), value), None))
        self.state.nodes.append(LoopNest(result.name, self.ranges, self.reduced, body, node.origins))
        return result
