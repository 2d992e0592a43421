"""A core graph computed in float64: what a float32 result would be without its roundings.

Input: a core graph and the arrays of one call. A result may differ from eager's only because both are far from the
exact value (a difference of nearly equal numbers, a gradient that is 0): that is no fault of the compiler.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from stage0_eager.arrays import CPU, is_array, move
from stage0_eager.core_interpreter import interpreter
from stage_contracts import dtype as dt
from stage_contracts.dtype import DType
from stage_contracts.graph import Graph, Node, map_args

# A compiled result may be so many times farther from the exact one than eager's is: sums are added in another order.
FARTHER = 10


def exact(core: Graph, inputs: Sequence[Any]) -> tuple | None:
    """The results in float64; None where the graph has no float to widen, or an operator that float64 does not fit."""
    wide, images = Graph(core.name), {}
    for node in core.nodes:
        if node.op == "placeholder":
            images[node] = wide.placeholder(node.name, node.val)
        elif node.op == "get_attr":
            images[node] = wide.get_attr(node.target, _widened(core.attributes[node.target]), node.val)
        elif node.op == "call_function":
            args, kwargs = map_args((node.args, node.kwargs), images.__getitem__)
            args, kwargs = _with_dtypes(args), _with_dtypes(kwargs)
            images[node] = wide.call_function(node.target, args, kwargs, val=node.val, name=node.name)
    wide.output([images[n] if isinstance(n, Node) else n for n in core.outputs])
    try:
        return tuple(interpreter(wide)(*map(_widened, inputs)))
    except Exception:  # a bitcast, an operator that asks for one dtype: there is nothing to compare with
        return None


def excused(exact: Any, expected: Any, found: Any) -> bool:
    """Whether `found` is about as near to the exact result as `expected`, eager's, is."""
    if not all(map(is_array, (exact, expected, found))):
        return False
    e, a, b = (np.asarray(move(one, CPU)) for one in (exact, expected, found))
    if a.dtype.kind in "biuc" or a.dtype != b.dtype or not e.shape == a.shape == b.shape:
        return False
    e, a, b = (one.astype(np.float64) for one in (e, a, b))
    if not (np.isfinite(e).all() and np.isfinite(a).all() and np.isfinite(b).all()):
        return False
    return float(np.abs(b - e).max(initial=0.0)) <= FARTHER * float(np.abs(a - e).max(initial=0.0))


def _narrow(dtype: Any) -> bool:
    return dtype in (dt.float32, dt.float16, dt.bfloat16)


def _with_dtypes(words: Any) -> Any:
    """Arguments with float64 for every narrower float dtype."""
    if isinstance(words, DType):
        return dt.float64 if _narrow(words) else words
    if isinstance(words, dict):
        return {key: _with_dtypes(word) for key, word in words.items()}
    return type(words)(map(_with_dtypes, words)) if type(words) in (tuple, list) else words


def _widened(value: Any) -> Any:
    if not is_array(value):
        return value
    here = move(value, CPU)
    return here.astype(np.float64) if here.dtype.kind not in "biuc" else here.copy(order="K")
