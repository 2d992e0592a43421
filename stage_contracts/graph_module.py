"""What a backend gets: a captured graph that is callable and looks like torch.fx's GraphModule.

Input: a Graph. A backend is `(graph_module, example_inputs) -> callable(*inputs) -> tuple of outputs`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from stage_contracts.graph import Graph
from stage_contracts.graph_text import compile_graph, print_graph


class GraphModule:
    """Calling it runs the graph's own printed Python. `graph.nodes`, `code` and `print_readable` as in torch."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @property
    def code(self) -> str:
        return print_graph(self.graph)

    def print_readable(self, print_output: bool = True) -> str:
        """The code, that of its subgraphs below it, printed unless `print_output=False`, and returned."""
        inner = [
            f"# self.{name}\n{value.print_readable(print_output=False)}"
            for name, value in self.graph.attributes.items()
            if isinstance(value, GraphModule)
        ]
        text = "\n".join([self.code, *inner])
        if print_output:
            print(text)
        return text

    def recompile(self) -> None:
        """Call after editing `graph`, so that the next call runs the new text."""
        self.__dict__.pop("_function", None)

    @cached_property
    def _function(self) -> Any:
        return compile_graph(self.graph)

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        return self._function(*inputs)

    forward = __call__

    def __repr__(self) -> str:
        return f"GraphModule({self.graph.name}: {len(self.graph.calls)} calls)"
