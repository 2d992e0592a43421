"""A small capture: it reads a function's source, statement by statement, on stand-ins. It changes nothing outside.

Input: a function of straight lines, and the arguments of a call. You need not read this file to do the lab, but for the
docstrings of Variable and Effects.
"""

from __future__ import annotations

import ast
import inspect
import operator
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from stage0_eager import TABLE
from stage0_eager.tensor import Tensor
from stage_contracts.graph import Graph, Node
from stage_contracts.graph_module import GraphModule
from stage_contracts.origin import Origin
from stage_contracts.tensor_meta import TensorMeta

BINARY = {
    ast.Add: "add",
    ast.Sub: "sub",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.MatMult: "matmul",
    ast.Pow: "pow",
}
NUMBERS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


@dataclass(eq=False)
class Variable:
    """A list, a dict or an object, as the program sees it.

    kind: "list", "dict" or "object". source: the expression that reaches it from outside, such as "log" or "a.history";
    None if the program made it. items: what it holds now: a list, a dict, or a dict of attributes. In it are Nodes
    (tensors), Variables, and plain values.
    """

    kind: str
    items: Any
    source: str | None = None


@dataclass
class Effects:
    """What a program changed outside.

    changed: for each changed Variable, in the order of the first change: (the Variable, what it held before).
    stored: the globals that were stored, in that order: name -> value.
    """

    changed: list[tuple[Variable, Any]] = field(default_factory=list)
    stored: dict[str, Any] = field(default_factory=dict)


@dataclass
class Captured:
    """graph: what to compute. inputs: its tensors. result: what the function returns."""

    graph: Graph
    inputs: list[Any]
    effects: Effects
    result: Any


def captured(function: Any, args: tuple, will_change: Callable[[Effects, Variable], None]) -> Captured:
    """Read the function with these arguments. `will_change` is called before each write to a Variable."""
    machine = _Machine(function, will_change)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    machine.local = {name: machine.outside(value, name) for name, value in zip(names, args, strict=True)}
    result = machine.run()
    return Captured(machine.graph, machine.inputs, machine.effects, result)


class _Machine:
    def __init__(self, function: Any, will_change: Callable[[Effects, Variable], None]) -> None:
        text = textwrap.dedent(inspect.getsource(function))
        self.body = next(n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef)).body
        self.function, self.will_change = function, will_change
        self.graph, self.inputs, self.effects = Graph(), [], Effects()  # type: ignore[var-annotated]
        self.known: dict[int, tuple[Any, Any]] = {}  # id -> (the real value, kept alive; what stands for it)
        self.local: dict[str, Any] = {}
        self.globals: set[str] = set()

    # ---- what is outside

    def outside(self, real: Any, source: str) -> Any:
        """What stands for a real value. One object has one stand-in, however it is reached."""
        if isinstance(real, int | float | str | bool | None):
            return real
        if id(real) in self.known:
            return self.known[id(real)][1]
        if isinstance(real, Tensor):
            made: Any = self.graph.placeholder(f"input{len(self.inputs)}", real.meta, source=source)
            self.inputs.append(real)
        else:
            kind = "list" if type(real) is list else "dict" if type(real) is dict else "object"
            made = Variable(kind, [] if kind == "list" else {}, source)
        self.known[id(real)] = (real, made)
        if isinstance(real, list):
            made.items += [self.outside(value, f"{source}[{k}]") for k, value in enumerate(real)]
        elif isinstance(made, Variable):
            of_dict = made.kind == "dict"
            for key, value in (real if of_dict else vars(real)).items():
                made.items[key] = self.outside(value, f"{source}[{key!r}]" if of_dict else f"{source}.{key}")
        return made

    def name(self, name: str) -> Any:
        if name in self.local:
            return self.local[name]
        if name in self.effects.stored:
            return self.effects.stored[name]
        return self.outside(self.function.__globals__[name], f"GLOBALS[{name!r}]")

    # ---- statements

    def run(self) -> Any:
        for statement in self.body:
            match statement:
                case ast.Return(value):
                    return None if value is None else self.value(value)
                case ast.Assign(targets, value):
                    found = self.value(value)
                    for target in targets:
                        self.store(target, found)
                case ast.AugAssign(target, op, value):
                    self.augmented(target, op, value)
                case ast.Delete(targets):
                    for target in targets:
                        self.delete(target)
                case ast.Global(names):
                    self.globals |= {*names}
                case ast.Expr(value):
                    self.value(value)
                case _:
                    raise SyntaxError(f"the lab's functions have no {type(statement).__name__}")
        return None

    def store(self, target: ast.expr, value: Any) -> None:
        match target:
            case ast.Name(name) if name in self.globals:
                self.effects.stored[name] = value
            case ast.Name(name):
                self.local[name] = value
            case ast.Tuple(parts):
                for part, item in zip(parts, value, strict=True):
                    self.store(part, item)
            case _:
                owner, key = self.place(target)
                self.will_change(self.effects, owner)
                owner.items[key] = value

    def place(self, target: ast.expr) -> tuple[Variable, Any]:
        match target:
            case ast.Attribute(of, name):
                return self.value(of), name
            case ast.Subscript(of, index):
                return self.value(of), self.value(index)
        raise SyntaxError(f"the lab's functions do not store to {type(target).__name__}")

    def augmented(self, target: Any, op: ast.operator, value: ast.expr) -> None:
        if not isinstance(target, ast.Name):
            owner, key = self.place(target)
            self.will_change(self.effects, owner)
            owner.items[key] = self.binary(op, owner.items[key], self.value(value))
            return
        self.store(target, self.binary(op, self.name(target.id), self.value(value)))

    def delete(self, target: ast.expr) -> None:
        owner, key = self.place(target)
        self.will_change(self.effects, owner)
        del owner.items[key]

    # ---- expressions

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant(value):
                return value
            case ast.Name(name):
                return self.name(name)
            case ast.UnaryOp(ast.USub(), operand):
                value = self.value(operand)
                return self.record("neg", node, value) if isinstance(value, Node) else -value
            case ast.BinOp(left, op, right):
                return self.binary(op, self.value(left), self.value(right))
            case ast.Tuple(parts):
                return tuple(map(self.value, parts))
            case ast.List(parts):
                return Variable("list", list(map(self.value, parts)))
            case ast.Dict(keys, values):
                return Variable("dict", {self.value(k): self.value(v) for k, v in zip(keys, values) if k})
            case ast.Attribute() | ast.Subscript():
                owner, key = self.place(node)
                return owner.items[key]
            case ast.Call(ast.Attribute(of, name), args):
                return self.call(self.value(of), name, [self.value(a) for a in args], node)
        raise SyntaxError(f"the lab's functions have no {type(node).__name__}")

    def call(self, receiver: Any, name: str, args: list[Any], node: ast.expr) -> Any:
        if isinstance(receiver, Node):
            return self.record(name, node, receiver, *args)
        self.will_change(self.effects, receiver)
        if name == "extend":
            args = [args[0].items]
        return getattr(receiver.items, name)(*args)

    def binary(self, op: ast.operator, left: Any, right: Any) -> Any:
        if isinstance(left, Node) or isinstance(right, Node):
            return self.record(BINARY[type(op)], op, left, right)
        return NUMBERS[type(op)](left, right)

    def record(self, name: str, node: Any, *operands: Any) -> Node:
        op = TABLE[f"cutaway.{name}"]
        val = op.meta(*(each.val if isinstance(each, Node) else each for each in operands))
        if not isinstance(val, TensorMeta):
            raise SyntaxError(f"the lab's functions have no {name}")
        first = self.function.__code__.co_firstlineno
        line = first + getattr(node, "lineno", 1) - 1
        origin = Origin(self.function.__code__.co_filename, line)
        return self.graph.call_function(op, operands, {}, val=val, origins=(origin,))


def compiled_with(
    function: Any, will_change: Callable[..., None], rebuilder: Any, replay: Any
) -> Callable[..., Any]:
    """The function as a graph and residual code. `run.source`, `run.effects` and `run.outputs` tell of the last
    call."""
    names = function.__code__.co_varnames[: function.__code__.co_argcount]

    def run(*args: Any) -> Any:
        found, r = captured(function, args, will_change), rebuilder()
        lines = replay(found.effects, found.result, r)
        found.graph.output(list(r.outputs))
        source = "\n    ".join([f"def residual({', '.join(['OUT', *names])}):", *lines])
        vars(run).update(source=source, effects=found.effects, outputs=len(r.outputs))
        space: dict[str, Any] = {"GLOBALS": function.__globals__}
        exec(source, space)
        out = GraphModule(found.graph.verify())(*found.inputs) if r.outputs else ()
        return space["residual"](out, *args)

    return run
