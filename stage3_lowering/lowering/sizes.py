"""Open sizes in lowering: a graph's SymInts become sympy products of named sizes, each with the way to compute it.

Input: the metas and arguments of a core graph. A product of symbols stays as it is. A sum or a quotient gets a name
(`u0 = s0 + s1`) and is computed once per call, so strides and loop sizes are always products.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sympy

from stage_contracts.breaks import Unsupported
from stage_contracts.graph import Graph
from stage_contracts.index_expr import FloorDiv, Mod, symbol
from stage_contracts.layouts import is_dense
from stage_contracts.loop_ir import SizeVar
from stage_contracts.size_vars import plain
from stage_contracts.symbol_bindings import expression, symbol_bindings
from stage_contracts.symbolic import SymFloat, SymInt, hinted, same_shape, same_size
from stage_contracts.tensor_meta import TensorMeta, contiguous_strides
from stage_contracts.unbacked import makers


class Sizes:
    """The open sizes of one lowering. `fresh` gives names unique in the whole graph."""

    def __init__(self, graph: Graph, fresh: Callable[[str], str]) -> None:
        self.fresh = fresh
        self.shown = {s.symbol: s for s in symbol_bindings([n.val for n in graph.placeholders])}
        self.unbacked = {symbol: fresh(str(symbol)) for symbol in makers(graph.nodes)}  # -> its name here
        self.made_in: dict[
            Any, tuple[str, int]
        ] = {}  # unbacked symbol -> the buffer and dimension that show it
        self.inputs: list[str] = []  # the buffers of the placeholders so far
        self.made: dict[Any, Any] = {}  # what a size was -> its symbol here
        # name, input (or unbacked symbol), dimension, expression
        self.vars: list[tuple[str, Any, int, Any]] = []

    def size(self, size: Any) -> Any:
        """A size, or a number made of sizes, as an int or a product of symbols."""
        if not isinstance(size, SymInt):
            return size
        expr = sympy.expand(expression(size))
        low, high = size.env.bounds(expr)
        if low == high:  # a dimension of one is no loop, whatever it was written as
            return int(low)
        product = not expr.is_Add and all(
            f.is_Integer or f.is_Symbol or (f.is_Pow and f.base.is_Symbol and f.exp.is_Integer and f.exp > 0)
            for f in sympy.Mul.make_args(expr)
        )
        return self._translated(expr) if product else self._derived(expr)

    def meta(self, meta: TensorMeta) -> TensorMeta:
        """The meta in these sizes."""
        if all(isinstance(n, int) for n in (*meta.shape, *meta.strides)):
            return meta
        shape = tuple(map(self.size, meta.shape))
        if same_shape(meta.strides, contiguous_strides(meta.shape)):
            return meta.with_(shape=shape)
        strides = [self.size(s) for s in meta.strides]
        if is_dense(meta.shape, meta.strides):  # products of these sizes
            step: Any = 1
            order = sorted(range(meta.ndim), key=lambda d: (hinted(meta.strides[d]), hinted(meta.shape[d])))
            for d in order:
                if not same_size(meta.shape[d], 1):
                    strides[d], step = step, step * shape[d]
        return meta.with_(shape=shape, strides=tuple(strides))

    def tree(self, tree: Any) -> Any:
        """Arguments with every open size in them translated. Raises Unsupported for a float made of sizes."""
        if isinstance(tree, SymInt):
            return self.size(tree)
        if isinstance(tree, SymFloat):
            raise Unsupported(f"the number {tree}, which is made of open sizes, in a kernel", code="GB0011")
        if isinstance(tree, slice):
            return slice(*self.tree((tree.start, tree.stop, tree.step)))
        if type(tree) in (tuple, list):
            return type(tree)(self.tree(item) for item in tree)
        return tree

    def listed(self) -> tuple[SizeVar, ...]:
        """Every size that is used, in the order to compute them."""
        return tuple(
            SizeVar(name, expr=expr) if at is None
            else SizeVar(name, self.inputs[at], dim) if isinstance(at, int)
            else SizeVar(name, *self.made_in[at])
            for name, at, dim, expr in self.vars
        )  # fmt: skip

    def _symbol(self, known: Any) -> Any:
        """The symbol here for one of the graph's, which an input must show."""
        if known in self.made:
            return self.made[known]
        if known in self.unbacked:
            self.vars.append((self.unbacked[known], known, 0, None))
            self.made[known] = symbol(self.unbacked[known])
            return self.made[known]
        if known not in self.shown:
            raise Unsupported(f"the open size {known}, which no input of the graph shows", code="GB0011")
        shown, name = self.shown[known], self.fresh(str(known))
        if shown.factor == 1 and shown.rest == 0:
            self.vars.append((name, shown.input, shown.dim, None))
        else:
            rest = self._translated(sympy.sympify(shown.rest))
            whole = self.fresh(f"{name}_dim")
            self.vars.append((whole, shown.input, shown.dim, None))
            self.vars.append((name, None, 0, FloorDiv(symbol(whole) - rest, sympy.Integer(shown.factor))))
        self.made[known] = symbol(name)
        return self.made[known]

    def _derived(self, expr: Any) -> Any:
        if expr not in self.made:
            value = self._translated(expr)
            name = self.fresh("u0")
            self.vars.append((name, None, 0, value))
            self.made[expr] = symbol(name)
        return self.made[expr]

    def _translated(self, expr: Any) -> Any:
        """The expression in the symbols here, and in +, *, // and % alone."""
        if expr.is_Symbol:
            return self._symbol(expr)
        if expr.is_Integer:
            return expr
        if expr.is_Add or expr.is_Mul or (expr.is_Pow and expr.exp.is_Integer and expr.exp > 0):
            return plain(expr.func(*map(self._translated, expr.args)))
        if isinstance(expr, sympy.floor):
            above, below = sympy.fraction(sympy.together(expr.args[0]))
            return FloorDiv(self._translated(above), self._translated(below))
        if isinstance(expr, sympy.Mod):
            return Mod(*map(self._translated, expr.args))
        raise Unsupported(f"the size {expr} in a kernel", code="GB0011")
