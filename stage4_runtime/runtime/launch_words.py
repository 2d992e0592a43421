"""What launch code calls its buffers, addresses and sizes, and what `launch_text.py` learns of them as it writes.

Input: names that `launch_names.py` made fresh.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stage4_runtime.runtime.launch_groups import Group
from stage_contracts.index_expr import print_index, symbol
from stage_contracts.size_vars import is_open, plain
from stage_contracts.tensor_meta import TensorMeta


@dataclass
class LaunchText:
    """The function's text, its name, and the names in it of the program's buffers and kernels."""

    function: str
    names: dict[str, str]
    kernels: dict[str, str]
    sizes: dict[str, str]
    text: str = ""
    streams: bool = False
    kernel_alignment: int = 1
    arrays: set[str] = field(default_factory=set)  # buffers that some step needs as an array
    addresses: set[str] = field(default_factory=set)  # buffers that a kernel needs as an address
    pools: list[str] = field(default_factory=list)  # where each pool begins, for calls of C++
    poison: bool = False
    late: Mapping[str, frozenset[str]] = field(default_factory=dict)  # sizes that a call of the program shows
    known: set[str] = field(default_factory=set)  # those of them that are computed so far
    shown: set[str] = field(
        default_factory=set
    )  # the buffers that are there so far, of those that show sizes
    # the calls, by the step's identity, that take addresses: (stream, those of the operands, that of the result)
    prepared: Mapping[int, str] = field(default_factory=dict)
    made: set[str] = field(default_factory=set)  # the buffers whose arrays a function of their own makes
    groups: tuple[Group, ...] = ()  # launches that are one call of C

    def name(self, buffer: str) -> str:
        return self.names[buffer]

    def pointer(self, buffer: str) -> str:
        return f"p_{self.names[buffer]}"

    def address(self, buffer: str) -> str:
        """The address of its array: of one on a GPU, what an attribute says without a call."""
        name = self.names[buffer]
        return f"{name}.data.ptr" if self.streams else f"address({name})"

    def size(self, size: Any) -> str:
        """A size as Python text, in the names that open sizes have here."""
        if not is_open(size):
            return repr(plain(size))
        return print_index(size.xreplace({s: symbol(self.sizes[str(s)]) for s in size.free_symbols}))

    def tuple(self, sizes: Iterable[Any]) -> str:
        return f"({''.join(self.size(s) + ', ' for s in sizes)})"

    def at(self, meta: TensorMeta) -> str:
        """The shape and strides at this call's sizes as further arguments; nothing where they are fixed."""
        open_ = any(map(is_open, (*meta.shape, *meta.strides)))
        return f", {self.tuple(meta.shape)}, {self.tuple(meta.strides)}" if open_ else ""
