"""custom_gradient: an operator that returns its operands unchanged, and whose derivative is a graph.

Input: the backward graph of an autograd.Function, or of a tensor's hook, as capture followed it. The operator takes the
place of the user's node on eager's tape. (torch's autograd_function_apply has both halves as graphs.)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from stage0_eager.table.operator import Operator
from stage0_eager.tensor import Tensor


@dataclass(frozen=True)
class BackwardGraph:
    """The derivative of one call.

    run: a function from the values of `reads`, in this order, to gradients.
    reads: ("gradient", k) is the gradient of the k-th result, ("result", k) that result with its place on the tape,
        ("saved", k) the k-th saved operand.
    gives: for each input, the number of the result of `run` that is its gradient; None: it has no gradient.
    """

    run: Callable[..., tuple]
    reads: tuple[tuple[str, int], ...]
    gives: tuple[int | None, ...]

    def __call__(
        self, gradients: Sequence[Tensor], results: Sequence[Tensor], saved: Sequence[Tensor]
    ) -> list:
        kinds = {"gradient": gradients, "result": results, "saved": saved}
        made = self.run(*(kinds[kind][which] for kind, which in self.reads))
        return [None if which is None else made[which] for which in self.gives]

    @property
    def saves(self) -> int:
        return sum(kind == "saved" for kind, _ in self.reads)


def custom_gradient(name: str, backward: BackwardGraph) -> Operator:
    """The operator `name(inputs, outputs, s0, s1, ...)`, outside the table.

    inputs: a tuple of tensors, whose gradients `backward` computes.
    outputs: a tuple of tensors without history. They are returned (a single one not as a tuple), as if they were
        computed from `inputs`.
    s0, s1, ...: further values that `backward` saves: inputs, intermediate values, other tensors.
    """
    saved = [f"s{i}" for i in range(backward.saves)]
    needs_results = any(kind == "result" for kind, _ in backward.reads)

    def body(outputs: tuple) -> Any:
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def rule(gradient: Any, result: Any, *saved: Tensor) -> list:
        gradients, results = (v if isinstance(v, tuple) else (v,) for v in (gradient, result))
        return backward(gradients, results, saved)

    names: dict[str, Any] = {"body": body, "rule": rule}
    words, out = ", ".join(saved), "out" if needs_results else "None"
    exec(
        f"def call({', '.join(['inputs', 'outputs', *saved])}): return body(outputs)\n"
        f"def derivative({', '.join(['g', *['out'] * needs_results, *saved])}): return rule(g, {out}, {words})\n",
        names,
    )
    op = Operator(name, "", body=names["call"]).derivative(inputs=names["derivative"])
    op.__name__ = op.__qualname__ = name
    op.namespace = "autograd_function"
    op.backward_graph = backward  # stage 2 makes it functional
    return op


def with_backward(op: Operator, run: Callable[..., tuple]) -> Operator:
    """The same operator with another backward of the same signature."""
    return custom_gradient(op.name, replace(op.backward_graph, run=run))
