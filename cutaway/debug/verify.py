"""`debug.verify`: each compiled graph runs again operator by operator, and the first operator that differs is named.

Input: a core graph (forward, backward or inference), what compiles it, and the arrays of each call. One interpretation
of the graph per call; where a result differs, shorter graphs are compiled, halving until one operator is left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from ml_dtypes import finfo

from cutaway.debug.forks import Fork
from cutaway.debug.in_float64 import exact, excused
from stage0_eager.arrays import CPU, is_array, move
from stage0_eager.core_interpreter import interpreter
from stage_contracts import config
from stage_contracts.errors import VerifyError
from stage_contracts.graph import Graph, Node, map_args
from stage_contracts.messages import say
from stage_contracts.tensor_meta import TensorMeta

Run = Callable[..., tuple]

# A result may be off by so many roundings of the largest number in it: sums are added up in another order.
ROUNDINGS = 256
CRASH_SECONDS = 120.0  # until a call in a fork counts as a hang, which is no crash


def verified(
    core: Graph, run: Run, compile_graph: Callable[[Graph], Run], wrong_pass: Callable[[], str] = lambda: ""
) -> Run:
    """`run`, each of its calls checked: it raises VerifyError where it gives something else than the core graph.

    `wrong_pass` compiles the graph again with each pass checked, and says which one changed a value. A value of the
    call's own random numbers is an input of the graph, so both see the same."""
    if not core.has_calls:
        return run
    eager = interpreter(core)

    def checked(*inputs: Any) -> tuple:
        kept = [_copy(one) for one in inputs]  # before `run` writes to them
        if config.current().debug.verify_crashes and crash_of(lambda: run(*inputs)):
            raise VerifyError(_report(core, kept, compile_graph, (), ()))
        found = run(*inputs)
        expected = eager(*map(_copy, kept))
        if any(wrong_results(core, kept, expected, found)):
            report = _report(core, kept, compile_graph, expected, found)
            raise VerifyError("\n".join(filter(None, (report, wrong_pass()))))
        return found

    return checked


def wrong_results(
    core: Graph, inputs: Sequence[Any], expected: Sequence[Any], found: Sequence[Any]
) -> list[bool]:
    """Which results differ, those apart that are as near to the exact value as eager's are."""
    pairs = list(zip(expected, found, strict=False))
    different = [differ(a, b) for a, b in pairs]
    best = exact(core, inputs) if any(different) else None
    if best is None:
        return different
    return [wrong and not excused(e, a, b) for wrong, e, (a, b) in zip(different, best, pairs, strict=False)]


def differ(expected: Any, found: Any) -> bool:
    """Whether two results are not the same: shape and dtype, integers, and floats within ROUNDINGS of the largest."""
    if not is_array(expected) or not is_array(found):
        return bool(expected != found) if not is_array(expected) and not is_array(found) else True
    a, b = move(expected, CPU), move(found, CPU)
    if a.shape != b.shape or a.dtype != b.dtype:
        return True
    if a.dtype.kind in "biu":
        return not np.array_equal(a, b)
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    loss = ROUNDINGS * float(finfo(a.dtype).eps)
    a, b = a.astype(wide), b.astype(wide)
    largest = float(np.abs(a[np.isfinite(a)]).max(initial=0.0))
    return not np.allclose(b, a, rtol=loss, atol=loss * largest, equal_nan=True)


def first_wrong(core: Graph, inputs: Sequence[Any], compile_graph: Callable[[Graph], Run]) -> Wrong | None:
    """The operator without which the compiled graph is right and with which it is wrong; None if no such is found.

    Each try is the graph up to an operator, which returns all that the rest would read: a wrong value that a later
    operator hides is seen all the same.
    """
    calls, tries = core.calls, 0
    right, wrong, seen = 0, len(calls), None
    while right < wrong:
        middle = (right + wrong) // 2
        tries += 1
        different = _try(core, calls[: middle + 1], inputs, compile_graph)
        if different is None:
            right = middle + 1
        else:
            wrong, seen = middle, different
    return None if seen is None or wrong == len(calls) else (calls[wrong], *seen, tries)


Wrong = tuple[
    Node, Node, Any, Any, int
]  # the operator, the value that differs, eager's, compiled, graphs compiled


def _try(
    core: Graph, calls: Sequence[Node], inputs: Sequence[Any], compile_graph: Callable[[Graph], Run]
) -> tuple[Node, Any, Any] | None:
    """(value, eager's, the compiled one) where the graph of these calls differs from its interpretation."""
    part, values = up_to(core, calls)
    if not values:
        return None
    expected = interpreter(part)(*map(_copy, inputs))
    if config.current().debug.verify_crashes:
        ending = crash_of(lambda: compile_graph(part)(*map(_copy, inputs)))
        if ending:
            return calls[-1], None, Crash(ending)
    found = compile_graph(part)(*map(_copy, inputs))
    wrong = wrong_results(part, inputs, expected, found)
    triples = zip(values, expected, found, strict=True)
    return next((triple for triple, is_wrong in zip(triples, wrong, strict=True) if is_wrong), None)


def up_to(core: Graph, calls: Sequence[Node]) -> tuple[Graph, list[Node]]:
    """The graph of the first calls, and what it returns: each tensor among them that a later node reads."""
    kept, part = set(calls), Graph(core.name)
    images: dict[Node, Node] = {}
    values = [n for n in calls if isinstance(n.val, TensorMeta) and (not n.users or not set(n.users) <= kept)]
    for node in core.nodes:
        if node.op == "output" or (node.op == "call_function" and node not in kept):
            continue
        images[node] = _append(part, node, images)
    part.output([images[n] for n in values])
    part.eliminate_dead_code()
    return part, values


def _append(part: Graph, node: Node, images: dict[Node, Node]) -> Node:
    if node.op == "placeholder":
        meta = {k: v for k, v in node.meta.items() if k != "val"}
        return part.placeholder(node.name, node.val, **meta)
    args, kwargs = map_args((node.args, node.kwargs), images.__getitem__)
    if node.op == "get_attr":
        return part.get_attr(node.target, node.graph.attributes[node.target], node.val)
    meta = {k: v for k, v in node.meta.items() if k not in ("val", "origins")}
    return part.call_function(
        node.target, args, kwargs, val=node.val, origins=node.origins, name=node.name, **meta
    )


class Crash(str):
    """The name of the signal with which a call ended the process."""


def crash_of(call: Callable[[], Any]) -> str:
    """The signal with which the call ends a process, tried in a fork; "" if with none. An error comes again.
    A hang is none either: threads that a kernel started here are not there in a fork, and may be waited for."""

    def quietly() -> None:
        with suppress(Exception):
            call()

    ending, _ = Fork(quietly, CRASH_SECONDS).wait()
    return "" if ending == "hangs" else ending


# ---- what is said -----------------------------------------------------------------------------------------------


def _report(
    core: Graph, inputs: Sequence[Any], compile_graph: Callable[[Graph], Run], expected: tuple, found: tuple
) -> str:
    wrong = first_wrong(core, inputs, compile_graph)
    if wrong is None and not found:
        return say(
            "verify_crash",
            graph=core.name,
            operator="no single operator",
            ending="a signal",
            lines="  (all of them do)",
        )
    if wrong is None:
        pairs = zip(core.outputs, expected, found, strict=False)
        output, a, b = next((n, a, b) for n, a, b in pairs if differ(a, b))
        return say("verify_whole", graph=core.name, value=output, both=_both(a, b), lines=_lines(output))
    operator, value, a, b, _ = wrong
    name = getattr(operator.target, "qualname", operator.target)
    if isinstance(b, Crash):
        return say(
            "verify_crash",
            graph=core.name,
            operator=f"{operator.name} = {name}",
            ending=b,
            lines=_lines(operator),
        )
    return say(
        "verify_operator", graph=core.name, operator=f"{operator.name} = {name}", value=value.name,
        both=_both(a, b), lines=_lines(operator),
    )  # fmt: skip


def _both(expected: Any, found: Any) -> str:
    """The two values where they are farthest apart."""
    a, b = move(expected, CPU), move(found, CPU)
    if a.shape != b.shape or a.dtype != b.dtype:
        return f"eager gives {a.dtype}{list(a.shape)}, compiled {b.dtype}{list(b.shape)}"
    wide = np.complex128 if a.dtype.kind == "c" else np.float64
    with np.errstate(all="ignore"):
        apart = np.abs(a.astype(wide) - b.astype(wide))
    apart[np.isnan(apart)] = np.where(np.isnan(a) == np.isnan(b), 0, np.inf)[np.isnan(apart)]
    at = np.unravel_index(int(apart.argmax()), a.shape)
    where = f" at [{', '.join(map(str, at))}]" if a.shape else ""
    return f"eager gives {a[at]!s}, compiled {b[at]!s}{where}"


def _lines(node: Any) -> str:
    origins = getattr(node, "origins", ())
    return "\n".join(origin.caret() for origin in origins[:1]) or "  (no line of yours made it)"


def _copy(value: Any) -> Any:
    return value.copy(order="K") if is_array(value) else value
