"""An operator's eager kernel as a plain function of arrays: how the runtime runs operators that have no loop nest.

Input: the name of a core or an opaque operator and the array module (numpy, cupy). The kernels are stage 0's, and the
runtime takes nothing else from it.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any

from stage0_eager import eager_kernel
from stage_contracts.core_ops import CORE_OPS


def eager_call(name: str, xp: Any) -> Callable[..., Any]:
    """`call(*args, **kwargs)`: arrays in, an array out, in memory of its own as every buffer of a program is."""
    kernel = eager_kernel(name)
    if name not in CORE_OPS:
        return lambda *args, **kwargs: _alone(kernel(xp, *args, **kwargs))

    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:  # kernels take the operator's parameters by position
            args = _signature(name).bind(*args, **kwargs).args
        return kernel(xp, *args)

    def apart(*args: Any, **kwargs: Any) -> Any:
        made = call(*args, **kwargs)
        return made.copy() if xp.may_share_memory(made, args[0]) else made

    return apart if CORE_OPS[name].kind in _VIEWS else call


_VIEWS = ("view", "identity")  # kinds of operators whose kernel may give the operand's memory


def _alone(results: Any) -> Any:
    """One result as itself: a step that yields one buffer takes an array."""
    return results[0] if isinstance(results, tuple) and len(results) == 1 else results


@cache
def _signature(name: str) -> inspect.Signature:
    """The parameters of a core operator, from its row: `input, dims, keepdim=False`."""
    return inspect.signature(eval(f"lambda {CORE_OPS[name].params}: None"))
