"""What lab 2 asks of a capture: the right nodes, nothing computed, guards for each argument, and no guess.

Input: the learner's functions. The graphs are run by the real compiler; what is beyond the lab must be left to Python.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any

import cutaway
from stage_contracts.capture import CapturedFrame
from stage_contracts.graph import Graph
from stage_contracts.origin import Origin

from .. import programs
from ..answer import Answer
from ..checks import Wrong
from ..hidden import hidden_check
from ..programs import Program, numbers

SEEN: list[Any] = []


def polynomial(x: Any, y: Any) -> Any:
    square = x * x
    return square - y / 2 + square


def methods(x: Any, y: Any) -> Any:
    return (-x).exp().sum(0) @ y.t()


def power(x: Any, y: Any) -> Any:
    return (x - y) ** 2


def blend(x: Any, y: Any) -> Any:
    return x.lerp(y, 0.25)


def branch(x: Any, y: Any) -> Any:
    if x.sum() > 0:
        return x + y
    return x - y


def tells(x: Any, y: Any) -> Any:
    SEEN.append("it ran")
    return x + y


def keywords(x: Any, y: Any) -> Any:
    return x.sum(dim=0) + y


def writes(x: Any, y: Any) -> Any:
    return x.add_(y)


def loop(x: Any, y: Any) -> Any:
    for _ in range(3):
        x = x + y
    return x


def itself(x: Any, y: Any) -> Any:
    return x


BEYOND = (branch, tells, keywords, writes, loop, itself)
X, Y = numbers(3, 5), numbers(3, 5, seed=1)
POLYNOMIAL = Program(polynomial, (X, Y), "a local that is used twice")
METHODS = Program(methods, (numbers(7, 4), numbers(3, 4, seed=1)), "a chain of methods")
POWER = Program(power, (numbers(5, 3).T, Y), "a transposed input")
TWICE = Program(polynomial, (X, X), "one tensor as both arguments")
NANS = Program(power, (programs.SPECIAL, numbers(3, 5)), "NaN, infinities, a denormal number")
EMPTY = Program(polynomial, (numbers(0, 5), numbers(0, 5)), "no rows")
ALL = (POLYNOMIAL, METHODS, POWER, TWICE, NANS, EMPTY)


def captured(answer: Answer, program: Program) -> CapturedFrame:
    """The learner's frame for a program. It must have a graph."""
    frame = answer.capture(program.function, tuple(program.tensors()), {})
    if frame.graph is None:
        why = frame.breaks[0].reason if frame.breaks else "without a break"
        raise Wrong(f"{program.function.__name__} has no graph: {why}", "a graph", read="page.md#the-stack")
    return frame


def a_node_for_each_operator(answer: Answer) -> None:
    """`record` adds one node: the operator, its operands in order, and the meta that the operator's rule gives."""
    graph, origin = Graph(), Origin("a file", 1, "x - y")
    x, y = (
        graph.placeholder(name, cutaway.ones(*shape).meta) for name, shape in (("x", (3, 1)), ("y", (4,)))
    )
    node = answer.record(graph, origin, "sub", x, y)
    if node.target is not cutaway.sub or node.args != (x, y):
        raise Wrong(f"x - y became {node.target}{node.args}", "the operator cutaway.sub of (x, y)",
                    read="page.md#one-node")  # fmt: skip
    if node.val.shape != (3, 4):
        raise Wrong(f"for shapes (3, 1) and (4,) the node's val is {node.val}", "float32[3, 4]: what `meta` gives",
                    read="page.md#one-node")  # fmt: skip
    if node.origins != (origin,):
        raise Wrong(
            f"the node has the origins {node.origins}", "the origin that was given", read="page.md#one-node"
        )


def lines_become_nodes(answer: Answer) -> None:
    """The graph has the program's operators in the order in which Python would run them."""
    for program, wanted in (
        (POLYNOMIAL, ["mul", "div", "sub", "add"]),
        (METHODS, ["neg", "exp", "sum", "t", "matmul"]),
        (POWER, ["sub", "pow"]),
    ):
        got = [n.target.name for n in captured(answer, program).graph.calls]  # type: ignore[union-attr]
        if got != wanted:
            raise Wrong(f"{program.function.__name__} became {got}", f"{wanted}", read="page.md#the-stack")


def operands_are_in_order(answer: Answer) -> None:
    """The last operand is on top of the stack, so it is popped first."""
    graph: Any = captured(answer, POWER).graph
    x, y = graph.placeholders
    sub, square = graph.calls
    if sub.args != (x, y) or square.args != (sub, 2):
        raise Wrong(f"(x - y) ** 2 became {sub.args} and {square.args}", "(x, y), then (sub, 2)",
                    read="page.md#the-stack")  # fmt: skip
    frame = answer.capture(blend, tuple(POWER.tensors()), {})
    args = frame.graph.calls[0].args if frame.graph else frame.breaks[0].reason
    if [str(a) for a in args] != ["x", "y", "0.25"]:
        raise Wrong(f"x.lerp(y, 0.25) became {args}", "(x, y, 0.25)", read="page.md#the-stack")


def locals_hold_nodes(answer: Answer) -> None:
    """A local variable holds a node: using it twice does not compute it twice."""
    graph: Any = captured(answer, POLYNOMIAL).graph
    made = [n for n in graph.calls if n.target.name == "mul"]
    if len(made) != 1 or len(made[0].users) != 2:
        raise Wrong(f"`square` is made {len(made)} times and read by {[len(n.users) for n in made]} nodes",
                    "made once, read by two", read="page.md#the-stack")  # fmt: skip


def nodes_know_their_text(answer: Answer) -> None:
    """Each node has the expression of the user's source that it stands for, so that errors can name it."""
    graph: Any = captured(answer, METHODS).graph
    texts = [n.origins[0].text if n.origins else "" for n in graph.calls]
    wanted = ["-x", "(-x).exp()", "(-x).exp().sum(0)", "y.t()", "(-x).exp().sum(0) @ y.t()"]
    if texts != wanted:
        raise Wrong(f"the nodes stand for {texts}", f"{wanted}", read="page.md#one-node")


def every_argument_is_guarded(answer: Answer) -> None:
    """There is a guard on the grad mode, and one on each tensor that the graph was made for."""
    frame = captured(answer, POLYNOMIAL)
    got = {(g.kind, str(g.source) if g.source else "") for g in frame.guards}
    if missing := sorted({("GRAD_MODE", ""), ("TENSOR", "x"), ("TENSOR", "y")} - got):
        raise Wrong(f"there is no guard {' '.join(missing[0])}".rstrip(), "one for the mode, one for each tensor",
                    read="page.md#guards")  # fmt: skip
    metas = {str(g.source): g.expected.meta for g in frame.guards if g.kind == "TENSOR"}
    given = dict(zip("xy", (t.meta for t in POLYNOMIAL.tensors())))
    if metas != given:
        raise Wrong(f"the guards expect {metas}", f"{given}", read="page.md#guards")


def another_call_is_compiled_anew(answer: Answer) -> None:
    """Tensors of another shape or dtype, or another grad mode, do not run a graph that was made for others."""
    compiled = programs.compiled_with(POLYNOMIAL, capture=answer.capture)
    base = cutaway.ones(3, 5)
    for x in (
        base,
        cutaway.ones(4, 5),
        base.double(),
        cutaway.ones(5, 3).t(),
        cutaway.ones(3, 5, requires_grad=True),
    ):
        got, wanted = compiled(x, x), polynomial(x, x)
        if (got.shape, got.dtype, got.requires_grad) != (wanted.shape, wanted.dtype, wanted.requires_grad):
            raise Wrong(
                f"after other calls, {x.meta} gives {got.meta}", f"{wanted.meta}", read="page.md#guards"
            )
    if len(compiled.entries) != 5:
        raise Wrong(
            f"five kinds of calls have {len(compiled.entries)} compiled versions",
            "five",
            read="page.md#guards",
        )


def residual_runs_the_graph(answer: Answer) -> None:
    """The residual code has the function's parameters. It passes them to the graph, and returns its first result."""
    code = answer.residual(("a", "b", "c"))
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount]
    if names != ("a", "b", "c"):
        raise Wrong(f"the residual code takes {names}", "('a', 'b', 'c')", read="page.md#the-residual-code")
    function: Callable = types.FunctionType(code, {"__compiled_graph_0": lambda *given: (given, "more")})
    if (got := function(1, 2, 3)) != (1, 2, 3):
        raise Wrong(f"called with 1, 2, 3 it returns {got}", "the first of what the graph returns for 1, 2, 3",
                    read="page.md#the-residual-code")  # fmt: skip


def the_rest_is_left_to_python(answer: Answer) -> None:
    """What the capture does not know is not guessed: no graph, one break with a reason, and nothing has run."""
    x, y = (cutaway.from_numpy(a.copy()) for a in (X, Y))
    for function in BEYOND:
        SEEN.clear()
        frame = answer.capture(function, (x, y), {})
        name = function.__name__
        if frame.graph is not None or len(frame.breaks) != 1:
            raise Wrong(f"{name} has {'a graph' if frame.graph else 'no graph'} and {len(frame.breaks)} breaks",
                        "no graph and one break", read="page.md#what-is-beyond")  # fmt: skip
        if SEEN or not (x.numpy() == X).all():
            raise Wrong(
                f"capturing {name} ran it", "nothing runs during capture", read="page.md#what-is-beyond"
            )
        if len(frame.breaks[0].reason) < 5 or frame.breaks[0].origin is None:
            raise Wrong(f"the break of {name} has the reason {frame.breaks[0].reason!r}",
                        "what is unknown, and the line", read="page.md#what-is-beyond")  # fmt: skip


def results_are_eagers(answer: Answer) -> None:
    """Results and gradients are eager's: odd sizes, strided inputs, one tensor given twice, NaN, no elements."""
    for program in ALL:
        compiled = programs.compiled_with(program, capture=answer.capture)
        programs.same_as_eager(program, compiled, read="page.md#the-stack")


def first_hidden(x: Any, y: Any) -> Any:
    scaled = x * 2 - y
    return (scaled @ y.t()).relu() / 3 + scaled.sum()


def second_hidden(x: Any, y: Any) -> Any:
    y = x.exp().mean(1) - -x.amax(1)
    return y * y.neg() ** 3


def nodes_of(answer: Answer) -> Any:
    """The operators and the shapes of the nodes of functions that no other check has."""
    programs_ = (Program(first_hidden, (X, Y), "hidden"), Program(second_hidden, (X, Y), "hidden"))
    graphs = [captured(answer, program).graph for program in programs_]
    return [[(node.target.name, node.val.shape) for node in graph.calls] for graph in graphs if graph]


HIDDEN = {"the nodes of two more functions": nodes_of}


CHECKS = (
    a_node_for_each_operator,
    lines_become_nodes,
    operands_are_in_order,
    locals_hold_nodes,
    nodes_know_their_text,
    every_argument_is_guarded,
    residual_runs_the_graph,
    the_rest_is_left_to_python,
    another_call_is_compiled_anew,
    results_are_eagers,
    hidden_check(__file__, HIDDEN, "page.md#the-stack"),
)
