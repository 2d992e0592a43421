"""What a program saved by `repro_after` needs to run: the operators by their printed names, its numbers, the call.

Input: the program's path. repro.py wrote the program, and its numbers beside it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from cutaway.compile import compile
from cutaway.repro import laid_out
from stage0_eager.serialization import load
from stage0_eager.state import no_grad
from stage0_eager.table.registry import OPAQUE, TABLE
from stage0_eager.tensor import Tensor
from stage_contracts.device import device_of
from stage_contracts.dtype import DTYPES

# What a program does at its end, in place of the call: the minifier takes its graph. (forward, inputs, then, options)
Taken = Callable[[Callable[..., tuple], list[Any], dict[str, Any], dict[str, Any]], None]
INSTEAD: ContextVar[Taken | None] = ContextVar("INSTEAD", default=None)


def operators(root: str) -> ModuleType:
    """The operators whose names begin so, as graphs print them: `operators("core").add`."""
    top = ModuleType(root)
    vars(top).update({**DTYPES, "device": device_of})
    for name, operator in {**TABLE, **OPAQUE}.items():
        first, *path = name.split(".")
        if first == root:
            home = top
            for part in path[:-1]:
                home = vars(home).setdefault(part, ModuleType(part))
            vars(home)[path[-1]] = operator
    return top


class Saved:
    """The numbers beside a program: `tensor` gives one, `run` makes the call that failed. The graph's `self` too."""

    def __init__(self, program: str) -> None:
        self._numbers = load(Path(program).with_suffix(".safetensors"))

    def tensor(self, name: str, stride: tuple[int, ...] | None = None, requires_grad: bool = False) -> Tensor:
        """One tensor, laid out as it was."""
        value = self._numbers[name].clone()  # in memory of its own
        if stride is not None:
            value = laid_out(value, stride)
        return value.requires_grad_(requires_grad) if requires_grad else value

    def run(
        self,
        forward: Callable[..., tuple],
        inputs: list[Any],
        then: Mapping[str, Any] = MappingProxyType({}),
        **options: Any,
    ) -> None:
        """Compile and call it, and its backward; what that raises is shown as ever. If nothing is: say so. `then`: what
        is otherwise at a second call."""
        if (instead := INSTEAD.get()) is not None:
            return instead(forward, inputs, dict(then), options)
        compiled = compile(forward, **options)
        results = compiled(*inputs)
        if then:
            names = inspect.signature(forward).parameters
            results = compiled(*[then.get(name, one) for name, one in zip(names, inputs, strict=True)])
        for result in results:
            if isinstance(result, Tensor) and result.requires_grad:
                result.sum().backward(retain_graph=True)
        print("it did not fail", file=sys.stderr)


__all__ = ["Saved", "no_grad", "operators"]
