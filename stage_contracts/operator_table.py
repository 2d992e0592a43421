"""The interface of an operator, which the stages use without importing stage 0: its names and its meta rule.

Input: stage 0 fills the table; the other stages get objects with this interface. The target of a graph's call is an
Operator, which is the public function itself: `node.target is cutaway.relu`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol


class Operator(Protocol):
    """A row of the operator table. `core` says whether it is one of core_ops.CORE_OPS (or copy_)."""

    name: str
    namespace: str  # "core" or "cutaway"
    core: Any  # the CoreOp row of a core operator, None for a composite
    mutates: tuple[str, ...]  # the names of the parameters that it writes to

    @property
    def qualname(self) -> str:
        """`core.exp`, `cutaway.relu`: the name in the text of graphs, under which `parse_graph` finds the operator."""
        ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def meta(self, *args: Any, **kwargs: Any) -> Any:
        """The TensorMeta of the result (or a tuple of them), from arguments with a TensorMeta for each tensor."""
        ...


OperatorTable = Mapping[str, Operator]  # by qualname
EagerKernels = Mapping[str, Callable[..., Any]]  # core operator name -> kernel(array_namespace, *args)
