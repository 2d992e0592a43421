"""What lab 10 asks of a break: the state before the step, only what is live, every operator once, pieces used again.

Input: the learner's functions, on real bytecode. Graphs run op by op on a backend that counts, then on the compiler's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cutaway
from cutaway.backends import lookup_backend
from stage_contracts.graph import Graph, Node

from .. import programs
from ..answer import Answer
from ..checks import Wrong
from ..hidden import hidden_check
from ..programs import numbers
from . import functions
from .steps import Step, steps_of

LIVE, STATE = "page.md#what-is-live", "page.md#the-state-before-the-step"
CUT, RESUME, PIECES = "page.md#where-to-cut", "page.md#going-on", "page.md#pieces-are-used-again"
CASES = (
    ("numbers", numbers(3, 5), numbers(3, 5, seed=1)),
    ("a positive sum", abs(numbers(7)), abs(numbers(7, seed=1))),
    ("a negative sum", -abs(numbers(7)), abs(numbers(7, seed=1))),
    ("a transposed tensor", numbers(4, 3).T, numbers(3, 4)),
    ("NaN, infinities, a denormal number", programs.SPECIAL, numbers(3, 5)),
    ("no elements", numbers(0, 2), numbers(0, 2)),
)


def counting(log: list[str]) -> Callable:
    """A backend that runs a graph op by op, and writes down each operator when it runs."""

    def backend(module: Any, inputs: list) -> Callable[..., tuple]:
        def handler(node: Node, args: tuple, kwargs: dict) -> Any:
            log.append(node.target.name)
            return node.target(*args, **kwargs)

        return lambda *tensors: module.graph.interpret(tensors, handler)

    return backend


def tensors(*arrays: Any) -> list[Any]:
    return [cutaway.from_numpy(a.copy(order="K")) for a in arrays]


def lives_by_paths(program: list[Step], at: int, name: str) -> bool:
    """Whether a path from `at` reads a local before a write: the slow way, one local at a time."""
    seen, ahead = set(), [at]
    while ahead:
        k = ahead.pop()
        if k in seen or (program[k].name, program[k].argument) == ("STORE_FAST", name):
            continue
        if (program[k].name, program[k].argument) == ("LOAD_FAST", name):
            return True
        seen.add(k)
        ahead += program[k].next
    return False


def live_is_what_may_be_read(answer: Answer) -> None:
    """`live` has the locals that some path reads before it writes them, also around a loop, and no other."""
    for function in functions.ALL:
        program = steps_of(function)
        for at, step in enumerate(program):
            want = {name for name in function.__code__.co_varnames if lives_by_paths(program, at, name)}
            got = set(answer.live(program, at))
            where = f"{function.__name__}, step {at} ({step.name} {step.argument}, {step.origin.text!r})"
            if got - want:
                raise Wrong(f"{where}: {sorted(got - want)[0]} is live", "dead: no path reads it before a write",
                            read=LIVE)  # fmt: skip
            if want - got:
                raise Wrong(f"{where}: {sorted(want - got)[0]} is dead", "live: a path reads it", read=LIVE)


def captured(answer: Answer, function: Any) -> tuple[Graph, list[Step], int, dict[str, Any], list[Any]]:
    """The learner's first piece of a function, before it is cut."""
    graph, program = Graph(), steps_of(function)
    local = {name: graph.placeholder(name, cutaway.ones(3, 5).meta) for name in ("x", "y")}
    stack: list[Any] = []
    return graph, program, answer.capture(graph, program, 0, local, stack), local, stack


def word_for(value: Any) -> Any:
    """A symbolic value, as a message names it. The learner's package has its own classes."""
    kind = type(value).__name__
    return (
        "node" if isinstance(value, Node) else {"Method": "method"}.get(kind, getattr(value, "name", value))
    )


def stops_before_the_step(answer: Answer) -> None:
    """`capture` stops at the first step that is beyond it, and leaves the stack as it was before that step."""
    for function, name, want in (
        (functions.straight, "RETURN_VALUE", ["node"]),
        (functions.told_once, "CALL", ["tell", "sum", "node"]),
        (functions.in_the_middle, "CALL", ["node", "method", "tell", "node"]),
        (functions.branch, "POP_JUMP_IF_FALSE", ["node"]),
        (functions.written, "CALL", ["method", "node"]),
    ):
        _, program, at, _, stack = captured(answer, function)
        if program[at].name != name:
            raise Wrong(
                f"{function.__name__}: you stop at step {at}, {program[at].name}", f"the {name}", read=STATE
            )
        seen = [word_for(value) for value in stack]
        if seen != want:
            raise Wrong(f"{function.__name__}: at the break the stack is {seen}", f"{want}: as it was before the step",
                        read=STATE)  # fmt: skip


def graphs_return_what_is_needed(answer: Answer) -> None:
    """A graph returns each live node once, no dead one, and no input."""
    for function, count in ((functions.told_once, 3), (functions.one_tensor_twice, 1), (functions.dead, 1),
                            (functions.written, 1), (functions.branch, 2), (functions.in_the_middle, 2)):  # fmt: skip
        graph, program, at, local, stack = captured(answer, function)
        answer.cut(graph, program, at, local, stack)
        outputs = graph.verify().outputs
        what, names = function.__name__, [str(n) for n in outputs]
        if len(set(outputs)) < len(outputs):
            raise Wrong(f"{what}: the graph returns {names}", "each node once", str(graph), CUT)
        if any(node.op == "placeholder" for node in outputs):
            raise Wrong(f"{what}: the graph returns {names}, and one of them is an input",
                        "Input(name): the state has it already", str(graph), CUT)  # fmt: skip
        if len(outputs) != count:
            raise Wrong(
                f"{what}: the graph returns {len(outputs)} values, {names}", f"{count}", str(graph), CUT
            )


def outcome(function: Any, arrays: Any, grad: bool = False) -> dict[str, Any]:
    """All that a call does: its result or exception, what was told, its arguments afterwards, gradients."""
    functions.TOLD.clear()
    given, found = tensors(*arrays), dict[str, Any]()
    if grad:
        given[0].requires_grad_(True)
    try:
        result = function(*given)
        found["the result"] = result.detach().numpy()
        if grad:
            result.sum().backward()
            found["the gradient of x"] = given[0].grad.numpy()
    except RuntimeError as error:
        found["the exception"] = type(error).__name__
    found["what was told"] = repr(functions.TOLD)
    return found | {
        f"{name} afterwards": t.detach().numpy() for name, t in zip("xy", given, strict=True) if not grad
    }


def same_outcome(function: Any, compiled: Any, what: str, arrays: Any, grad: bool = False) -> None:
    wanted, got = outcome(function, arrays, grad), outcome(compiled, arrays, grad)
    for name, want in wanted.items():
        mine = got.get(name)
        right = (
            mine == want if isinstance(want, str) else mine is not None and programs.same(mine, want, 1e-5)
        )
        if not right:
            shown = [v if isinstance(v, str) or v is None else programs.short(v) for v in (mine, want)]
            raise Wrong(f"{function.__name__}, {what}: {name} is {shown[0]}", f"{shown[1]}", read=RESUME)


def state_is_what_is_needed(answer: Answer) -> None:
    """After the step, the state has the locals that are live at the new place, and all of the stack."""
    for function, want in (
        (functions.told_once, ["a", "b", "stack0"]),
        (functions.dead, ["a", "stack0"]),
        (functions.in_the_middle, ["stack0", "stack1", "stack2"]),
        (functions.branch, ["a", "x"]),
        (functions.straight, ["stack0"]),
    ):
        program, state = steps_of(function), {"x": cutaway.ones(3), "y": cutaway.ones(3)}
        piece = answer.piece_at(program, 0, state, counting([]))
        _, after = answer.go_on(program, piece, state, vars(functions))
        if sorted(after) != want:
            raise Wrong(f"{function.__name__}: after its first piece the state has {sorted(after)}", f"{want}",
                        read=RESUME)  # fmt: skip


def same_as_python(answer: Answer) -> None:
    """Results, writes, exceptions and what was told are Python's: odd, strided, NaN, empty, aliased arguments."""
    for function in (*functions.ALL, functions.raises):
        compiled = answer.compiled(function, counting([]))
        for what, x, y in CASES:
            same_outcome(function, compiled, what, (x, y))


def each_operator_once(answer: Answer) -> None:
    """No operator runs twice, and those that can be captured run in a graph: nothing is done again after a break."""
    for function, arrays, want in (
        (functions.told_once, CASES[0][1:], ["mul", "add", "sum", "sub"]),
        (functions.branch, CASES[1][1:], ["mul", "sum", "gt", "add"]),
        (functions.branch, CASES[2][1:], ["mul", "sum", "gt", "sub"]),
        (functions.in_the_middle, CASES[0][1:], ["mul", "sum", "add"]),
        (functions.halve, CASES[1][1:], ["exp", "sum", "gt", "div", "sum", "sum", "gt"]),
    ):
        log: list[str] = []
        answer.compiled(function, counting(log))(*tensors(*arrays))
        seen = log[: len(want)] if function is functions.halve else log
        if seen != want:
            raise Wrong(f"{function.__name__} ran {seen} in graphs", f"{want}", read=RESUME)


def pieces_are_used_again(answer: Answer) -> None:
    """A loop uses the pieces of its first rounds again; another shape makes new ones, a dead local does not."""
    ones = cutaway.ones
    for function, calls, want, why in (
        (
            functions.halve,
            [(ones(64), ones(64))] * 2,
            4,
            "before the loop, two in it, after it",
        ),
        (functions.told_once, [(ones(3), ones(3)), (ones(4), ones(4))], 4, "two shapes, two pieces each"),
        (
            functions.dead,
            [(ones(3), ones(1)), (ones(3), ones(2))],
            3,
            "y is read before the break, and dead after it",
        ),
        (functions.branch, [(ones(3), ones(3)), (-ones(3), ones(3))], 3, "one beginning, two ends"),
    ):
        compiled = answer.compiled(function, counting([]))
        for call in calls:
            compiled(*call)
        if (got := len(compiled.pieces)) != want:
            raise Wrong(f"{function.__name__}: {got} pieces were made", f"{want}: {why}", read=PIECES)


def in_the_real_compiler(answer: Answer) -> None:
    """With the compiler's own backend each piece is differentiated: results and gradients are eager's."""
    backend = lookup_backend("aot_eager")
    for function in (functions.told_once, functions.branch, functions.halve, functions.in_the_middle):
        compiled = answer.compiled(function, backend)
        for what, x, y in CASES[:3]:
            same_outcome(function, compiled, f"{what}, with gradients", (x, y), grad=True)


def cuts(answer: Answer) -> Any:
    """For each function: of each piece, in the order of the places, its operators, its outputs, what is live."""
    found = []
    for function in (functions.halve, functions.read_in_the_loop, functions.in_the_middle, functions.dead):
        compiled = answer.compiled(function, counting([]))
        compiled(cutaway.ones(16), cutaway.ones(16))
        pieces = sorted(compiled.pieces.values(), key=lambda piece: piece.at)
        found.append([
            ([n.target.name for n in p.graph.calls], len(p.graph.outputs), sorted(p.local), len(p.stack))
            for p in pieces
        ])  # fmt: skip
    return found


HIDDEN = {"the pieces of four functions": cuts}

CHECKS = (
    live_is_what_may_be_read,
    stops_before_the_step,
    graphs_return_what_is_needed,
    state_is_what_is_needed,
    same_as_python,
    each_operator_once,
    pieces_are_used_again,
    in_the_real_compiler,
    hidden_check(__file__, HIDDEN, CUT),
)
