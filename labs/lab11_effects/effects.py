"""Side effects: what a program changed outside is written down while it is captured, and replayed after its graph.

Input: the Variables of machine.py, which stand for lists, dicts and objects. Output: lines of Python, which bring each
changed object to the state the program left it in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage_contracts.graph import Node

from .machine import Effects, Variable, compiled_with

Text = Callable[[Any], str]  # a value -> an expression for it


# ---- what you write ----------------------------------------------------------------------------------------------


def will_change(effects: Effects, variable: Variable) -> None:
    """Called before each write to a Variable: keep what it holds, if it is from outside and has not changed before."""
    # lab: begin will_change
    if variable.source is None or any(known is variable for known, _ in effects.changed):
        return
    effects.changed.append((variable, variable.items.copy()))
    # lab: end


def list_lines(target: str, old: list, new: list, text: Text) -> list[str]:
    """Lines that change the list `target` from old to new. No item that stays at its place is touched.

    If something was only added at the end: an `extend`. If the length is the same: an assignment for each changed item.
    """
    # lab: begin list_lines
    same = next((k for k, (a, b) in enumerate(zip(old, new)) if a is not b), min(len(old), len(new)))
    if same == len(old) == len(new):
        return []
    if same == len(old):
        return [f"{target}.extend([{', '.join(map(text, new[same:]))}])"]
    if len(old) == len(new):
        return [f"{target}[{k}] = {text(b)}" for k, (a, b) in enumerate(zip(old, new)) if a is not b]
    return [f"{target}[{same}:] = [{', '.join(map(text, new[same:]))}]"]
    # lab: end


def dict_lines(target: str, old: dict, new: dict, text: Text) -> list[str]:
    """Lines that change the dict `target` from old to new: what is gone is deleted, what changed is assigned.

    Afterwards the keys are in the order of `new`. A key that stays with its value is not touched, if the order allows.
    """
    # lab: begin dict_lines
    kept = [key for key in old if key in new]
    if kept != list(new)[: len(kept)]:  # a key went and came back: it is later now
        return [f"{target}.clear()", *(f"{target}[{key!r}] = {text(value)}" for key, value in new.items())]
    lines = [f"del {target}[{key!r}]" for key in old if key not in new]
    return lines + [
        f"{target}[{key!r}] = {text(value)}"
        for key, value in new.items()
        if key not in old or old[key] is not value
    ]
    # lab: end


def object_lines(target: str, old: dict, new: dict, text: Text) -> list[str]:
    """Lines that change the attributes of `target` from old to new. An attribute that stays is not touched."""
    # lab: begin object_lines
    lines = [f"del {target}.{name}" for name in old if name not in new]
    return lines + [
        f"{target}.{name} = {text(value)}"
        for name, value in new.items()
        if name not in old or old[name] is not value
    ]
    # lab: end


class Rebuilder:
    """Makes expressions for values, in the residual code.

    outputs: the nodes that the graph returns, each once; `OUT[k]` is the k-th. lines: what has to run before.
    names: id of a value -> the name that holds it already.
    """

    def __init__(self) -> None:
        self.outputs: list[Node] = []
        self.lines: list[str] = []
        self.names: dict[int, str] = {}

    def expression(self, value: Any) -> str:
        """The expression for a value. One object gets one name, however often it is asked for.

        What comes from outside is read now, by a line of its own: a later line may change the way to it.
        """
        # lab: begin expression
        if isinstance(value, tuple):
            return f"({''.join(f'{self.expression(item)}, ' for item in value)})"
        if not isinstance(value, Node | Variable):
            return repr(value)
        if id(value) in self.names:
            return self.names[id(value)]
        name = self.names[id(value)] = f"v{len(self.names)}"
        source = value.source if isinstance(value, Variable) else value.meta.get("source")
        if source is not None:
            self.lines.append(f"{name} = {source}")
        elif isinstance(value, Node):
            self.outputs.append(value)
            self.lines.append(f"{name} = OUT[{len(self.outputs) - 1}]")
        elif value.kind == "list":  # made empty, then filled: it may hold itself
            self.lines.append(f"{name} = []")
            self.lines += [f"{name}.append({self.expression(item)})" for item in value.items]
        else:
            self.lines.append(f"{name} = {{}}")
            self.lines += [f"{name}[{key!r}] = {self.expression(item)}" for key, item in value.items.items()]
        return name
        # lab: end


def replay(effects: Effects, result: Any, r: Rebuilder) -> list[str]:
    """All lines after the graph: first values are read and made, then objects change, then globals, then the return.

    The objects change in the order of the first change. Uses LINES, the three functions above, by kind.
    """
    # lab: begin replay
    changes: list[str] = []
    for variable, before in effects.changed:
        target = r.expression(variable)
        changes += LINES[variable.kind](target, before, variable.items, r.expression)
    changes += [f"GLOBALS[{name!r}] = {r.expression(value)}" for name, value in effects.stored.items()]
    returned = r.expression(result)
    return [*r.lines, *changes, f"return {returned}"]
    # lab: end


LINES: dict[str, Callable[..., list[str]]] = {"list": list_lines, "dict": dict_lines, "object": object_lines}


# ---- what is given -----------------------------------------------------------------------------------------------


def compiled(function: Any) -> Callable[..., Any]:
    """The function as a graph and residual code. Captured at each call: guards are lab 3's subject."""
    return compiled_with(function, will_change, Rebuilder, replay)
