"""Graph breaks: what cannot be captured runs in Python, and the rest of the function is captured from there.

Input: the bytecode of a function, as the steps of steps.py. A function becomes pieces. Each piece is a graph, then one
step that Python runs, then the state from which the next piece goes on.
"""

from __future__ import annotations

import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import GraphModule

from .steps import Beyond, Method, Step, is_tensor, perform, run_in_python, steps_of

Backend = Callable[[GraphModule, list], Callable[..., tuple]]
State = dict[
    str, Any
]  # real values: of the locals under their names, of the stack under "stack0", "stack1", ...


@dataclass(frozen=True)
class Input:
    """A value that is in the state already, and that the graph does not change."""

    name: str


@dataclass(frozen=True)
class Output:
    """A value that the graph computes."""

    index: int


@dataclass(frozen=True)
class Piece:
    """A part of a function: a graph, then the step number `at`, which Python runs.

    inputs: the names in the state of the graph's inputs. local, stack: how to get each value after the graph has run:
    an Input, an Output, a Method, or the value itself. run: the compiled graph; None if it computes nothing.
    """

    graph: Graph
    inputs: tuple[str, ...]
    at: int
    local: dict[str, Any]
    stack: list[Any]
    run: Callable[..., tuple] | None


# ---- what you write ----------------------------------------------------------------------------------------------


def live(program: list[Step], at: int) -> set[str]:
    """The locals that may be read, before they are written, by a run that goes on at step `at`."""
    # lab: begin live
    reads: list[set[str]] = [set() for _ in program]
    changed = True
    while changed:
        changed = False
        for k, step in reversed(list(enumerate(program))):
            after = set().union(*(reads[n] for n in step.next))
            before = after - {step.argument} if step.name == "STORE_FAST" else after
            before = before | {step.argument} if step.name == "LOAD_FAST" else before
            changed |= before != reads[k]
            reads[k] = before
    return reads[at]
    # lab: end


def capture(graph: Graph, program: list[Step], at: int, local: dict[str, Any], stack: list[Any]) -> int:
    """Perform steps from `at` on, until one is beyond this capture. Returns the number of that step.

    local and stack change as the steps say. Afterwards they are as they were before the step that is beyond.
    """
    # lab: begin capture
    while True:
        before = list(stack)
        try:
            at = perform(graph, program[at], at, local, stack)
        except Beyond:
            stack[:] = before
            return at
    # lab: end


def cut(
    graph: Graph, program: list[Step], at: int, local: dict[str, Any], stack: list[Any]
) -> tuple[dict, list]:
    """End the graph before step `at`. Returns how to get each live local, and each value on the stack.

    The graph returns each node that is needed once, and never an input.
    """
    # lab: begin cut
    outputs: dict[Node, int] = {}

    def recipe(value: Any) -> Any:
        if isinstance(value, Method):
            return Method(recipe(value.receiver), value.name)
        if not isinstance(value, Node):
            return value
        if value.op == "placeholder":
            return Input(value.name)
        return Output(outputs.setdefault(value, len(outputs)))

    needed = live(program, at)
    recipes = {name: recipe(value) for name, value in local.items() if name in needed}
    on_stack = [recipe(value) for value in stack]
    graph.output(list(outputs))
    return recipes, on_stack
    # lab: end


def go_on(program: list[Step], piece: Piece, state: State, names: dict[str, Any]) -> tuple[int | None, State]:
    """Run a piece: its graph, then its step in Python. Returns where to go on, and with which state.

    names: the globals of the function. After a RETURN_VALUE the place is None, and the result is "stack0".
    """
    # lab: begin go_on
    results = piece.run(*(state[name] for name in piece.inputs)) if piece.run else ()

    def real(recipe: Any) -> Any:
        match recipe:
            case Input(name):
                return state[name]
            case Output(index):
                return results[index]
            case Method(receiver, name):
                return getattr(real(receiver), name)
        return recipe

    local = {name: real(recipe) for name, recipe in piece.local.items()}
    stack = [real(recipe) for recipe in piece.stack]
    at = run_in_python(program[piece.at], piece.at, local, stack, names)
    needed = set() if at is None else live(program, at)
    kept = {name: value for name, value in local.items() if name in needed}
    return at, kept | {f"stack{k}": value for k, value in enumerate(stack)}
    # lab: end


def compiled(function: types.FunctionType, backend: Backend) -> Callable[..., Any]:
    """The function in pieces. A piece is made once for each place and each kind of state, and then used again."""
    program, pieces = steps_of(function), dict[Any, Piece]()
    names = function.__code__.co_varnames[: function.__code__.co_argcount]

    def run(*args: Any) -> Any:
        # lab: begin drive
        at, state = 0, dict(zip(names, args, strict=True))
        while True:
            key = (at, facts(state))
            if key not in pieces:
                pieces[key] = piece_at(program, at, state, backend)
            following, state = go_on(program, pieces[key], state, function.__globals__)
            if following is None:
                return state["stack0"]
            at = following
        # lab: end

    run.pieces = pieces  # type: ignore[attr-defined]
    return run


# ---- what is given -----------------------------------------------------------------------------------------------


def facts(state: State) -> tuple:
    """What a piece relies on, as guards would check it: each value's name and kind; of a number the value too."""
    return tuple(
        (name, "tensor", value.meta) if is_tensor(value)
        else (name, type(value), repr(value)) if isinstance(value, bool | int | float | str | None)
        else (name, type(value))
        for name, value in sorted(state.items())
    )  # fmt: skip


def piece_at(program: list[Step], at: int, state: State, backend: Backend) -> Piece:
    """Capture the piece that begins at step `at` with this state, and compile its graph."""
    graph = Graph()
    symbolic = {
        name: graph.placeholder(name, value.meta) if is_tensor(value)
        else value if isinstance(value, bool | int | float | str | None)
        else Input(name)
        for name, value in state.items()
    }  # fmt: skip
    stack = [symbolic.pop(name) for name in list(symbolic) if name.startswith("stack")]
    end = capture(graph, program, at, symbolic, stack)
    local, on_stack = cut(graph, program, end, symbolic, stack)
    inputs = tuple(node.name for node in graph.placeholders)
    run = backend(GraphModule(graph.verify()), [state[name] for name in inputs]) if graph.has_calls else None
    return Piece(graph, inputs, end, local, on_stack, run)
