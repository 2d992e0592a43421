"""ShapeProp: runs a graph on inputs and writes down, at each node, the shape and dtype of its value.

Input: a GraphModule and example inputs. `node.meta["tensor_meta"]` gets a TensorMetadata, or a container of them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from cutaway.fx.interpreter import Interpreter
from cutaway.fx.node import map_aggregate
from stage0_eager.tensor import Tensor


class TensorMetadata(NamedTuple):
    """What is known of a value without its data. Strides are in elements."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Any = None
    is_quantized: bool = False
    qparams: Any = {}


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, tuple(result.stride()))


class ShapeProp(Interpreter):
    """`propagate(*inputs)` gives what the graph gives; `node.meta` then has "tensor_meta" and "type"."""

    def __init__(self, gm: Any, fake_mode: Any = None) -> None:
        super().__init__(gm)

    def run_node(self, n: Any) -> Any:
        result = super().run_node(n)
        found = False

        def known(value: Any) -> Any:
            nonlocal found
            if not isinstance(value, Tensor):
                return value
            found = True
            return _extract_tensor_metadata(value)

        meta = map_aggregate(result, known)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        return super().run(*args)
