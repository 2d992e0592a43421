"""What the stages may know about an operator without importing stage 0: its names, meta rule and rules.

Input: stage 0 fills the table; the others receive an object with this interface. A graph's call target is an Operator,
which is itself the public function: `node.target is cutaway.relu`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol


class Operator(Protocol):
    """A row of the operator table. `core` says whether it is one of core_ops.CORE_OPS (or copy_)."""

    name: str
    namespace: str  # "core" or "cutaway"
    core: Any  # the CoreOp row of a core operator, None for a composite
    mutates: tuple[str, ...]  # names of the parameters it writes to

    @property
    def qualname(self) -> str:
        """`core.exp`, `cutaway.relu`: how graphs print it and `parse_graph` finds it."""
        ...

    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

    def meta(self, *args: Any, **kwargs: Any) -> Any:
        """The result's TensorMeta (or tuple) from arguments with metas for tensors."""
        ...


OperatorTable = Mapping[str, Operator]  # by qualname
EagerKernels = Mapping[str, Callable[..., Any]]  # core operator name -> kernel(array_namespace, *args)
