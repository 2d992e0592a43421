"""Tensors: a meta, and the node of the graph that yields it.

Input: variables/builder.py makes one of a tensor from outside, variables/operators.py one of each result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stage0_eager.tensor import Tensor
from stage1_capture.state.machine import Tx
from stage1_capture.variables.base import Variable
from stage1_capture.variables.keys import by_identity
from stage_contracts.graph import Node
from stage_contracts.tensor_meta import TensorMeta


@dataclass(eq=False)
class TensorVariable(Variable):
    """A tensor: its meta, and the node that yields it (for an input, made at first use)."""

    meta: TensorMeta
    node: Node | None = None
    real: Any = None  # the tensor itself, for an input: its identity and class, never its data
    attrs: dict[str, Variable] = field(default_factory=dict)  # what the program stored on it: `grad`

    def python_type(self, tx: Tx) -> type:
        """One from outside may be a Parameter: guarded."""
        if self.real is None:
            return Tensor
        tx.output.guard("TYPE", self.source, type(self.real))
        return type(self.real)

    def describe(self) -> str:
        return f"a tensor {self.meta}"

    def hash_key(self, tx: Tx) -> Any:
        return by_identity(tx, self)
