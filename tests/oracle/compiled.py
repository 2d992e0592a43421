"""Stage 2's columns: a call through functionalize, differentiate, decompose and partition, against eager.

Input: cases.py's cases. The call is traced here, not captured, so that a failure is stage 2's.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import cutaway as ct
from stage0_eager.autograd.backward_pass import backward
from stage0_eager.core_interpreter import interpreter
from stage0_eager.state import interpreting, no_grad
from stage0_eager.tensor import Tensor
from stage0_eager.transforms.trace import Tracer
from stage2_autograd.decompose import decompose
from stage2_autograd.differentiate import differentiate
from stage2_autograd.functionalize import functionalize
from stage2_autograd.partition import partition
from stage2_autograd.runtime.runtime_wrapper import make_runtime_wrapper
from stage_contracts.breaks import Unsupported
from stage_contracts.graph import Graph
from tests.oracle import cases as c
from tests.oracle.cases import Case, leaves
from tests.oracle.compare import Mismatch, magnitude, same
from tests.oracle.spec import ROWS, Operand


class Refused(Exception):
    """The program cannot be compiled, and says so: it would run eagerly."""


def traced(function: Callable, tensors: list[Tensor]) -> tuple[Graph, list[bool]]:
    """`function` on tensors like these as a graph of public operators, and which leaves of its result are tensors."""
    graph = Graph()
    tracer = Tracer(graph, keep=lambda op: True)
    inputs = [tracer.placeholder(f"x{i}", t.meta) for i, t in enumerate(tensors)]
    with no_grad(), interpreting(tracer):
        results = leaves(function(*inputs))
    if tracer.rng is not None:
        raise Refused("a plain function draws random bits; capture inlines it, this tracing cannot")
    graph.output([tracer.node_of(r) for r in results if isinstance(r, Tensor)])
    return graph.verify(), [isinstance(r, Tensor) for r in results]


def compiled(
    function: Callable, tensors: list[Tensor], half: Callable[[Graph], Callable] = interpreter
) -> Callable[..., tuple]:
    """`function`, as backend="aot_eager" would run it; `half` makes a core graph a callable on arrays.

    Raises Refused with the code of the break."""
    try:
        graph, _ = traced(function, tensors)
        functional = functionalize(graph)
        joint = differentiate(functional)
    except Unsupported as refusal:
        raise Refused(f"{refusal.graph_break.code} {refusal.graph_break.reason}") from refusal
    joint = replace(joint, graph=decompose(joint.graph)).verify()
    halves = partition(joint).verify()
    return make_runtime_wrapper(functional, half(halves.forward), half(halves.backward), joint, halves)


def results_and_gradients(function: Callable, flat: list[np.ndarray], flags: list[bool]) -> tuple[list, list]:
    """The result tensors of a call on fresh leaves, and the gradient of their weighted sum for each leaf, or None."""
    tensors = [Tensor(np.array(a, copy=True), flag) for a, flag in zip(flat, flags, strict=True)]
    ct.manual_seed(0)
    results = leaves(function(*tensors), Tensor)
    rng = np.random.default_rng(7)
    roots, weights = [], []
    for r in results:
        weight = rng.uniform(0.5, 1.5, r.shape)
        if r.requires_grad:
            roots.append(r)
            weights.append(Tensor(weight.astype(r.dtype.numpy)))
    if roots:
        backward(roots, weights)
    return results, [None if t.grad is None else t.grad._data for t in tensors]


def call_of(case: Case) -> tuple[Callable, list[np.ndarray]]:
    """A function of the case's arrays alone, and the arrays. What an in-place row writes to is a copy."""
    arrays = case.arrays()
    function = c.function_of(case.row.name)

    def call(*tensors: Tensor) -> Any:
        items = iter(tensors)
        args, kwargs = c.map_leaves(arrays, lambda _: next(items), np.ndarray)
        if case.row.in_place_of:
            args = (args[0].clone(), *args[1:])
        return function(*args, **kwargs)

    return call, leaves(arrays, np.ndarray)


def stage2_is_eager(case: Case, half: Callable[[Graph], Callable] = interpreter) -> None:
    """Values, dtypes, strides, requires_grad and every gradient of the compiled call are eager's."""
    call, flat = call_of(case)
    operands = leaves((case.sample.args, case.sample.kwargs), Operand)
    flags = [o.grad and a.dtype.kind == "f" and o.dtype is None for o, a in zip(operands, flat, strict=True)]
    compare(call, flat, flags, case.row.units, half)


def compare(
    call: Callable,
    flat: list[np.ndarray],
    flags: list[bool],
    units: float,
    half: Callable[[Graph], Callable] = interpreter,
) -> None:
    """Raise Mismatch where the compiled call is not eager's; a gradient may be None where eager's is zeros."""
    agree(results_and_gradients(call, flat, flags), _run_compiled(call, flat, flags, half), units)


def _run_compiled(
    call: Callable, flat: list[np.ndarray], flags: list[bool], half: Callable[[Graph], Callable] = interpreter
) -> tuple[list, list]:
    run = compiled(call, [Tensor(a, flag) for a, flag in zip(flat, flags, strict=True)], half)
    return results_and_gradients(run, flat, flags)


def agree(eager: tuple[list, list], found: tuple[list, list], units: float) -> None:
    """Raise Mismatch unless both results and gradients are the same, of `results_and_gradients`."""
    (want, slopes), (got, gradients) = eager, found
    for mine, theirs in zip(got, want, strict=True):
        if mine.meta != theirs.meta:
            raise Mismatch(f"compiled gives {mine.meta}, eager {theirs.meta}")
        same(mine._data, theirs._data, units, magnitude([theirs._data]))
    for mine, theirs in zip(gradients, slopes, strict=True):
        if mine is not None and theirs is not None:
            same(mine, theirs, 64 * units, magnitude([theirs]))
        elif any(map(_not_zero, (mine, theirs))):
            raise Mismatch(f"gradient {mine}, eager's is {theirs}")


# ---- pairs -------------------------------------------------------------------------------------------------------


@functools.cache
def links() -> list[Case]:
    """A float64 case of each operator from float tensors to a float tensor: what can stand in a chain."""
    found = []
    for row in ROWS.values():
        for case in c.double_cases(row, False):
            try:
                call, flat = call_of(case)
                results = leaves(call(*map(Tensor, flat)), Tensor)
            except Exception:  # this sample is of something else
                continue
            if joint(flat) is not None and any(r.is_floating_point() for r in results):
                found.append(case)
                break
    return found


def joint(flat: list[np.ndarray]) -> int | None:
    """The operand that a chain passes through: the first of float64. The others are the sample's own."""
    return next((i for i, array in enumerate(flat) if array.dtype == np.float64), None)


def pair_is_eager(first: Case, second: Case) -> str:
    """second(first(x)), brought into a range both can take, compiled against eager.

    "agree", or the error that both raise (or eager alone, in a gradient that reaches no input). Raises Refused, and Mismatch where they differ.
    """
    inner, flat = call_of(first)
    outer, rest = call_of(second)
    at = joint(rest)
    shape, size = rest[at].shape, rest[at].size
    constants = [Tensor(a) for a in rest]

    def call(*tensors: Tensor) -> Any:
        made = next(r for r in leaves(inner(*tensors), Tensor) if r.is_floating_point())
        room = ct.sigmoid(made).reshape(-1)[:size]  # into (0, 1), where nearly all are defined
        copies = -(-size // max(1, room.numel()))
        room = ct.cat([room] * copies)[:size] if room.numel() else ct.zeros(size)
        link = room.reshape(shape).to(ct.float64) * 0.9 + 0.05
        return outer(*constants[:at], link, *constants[at + 1 :])

    flags = [a.dtype == np.float64 for a in flat]
    units = max(first.row.units, second.row.units)
    outcomes: list[Any] = []
    for run in results_and_gradients, _run_compiled:
        try:
            outcomes.append(run(call, flat, flags))
        except Refused:
            raise
        except Exception as error:
            outcomes.append(f"raises {type(error).__name__}")
    eager, found = outcomes
    if isinstance(eager, str) and not isinstance(found, str) and not any(map(_not_zero, found[1])):
        # a gradient that reaches no input: eager computes it and fails, compiled code leaves it out
        want = results_and_gradients(call, flat, [False] * len(flat))[0]
        agree(([Tensor(w._data, g.requires_grad) for w, g in zip(want, found[0])], found[1]), found, units)
        return f"{eager} in eager alone, in a gradient that reaches no input"
    if isinstance(eager, str) or isinstance(found, str):
        if eager != found:
            raise Mismatch(
                " but ".join(
                    f"{who} {o if isinstance(o, str) else 'gives a value'}"
                    for who, o in zip(("eager", "compiled"), outcomes)
                )
            )
        return eager
    agree(eager, found, units)
    return "agree"


def _not_zero(gradient: np.ndarray | None) -> bool:
    return gradient is not None and bool(np.any(gradient))
