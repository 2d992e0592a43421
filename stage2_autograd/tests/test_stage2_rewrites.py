"""Every row of every rewrite table over the attributes of its operator: no bit of a program changes, forward and gradient.

Input: rewrite_spaces.py. All cases of a row are one graph; in each the result is read beside the operand that it was made
of, as a rewrite that is wrong may only show where both meet. A row that is made to trust an equal kind is found.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from stage0_eager.core_interpreter import at_sizes
from stage0_eager.state import interpreting, no_grad
from stage0_eager.tensor import Tensor
from stage2_autograd.decompose.core_bodies import core_bodies
from stage2_autograd.decompose.passes import PASSES
from stage2_autograd.decompose.rewriting import Rewrite, rewrite, same_kind
from stage2_autograd.differentiate import differentiate
from stage2_autograd.functionalize import functionalize
from stage2_autograd.tests.helpers import CaptureTracer
from stage2_autograd.tests.rewrite_spaces import EQUAL_KIND_SUFFICES, SPACES, Operand, Space, c
from stage2_autograd.verify import same_bits
from stage_contracts import dtype as dt
from stage_contracts.graph import Graph, Node, meta_of
from stage_contracts.tensor_meta import TensorMeta

ROWS = {(step.name, name): rule for step in PASSES for name, rule in step.rules.items()}
# A run takes some cases of a space, drawn the same every time; REWRITE_CASES=all takes all of them.
ALL = os.environ.get("REWRITE_CASES") == "all"
REFUSED = (RuntimeError, TypeError, IndexError, ValueError, NotImplementedError)


def test_every_row_declares_the_attributes_of_its_operator():
    assert set(ROWS) == set(SPACES), "a rewrite without a space, or a space without a rewrite"


# ---- a graph of all cases -----------------------------------------------------------------------------------------


def graph_of(space: Space) -> tuple[Graph, list[dict[str, Any]]]:
    """All cases that the operators accept, each with two results: one of the rewritten value, one where it meets x."""
    graph = Graph()
    tracer = CaptureTracer(graph)
    inputs: dict[Any, Any] = {}

    def of(shape: tuple, dtype: str, which: int = 1) -> Any:
        kind = dt.DTYPES[dtype]
        key = (shape, dtype, which)
        if key not in inputs:
            meta = TensorMeta(shape, kind, requires_grad=kind.is_floating_point)
            inputs[key] = tracer.placeholder(f"i{len(inputs)}", meta)
        return inputs[key]

    results, cases = [], []
    with interpreting(tracer):
        for case in space.cases(0 if ALL else space.most):
            attributes = {k: v for k, v in case.items() if k not in ("shape", "dtype", "layout")}
            try:
                x = laid_out(of, case["shape"], case["dtype"], case["layout"])
                value = space.build(Operand(x, of), **attributes)
            except REFUSED:
                continue
            results += [read(value), met(x, value)]
            cases += [{**case, "seen": "alone"}, {**case, "seen": "beside its operand"}]
    graph.output([tracer.node_of(r) for r in results])
    return graph.verify(), cases


def laid_out(of: Any, shape: tuple, dtype: str, layout: str) -> Any:
    """x, as a view of an input that is laid out in another way."""
    if layout == "transposed" and len(shape) > 1:
        order = tuple(reversed(range(len(shape))))
        return c["permute"](of(tuple(shape[d] for d in order), dtype, 0), order)
    if layout == "stepped" and shape:
        return c["slice"](of((*shape[:-1], 2 * shape[-1]), dtype, 0), len(shape) - 1, 0, None, 2)
    if layout == "expanded" and shape:
        return c["expand"](of((1, *shape[1:]), dtype, 0), shape)
    return of(shape, dtype, 0)


def read(value: Any) -> Any:
    return c["where"](c["ne"](value, value), value, value) if value.dtype is dt.bool_ else c["mul"](value, 2)


def met(x: Any, value: Any) -> Any:
    """x and what was made of it in one result: element by element where shapes allow it."""
    try:
        return c["add"](x, value)
    except REFUSED:
        total = c["sum"](c["cast"](x, dt.float64), tuple(range(x.ndim)))
        return c["add"](value, total)


def data_of(meta: TensorMeta, seed: int, special: bool) -> np.ndarray:
    """The whole range of integers; of floats small ones, with every special value among them."""
    rng = np.random.default_rng([seed, *meta.shape])
    if meta.dtype is dt.bool_:
        return np.asarray(rng.integers(0, 2, meta.shape), bool)
    if not meta.dtype.is_floating_point:
        info = np.iinfo(meta.dtype.numpy)
        data = np.asarray(rng.integers(info.min, info.max, meta.shape, meta.dtype.numpy, endpoint=True))
        data.reshape(-1)[:4] = [info.min, info.max, 0, 1][: data.size]
        return data
    data = np.asarray(np.abs(rng.normal(size=meta.shape) * 40))
    if special:
        values = (0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1.0)
        data.reshape(-1)[: len(values)] = values[: data.size]
    return data.astype(meta.dtype.numpy)


# ---- before and after -----------------------------------------------------------------------------------------------


def differing(before: Graph, after: Graph) -> set[int]:
    """Which outputs differ in a bit."""
    found = set()
    for special in (True, False):
        inputs = [data_of(meta_of(n), i, special) for i, n in enumerate(before.placeholders)]
        pairs = zip(values_of(before, inputs), values_of(after, inputs), strict=True)
        found |= {i for i, (a, b) in enumerate(pairs) if not same(a, b)}
    return found


def values_of(graph: Graph, inputs: list) -> list:
    """The outputs; the error's name for what raises, or needs something that does."""

    def call(node: Node, args: tuple, kwargs: dict) -> Any:
        flat = [part for a in args for part in (a if isinstance(a, (tuple, list)) else (a,))]
        if failed := [part for part in flat if isinstance(part, Failed)]:
            return failed[0]
        try:
            return node.target(*args, **kwargs)
        except REFUSED as error:
            return Failed(type(error).__name__)

    with no_grad():
        made = at_sizes(graph, call)(*(Tensor(a.copy()) for a in inputs))
    return [m._data if isinstance(m, Tensor) else m for m in made]


def same(a: Any, b: Any) -> bool:
    return a == b if isinstance(a, Failed) or isinstance(b, Failed) else same_bits(a, b)


class Failed(str):
    """The name of an error."""


def rewritten(graph: Graph, operator: str, rule: Rewrite) -> tuple[Graph, int]:
    """The graph after one row, and how often it fired."""
    fired = 0

    def counted(node: Node) -> Any:
        nonlocal fired
        new = rule(node)
        fired += new is not None and same_kind(node.val, new.val)
        return new

    after = graph.copy()
    rewrite(after, {operator: counted})
    after.eliminate_dead_code()
    return after.verify(), fired


def with_gradient(graph: Graph) -> Graph:
    return core_bodies(differentiate(functionalize(graph)).graph)


def spaces_of(row: tuple[str, str]) -> tuple[Space, ...]:
    space = SPACES[row]
    return space if isinstance(space, tuple) else (space,)


@pytest.mark.parametrize("row", ROWS, ids=".".join)
def test_a_row_changes_no_bit(row):
    total = 0
    for space in spaces_of(row):
        graph, cases = graph_of(space)
        assert len(cases) >= 8, "a space with next to nothing in it"
        after, fired = rewritten(graph, row[1], ROWS[row])
        total += fired
        assert not (wrong := differing(graph, after)), [cases[i] for i in sorted(wrong)][:3]
        if row[0] != "constant_folding":  # of a constant there is none
            joint = with_gradient(graph)
            assert not differing(joint, rewritten(joint, row[1], ROWS[row])[0])
    assert total, "the rewrite never fires in its space"


# ---- that a wrong row is found ----------------------------------------------------------------------------------------


def sloppy(node: Node) -> Any:
    """A rewrite that takes an equal kind for an equal value: of the operand, or of its operand."""
    new = node
    for _ in range(2):
        operands = new.all_input_nodes
        if not operands:
            return None
        new = operands[0]
        if same_kind(new.val, node.val):
            return new
    return None


CAUGHT = [row for row in ROWS if row not in EQUAL_KIND_SUFFICES and row[0] != "constant_folding"]


@pytest.mark.parametrize("row", CAUGHT, ids=".".join)
def test_a_row_that_trusts_an_equal_kind_is_found(row):
    found = False
    for space in spaces_of(row):
        graph, _ = graph_of(space)
        found = found or bool(differing(graph, rewritten(graph, row[1], sloppy)[0]))
    assert found
