"""GraphModule: the captured graph that a backend gets. You can call it, and it looks like torch.fx's GraphModule.

Input: a Graph. A backend is `(graph_module, example_inputs) -> callable(*inputs) -> tuple of outputs`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

from stage_contracts.graph import Graph
from stage_contracts.graph_text import compile_graph, print_graph


class GraphModule:
    """A call runs the graph's printed Python. `graph.nodes`, `code` and `print_readable` are as in torch."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph

    @property
    def code(self) -> str:
        return print_graph(self.graph)

    def print_readable(self, print_output: bool = True) -> str:
        """Print the code, and the code of the subgraphs below it, unless `print_output=False`. Returns the text."""
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
        """Call this after you edit `graph`, so that the next call runs the new graph."""
        self.__dict__.pop("_function", None)

    def prepare(self) -> GraphModule:
        """Make the function that calls run, now; else the first call does."""
        self._function  # noqa: B018
        return self

    @cached_property
    def _function(self) -> Any:
        return compile_graph(self.graph)

    def __call__(self, *inputs: Any) -> tuple[Any, ...]:
        return self._function(*inputs)

    forward = __call__

    def __repr__(self) -> str:
        return f"GraphModule({self.graph.name}: {len(self.graph.calls)} calls)"


class CoreModule(GraphModule):
    """A subgraph that is decomposed already: the half of a region."""


class ForwardHalf(CoreModule):
    """A region that stage 2 has cut in two: it returns the region's results, then what its backward reads.

    backward: from the values of `reads`, then gradients of the results `tangents`, to gradients of operands.
    reads: ("out", k) is the k-th value that the forward half returns, ("operand", k) the k-th operand.
    gives: for each operand, the number of the value that is its gradient. None: it has no gradient.
    """

    def __init__(
        self,
        graph: Graph,
        backward: CoreModule,
        reads: tuple[tuple[str, int], ...],
        tangents: tuple[int, ...],
        gives: tuple[int | None, ...],
    ) -> None:
        super().__init__(graph)
        self.backward, self.reads, self.tangents, self.gives = backward, reads, tangents, gives
