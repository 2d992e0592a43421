"""Core-operator graphs for tests, and every way to run one: nest by nest, fused, as C++.

Input: a function of `c` (the core operators, recording) and the inputs' nodes, and the arrays to run it on.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from stage0_eager.table.core import core
from stage3_lowering.interpret import interpret_lowered, interpret_program
from stage3_lowering.tests.cpp_runner import run_cpp
from stage_contracts.dtype import dtype_of
from stage_contracts.graph import Graph, Node, map_args
from stage_contracts.origin import Origin
from stage_contracts.program import Program, Target
from stage_contracts.tensor_meta import TensorMeta

CPP, TRITON = Target("cpp"), Target("triton")


def meta_of_array(array: Any) -> TensorMeta:
    """Shape, dtype and layout of an array."""
    array = np.asarray(array)
    return TensorMeta(array.shape, dtype_of(array.dtype), tuple(s // array.itemsize for s in array.strides))


class Recorder:
    """`c.sin(x)` adds a call of core.sin to the graph, its meta from the operator's rule, its origin made
    up."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __getattr__(self, name: str) -> Callable[..., Node]:
        op = getattr(core, name)

        def call(*args: Any, **kwargs: Any) -> Node:
            metas, keywords = map_args((args, kwargs), lambda node: node.val)
            line = 10 + len(self._graph.calls)
            origin = Origin(
                "model.py", line, f"{name}({', '.join(str(a) for a in args if isinstance(a, Node))})"
            )
            return self._graph.call_function(
                op, args, kwargs, val=op.meta(*metas, **keywords), origins=(origin,)
            )

        return call


def results(node: Node) -> list[Node]:
    """The results of a call that gives several."""
    take = node.graph.call_function
    return [take(operator.getitem, (node, k), {}, val=meta) for k, meta in enumerate(node.val)]


def trace(function: Callable, *inputs: Any, name: str = "forward") -> Graph:
    """The graph of `function(c, *nodes)`; `inputs` are arrays or metas, inputs are called x, y, z, w, x4,
    ..."""
    graph = Graph(name)
    names = ["x", "y", "z", "w", *(f"x{k}" for k in range(4, len(inputs)))]
    metas = [i if isinstance(i, TensorMeta) else meta_of_array(i) for i in inputs]
    nodes = [graph.placeholder(n, meta) for n, meta in zip(names, metas, strict=False)]
    outputs = function(Recorder(graph), *nodes)
    graph.output(outputs if isinstance(outputs, (tuple, list)) else (outputs,))
    return graph.verify()


def run_every_way(seam: Any, graph: Graph, arrays: Sequence[np.ndarray]) -> dict[str, tuple]:
    """The outputs of the graph: its nests one by one, the fused Program interpreted, and run as C++."""
    lowered = seam("lower")(graph).verify()
    program = seam("fuse")(lowered).verify()
    scheduled = seam("schedule")(program, CPP).verify()
    emitted = seam("emit")(scheduled, CPP)
    return {
        "nests": interpret_lowered(lowered, arrays),
        "program": interpret_program(program, arrays, constants=lowered.constants),
        "scheduled": interpret_program(scheduled, arrays, constants=lowered.constants),
        "cpp": run_cpp(emitted, arrays, constants=lowered.constants),
    }


def check(
    seam: Any, function: Callable, arrays: Sequence[np.ndarray], expected: Sequence[Any], ulps: float = 0
) -> Program:
    """Run a function every way and compare each output with an independent answer. Gives the fused
    Program."""
    graph = trace(function, *arrays)
    for way, outputs in run_every_way(seam, graph, arrays).items():
        for node, output, want in zip(graph.outputs, outputs, expected, strict=True):
            assert_close(output, want, ulps, f"{node} ({way})")
            strides = tuple(s // output.itemsize for s in output.strides)
            clash = [k for k, n in enumerate(output.shape) if n > 1 and strides[k] != node.val.strides[k]]
            assert not clash or output.size == 0 or 0 in node.val.strides or way == "nests", (
                f"{node} ({way}): strides {strides}, expected {node.val.strides}"
            )
    return seam("fuse")(seam("lower")(graph))


def assert_close(got: Any, want: Any, ulps: float, what: str = "", signed_zeros: bool = True) -> None:
    """Equal dtype and shape, NaN at the same places, zeros of the same sign, values within `ulps` of `got`'s
    dtype."""
    got, want = np.asarray(got), np.asarray(want)
    assert got.shape == want.shape, f"{what}: shape {got.shape}, expected {want.shape}"
    if got.dtype.kind != "f":
        assert got.dtype == want.dtype, f"{what}: dtype {got.dtype}, expected {want.dtype}"
        np.testing.assert_array_equal(got, want, err_msg=what)
        return
    with np.errstate(all="ignore"):
        want = want.astype(got.dtype)
        np.testing.assert_array_equal(np.isnan(got), np.isnan(want), err_msg=f"{what}: NaN")
        same = (got == want) | np.isnan(want)
        if signed_zeros:
            same &= (np.signbit(got) == np.signbit(want)) | (want != 0)
        distance = np.abs(got.astype(np.longdouble) - want) / np.spacing(
            np.maximum(np.abs(want), np.finfo(got.dtype).tiny)
        )
    wrong = ~same & ~(distance <= ulps)
    if wrong.any():
        at = tuple(int(k[0]) for k in np.nonzero(np.atleast_1d(wrong)))
        far = np.atleast_1d(distance)[at]
        raise AssertionError(
            f"{what}: {wrong.sum()} of {wrong.size} elements differ by more than {ulps} ulps; at {at} "
            f"{np.atleast_1d(got)[at]!r}, expected {np.atleast_1d(want)[at]!r} ({far} ulps)"
        )


def configured(program: Program) -> Iterator[Program]:
    """An emitted program, then the same with each further configuration of its kernels, one kernel changed at a time."""
    yield program
    for k, unit in enumerate(program.units):
        (name,) = unit.kernels
        for other in unit.alternatives:
            kernels = {**program.kernels, name: replace(program.kernels[name], grid=other.grid)}
            own = replace(unit, text=other.text, grids={name: other.grid}, alternatives=())
            yield program.with_(units=(*program.units[:k], own, *program.units[k + 1 :]), kernels=kernels)
