"""Kernels of the collectives: the arrays go to the communicator of the group, and the call waits.

Input: an array, the words of the operation, and last the group's name. stage_contracts/communicators.py has the groups.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stage_contracts.communicators import communicator


def _kernel(operation: str, rows: Callable[[int, tuple], int]) -> Callable[..., Any]:
    """A kernel whose result has `rows` in dimension 0, from those of its operand and the words."""

    def kernel(xp: Any, input: Any, *words: Any) -> Any:
        *given, group = words
        source = input if input.flags.c_contiguous else input.copy(order="C")
        shape = source.shape and (rows(source.shape[0], words), *source.shape[1:])
        destination = xp.empty(shape, source.dtype)
        communicator(group).run(operation, tuple(given), source, destination, "")
        return destination

    return kernel


KERNELS: dict[str, Callable[..., Any]] = {
    **{
        name: _kernel(name, lambda n, _: n)
        for name in ("all_reduce", "reduce", "average", "broadcast", "all_to_all")
    },
    "all_gather": _kernel("all_gather", lambda n, words: n * words[0]),
    "all_to_all_splits": _kernel("all_to_all_splits", lambda _, words: sum(words[0])),
    "reduce_scatter": _kernel("reduce_scatter", lambda n, words: n // words[1]),
}
