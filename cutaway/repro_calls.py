"""A wrong guard as a program of two calls: a number that a guard is about becomes an argument of the graph again.

Input: the graph of the first call, where the number is a constant, the number's name, and what it is at both calls.
verify_guards.py finds the guard; the minifier opens the program again, and makes a graph of it in the same way.
"""

from __future__ import annotations

import re
from typing import Any

from stage_contracts.graph import Graph, Node

LIFTED = "lifted"  # in the meta of a placeholder that stands for such a number


def lifted(graph: Graph, name: str, value: Any) -> Graph | None:
    """The graph with one argument more, the first, in the place of this number; None if no call has it."""
    made = Graph(graph.name)
    images: dict[Node, Node] = {}
    number = made.placeholder(name, None, **{LIFTED: True})
    number.meta["val"] = value

    def image(argument: Any) -> Any:
        if isinstance(argument, Node):
            return images[argument]
        if isinstance(argument, (tuple, list)):
            return type(argument)(map(image, argument))
        return number if type(argument) is type(value) and argument == value else argument

    for node in graph.nodes:
        meta = {k: v for k, v in node.meta.items() if k not in ("val", "origins")}
        if node.op == "placeholder":
            images[node] = made.placeholder(node.name, node.val, **meta)
        elif node.op == "get_attr":
            images[node] = made.get_attr(node.target, graph.attributes[node.target], node.val)
        elif node.op == "call_function":
            images[node] = made.call_function(
                node.target, tuple(map(image, node.args)), {k: image(v) for k, v in node.kwargs.items()},
                val=node.val, origins=node.origins, name=node.name, **meta,
            )  # fmt: skip
        else:
            made.output([image(one) for one in node.args[0]])
    return made if number.users else None


def name_of(source: Any) -> str:
    """The last name in a guard's source: `scale` of `scale` and of `self.scale`."""
    names = re.findall(r"[A-Za-z_]\w*", str(source))
    return names[-1] if names else "number"
